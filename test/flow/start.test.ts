// Starting: what it prints, what it refuses and in which words, the lock, the modes, and settings that change while it runs.
import { execFileSync, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import { createHarness, NODE, START, writeConfig } from "../support/harness.ts";
import { type BareOptions, runHerald } from "../support/run-herald.ts";
import { waitFor } from "../support/wait.ts";

const QUIET = "{ web: { port: 0 }, models: { probeLocal: false } }";
const NOBODY = 65534;
const variable = (name: string): string => `$\{${name}}`;
const lines = (text: string): string[] => text.split("\n").filter((line) => line !== "");

const OLD_NODE = "/usr/bin/node";
const oldMajor = existsSync(OLD_NODE) ? Number(/^v(\d+)/.exec(execFileSync(OLD_NODE, ["--version"], { encoding: "utf8" }))?.[1]) : 99;

describe("[RN1] Node", () => {
  it.skipIf(oldMajor >= 24)("[RN1] started directly on an older Node it says so in one sentence and exits 1", async () => {
    await using herald = runHerald({ node: OLD_NODE });
    expect(await herald.ended()).toBe(1);
    expect(lines(herald.stderr())).toEqual([
      expect.stringMatching(
        /^Herald needs Node 24\.15 or newer; this is \d+\.\d+\.\d+\. In the repository "npm ci" brings the right one along, and "npm start" uses it\.$/,
      ),
    ]);
    expect(existsSync(herald.stateDir)).toBe(false);
  });

  it("[RN1] npm scripts find the runtime that the packages bring", () => {
    const version = execFileSync(NODE, ["--version"], { encoding: "utf8" });
    const [, major, minor] = /^v(\d+)\.(\d+)/.exec(version) ?? [];
    expect(Number(major) > 24 || (Number(major) === 24 && Number(minor) >= 15)).toBe(true);
  });
});

describe("[RN2] the start-up lines", () => {
  it("[RN2] without a key: page, offline model and why, state folder, channels and what would turn each on", async () => {
    await using herald = runHerald({ config: QUIET, env: { HERALD_STATE_DIR: undefined } });
    const origin = await herald.ready();
    const out = lines(herald.stdout());
    expect(origin).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    // A log is no place for the token: where nobody sits at a terminal, the link stands in a file for its owner.
    const link = join(herald.dir, ".herald/sign-in-link");
    expect(out).toContain(`Page:     ${origin} (to sign in, open the link in ${link})`);
    expect(out).toContainEqual(expect.stringMatching(/^Model: +offline\/rules \(.+\)$/));
    expect(out).toContain(`State:    ${herald.dir}/.herald`);
    expect(out).toContainEqual(expect.stringMatching(/^Channel: +telegram: off \(set .*TELEGRAM_BOT_TOKEN\)$/));
    expect(out).toContainEqual(expect.stringMatching(/^Channel: +slack: off \(set .*SLACK_BOT_TOKEN.*\)$/));
    // Ready means ready, without a token; and the token itself is for the file alone.
    const health = await fetch(`${origin}/healthz`);
    expect([health.status, await health.json()]).toEqual([200, { status: "ok" }]);
    const token = readFileSync(join(herald.dir, ".herald/web-token"), "utf8").trim();
    expect(Buffer.from(token, "base64url")).toHaveLength(32);
    expect(herald.stdout() + herald.stderr()).not.toContain(token);
    expect([readFileSync(link, "utf8"), statSync(link).mode & 0o777]).toEqual([`${origin}/#token=${token}\n`, 0o600]);
    expect((await fetch(`${origin}/api/chats`)).status).toBe(401);
    await waitFor("the warning", () => herald.stderr().includes("runs as root") === (process.getuid?.() === 0));
    herald.kill("SIGTERM");
    expect(await herald.ended()).toBe(0);
    expect(existsSync(link)).toBe(false);
  });

  it("[RN2] a provider key in the environment decides the model, and the line says which; the key is not shown", async () => {
    await using herald = runHerald({ config: QUIET, env: { ANTHROPIC_API_KEY: "sk-ant-very-secret-0123456789" } });
    await herald.ready();
    expect(herald.stdout()).toMatch(/^Model: +anthropic\/\S+ \(.*ANTHROPIC_API_KEY.*\)$/m);
    expect(herald.stdout() + herald.stderr()).not.toContain("very-secret");
  });

  it("[RN1] what a command left behind that may only be read doesn't keep an ordinary user's gateway from starting", async () => {
    const left = (dir: string): string => join(dir, "state/scratch/run/target");
    await using herald = runHerald({
      config: QUIET,
      // Root may remove anything: then somebody else starts it.
      ...(process.getuid?.() === 0 ? { uid: NOBODY } : {}),
      prepare(dir) {
        mkdirSync(left(dir), { recursive: true });
        writeFileSync(join(left(dir), "output"), "x");
        execFileSync("chmod", ["-R", "a+rX", dir]);
        if (process.getuid?.() === 0) execFileSync("chown", ["-R", `${NOBODY}:${NOBODY}`, join(dir, "state")]);
        for (const folder of [left(dir), dirname(left(dir))]) chmodSync(folder, 0o500);
      },
    });
    await herald.ready();
    expect(existsSync(join(herald.stateDir, "scratch/run"))).toBe(false);
  });

  it("[RN3] ready soon after the start", async () => {
    const startedAt = performance.now();
    await using herald = runHerald({ config: QUIET });
    await herald.ready();
    // The goal is 1 s of its own work; the deadline is generous because machines are noisy (npm run bench measures it).
    expect(performance.now() - startedAt).toBeLessThan(30_000);
  });
});

describe("[CL1] the command line", () => {
  const said = (...args: string[]): { code: number | null; out: string; err: string } => {
    const { status, stdout, stderr } = spawnSync(NODE, [START, ...args], {
      encoding: "utf8",
      env: { PATH: process.env.PATH, HOME: "/nowhere" },
    });
    return { code: status, out: stdout, err: stderr };
  };

  it("[CL1] --help and --version are answered and nothing is started; what it doesn't know ends with 2", () => {
    for (const flag of ["--help", "-h"]) {
      const { code, out, err } = said(flag);
      expect([code, err]).toEqual([0, ""]);
      expect(out).toMatch(/^Herald[\s\S]*Usage: herald[\s\S]*HERALD_CONFIG[\s\S]*HERALD_STATE_DIR/);
    }
    expect(said("--version")).toEqual({ code: 0, out: expect.stringMatching(/^\d+\.\d+\.\d+\n$/), err: "" });
    expect(said("--nope")).toEqual({
      code: 2,
      out: "",
      err: expect.stringMatching(/^Unknown option '--nope'\.\n\nUsage:\n {2}herald start [\s\S]*--help/),
    });
    expect(said("frobnicate")).toEqual({
      code: 2,
      out: "",
      err: expect.stringMatching(/^There is no command "frobnicate"\. herald --help lists them\.\n$/),
    });
  });
});

describe("[CF1] refusals", () => {
  const refused: [string, BareOptions, RegExp[]][] = [
    [
      "an unknown key",
      { config: "{ agents: { defaults: { modle: 'x/y' } } }" },
      [/herald\.json5/, /agents\.defaults\.modle/, /unknown key/, /model/],
    ],
    ["a wrong type", { config: "{ web: { port: 'eighty' } }" }, [/herald\.json5/, /web\.port/]],
    ["a duplicate key", { config: "{ web: { port: 0 }, web: { port: 1 } }" }, [/herald\.json5/, /web/, /twice|duplicate/]],
    [
      "a public address with a path",
      { config: "{ web: { publicUrl: 'https://example.com/herald' } }" },
      [/web\.publicUrl/, /without a path/],
    ],
    ["broken JSON5", { config: "{ web: { port: 0 }" }, [/herald\.json5/]],
    [
      "a missing variable",
      {
        config: "{ web: { port: 0 }, channels: { telegram: { enabled: true, botToken: 'VARIABLE' } } }".replace(
          "VARIABLE",
          variable("NO_SUCH_TOKEN"),
        ),
      },
      [/NO_SUCH_TOKEN/, /channels\.telegram\.botToken/],
    ],
    ["settings that are named and not there", { env: { HERALD_CONFIG: "missing.json5" } }, [/missing\.json5/]],
  ];
  it.each(refused)("[CF1] %s: one clear message, exit 1, nothing started", async (_what, options, says) => {
    await using herald = runHerald(options);
    expect(await herald.ended()).toBe(1);
    for (const part of says) expect(herald.stderr()).toMatch(part);
    expect(herald.stderr()).not.toMatch(/^\s+at /m);
    expect(herald.stdout()).toBe("");
    expect(existsSync(herald.stateDir)).toBe(false);
  });

  it("[CF2] a variable from .env is taken, and a missing one in a disabled block is no error", async () => {
    const token = randomBytes(32).toString("base64url");
    await using herald = runHerald({
      config: JSON.stringify({
        web: { port: 0, token: variable("PAGE_TOKEN") },
        models: { probeLocal: false },
        channels: { slack: { enabled: false, botToken: variable("MISSING") } },
      }),
      dotenv: `PAGE_TOKEN=${token}\n`,
    });
    const origin = await herald.ready();
    const answer = await fetch(`${origin}/api/chats`, { headers: { authorization: `Bearer ${token}` } });
    expect(answer.status).toBe(200);
    // What is printed names the settings that really decide.
    expect(readFileSync(join(herald.stateDir, "sign-in-link"), "utf8")).toBe(`${origin}/#token=${token}\n`);
    expect(herald.stdout()).toContain("slack: off (set channels.slack.enabled to true)");
    expect(existsSync(join(herald.stateDir, "web-token"))).toBe(false);
  });

  it("[CF1] CFG-022 a busy port: one sentence that names it and the setting, exit 1, and the folder is free again", async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    try {
      await using herald = runHerald({ config: `{ web: { port: ${port} }, models: { probeLocal: false } }` });
      expect(await herald.ended()).toBe(1);
      expect(lines(herald.stderr()).filter((line) => !line.startsWith("{"))).toEqual([
        `The page's address 127.0.0.1:${port} is taken by another program. Set web.port (or web.host) to another one.`,
      ]);
      await using again = runHerald({ config: QUIET, env: { HERALD_STATE_DIR: herald.stateDir } });
      await again.ready();
    } finally {
      server.close();
    }
  });
});

describe("[RN5] one gateway per folder", () => {
  it("[RN5] the second is refused and names the pid; a lock whose process was killed is taken over", async () => {
    await using first = await createHarness();
    await using second = runHerald({ config: QUIET, env: { HERALD_STATE_DIR: first.stateDir } });
    expect(await second.ended()).toBe(1);
    expect(lines(second.stderr())).toEqual([
      `Another Herald (pid ${first.pid()}) uses the state folder ${first.stateDir}. Stop it, or set HERALD_STATE_DIR to another folder.`,
    ]);
    expect((await first.request("/healthz")).status).toBe(200);
    const before = first.pid();
    await first.crash();
    await first.restart();
    expect(first.pid()).not.toBe(before);
    expect(readFileSync(join(first.stateDir, "gateway.pid"), "utf8").trim()).toBe(String(first.pid()));
  });
});

describe("[RN6] files", () => {
  it("[RN6] CFG-013 all folders 0700 and all files 0600, also those that were wider before", async () => {
    await using herald = await createHarness({ config: { logging: { level: "info" } } });
    await herald.say("hello");
    await herald.reply(/./);
    await herald.say("/subagents spawn list the files");
    await waitFor("the announcement", async () => (await herald.announcements()).length === 1);
    // Nothing comes or goes while we look, and the journal of the database is still there.
    await herald.crash();
    const wrong = readdirSync(herald.stateDir, { recursive: true, withFileTypes: true })
      .map((entry) => ({ path: join(entry.parentPath, entry.name), isFolder: entry.isDirectory() }))
      .filter(({ path, isFolder }) => (statSync(path).mode & 0o777) !== (isFolder ? 0o700 : 0o600))
      .map(({ path }) => `${path} ${(statSync(path).mode & 0o777).toString(8)}`);
    expect(wrong).toEqual([]);
    chmodSync(herald.stateDir, 0o755);
    chmodSync(join(herald.stateDir, "herald.db"), 0o644);
    await herald.restart();
    expect([statSync(herald.stateDir).mode & 0o777, statSync(join(herald.stateDir, "herald.db")).mode & 0o777]).toEqual([0o700, 0o600]);
  });
});

describe("[CF4] settings that change", () => {
  it("[CF4] SIGHUP and a changed file are taken over; an invalid one is reported and the old settings keep running", async () => {
    const provider = await createFakeOpenAi({ respond: () => ({ text: "heard" }) });
    const settings = (model: string, apiKey = "first-key-0123456789", ...more: object[]) => ({
      agents: { list: [{ id: "main", model }, ...more] },
      models: {
        providers: { lab: { api: "openai-compatible", baseUrl: provider.url, apiKey, models: [{ id: "two", name: "Number Two" }] } },
      },
    });
    await using _ = { [Symbol.asyncDispose]: () => provider.close() };
    await using herald = await createHarness({ config: settings("lab/one") });
    expect(herald.output()).toMatch(/^Model: +lab\/one \(set in the config \(agents\.list\[\]\.model\)\)$/m);
    let asked = 0;
    const shown = async (): Promise<string> => {
      await herald.say("/model");
      const answers = await waitFor("the answer", async () => {
        const all = (await herald.replies()).filter((message) => message.text.startsWith("Model of this chat"));
        return all.length > asked ? all : null;
      });
      asked = answers.length;
      return answers.at(-1)?.text ?? "";
    };
    const keyOfCall = async (n: number): Promise<unknown> => {
      await herald.say("hello");
      return (await waitFor("the model's call", () => provider.calls[n])).headers.authorization;
    };
    expect(await shown()).toContain("`lab/one`");
    expect(await keyOfCall(0)).toBe("Bearer first-key-0123456789");

    writeConfig(herald, settings("lab/two", "second-key-0123456789", { id: "new" }));
    await waitFor("the new settings", () => herald.output().includes("settings reloaded"));
    expect(await shown()).toContain("`lab/two`");
    expect(await keyOfCall(1)).toBe("Bearer second-key-0123456789");
    expect(statSync(join(herald.stateDir, "workspace-new")).mode & 0o777).toBe(0o700);
    await herald.say("/status");
    await herald.reply(/Model: `lab\/two` \(Number Two, set in the config \(agents\.list\[\]\.model\)\)/);

    writeFileSync(join(herald.dir, "config/herald.json5"), "{ agents: { list: [{ id: 'main', modle: 'x/y' }] } }");
    await waitFor("the report", () => /changed settings were not taken, the old ones stay.*agents\.list\[0\]\.modle/.test(herald.output()));
    expect(await shown()).toContain("`lab/two`");

    writeConfig(herald, settings("lab/three"));
    process.kill(herald.pid(), "SIGHUP");
    await waitFor("the reload", () => herald.output().split("settings reloaded").length > 2);
    expect(await shown()).toContain("`lab/three`");
  });

  it("[CF4] [WB8] the page's token and public address count from the moment they are saved", async () => {
    const [first, second] = ["a", "b"].map((salt) => createHash("sha256").update(salt).digest("base64url")) as [string, string];
    const settings = (web: object): string => JSON.stringify({ web: { port: 0, ...web }, models: { probeLocal: false } });
    await using herald = runHerald({ config: settings({ token: first }) });
    const origin = await herald.ready();
    const status = async (token: string): Promise<number> =>
      (await fetch(`${origin}/api/chats`, { headers: { authorization: `Bearer ${token}` } })).status;
    expect([await status(first), await status(second)]).toEqual([200, 401]);
    const stream = await fetch(`${origin}/api/events`, { headers: { authorization: `Bearer ${first}` } });
    const ended = stream.text();
    writeFileSync(join(herald.dir, "config/herald.json5"), settings({ token: second, publicUrl: "https://herald.example.com" }));
    // Asking the page each time would soon count as guessing.
    const changes = (): number => herald.stderr().split("the page has another token").length - 1;
    await waitFor("the new token", () => changes() === 1);
    expect([await status(first), await status(second)]).toEqual([401, 200]);
    expect(await ended).toContain("event: status");
    expect(readFileSync(join(herald.stateDir, "sign-in-link"), "utf8")).toBe(`https://herald.example.com/#token=${second}\n`);
    expect(herald.stdout() + herald.stderr()).not.toMatch(new RegExp(`${first}|${second}`));
    // None in the settings any more: the one of the state folder.
    writeFileSync(join(herald.dir, "config/herald.json5"), settings({}));
    await waitFor("the token of the state folder", () => changes() === 2);
    const own = readFileSync(join(herald.stateDir, "web-token"), "utf8").trim();
    expect([await status(second), await status(own)]).toEqual([401, 200]);
  });
});
