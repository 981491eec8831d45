import { spawn } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSecrets } from "../../../src/core/secrets.ts";
import { type CredentialsOptions, createCredentials } from "../../../src/models/credentials.ts";

let stateDir = "";
beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), "credentials-"));
});
afterEach(() => rm(stateDir, { recursive: true, force: true }));

const pathOf = (agentId: string): string => join(stateDir, "agents", agentId, "auth.json");

async function put(agentId: string, content: unknown): Promise<void> {
  await mkdir(dirname(pathOf(agentId)), { recursive: true });
  await writeFile(pathOf(agentId), typeof content === "string" ? content : JSON.stringify(content), { mode: 0o600 });
}

type Settings = ReturnType<CredentialsOptions["settings"]>;
const create = ({ env = {}, configProviders = {}, isIsolated = () => false, ...more }: Partial<CredentialsOptions & Settings> = {}) =>
  createCredentials({ stateDir, settings: () => ({ mainAgentId: "main", env, configProviders, isIsolated }), ...more });

describe("find", () => {
  it("[MO7] the agent's own file, then the main agent's, then environment, then config", async () => {
    const credentials = create({
      env: { ANTHROPIC_API_KEY: "from-env" },
      configProviders: { anthropic: { apiKey: "from-config" }, mine: { apiKey: "from-config" } },
    });
    expect(credentials.find("mine", "coder")).toEqual({
      apiKey: "from-config",
      source: { kind: "config", name: "models.providers.mine.apiKey" },
    });
    expect(credentials.find("anthropic", "coder")).toEqual({ apiKey: "from-env", source: { kind: "env", name: "ANTHROPIC_API_KEY" } });
    await put("main", { anthropic: { apiKey: "of-main" } });
    expect(credentials.find("anthropic", "coder")).toEqual({ apiKey: "of-main", source: { kind: "file", name: "agents/main/auth.json" } });
    await put("coder", { anthropic: { apiKey: "of-coder" } });
    expect(credentials.find("anthropic", "coder")?.apiKey).toBe("of-coder");
    expect(credentials.find("anthropic", "main")?.apiKey).toBe("of-main");
    expect(credentials.find("openai", "coder")).toBeNull();
  });

  it("[SC4] a key in any agent's file is known as a secret before anybody uses it, also one that was added later", async () => {
    const heard: string[] = [];
    await put("main", { anthropic: { apiKey: "of-main" }, openai: { apiKey: "other-of-main" } });
    await put("coder", { google: { apiKey: "of-coder" } });
    await put("broken", "{");
    const credentials = create({ onSecret: (_, value) => void heard.push(value) });
    expect(heard.sort()).toEqual(["of-coder", "of-main", "other-of-main"]);
    await put("late", { anthropic: { apiKey: "of-late" } });
    credentials.find("anthropic", "main");
    expect(heard).toContain("of-late");
  });

  it("[SC4] two agents' keys for one provider have two names: written back in another order, each is still its own", async () => {
    await put("main", { anthropic: { apiKey: "sk-of-main-1" } });
    await put("coder", { anthropic: { apiKey: "sk-of-coder-1" } });
    const secrets = createSecrets();
    create({ onSecret: secrets.add });
    const file = "main: sk-of-main-1\ncoder: sk-of-coder-1\n";
    const [main, coder] = secrets.redact(file).split("\n");
    expect([main, coder]).toEqual(["main: [anthropic key of main]", "coder: [anthropic key of coder]"]);
    expect(secrets.restore(`${coder}\n${main}\n`, file)).toEqual({ text: "coder: sk-of-coder-1\nmain: sk-of-main-1\n", unknown: [] });
  });

  it('[MO7] an agent with auth: "own" has the keys of its own file and no others, wherever they stand', async () => {
    const env = { ANTHROPIC_API_KEY: "from-env" };
    const configProviders = { openai: { apiKey: "from-config" } };
    const credentials = create({ env, configProviders, isIsolated: (agentId) => agentId === "guest" });
    await put("main", { anthropic: { apiKey: "of-main" }, google: { apiKey: "of-main" } });
    for (const provider of ["anthropic", "openai", "google"]) {
      expect(credentials.find(provider, "guest")).toBeNull();
      expect(credentials.find(provider, "coder")).not.toBeNull();
    }
    await put("guest", { anthropic: { apiKey: "of-guest" } });
    expect(credentials.find("anthropic", "guest")).toEqual({
      apiKey: "of-guest",
      source: { kind: "file", name: "agents/guest/auth.json" },
    });
    expect(credentials.find("google", "guest")).toBeNull();
  });

  it("[MO7] knows each provider's variables; a blank one is none", () => {
    const env = { OPENAI_API_KEY: "  ", GOOGLE_GENERATIVE_AI_API_KEY: " g-key\n", OPENROUTER_API_KEY: "o-key" };
    const credentials = create({ env });
    expect(credentials.find("openai", "main")).toBeNull();
    expect(credentials.find("google", "main")?.apiKey).toBe("g-key");
    expect(credentials.find("openrouter", "main")?.apiKey).toBe("o-key");
    expect(credentials.find("constructor", "main")).toBeNull();
  });

  it("[MO7] a rotated, a replaced and a removed key count at the next call", async () => {
    await put("main", { openai: { apiKey: "first" } });
    const credentials = create();
    expect(credentials.find("openai", "main")?.apiKey).toBe("first");
    // Same size and same mtime, but a new file: what an atomic replace within one clock tick looks like.
    const { atime, mtime } = await stat(pathOf("main"));
    await writeFile(`${pathOf("main")}.new`, JSON.stringify({ openai: { apiKey: "other" } }), { mode: 0o600 });
    await utimes(`${pathOf("main")}.new`, atime, mtime);
    await rename(`${pathOf("main")}.new`, pathOf("main"));
    expect(credentials.find("openai", "main")?.apiKey).toBe("other");
    await rm(pathOf("main"));
    expect(credentials.find("openai", "main")).toBeNull();
  });

  it.each([
    ["no JSON", '{"openai": {"apiKey": "sk-secret-1"'],
    ["wrong shape", '{"openai": "sk-secret-1"}'],
    ["empty key", '{"openai": {"apiKey": ""}, "x": {"apiKey": "sk-secret-1"}}'],
    ["unknown field", '{"openai": {"apiKey": "sk-secret-1", "key": "sk-secret-1"}}'],
    ["bad provider name", '{"../openai": {"apiKey": "sk-secret-1"}}'],
    ["a list", '["sk-secret-1"]'],
    ["empty file", ""],
  ])("[MO7] a damaged file is an error that names it and shows nothing of it: %s", async (_what, content) => {
    await put("main", content);
    const error = (() => {
      try {
        create().find("openai", "main");
        return null;
      } catch (caught) {
        return caught as Error & { code: string };
      }
    })();
    expect(error?.code).toBe("config");
    expect(error?.message).toContain(pathOf("main"));
    expect(`${error?.stack} ${JSON.stringify(error)} ${String(error?.cause)}`).not.toContain("sk-secret-1");
  });

  it("[MO7] a folder, a huge file or a dangling link in its place is an error or nothing, never a hang", async () => {
    await mkdir(pathOf("main"), { recursive: true });
    expect(() => create().find("openai", "main")).toThrow(/is no regular file/);
    await put("big", "x".repeat(300_000));
    expect(() => create().find("openai", "big")).toThrow(/at most/);
    await rm(pathOf("main"), { recursive: true });
    await symlink(join(stateDir, "nowhere"), pathOf("main"));
    expect(create().find("openai", "main")).toBeNull();
  });

  it.each(["..", "../main", "MAIN", "", "a/b", "a\u0000", "x".repeat(65)])("[SE1] no path is built from the agent id %j", (agentId) => {
    expect(() => create().find("openai", agentId)).toThrow(/is no agent id/);
  });

  it("[MO7] refuses a provider that is no name", () => {
    expect(() => create().find("../x", "main")).toThrow(/is no provider name/);
  });

  it("[RN6] a file others can read is tightened, with a warning", async () => {
    await put("main", { openai: { apiKey: "sk-secret-1" } });
    await chmod(pathOf("main"), 0o644);
    const warnings: string[] = [];
    const credentials = create({ onWarning: (text) => warnings.push(text) });
    expect(credentials.find("openai", "main")?.apiKey).toBe("sk-secret-1");
    expect((await stat(pathOf("main"))).mode & 0o777).toBe(0o600);
    credentials.find("openai", "main");
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).not.toContain("sk-secret-1");
  });

  it("[SC4] every key read is told once, for redaction", async () => {
    await put("main", { openai: { apiKey: "sk-secret-1" } });
    const told: [string, string][] = [];
    const credentials = create({ env: { ANTHROPIC_API_KEY: "sk-secret-2" }, onSecret: (name, value) => told.push([name, value]) });
    for (let n = 0; n < 2; n++) for (const provider of ["openai", "anthropic"]) credentials.find(provider, "main");
    expect(told).toEqual([
      ["openai key of main", "sk-secret-1"],
      ["ANTHROPIC_API_KEY", "sk-secret-2"],
    ]);
  });
});

describe("npm run auth", () => {
  const script = fileURLToPath(new URL("../../../src/auth.ts", import.meta.url));

  /** The real script in a process of its own, with `input` on stdin. */
  function auth(args: string[], input = "", env: NodeJS.ProcessEnv = {}): Promise<{ code: number | null; output: string }> {
    const { child, over } = startAuth(args, env);
    child.stdin.end(input);
    return over;
  }

  function startAuth(args: string[], env: NodeJS.ProcessEnv = {}) {
    const child = spawn(process.execPath, [script, ...args], {
      cwd: stateDir,
      env: { PATH: process.env.PATH, HOME: stateDir, HERALD_STATE_DIR: stateDir, ...env },
    });
    let output = "";
    child.stdout.on("data", (chunk) => (output += chunk));
    child.stderr.on("data", (chunk) => (output += chunk));
    child.stdin.on("error", () => {
      // It may have refused and gone before reading.
    });
    const over = new Promise<{ code: number | null; output: string }>((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code) => resolve({ code, output }));
    });
    return { child, over };
  }

  it("[MO7] sets, lists and removes keys by agent id without ever showing one", async () => {
    const first = await auth(["set", "coder", "anthropic"], "sk-secret-1\nrest");
    expect(first).toEqual({ code: 0, output: "The key for anthropic is set for agent coder.\n" });
    const second = await auth(["set", "coder", "openai"], "  sk-secret-2  ");
    expect(second.code).toBe(0);
    expect(JSON.parse(await readFile(pathOf("coder"), "utf8"))).toEqual({
      anthropic: { apiKey: "sk-secret-1" },
      openai: { apiKey: "sk-secret-2" },
    });
    expect((await stat(pathOf("coder"))).mode & 0o777).toBe(0o600);
    expect((await stat(dirname(pathOf("coder")))).mode & 0o777).toBe(0o700);
    expect(await readdir(dirname(pathOf("coder")))).toEqual(["auth.json"]);
    expect(create().find("anthropic", "coder")?.apiKey).toBe("sk-secret-1");
    expect(await auth(["list"])).toEqual({ code: 0, output: "coder: anthropic, openai\n" });
    expect((await auth(["remove", "coder", "anthropic"])).code).toBe(0);
    expect(await auth(["list"])).toEqual({ code: 0, output: "coder: openai\n" });
    expect((await auth(["remove", "coder", "anthropic"])).output).toBe("Agent coder has no key for anthropic.\n");
  });

  it("[MO7] two that are typed in at the same time are both kept, whoever began first", async () => {
    const slow = startAuth(["set", "coder", "anthropic"]);
    // It waits for its key; meanwhile others come and go.
    await auth(["list"]);
    const others = await Promise.all(["openai", "google", "mistral"].map((provider) => auth(["set", "coder", provider], `sk-${provider}`)));
    expect(others.map(({ code }) => code)).toEqual([0, 0, 0]);
    slow.child.stdin.end("sk-anthropic\n");
    expect((await slow.over).code).toBe(0);
    expect(await auth(["list"])).toEqual({ code: 0, output: "coder: anthropic, google, mistral, openai\n" });
    expect(await readdir(dirname(pathOf("coder")))).toEqual(["auth.json"]);
  });

  it("[RN6] a key goes where the gateway looks for it: .env may name the folder, ~ is the home, an empty name is none", async () => {
    await writeFile(join(stateDir, ".env"), "HERALD_STATE_DIR=~/elsewhere\n", { mode: 0o600 });
    const answers = await Promise.all([
      auth(["set", "main", "openai"], "sk-secret-1", { HERALD_STATE_DIR: undefined }),
      auth(["set", "main", "openai"], "sk-secret-2", { HERALD_STATE_DIR: "" }),
    ]);
    expect(answers.map(({ code }) => code)).toEqual([0, 0]);
    const keyIn = (folder: string) => create({ stateDir: join(stateDir, folder) }).find("openai", "main")?.apiKey;
    expect([keyIn("elsewhere"), keyIn(".herald")]).toEqual(["sk-secret-1", "sk-secret-2"]);
    expect((await readdir(stateDir)).sort()).toEqual([".env", ".herald", "elsewhere"]);
  });

  it("[MO7] refuses bad names, blank keys and a key on the command line, and repeats nothing of it", async () => {
    const refused = await Promise.all([
      auth(["set", "../x", "openai"], "sk-secret-1"),
      auth(["set", "main", "../x"], "sk-secret-1"),
      auth(["set", "main", "openai", "sk-secret-1"]),
      auth(["set", "main", "openai"], " \n"),
      auth(["set", "main", "openai"], "sk-secret-1 and more"),
      auth(["constructor"]),
      auth([]),
    ]);
    for (const { code, output } of refused) {
      expect(code).toBe(1);
      expect(output).not.toContain("sk-secret-1");
      expect(output).not.toMatch(/\n\s+at /);
    }
    expect(await readdir(stateDir)).toEqual([]);
    await put("main", '{"openai": "sk-secret-1"}');
    const damaged = await auth(["set", "main", "openai"], "sk-secret-3");
    expect(damaged.output).toContain(pathOf("main"));
    expect(await readFile(pathOf("main"), "utf8")).toBe('{"openai": "sk-secret-1"}');
  });
});
