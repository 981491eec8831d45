// `herald doctor` as a process: what is well, what is not and what to do about it; online against local servers.
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openDatabase } from "../../src/stores/database.ts";
import { createChannelScene } from "../support/channel-scene.ts";
import { createHarness } from "../support/harness.ts";
import { type CliEnd, cliOf, runCli } from "../support/run-cli.ts";
import { waitFor } from "../support/wait.ts";

let dir: string;
let stateDir: string;
const servers: Server[] = [];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-doctor-"));
  stateDir = join(dir, "state");
  mkdirSync(join(dir, "config"));
});
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
  rmSync(dir, { recursive: true, force: true });
});

const doctor = (settings: string, args: readonly string[] = [], env: Record<string, string> = {}): Promise<CliEnd> => {
  writeFileSync(join(dir, "config/herald.json5"), settings, { mode: 0o600 });
  return runCli(["doctor", ...args], { cwd: dir, env: { HOME: dir, HERALD_STATE_DIR: stateDir, ...env } });
};

async function serve(answer: (path: string, key: string) => { status: number; body: unknown }): Promise<string> {
  const server = createServer((req, res) => {
    const { status, body } = answer(req.url ?? "", req.headers.authorization ?? String(req.headers["x-api-key"]));
    res.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("[CL1] doctor", () => {
  it("[CL1] an empty folder is fine, a line for each thing; --json is one object a line", async () => {
    const { code, out, err } = await doctor("{ web: { port: 0 } }");
    expect({ code, err }).toEqual({ code: 0, err: "" });
    for (const name of [
      "runtime",
      "disk",
      "state folder",
      "clock",
      "database",
      "sandbox",
      "search",
      "settings",
      "keys",
      "channels",
      "port",
    ])
      expect(out).toMatch(new RegExp(`^[✓!] (ok|warn) +${name}: `, "m"));
    const lines = (await doctor("{ web: { port: 0 } }", ["--json"])).out.trim().split("\n");
    for (const line of lines) expect(Object.keys(JSON.parse(line))).toEqual(["name", "level", "text", "remedy"]);
    expect(await doctor("{}", ["now"])).toMatchObject({ code: 2, out: "" });
  });

  it("[CL1] settings that are wrong, a port that is taken and by whom, a damaged database: exit 1 and what to do", async () => {
    expect(await doctor("{ web: { prot: 1 } }")).toMatchObject({ code: 1, out: expect.stringMatching(/^✗ fail settings: .*web\.prot/m) });
    const taken = new URL(await serve(() => ({ status: 200, body: {} }))).port;
    const { code, out } = await doctor(`{ web: { port: ${taken} } }`);
    expect(code).toBe(1);
    expect(out).toMatch(
      new RegExp(`^✗ fail port: 127\\.0\\.0\\.1:${taken} is taken by .+ \\(pid ${process.pid}\\)\\n +End that program`, "m"),
    );
    mkdirSync(stateDir, { recursive: true });
    openDatabase({ path: join(stateDir, "herald.db") }).close();
    chmodSync(stateDir, 0o755);
    const bytes = readFileSync(join(stateDir, "herald.db"));
    bytes.fill(0x41, 2_000, 40_000);
    writeFileSync(join(stateDir, "herald.db"), bytes);
    const damaged = await doctor("{ web: { port: 0 } }");
    expect(damaged.code).toBe(1);
    expect(damaged.out).toMatch(/^✗ fail database: [\s\S]*restore a backup/m);
    expect(damaged.out).toMatch(/^! warn state folder: others on this machine/m);
  });

  it("[CL1] --online: keys and tokens are tried; what is refused is a fail, and none is shown", async () => {
    const origin = await serve((path, key) => {
      if (path.includes("/botBAD:token/")) return { status: 401, body: { ok: false, error: "Unauthorized" } };
      if (path === "/_matrix/client/v3/account/whoami") return { status: 401, body: { errcode: "M_UNKNOWN_TOKEN", key } };
      if (path.endsWith("/auth.test")) return { status: 200, body: { ok: key === "Bearer xoxb-good-token" } };
      if (path.endsWith("/users/@me")) return { status: key === "Bot good.discord.token" ? 200 : 401, body: {} };
      return { status: key === "Bearer sk-good-key" ? 200 : 401, body: {} };
    });
    const provider = (apiKey: string) => ({ api: "openai-compatible", baseUrl: `${origin}/v1`, apiKey, models: [{ id: "m" }] });
    const settings = JSON.stringify({
      web: { port: 0 },
      models: { providers: { good: provider("sk-good-key"), bad: provider("sk-bad-key") } },
      channels: {
        telegram: { botToken: "BAD:token", apiRoot: origin },
        slack: { botToken: "xoxb-good-token", appToken: "xapp-1", apiUrl: `${origin}/api/` },
        matrix: { homeserver: origin, accessToken: "syt_bad_token" },
        discord: { botToken: "good.discord.token", apiUrl: origin },
      },
    });
    const { code, out } = await doctor(settings, ["--online"]);
    expect(code).toBe(1);
    expect(out).toMatch(/^✓ ok +key good: .*the provider takes it/m);
    expect(out).toMatch(/^✗ fail key bad: .*does not take it \(401\)/m);
    expect(out).toMatch(/^✗ fail telegram: its token is not taken \(Unauthorized\)/m);
    expect(out).toMatch(/^✓ ok +slack: its token is taken/m);
    expect(out).toMatch(/^✗ fail matrix: its token is not taken \(M_UNKNOWN_TOKEN\)/m);
    expect(out).toMatch(/^✓ ok +discord: its token is taken/m);
    expect(out).not.toMatch(/sk-good-key|sk-bad-key|BAD:token|xoxb-|syt_|good\.discord/);
    expect((await doctor(settings)).code).toBe(0);
  });

  it("[CL1] PostgreSQL that is away is a fail without its password; beside a running gateway all is well", async () => {
    const { code, out } = await doctor("{ web: { port: 0 } }", [], { DATABASE_URL: "postgres://u:secret-word@127.0.0.1:1/x" });
    expect(code).toBe(1);
    expect(out).toMatch(/^✗ fail PostgreSQL: /m);
    expect(out).not.toContain("secret-word");
    await using herald = await createHarness();
    expect(await cliOf(herald)(["doctor"])).toMatchObject({ code: 0, err: "", out: expect.stringMatching(/^✓ ok +database: .*is whole/m) });
  });

  it("[CL1] a running gateway's channel that is in trouble is named with its reason, by status and without --online; away, the settings count", async () => {
    await using scene = await createChannelScene({ telegram: {}, slack: null, discord: {} });
    const cli = cliOf(scene.herald);
    await scene.connected();
    await waitFor("a session", async () => /^Channel: +discord: on$/m.test((await cli(["status"])).out));
    expect(await cli(["doctor"])).toMatchObject({ code: 0, out: expect.stringMatching(/^✓ ok +channels: telegram, discord$/m) });
    scene.discord.gateway.close(4004);
    const reason = "failed (auth failed: check channels.discord.botToken)";
    await waitFor("the refusal", async () => (await cli(["status"])).out.includes(`\nChannel:    discord: ${reason}\n`));
    const { out } = await cli(["status"]);
    expect(out).toMatch(/^Channel: +telegram: on$/m);
    expect(out).not.toMatch(/slack|matrix/);
    expect(JSON.parse((await cli(["status", "--json"])).out).channels).toEqual([
      { name: "telegram", state: "on", detail: null },
      { name: "slack", state: "off", detail: expect.stringContaining("SLACK_BOT_TOKEN") },
      { name: "matrix", state: "off", detail: expect.any(String) },
      { name: "discord", state: "failed", detail: "auth failed: check channels.discord.botToken" },
    ]);
    const said = await cli(["doctor"]);
    expect(said).toMatchObject({ code: 1, err: "" });
    expect(said.out).toContain(`✗ fail discord: ${reason}\n`);
    expect(said.out).toMatch(/^✓ ok +channels: telegram$/m);
    // Whatever the platform says of the token that is in the settings now.
    expect((await cli(["doctor", "--online"])).out).toContain(`✗ fail discord: ${reason}\n`);
    await scene.herald.crash();
    expect(await cli(["doctor"])).toMatchObject({ code: 0, out: expect.stringMatching(/^✓ ok +channels: telegram, discord$/m) });
  });
});
