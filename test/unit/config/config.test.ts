// loadConfig against real files in a temp folder: what is accepted, what is refused and with which words.
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadConfig } from "../../../src/config/config.ts";
import { configJsonSchema } from "../../../src/config/schema.ts";
import { AppError } from "../../../src/core/errors.ts";

const ROOT = new URL("../../../", import.meta.url);
let cwd: string;
let file: string;

beforeEach(() => {
  cwd = realpathSync(mkdtempSync(join(tmpdir(), "herald-config-")));
  mkdirSync(join(cwd, "config"));
  file = join(cwd, "config", "herald.json5");
});
afterEach(() => rmSync(cwd, { recursive: true, force: true }));

type Env = Record<string, string>;
const variable = (name: string) => `\${${name}}`;
const write = (settings: string | Uint8Array | object, mode = 0o600) =>
  writeFileSync(file, typeof settings === "string" || settings instanceof Uint8Array ? settings : JSON.stringify(settings), { mode });
const load = (env: Env = {}) => loadConfig({ cwd, env: { HOME: join(cwd, "home"), ...env } });
const loadText = (settings: string | Uint8Array | object, env: Env = {}) => {
  write(settings);
  return load(env);
};

/** The lines of the refusal, without the file name every one starts with. */
function problems(settings: string | Uint8Array | object, env: Env = {}): string[] {
  try {
    loadText(settings, env);
  } catch (error) {
    expect(error).toBeInstanceOf(AppError);
    expect((error as AppError).code).toBe("config");
    return (error as AppError).message.split("\n").map((line) => {
      expect(line.startsWith(`${file}: `)).toBe(true);
      return line.slice(file.length + 2);
    });
  }
  throw new Error("the settings were accepted");
}

describe("where settings come from", () => {
  it("[RN6] without a file runs on safe defaults and says which file to create (CFG-001)", () => {
    const { config, found, warnings, stateDir } = load();
    expect(found).toBe(false);
    expect(warnings).toEqual([expect.stringContaining(`create ${file}`)]);
    expect(stateDir).toBe(join(cwd, "home", ".herald"));
    expect(config.web).toMatchObject({ enabled: true, host: "127.0.0.1", port: 8787 });
    expect(config.channels.telegram.enabled).toBe(false);
    expect(config.channels.slack.enabled).toBe(false);
    expect(config.tools.exec.unsandboxed).toBe(false);
  });

  it("[RN6] reads HERALD_CONFIG and HERALD_STATE_DIR, and refuses a HERALD_CONFIG that isn't there", () => {
    writeFileSync(join(cwd, "other.json5"), "{web: {port: 1234}}");
    const loaded = load({ HERALD_CONFIG: "other.json5", HERALD_STATE_DIR: "state" });
    expect(loaded).toMatchObject({ found: true, path: join(cwd, "other.json5"), stateDir: join(cwd, "state") });
    expect(loaded.config.web.port).toBe(1234);
    expect(load({ HERALD_STATE_DIR: "~/s" }).stateDir).toBe(join(cwd, "home", "s"));
    expect(() => load({ HERALD_CONFIG: "none.json5" })).toThrow(/none\.json5: there is no such file; HERALD_CONFIG names it/);
    expect(() => load({ HERALD_CONFIG: "config" })).toThrow(/is not a regular file/);
  });

  it("[RN6] reads .env beneath the real environment, which wins even when empty", () => {
    writeFileSync(join(cwd, ".env"), 'A_NAME="from file"\nB_NAME=from file\nTELEGRAM_BOT_TOKEN=1:abcdefgh\n', { mode: 0o600 });
    const { env, config } = load({ A_NAME: "real", TELEGRAM_BOT_TOKEN: "" });
    expect(env).toMatchObject({ A_NAME: "real", B_NAME: "from file" });
    expect(config.channels.telegram.enabled).toBe(false);
    expect(load().config.channels.telegram).toMatchObject({ enabled: true, botToken: "1:abcdefgh" });
  });

  it("[RN6] a device or a folder in place of a file is refused, not read for ever", () => {
    symlinkSync("/dev/zero", file);
    expect(() => load()).toThrow("/dev/zero: is not a regular file");
    rmSync(file);
    mkdirSync(file);
    expect(() => load()).toThrow(`${file}: is not a regular file`);
  });

  it("[RN6] resolves a linked file once and says so (CFG-014)", () => {
    const target = join(cwd, "elsewhere.json5");
    writeFileSync(target, "{}");
    symlinkSync(target, file);
    const { path, warnings } = load();
    expect(path).toBe(target);
    expect(warnings).toEqual([`${file} is a link; settings are read from ${target}`]);
  });

  it("[RN6] warns when others can read a file with secrets in it, and only then (CFG-013)", () => {
    const settings = { channels: { telegram: { botToken: "123:abcdefgh" } } };
    write(settings, 0o600);
    expect(load().warnings).toEqual([]);
    chmodSync(file, 0o644);
    expect(load().warnings).toEqual([expect.stringMatching(/holds secrets .* chmod 600/)]);
    writeFileSync(file, JSON.stringify({ channels: { telegram: { botToken: variable("T") } } }));
    expect(load({ T: "123:abcdefgh" }).warnings).toEqual([]);
  });

  it("[RN6] a workspace that would let an agent edit its settings or state is refused (CFG-021)", () => {
    const at = (workspace: string) => ({ agents: { defaults: { workspace } } });
    for (const workspace of ["/", "/proc/x", cwd, "~/", "~/.herald", "~/.herald/agents", join(cwd, "config")]) {
      expect(problems(at(workspace)), workspace).toEqual([expect.stringMatching(/^agents\.defaults\.workspace: must not/)]);
    }
    symlinkSync(cwd, join(cwd, "link"));
    expect(problems(at(join(cwd, "link")))).toEqual([expect.stringMatching(/must not hold/)]);
    expect(problems(at("relative/path"))).toEqual(["agents.defaults.workspace: must be an absolute path, or start with ~/"]);
    expect(loadText(at("~/.herald/workspace")).config.agents.defaults.workspace).toBe(join(cwd, "home/.herald/workspace"));
    expect(loadText(at("~/files")).config.agents.defaults.workspace).toBe(join(cwd, "home/files"));
  });

  it("[RN6] of the state folder only what Herald makes for agents can be a workspace, by whole names", () => {
    const at = (workspace: string) => ({ agents: { list: [{ id: "main", workspace }] } });
    for (const workspace of ["~/.herald/workspaces", "~/.herald/workspace.db", "~/.herald/workspace/../agents"])
      expect(problems(at(workspace)), workspace).toEqual([
        expect.stringMatching(/^agents\.list\[0\]\.workspace: must not lie in the state folder/),
      ]);
    for (const workspace of ["~/.herald/workspace", "~/.herald/workspace-web", "~/.herald/workspace/project", "~/.herald-2", "~/..x"])
      expect(loadText(at(workspace)).config.agents.list, workspace).toHaveLength(1);
  });

  it("[RN6] a workspace neither holds Herald's own program nor lies in it, by real path; beside it is fine", () => {
    const program = realpathSync(fileURLToPath(ROOT));
    const at = (workspace: string) => ({ agents: { defaults: { workspace } } });
    symlinkSync(join(program, "src"), join(cwd, "link"));
    for (const workspace of [program, join(program, ".."), join(program, "src"), join(program, "not-there/yet"), join(cwd, "link")])
      expect(problems(at(workspace)), workspace).toEqual([
        expect.stringMatching(/^agents\.defaults\.workspace: must not .*Herald's own program/),
      ]);
    expect(loadText(at(`${program.replace(/\/$/, "")}-2`)).found).toBe(true);
    mkdirSync(join(cwd, "home/.herald"), { recursive: true });
    symlinkSync(join(program, "src"), join(cwd, "home/.herald/workspace"));
    expect(problems({})).toEqual([
      expect.stringMatching(/^agents\.list\[0\]\.workspace: must not lie in the folder of Herald's own program/),
    ]);
    // Somebody keeps the state in the clone: what Herald makes there stays good.
    expect(loadText({}, { HERALD_STATE_DIR: join(program, "not-there") }).found).toBe(true);
  });

  it("[RN6] also a workspace below the state folder does not hold the program", () => {
    const program = join(cwd, "home/.herald/workspace/herald");
    for (const name of ["src", "package.json"]) cpSync(fileURLToPath(new URL(name, ROOT)), join(program, name), { recursive: true });
    symlinkSync(fileURLToPath(new URL("node_modules", ROOT)), join(program, "node_modules"));
    const { status, stderr } = spawnSync(process.execPath, [join(program, "src/herald.js"), "start"], {
      cwd,
      env: { HOME: join(cwd, "home") },
      encoding: "utf8",
      timeout: 15_000,
    });
    expect(stderr).toContain(`must not hold Herald's own program in ${program}`);
    expect(status).toBe(1);
  });
});

describe("a strict file", () => {
  it("[WB8] web.publicUrl is an origin, kept as browsers write it", () => {
    for (const [given, kept] of [
      ["https://herald.example.com", "https://herald.example.com"],
      ["https://herald.example.com/", "https://herald.example.com"],
      ["http://localhost:9000", "http://localhost:9000"],
      ["http://192.168.1.5:8787", "http://192.168.1.5:8787"],
      ["http://[::1]:8787", "http://[::1]:8787"],
    ])
      expect(loadText({ web: { publicUrl: given } }).config.web.publicUrl).toBe(kept);
    for (const publicUrl of [
      "herald.example.com",
      "https://x.example/path",
      "https://x.example?q",
      "https://u:p@x.example",
      "ws://x.example",
      "",
    ])
      expect([publicUrl, problems({ web: { publicUrl } })[0]]).toEqual([
        publicUrl,
        expect.stringMatching(/^web\.publicUrl: must be an http/),
      ]);
  });

  it("[WB8] PAGE-012 a public address in plain http by a name, with a path, a user or a star is refused in one sentence", () => {
    for (const publicUrl of [
      "http://host",
      "http://nas.local:8787",
      "https://host/herald",
      "https://ann@host",
      "https://*",
      "https://*.host",
      "*",
    ])
      expect([publicUrl, ...problems({ web: { publicUrl } })]).toEqual([
        publicUrl,
        expect.stringMatching(/^web\.publicUrl: must be [^\n]+$/),
      ]);
  });

  it("[CF1] names file, path, the nearest key and the accepted ones for an unknown key (CFG-007)", () => {
    const [first, second, ...rest] = problems({ chanels: {}, web: { prot: 1 } });
    expect(first).toBe("web.prot: unknown key. Did you mean port? Accepted here: enabled, host, port, publicUrl, token");
    expect(second).toMatch(/^chanels: unknown key\. Did you mean channels\? Accepted here: \$schema, agents, tools,/);
    expect(rest).toEqual([]);
    expect(problems({ agents: { list: [{ id: "a", zzzzzz: 1 }] } })).toEqual([
      "agents.list[0].zzzzzz: unknown key. Accepted here: id, name, default, model, workspace, auth, nodes, tools, subagents",
    ]);
    expect(problems({ agents: { defaults: { model: { primry: "a/b" } } } })).toEqual([
      "agents.defaults.model.primry: unknown key. Did you mean primary? Accepted here: primary, fallbacks",
    ]);
  });

  it("[CF1] names path and accepted values for a wrong one, all at once, and never the value itself", () => {
    const settings = {
      agents: { defaults: { subagents: { maxSpawnDepth: 6, onRestart: "retry" }, model: 7 } },
      web: { port: "secret-value", enabled: "yes", host: "" },
      tools: { deny: "exec" },
      gateway: { drainSeconds: 1.5 },
      logging: null,
    };
    const lines = problems(settings);
    expect(lines.sort()).toEqual([
      "agents.defaults.model: has a wrong value; accepted: text | a block {primary, fallbacks}",
      "agents.defaults.subagents.maxSpawnDepth: has a wrong value; accepted: a whole number from 1 to 5",
      'agents.defaults.subagents.onRestart: has a wrong value; accepted: "resume" | "interrupt"',
      "gateway.drainSeconds: has a wrong value; accepted: a whole number from 0 to 3600",
      "logging: has a wrong value; accepted: a block {level, pretty}",
      "tools.deny: has a wrong value; accepted: a list (at most 1000) of: text",
      "web.enabled: has a wrong value; accepted: true | false",
      "web.host: must be a host name or an IP address",
      "web.port: has a wrong value; accepted: a whole number from 0 to 65535",
    ]);
    expect(problems({ models: { providers: { x: {} } } })).toEqual([
      'models.providers.x.api: is missing; accepted: "openai-compatible" | "openai" | "anthropic" | "google" | "ollama"',
    ]);
    expect(problems("[]")).toEqual([expect.stringMatching(/^has a wrong value; accepted: a block \{/)]);
  });

  it("[CF1] CFG-022 a port is one that exists: 70000 and below zero are refused, 0 takes a free one", () => {
    for (const port of [70_000, -1, 80.5]) {
      expect(problems({ web: { port } })).toEqual(["web.port: has a wrong value; accepted: a whole number from 0 to 65535"]);
    }
    expect(loadText({ web: { port: 0 } }).config.web.port).toBe(0);
  });

  it("[CF1] a policy that names a tool there is not is refused with the nearest name, in each of its places (CFG-007)", () => {
    const mcp = { servers: { github: { command: "x" } } };
    const [first, second, third, ...rest] = problems({
      mcp,
      tools: { allow: ["Exec", "github__push", "github__*", "*"], subagents: { tools: { allow: ["web-fetch", "gihub__*"] } } },
    });
    expect(first).toMatch(
      /^tools\.allow\[0\]: no tool is called so\. Did you mean exec\? Accepted here: read, write, .*, github__<tool>; \* stands/,
    );
    expect(second).toMatch(/^tools\.subagents\.tools\.allow\[0\]: no tool .* Did you mean web_fetch\?/);
    expect(third).toMatch(/^tools\.subagents\.tools\.allow\[1\]: no tool is called so\. There is no MCP server gihub in mcp\.servers/);
    expect(rest).toEqual([]);
    const one = { id: "a", tools: { allow: ["reed"] }, subagents: { tools: { grant: ["lost"] } } };
    expect(problems({ agents: { list: [one] } }).map((line) => line.split(":")[0])).toEqual([
      "agents.list[0].tools.allow[0]",
      "agents.list[0].subagents.tools.grant[0]",
    ]);
    expect(problems({ agents: { list: [{ id: "a", subagents: { tools: { grant: ["*"] } } }] } })).toHaveLength(1);
    expect(loadText({ mcp, tools: { allow: ["read", "sessions_*", "*__get", "github__a.b"] } }).config.tools.allow).toHaveLength(4);
  });

  it("[QA4][CF1] APPR-003 approve: a whole name that no tool has, and an empty one, are refused with their path and the nearest name", () => {
    const own = { id: "a", tools: { approve: ["reed"] }, subagents: { tools: { approve: ["Write"] } } };
    const wrong = problems({ tools: { approve: ["exce"], subagents: { tools: { approve: ["lost__tool"] } } }, agents: { list: [own] } });
    expect(wrong.map((line) => line.replace(/ Accepted here: .*/, ""))).toEqual([
      "tools.approve[0]: no tool is called so. Did you mean exec?",
      "tools.subagents.tools.approve[0]: no tool is called so. There is no MCP server lost in mcp.servers; one that is there but not enabled counts.",
      "agents.list[0].tools.approve[0]: no tool is called so. Did you mean read?",
      "agents.list[0].subagents.tools.approve[0]: no tool is called so. Did you mean write?",
    ]);
    expect(problems({ tools: { approve: [""] } })).toEqual([
      "tools.approve[0]: must be the name of a tool; * stands for any characters",
      expect.stringMatching(/^tools\.approve\[0\]: no tool is called so\. Accepted here: read, write/),
    ]);
  });

  it("[QA4][CF1] APPR-003 approve: a pattern that no tool fits, and tools that never need a yes, are warnings; * is none", () => {
    const { config, warnings, path: file } = loadText({ tools: { approve: ["*", "github__*", "ask", "exec"] } });
    expect(config.tools.approve).toEqual(["*", "github__*", "ask", "exec"]);
    expect(warnings).toEqual([
      `${file}: tools.approve[1]: no tool is called so, so nobody is asked by it. There is no MCP server github in mcp.servers.`,
      `${file}: tools.approve[2]: it only asks or notes something down, so it never needs a yes of its own.`,
    ]);
  });

  it("[CF1] a deny of a tool there is not is no reason to refuse: it warns with the nearest name", () => {
    const { config, warnings } = loadText({
      tools: { deny: ["Exec", "read"], subagents: { tools: { deny: ["gateway", "cron"] } } },
      agents: { list: [{ id: "a", subagents: { tools: { deny: ["lost__*"] } } }] },
    });
    expect(config.tools.subagents.tools.deny).toEqual(["gateway", "cron"]);
    expect(warnings).toEqual([
      `${file}: tools.deny[0]: no tool is called so, so nothing is denied by it. Did you mean exec?`,
      `${file}: tools.subagents.tools.deny[0]: no tool is called so, so nothing is denied by it.`,
      `${file}: tools.subagents.tools.deny[1]: no tool is called so, so nothing is denied by it.`,
      `${file}: agents.list[0].subagents.tools.deny[0]: no tool is called so, so nothing is denied by it. There is no MCP server lost in mcp.servers.`,
    ]);
    expect(problems({ tools: { subagents: { tools: { allow: ["gateway"], deny: ["cron"] } } } })).toEqual([
      expect.stringMatching(/^tools\.subagents\.tools\.allow\[0\]: no tool is called so\./),
    ]);
  });

  it.each([
    ["{web: {port: 1, port: 2}}", "web.port"],
    [`{"web": {}, web: {}}`, "web"],
    [String.raw`{web: {port: 1, "p\u006frt": 2}}`, "web.port"],
    [String.raw`{web: {port: 1, p\u006frt: 2}}`, "web.port"],
    ["{/* web: 1 } */ web: {}, // web: {\n 'web': {}}", "web"],
    [`{agents: {list: [{id: "a"}, {id: "b", name: "}", 'name': "x"}]}}`, "agents.list[1].name"],
  ])("[CF1] refuses a key given twice: %s", (text, path) => {
    expect(problems(text)).toContain(`${path}: this key is given twice; remove one`);
  });

  it("[CF1] equal keys in different blocks, and inside strings and comments, are no duplicates", () => {
    const text = `{web: {enabled: true, /* enabled: 1, */ host: "localhost" /* , host: "x" */}, memory: {enabled: true}, // web: 1
      agents: {list: [{id: "a", name: "id: 1, id: 2"}, {id: 'b', name: 'x\\'}, id: 3'}]}}`;
    expect(loadText(text).config.agents.list.map(({ name }) => name)).toEqual(["id: 1, id: 2", "x'}, id: 3"]);
  });

  it("[CF1] refuses keys that reach a prototype (CFG-006)", () => {
    for (const key of ["__proto__", "constructor", "prototype"]) {
      for (const text of [`{"${key}": {sandbox: "off"}}`, `{mcp: {servers: {${key}: {command: "x"}}}}`]) {
        expect(problems(text)).toEqual([expect.stringMatching(new RegExp(`${key}: this key is not allowed$`))]);
      }
    }
    expect(({} as Record<string, unknown>).sandbox).toBeUndefined();
  });

  it("[CF1] takes UTF-8 with or without a mark, and no other encoding (CFG-004)", () => {
    expect(loadText(Buffer.from("\ufeff{web: {port: 99}}")).config.web.port).toBe(99);
    for (const bytes of [Buffer.from("\ufeff{}", "utf16le"), Buffer.from("{}", "utf16le"), Buffer.from("{/* \xe9 */}", "latin1")]) {
      expect(problems(bytes)).toEqual(["file is not UTF-8"]);
    }
  });

  it("[CF1] refuses a file that is too large or too deep at once (CFG-018)", () => {
    expect(problems(`{a: "${"x".repeat(5_000_000)}"}`)).toEqual(["file is larger than 1000000 bytes"]);
    expect(problems(`{tools: {deny: [${"1,".repeat(400_000)}]}}`)).toEqual(["holds too many values"]);
    expect(problems(`{tools: {exec: {envAllow: [${"1,".repeat(20_000)}]}}}`)).toHaveLength(51);
    expect(problems("[".repeat(10_000))).toEqual(["nested deeper than 50 levels"]);
    expect(problems(`{a:${"[".repeat(10_000)}${"]".repeat(10_000)}}`)).toEqual(["nested deeper than 50 levels"]);
  });

  it("[CF1] says where the text is no JSON5", () => {
    expect(problems("{web: {port: 1}")).toEqual(["not valid JSON5: invalid end of input at 1:16"]);
    expect(problems("")).toEqual(["not valid JSON5: invalid end of input at 1:1"]);
  });

  it("[CF1] lists at most fifty problems, one line each, whatever the keys contain", () => {
    const many = Object.fromEntries(Array.from({ length: 80 }, (_, i) => [`x\n${i}`, 1]));
    const lines = problems(many);
    expect(lines).toHaveLength(51);
    expect(lines.at(-1)).toBe("and 30 more problems");
    expect(lines[0]).toMatch(/^\["x\\n0"\]: unknown key/);
  });

  it("[CF1] every key of the schema has a description", () => {
    const bare = [...schemaKeys(configJsonSchema(), "")].filter(({ node }) => !node.description).map(({ path }) => path);
    expect(bare).toEqual([]);
  });
});

interface SchemaNode {
  description?: string;
  properties?: Record<string, SchemaNode>;
  additionalProperties?: SchemaNode | false;
  items?: SchemaNode;
  anyOf?: SchemaNode[];
}

function* schemaKeys(node: SchemaNode, path: string): Generator<{ path: string; key: string; node: SchemaNode }> {
  for (const [key, inner] of Object.entries(node.properties ?? {})) {
    yield { path: `${path}.${key}`, key, node: inner };
    yield* schemaKeys(inner, `${path}.${key}`);
  }
  for (const inner of [node.items, node.additionalProperties, ...(node.anyOf ?? [])]) if (inner) yield* schemaKeys(inner, `${path}.*`);
}

describe("the keys", () => {
  const shipped = () => readFileSync(new URL("config/herald.json5", ROOT), "utf8");

  it("[CF3] the shipped config/herald.json5 loads, changes nothing and shows every key", () => {
    const defaults = load().config;
    const { $schema, ...config } = loadText(shipped()).config;
    expect($schema).toBe("./herald.schema.json");
    expect(config).toEqual(defaults);
    const text = shipped();
    const hidden = [...schemaKeys(configJsonSchema(), "")].filter(({ key }) => !text.includes(`${key}:`)).map(({ path }) => path);
    expect(hidden).toEqual([]);
  });

  it("[CF3] the commented examples in config/herald.json5 are accepted too", () => {
    const setting = /^( *)\/\/ (?= *(?:[a-z]\w*: |"[^"]+": |[{}\]]))/gm;
    const text = shipped().replace(setting, "$1").replace("/* allow", "allow").replace(", */", ",");
    const tokens = ["TELEGRAM_BOT_TOKEN", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "DISCORD_BOT_TOKEN"];
    const names = [...tokens, "TRACKER_TOKEN", "LAB_API_KEY"];
    names.push("TELEGRAM_WORK_TOKEN", "CLIENT_BOT_TOKEN", "CLIENT_APP_TOKEN");
    const env = Object.fromEntries(names.map((name) => [name, `${name}-value`]));
    const { config } = loadText(text, {
      ...env,
      TELEGRAM_WEBHOOK_SECRET: "s".repeat(16),
      HERALD_WEB_TOKEN: PAGE_TOKEN,
      MATRIX_HOMESERVER: "https://matrix.example.org",
      MATRIX_ACCESS_TOKEN: "syt_value",
    });
    expect(config.channels.matrix).toMatchObject({ enabled: true, rooms: { "!abc:example.org": { requireMention: true } } });
    expect(config.channels.telegram).toMatchObject({ enabled: true, groups: { "-1001234567890": { requireMention: true } } });
    expect(config.mcp.servers.tracker).toMatchObject({ kind: "http", headers: { Authorization: "Bearer TRACKER_TOKEN-value" } });
    expect(config.models.providers.lab?.models[0]?.cost?.cacheWrite).toBe(1.25);
    expect(config.archive.purgeAfterDays).toBe(90);
  });

  it("[CF3] the defaults are the documented ones", () => {
    const { agents, session, gateway, archive, models, memory } = load().config;
    expect(agents.defaults).toMatchObject({ model: { fallbacks: [] }, maxConcurrent: 4, maxIterations: 50 });
    expect(agents.defaults.subagents).toEqual({
      maxConcurrent: 8,
      archiveAfterMinutes: 60,
      runTimeoutSeconds: 0,
      maxIterations: 20,
      maxSpawnDepth: 1,
      maxChildrenPerSession: 20,
      announceTimeoutSeconds: 60,
      onRestart: "resume",
    });
    expect(agents.list).toEqual([expect.objectContaining({ id: "main", default: true })]);
    expect([session.reset.subagents, gateway.drainSeconds, archive.purgeAfterDays]).toEqual(["stop", 20, undefined]);
    expect([models.idleTimeoutSeconds, models.probeLocal, memory.enabled]).toEqual([120, true, true]);
  });

  it("[CF3] a model is a name or {primary, fallbacks}, one shape afterwards", () => {
    const model = (value: unknown) => loadText({ agents: { defaults: { model: value } } }).config.agents.defaults.model;
    expect(model("openrouter/meta/llama:free")).toEqual({ primary: "openrouter/meta/llama:free", fallbacks: [] });
    expect(model({ primary: "a/b", fallbacks: ["c/d"] })).toEqual({ primary: "a/b", fallbacks: ["c/d"] });
    expect(problems({ agents: { defaults: { model: "gpt" } } })).toEqual(['agents.defaults.model: must be "provider/model-id"']);
    expect(problems({ agents: { defaults: { model: "openai/$(id)" } } })).toEqual(['agents.defaults.model: must be "provider/model-id"']);
    expect(problems({ agents: { defaults: { subagents: { model: { fallbacks: ["c/d"] } } } } })).toEqual([
      "agents.defaults.subagents.model.primary: is missing; accepted: text",
    ]);
    expect(problems({ agents: { defaults: { model: { primary: "a/b", fallbacks: ["c"] } } } })).toEqual([
      'agents.defaults.model.fallbacks[0]: must be "provider/model-id"',
    ]);
  });

  it("[CF3] exactly one agent is the default, ids are unique and well formed, allowAgents names listed ones", () => {
    const list = (...agents: object[]) => ({ agents: { list: agents } });
    const defaults = (settings: object) =>
      loadText(settings)
        .config.agents.list.filter((one) => one.default)
        .map(({ id }) => id);
    expect(defaults(list({ id: "a" }, { id: "b" }))).toEqual(["a"]);
    expect(defaults(list({ id: "a" }, { id: "b", default: true }))).toEqual(["b"]);
    expect(problems(list({ id: "a", default: true }, { id: "b", default: true }))).toEqual([
      "agents.list[1].default: only one agent can be the default",
    ]);
    expect(problems(list({ id: "a" }, { id: "a" }))).toEqual(['agents.list[1].id: agent "a" is listed twice']);
    expect(problems(list({ id: "../A" }))).toEqual([expect.stringMatching(/^agents\.list\[0\]\.id: must be lower case/)]);
    expect(problems(list({ id: "a", subagents: { allowAgents: ["b"] } }))).toEqual([
      'agents.list[0].subagents.allowAgents[0]: no agent "b" is listed; accepted: "*", a',
    ]);
    expect(loadText(list({ id: "a", subagents: { allowAgents: ["*"] } })).config.agents.list[0]?.subagents.allowAgents).toEqual(["*"]);
  });

  it("[CF3] Telegram ids: numbers and decimal strings are one, everything else is refused (CFG-012)", () => {
    const settings = (ids: string) => `{channels: {telegram: {allowFrom: [${ids}], groups: {"-100": {allowFrom: [${ids}]}}}}}`;
    const { telegram } = loadText(settings('123, "456", "9007199254740993"')).config.channels;
    expect(telegram.allowFrom).toEqual(["123", "456", "9007199254740993"]);
    expect(telegram.groups["-100"]).toEqual({ requireMention: true, allowFrom: ["123", "456", "9007199254740993"] });
    for (const bad of ['"0123"', '"123 "', '"1e5"', '""', '"@name"', "-5", "0", "1.5", '"*"']) {
      expect(problems(settings(bad))[0], bad).toMatch(/^channels\.telegram\.allowFrom\[0\]: must be a numeric Telegram user id/);
    }
    for (const bad of ["1e20", "9007199254740993"]) expect(problems(settings(bad))[0], bad).toMatch(/put the id in quotes$/);
    expect(problems(settings("true"))).toHaveLength(2);
    expect(problems({ channels: { telegram: { groups: { "@chat": {} } } } })).toEqual([
      'channels.telegram.groups["@chat"]: must be a numeric Telegram chat id in quotes',
    ]);
  });

  it("[CF3] Slack ids are member and channel ids, not names", () => {
    const slack = (settings: object) => ({ channels: { slack: settings } });
    expect(loadText(slack({ allowFrom: ["U012AB3CD"], channels: { C01: {} } })).config.channels.slack.channels.C01).toEqual({
      requireMention: true,
      allowFrom: [],
    });
    for (const bad of ["@ann", "u012AB3CD", "U1", "*"])
      expect(problems(slack({ allowFrom: [bad] }))[0]).toMatch(/must be a Slack member id/);
    expect(problems(slack({ channels: { "#general": {} } }))[0]).toMatch(/must be a Slack channel id/);
  });

  it("[CF3] an MCP server is a program or an address", () => {
    const server = (settings: object) => ({ mcp: { servers: { one: settings } } });
    expect(loadText(server({ command: "x" })).config.mcp.servers.one).toEqual({
      enabled: true,
      kind: "stdio",
      command: "x",
      args: [],
      env: {},
      readOnly: [],
    });
    expect(problems(server({}))).toEqual([expect.stringMatching(/^mcp\.servers\.one: needs either command/)]);
    expect(problems(server({ command: "x", url: "http://127.0.0.1" }))).toHaveLength(1);
    expect(problems({ mcp: { servers: { a__b: { command: "x" } } } })).toEqual([
      expect.stringMatching(/^mcp\.servers\.a__b: must be lower case/),
    ]);
    expect(problems(server({ url: "http://u:p@127.0.0.1" }))).toEqual([expect.stringMatching(/without a user name or password/)]);
    expect(problems(server({ url: "file:///etc/passwd" }))).toHaveLength(1);
  });

  it("[SC3] a page token must hold 32 random bytes (CFG-009)", () => {
    const web = (token: string) => ({ web: { token } });
    for (const bad of ["", " ", "changeme", "12345678", "a".repeat(64), "0123456789abcdef0123456789abcdef", `${PAGE_TOKEN} `]) {
      expect(problems(web(bad)), bad).toEqual([expect.stringMatching(/^web\.token: must hold at least 32 random bytes/)]);
    }
    expect(loadText(web(PAGE_TOKEN)).config.web.token).toBe(PAGE_TOKEN);
  });

  it("[CF3] the settings are frozen all the way down", () => {
    const { config } = load();
    expect(() => Object.assign(config.channels.telegram, { enabled: true })).toThrow(TypeError);
    expect(() => config.agents.list.push()).toThrow(TypeError);
  });
});

const PAGE_TOKEN = "Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OWFiY2RlZmdoaWo";
