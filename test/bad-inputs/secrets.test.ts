// Secrets and logs: what a token in a URL, a printed environment, user text and a signal must not give away.
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { z } from "zod";
import { defineTool } from "../../src/core/tool.ts";
import { createExecTool } from "../../src/tools/exec.ts";
import { createLocalApp, type LocalApp } from "../support/local-app.ts";
import { runHerald } from "../support/run-herald.ts";
import { SCRIPTED_KEY } from "../support/scripted-model.ts";
import { createToolBench, EXEC_DEFAULTS } from "../support/tool-bench.ts";
import { callTools, createTurnRig, say } from "../support/turn-rig.ts";
import { waitFor } from "../support/wait.ts";

/** Everything below a folder, as text. */
const contents = (folder: string): string =>
  readdirSync(folder, { recursive: true })
    .map((name) => join(folder, String(name)))
    .filter((path) => statSync(path).isFile())
    .map((path) => readFileSync(path, "latin1"))
    .join("\n");

const FAKE_MCP = fileURLToPath(new URL("../support/fake-mcp.mjs", import.meta.url));

let app: LocalApp;
beforeAll(async () => {
  const env = { LEAKY_API_KEY: "mcp-very-secret-0003" };
  app = await createLocalApp({
    telegram: { allowFrom: [42] },
    config: { mcp: { servers: { leaky: { command: process.execPath, args: [FAKE_MCP, "leaky"], env } } } },
  });
});
afterAll(async () => app[Symbol.asyncDispose]());

it("[SC4] SEC-001 a bot token in an error's URL shows as its name in logs, on the page, in chats and on disk", async () => {
  const { telegram } = app;
  const secret = telegram.token.split(":")[1] ?? "";
  telegram.faults.add("getUpdates", "drop");
  const url = `${telegram.apiRoot}/bot${telegram.token}/getUpdates`;
  expect(await app.ask({ chat: 42, text: `fetch failed: ${url}` })).toBe(
    `heard: fetch failed: ${telegram.apiRoot}/bot[channels.telegram.botToken]/getUpdates`,
  );
  await waitFor("the trouble in the log", () => app.logged.some((line) => line.includes("interrupted")));
  expect(await app.ask({ chat: 42, text: "/status" })).not.toContain(secret);
  const token = readFileSync(join(app.stateDir, "web-token"), "utf8").trim();
  const get = async (path: string): Promise<string> =>
    (await fetch(`${app.origin}${path}`, { headers: { authorization: `Bearer ${token}` } })).text();
  const pages = await Promise.all(["/api/status", "/api/chats", "/api/runs", "/metrics"].map(get));
  for (const text of [app.logged.join(""), ...pages, contents(join(app.stateDir, "agents"))]) expect(text).not.toContain(secret);
});

it.each([
  ["escaped as Markdown", SCRIPTED_KEY.replaceAll("-", "\\-")],
  ["with markup inside", SCRIPTED_KEY.replace("key", "**key**")],
])("[SC4] SEC-001 a secret %s has its name when it is rendered: ranges stand where they belong", async (_, written) => {
  const { telegram } = app;
  expect(await app.ask({ chat: 42, text: `${written} then /stop now` })).toBe("heard: [models.providers.scripted.apiKey] then /stop now");
  const { text = "", entities = [] } = telegram.messages(42).at(-1) ?? {};
  expect(entities.map(({ offset, length }) => text.slice(offset, offset + length))).toEqual(["/stop"]);
});

it("[SC4] SEC-001 no secret reaches a provider by a file of the prompt, the memory or a server's own description", async () => {
  const { telegram, model } = app;
  await waitFor("the server's tool", async () => {
    await app.ask({ chat: 42, text: "hello" });
    return model.calls.at(-1)?.tools.includes("leaky__tell");
  });
  const workspace = join(app.stateDir, "workspace");
  mkdirSync(join(workspace, "memory"), { recursive: true });
  writeFileSync(join(workspace, "AGENTS.md"), `The bot's token is ${telegram.token}.`);
  writeFileSync(join(workspace, "memory/AGENT.md"), "- 2026-01-01 The other one is mcp-very-secret-0003.\n");
  await app.ask({ chat: 42, text: "and now" });
  const { system, body } = model.calls.at(-1) ?? {};
  expect(system).toContain("The bot's token is [channels.telegram.botToken].");
  // What the memory gained since the session began is told at the end (SE8).
  expect(JSON.stringify(body)).toContain("The other one is [mcp.servers.leaky.env.LEAKY_API_KEY].");
  expect(JSON.stringify(body)).toContain("Uses the key [mcp.servers.leaky.env.LEAKY_API_KEY].");
  expect(JSON.stringify(body)).not.toMatch(/very-secret-0003/);
  expect(JSON.stringify(body)).not.toContain(telegram.token);
});

it("[SC4] SEC-002 a printed environment holds no secret, and a known value is stored and told under its name", async () => {
  const bench = await createToolBench();
  const env = {
    PATH: process.env.PATH,
    HOME: "/nonexistent",
    ANTHROPIC_API_KEY: "sk-very-secret-0001",
    TELEGRAM_BOT_TOKEN: "1:very-secret-0002",
  };
  const none = { available: false, reason: "", howTo: "" } as const;
  const exec = createExecTool({ sandbox: none, ...EXEC_DEFAULTS, unsandboxed: true, env });
  try {
    const { text } = await bench.call(exec, { command: "env; printenv; tr '\\0' '\\n' < /proc/self/environ" });
    expect(text).toContain("PATH=");
    expect(text).not.toContain("very-secret");
  } finally {
    await bench.remove();
  }

  using rig = await createTurnRig({ answers: [callTools({ name: "cat" }), say("it says sk-very-secret-0001")] });
  rig.folder.secrets.add("ANTHROPIC_API_KEY", "sk-very-secret-0001");
  rig.tools.push(
    defineTool({
      ...{ name: "cat", description: "cat", capability: "read" as const, schema: z.strictObject({}) },
      run: async () => ({ text: "apiKey: 'sk-very-secret-0001', url: 'https%3A%2F%2Fx%2Fsk-very-secret-0001'" }),
    }),
  );
  await rig.put({ type: "message", role: "user", text: "show me the settings: sk-very-secret-0001", from: "ann" });
  await rig.run();
  expect(contents(join(rig.folder.stateDir, "agents"))).not.toContain("very-secret");
  expect((await rig.entries()).find((entry) => entry.type === "tool_result")).toMatchObject({
    text: expect.stringContaining("[ANTHROPIC_API_KEY]"),
  });
  expect(JSON.stringify(rig.requests.at(-1)?.messages)).not.toContain("very-secret");
  expect(JSON.stringify(rig.folder.lines)).not.toContain("very-secret");
});

it("[OB1] SEC-006 whatever people and models write, a log line stays one JSON object without control characters", async () => {
  const hostile = 'x\r\n{"level":"error","msg":"forged"}\u001b[2J\u0007 }}}';
  await app.ask({ chat: 42, text: hostile });
  await app.ask({ chat: 42, text: `/subagents log ${hostile}` });
  app.telegram.say({ chat: 666, text: hostile, extra: { from: { id: 666, is_bot: false, first_name: hostile } } });
  await app.taken();
  for (const line of app.logged) {
    expect(line.trimEnd()).not.toMatch(/\p{Cc}/u);
    expect(JSON.parse(line)).toMatchObject({ level: expect.any(String), msg: expect.any(String) });
  }
  expect(app.lines().filter(({ msg }) => msg === "forged")).toEqual([]);
});

it.skipIf(process.platform !== "linux")("[SC4] SEC-008 no signal opens the debugger or writes a dump; the gateway goes on", async () => {
  await using herald = runHerald({ config: "{ web: { port: 0 }, models: { probeLocal: false } }" });
  const origin = await herald.ready();
  herald.kill("SIGUSR1");
  // Answered after the signal was delivered.
  for (let n = 0; n < 20; n++) expect((await fetch(`${origin}/healthz`)).status).toBe(200);
  expect(herald.stderr() + herald.stdout()).not.toContain("Debugger");
  const args = readFileSync(`/proc/${herald.pid}/cmdline`, "utf8");
  expect(args).not.toMatch(/--(?:inspect|heapsnapshot|report|heap-prof|cpu-prof)/);
  expect(readdirSync(herald.dir).filter((name) => /heapsnapshot|^core|report/.test(name))).toEqual([]);
});
