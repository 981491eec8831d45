// Set-up's desk on real files, with fakes for whoever is connected to: what each section writes, how it is tried, what is said.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import JSON5 from "json5";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSetupDesk } from "../../../src/app/setup/desk.ts";
import { SLACK_SCOPES } from "../../../src/channels/slack/probe.ts";
import { type LoadedConfig, loadConfig } from "../../../src/config/config.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createSecrets } from "../../../src/core/secrets.ts";
import type { FieldValue, FieldView, SetupDesk, SetupView } from "../../../src/web/setup.ts";
import { createFakeDiscord } from "../../support/fake-discord.ts";
import { createFakeMatrix } from "../../support/fake-matrix.ts";
import type { Script } from "../../support/fake-model-server.ts";
import { createFakeOpenAi } from "../../support/fake-openai.ts";
import { createFakeSlack } from "../../support/fake-slack.ts";
import { createFakeTelegram } from "../../support/fake-telegram.ts";
import { freePort } from "../../support/free-port.ts";
import { NODE } from "../../support/harness.ts";

const FAKE_MCP = new URL("../../support/fake-mcp.mjs", import.meta.url).pathname;

let dir: string;
let env: Record<string, string>;
let loaded: LoadedConfig;
let secrets: ReturnType<typeof createSecrets>;
let audits: unknown[];

const file = (): string => join(dir, "config/herald.json5");
const tree = (): unknown => JSON5.parse(readFileSync(file(), "utf8"));
const dotEnv = (): string => readFileSync(join(dir, ".env"), "utf8");

function createDesk(machine: string | null = null, model = "offline/rules", restart: (() => void) | null = null): SetupDesk {
  const load = (): LoadedConfig => loadConfig({ env: { HERALD_STATE_DIR: join(dir, "state"), ...env }, cwd: dir });
  loaded = load();
  return createSetupDesk({
    access: {
      ...{ env: { HERALD_STATE_DIR: join(dir, "state"), ...env }, cwd: dir, restart },
      reload: () => {
        loaded = load();
      },
    },
    config: () => loaded.config,
    stateDir: join(dir, "state"),
    atStart: loaded.config,
    machine,
    clock: systemClock,
    log: { ...silentLogger, info: (fields: unknown) => void audits.push(fields) },
    secrets,
    inUse: () => ({ model, why: "nothing else" }),
    channels: () => [],
    mcpStatus: () => [],
  });
}

const sectionOf = (view: SetupView, id: string) => {
  const found = view.sections.find((section) => section.id === id);
  if (found === undefined) throw new Error(`no section ${id}`);
  return found;
};
const fieldOf = (fields: readonly FieldView[], name: string): FieldView | undefined => fields.find((field) => field.name === name);

async function save(desk: SetupDesk, section: string, item: string | null, values: Record<string, FieldValue>, isInsisted = false) {
  const { version } = await desk.view();
  return desk.save({ section, item, values, version, isInsisted });
}

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-setup-"));
  mkdirSync(join(dir, "config"));
  writeFileSync(file(), "{\n  models: { probeLocal: false },\n}\n");
  env = {};
  secrets = createSecrets();
  audits = [];
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe("the model", () => {
  it.each<[string, Script, RegExp]>([
    ["a wrong key", { status: 401, message: "Incorrect API key provided" }, /refused the key/],
    ["no credit", { status: 429, message: "You exceeded your current quota, check your billing details" }, /no credit left/],
    ["too many calls", { status: 429, message: "Rate limit reached" }, /allows no more calls for now/],
    ["an unknown model", { status: 404, message: "The model does not exist" }, /does not know this model/],
    ["a server in trouble", { status: 500, message: "oops" }, /failed to answer/],
  ])("[WB7] %s is said in words, and nothing is written", async (_name, script, words) => {
    await using server = { ...(await createFakeOpenAi({ respond: () => script })), [Symbol.asyncDispose]: () => server.close() };
    const desk = createDesk();
    const before = readFileSync(file(), "utf8");
    const values = {
      provider: "compatible",
      "address:compatible": server.url,
      "key:compatible": "sk-typed-0123456789",
      "model:compatible": "m",
    };
    const saved = await save(desk, "model", "model", values);
    expect(saved).toMatchObject({
      outcome: "failed",
      tested: { isOk: false, lines: expect.arrayContaining([expect.stringMatching(words)]) },
    });
    // One call: a test is not made again and again.
    expect(server.calls).toHaveLength(1);
    expect(readFileSync(file(), "utf8")).toBe(before);
    expect(await save(desk, "model", "model", values, true)).toMatchObject({ outcome: "saved", waiting: [] });
    expect(tree()).toMatchObject({
      agents: { defaults: { model: "compatible/m" } },
      models: { providers: { compatible: { apiKey: `$\{COMPATIBLE_API_KEY}` } } },
    });
    expect(secrets.redact("it was sk-typed-0123456789")).toBe("it was [COMPATIBLE_API_KEY]");
  });

  it("[WB7] what has been tried is not tried again at saving, and a provider that says the key back shows none", async () => {
    await using server = {
      ...(await createFakeOpenAi({
        respond: (_, { headers }) =>
          headers.authorization?.includes("good") ? { text: "ready" } : { status: 400, message: `no: ${headers.authorization}` },
      })),
      [Symbol.asyncDispose]: () => server.close(),
    };
    const desk = createDesk();
    const typed = (key: string) => ({
      provider: "compatible",
      "address:compatible": server.url,
      "key:compatible": key,
      "model:compatible": "m",
    });
    const refused = await desk.test({ section: "model", item: "model", values: typed("sk-bad-0123456789") });
    expect([refused.isOk, JSON.stringify(refused)]).toEqual([false, expect.not.stringContaining("sk-bad-0123456789")]);
    const values = typed("sk-good-0123456789");
    expect(await desk.test({ section: "model", item: "model", values })).toEqual({ isOk: true, lines: ["compatible/m answered: “ready”"] });
    const calls = server.calls.length;
    expect(await save(desk, "model", "model", values)).toMatchObject({ outcome: "saved" });
    expect(server.calls).toHaveLength(calls);
    expect(JSON.stringify(await desk.view())).not.toContain("sk-good");
    expect(JSON.stringify(audits)).toContain("COMPATIBLE_API_KEY set");
    expect(JSON.stringify(audits)).not.toContain("sk-good");
  });

  it("[WB7] a key of the real environment is shown as fixed and can't be changed; a block with fallbacks keeps them", async () => {
    env.OPENAI_API_KEY = "sk-environment-0123456789";
    writeFileSync(
      file(),
      "{ models: { probeLocal: false }, agents: { defaults: { model: { primary: 'openai/old', fallbacks: ['openai/spare'] } } } }",
    );
    const desk = createDesk();
    const [item] = sectionOf(await desk.view(), "model").items;
    expect(fieldOf(item?.fields ?? [], "key:openai")).toMatchObject({ value: true, fixed: expect.stringContaining("OPENAI_API_KEY") });
    expect(fieldOf(item?.fields ?? [], "provider")?.value).toBe("openai");
    await expect(save(desk, "model", "model", { "key:openai": "sk-other-0123456789" })).rejects.toThrow(
      /Set by the environment variable OPENAI_API_KEY/,
    );
    await save(desk, "model", "model", { "model:openai": "new" }, true);
    expect(tree()).toMatchObject({ agents: { defaults: { model: { primary: "openai/new", fallbacks: ["openai/spare"] } } } });
    await expect(save(desk, "model", "model", { "model:openai": "no such id" })).rejects.toThrow(/is no model id/);
    await expect(save(desk, "model", "model", { provider: "compatible", "model:compatible": "m" })).rejects.toThrow(
      /^Address: it is missing/,
    );
    await expect(
      save(desk, "model", "model", { provider: "compatible", "address:compatible": "file:///etc/passwd", "model:compatible": "m" }),
    ).rejects.toThrow(/must be an http/);
  });

  it("[WB7] a key of npm run auth is shown as what counts, and none is written that would count for nothing", async () => {
    mkdirSync(join(dir, "state/agents/main"), { recursive: true });
    writeFileSync(join(dir, "state/agents/main/auth.json"), '{"openai": {"apiKey": "sk-of-main-0123456789"}}', { mode: 0o600 });
    const desk = createDesk();
    const [item] = sectionOf(await desk.view(), "model").items;
    const fixed = fieldOf(item?.fields ?? [], "key:openai")?.fixed;
    expect([fixed, fieldOf(item?.fields ?? [], "key:google")?.fixed]).toEqual([
      expect.stringMatching(/agents\/main\/auth\.json .*npm run auth/),
      undefined,
    ]);
    await expect(save(desk, "model", "model", { provider: "openai", "key:openai": "sk-new-0123456789" }, true)).rejects.toThrow(
      /auth\.json/,
    );
  });

  it("[WB7] what was found at start is what the form begins with and what is tried, though no setting names it", async () => {
    const desk = createDesk("mini", "google/gemini-x");
    const [item] = sectionOf(await desk.view(), "model").items;
    expect(["provider", "model:google"].map((name) => fieldOf(item?.fields ?? [], name)?.value)).toEqual(["google", "gemini-x"]);
    await save(desk, "model", "model", { "key:google": "google-key-0123456789" }, true);
    expect([tree(), dotEnv()]).toMatchObject([
      { agents: { defaults: { model: "google/gemini-x" } } },
      expect.stringContaining("GEMINI_API_KEY="),
    ]);
  });

  it("[WB7] PAGE-002 a key with #, $, quotes, blanks and emoji is read back as typed after it was saved by the form", async () => {
    const desk = createDesk();
    for (const typed of ["a#b", `$\{HOME} $HOME`, 'say "hi"', "it's", "back\\slash\\n", "a=b=", "  blanks  ", "🔑 clé"]) {
      await save(desk, "model", "model", { "key:anthropic": typed }, true);
      expect([typed, loaded.env.ANTHROPIC_API_KEY]).toEqual([typed, typed]);
    }
    await expect(save(desk, "model", "model", { "key:anthropic": "two\nlines" }, true)).rejects.toThrow(/one line/);
  });

  it("[WB7] PAGE-004 dots that are sent are no secret, a literal one moves to .env, an emptied one goes", async () => {
    writeFileSync(file(), "{ models: { probeLocal: false }, channels: { telegram: { botToken: '123456:literal-token' } } } // mine\n");
    const desk = createDesk();
    await save(desk, "telegram", "telegram", { token: "••••••••••••", allowFrom: ["42"] }, true);
    expect(tree()).toMatchObject({ channels: { telegram: { botToken: "123456:literal-token", allowFrom: ["42"] } } });
    await save(desk, "telegram", "telegram", { token: "123456:another-token" }, true);
    expect([loaded.config.channels.telegram, dotEnv()]).toEqual([
      expect.objectContaining({ enabled: true, botToken: "123456:another-token" }),
      expect.stringContaining("TELEGRAM_BOT_TOKEN=123456:another-token\n"),
    ]);
    expect(readFileSync(file(), "utf8")).not.toContain("literal");
    await save(desk, "telegram", "telegram", { token: null }, true);
    expect([loaded.config.channels.telegram.enabled, dotEnv().includes("TELEGRAM")]).toEqual([false, false]);
  });
});

describe("several accounts", () => {
  it("[WB7][CH1] another bot is added with a variable of its own, tried, changed and taken away; the first is left alone", async () => {
    await using telegram = { ...(await createFakeTelegram()), [Symbol.asyncDispose]: () => telegram.close() };
    writeFileSync(file(), "{ models: { probeLocal: false }, channels: { telegram: { allowFrom: [7] } } } // mine\n");
    const desk = createDesk();
    const items = async () => sectionOf(await desk.view(), "telegram").items.map(({ id, title, canRemove }) => [id, title, canRemove]);
    expect(await items()).toEqual([["telegram", "Telegram", false]]);
    const values = { name: "work", token: telegram.token, address: telegram.apiRoot, allowFrom: ["42"] };
    await expect(save(desk, "telegram", null, { ...values, name: "" })).rejects.toThrow(/^Name: it is missing/);
    await expect(save(desk, "telegram", null, { ...values, name: "My Bot" })).rejects.toThrow(/^Name: 1 to 32 of a-z/);
    expect(await desk.test({ section: "telegram", item: null, values })).toMatchObject({
      isOk: true,
      lines: [`This is @${telegram.username} (Herald).`],
    });
    expect(await save(desk, "telegram", null, values)).toEqual({ outcome: "saved", waiting: ["Telegram"] });
    expect(tree()).toMatchObject({
      channels: { telegram: { allowFrom: [7], accounts: { work: { botToken: `$\{TELEGRAM_BOT_TOKEN_WORK}`, allowFrom: ["42"] } } } },
    });
    expect([dotEnv(), readFileSync(file(), "utf8")]).toEqual([
      expect.stringContaining(`TELEGRAM_BOT_TOKEN_WORK=${telegram.token}\n`),
      expect.not.stringContaining(telegram.token),
    ]);
    expect(await items()).toEqual([
      ["telegram", "Telegram", false],
      ["telegram@work", "Telegram (work)", true],
    ]);
    const [, work] = sectionOf(await desk.view(), "telegram").items;
    expect([fieldOf(work?.fields ?? [], "token")?.value, fieldOf(work?.fields ?? [], "allowFrom")?.value]).toEqual([true, ["42"]]);
    await expect(save(desk, "telegram", null, values)).rejects.toThrow(/there is an account work already/);
    writeFileSync(join(dir, ".env"), `${dotEnv()}TELEGRAM_BOT_TOKEN_A_B=x\n`, { mode: 0o600 });
    await expect(save(desk, "telegram", null, { ...values, name: "a-b" })).rejects.toThrow(/TELEGRAM_BOT_TOKEN_A_B is in use already/);
    // Who may write counts at once.
    expect(await save(desk, "telegram", "telegram@work", { allowFrom: ["42", "43"] }, true)).toEqual({ outcome: "saved", waiting: [] });
    await expect(save(desk, "telegram", "telegram", { token: telegram.token }, true)).rejects.toThrow(/same bot/);
    const { version } = await desk.view();
    await expect(desk.remove({ section: "telegram", item: "telegram", version })).rejects.toThrow(/turned off, not removed/);
    expect(await desk.remove({ section: "telegram", item: "telegram@work", version })).toMatchObject({ outcome: "saved" });
    expect([tree(), dotEnv().includes("_WORK")]).toEqual([
      { models: { probeLocal: false }, channels: { telegram: { allowFrom: [7] } } },
      false,
    ]);
  });
});

describe("Slack", () => {
  it("[WB7] both tokens are tried, missing rights named; the manifest asks for exactly those", async () => {
    await using slack = { ...(await createFakeSlack()), [Symbol.asyncDispose]: () => slack.close() };
    const desk = createDesk();
    const { copy } = sectionOf(await desk.view(), "slack");
    const asked = /bot:\n((?: {6}- .*\n)+)/.exec(copy?.text ?? "")?.[1] ?? "";
    expect([...asked.matchAll(/- ([\w:]+)/g)].map(([, scope]) => scope)).toEqual(SLACK_SCOPES);
    const typed = (botToken: string, appToken: string) => ({ botToken, appToken, address: slack.apiUrl });
    const lines = async (values: Record<string, string>) => (await desk.test({ section: "slack", item: "slack", values })).lines.join(" ");
    expect(await lines({ botToken: slack.botToken, address: slack.apiUrl })).toMatch(/no pair of tokens/);
    expect(await lines(typed("xoxb-wrong", slack.appToken))).toMatch(/refuses the bot token .*invalid_auth/);
    expect(await lines(typed(slack.botToken, "xapp-1-A0WRONG-1-wrong"))).toMatch(/refuses the app-level token .*invalid_auth/);
    await expect(lines(typed(slack.appToken, slack.botToken))).rejects.toThrow(/is an app-level token/);
    expect(await lines(typed(slack.botToken, slack.appToken))).toMatch(/The app is @herald in the workspace Example/);
    slack.answerWith("auth.test", { response_metadata: { scopes: SLACK_SCOPES.filter((scope) => scope !== "files:write") } });
    expect(await lines(typed(slack.botToken, slack.appToken))).toMatch(/lacks files:write/);
    slack.answerWith("auth.test", {});
    expect(await save(desk, "slack", "slack", typed(slack.botToken, slack.appToken))).toEqual({ outcome: "saved", waiting: ["Slack"] });
    expect(dotEnv()).toContain(`SLACK_BOT_TOKEN=${slack.botToken}`);
    await save(desk, "slack", "slack", { enabled: false });
    expect(tree()).toMatchObject({ channels: { slack: { enabled: false } } });
    await save(desk, "slack", "slack", { enabled: true }, true);
    expect(loaded.config.channels.slack.enabled).toBe(true);
  });
});

describe("Matrix", () => {
  it("[WB7][MX1] server and token are tried before they are kept, with words for what is wrong", async () => {
    await using matrix = { ...(await createFakeMatrix()), [Symbol.asyncDispose]: () => matrix.close() };
    const desk = createDesk();
    const { homeserver, token, bot } = matrix;
    const test = (values: Record<string, string>) => desk.test({ section: "matrix", item: "matrix", values });
    expect(await test({ token })).toMatchObject({ isOk: false, field: "homeserver", lines: ["Matrix has no homeserver and token yet."] });
    expect(await test({ homeserver, token: "syt_wrong" })).toMatchObject({
      isOk: false,
      field: "token",
      lines: [expect.stringContaining("does not know this token")],
    });
    expect(await test({ homeserver: `http://127.0.0.1:${await freePort()}`, token })).toMatchObject({
      field: "homeserver",
      lines: [expect.stringContaining("can't be reached")],
    });
    matrix.faults.add("whoami", "html_200");
    expect(await test({ homeserver, token })).toMatchObject({
      field: "homeserver",
      lines: [expect.stringContaining("did not answer as a homeserver does")],
    });
    expect(await test({ homeserver, token })).toMatchObject({ isOk: true, lines: [`This is ${bot}.`] });
    const values = { homeserver, token, allowFrom: ["@ann:home.test"] };
    expect(await save(desk, "matrix", "matrix", values)).toEqual({ outcome: "saved", waiting: ["Matrix"] });
    expect(dotEnv()).toContain(`MATRIX_ACCESS_TOKEN=${token}`);
    expect(loaded.config.channels.matrix).toMatchObject({ enabled: true, homeserver, accessToken: token, allowFrom: ["@ann:home.test"] });
  });
});

describe("Discord", () => {
  it("[WB7] the token is tried, a missing intent named, and the link that invites the bot shown", async () => {
    await using discord = { ...(await createFakeDiscord()), [Symbol.asyncDispose]: () => discord.close() };
    const desk = createDesk();
    const typed = (token: string) => ({ token, address: discord.apiUrl });
    const tried = (values: Record<string, string>) => desk.test({ section: "discord", item: "discord", values });
    const lines = async (values: Record<string, string>) => (await tried(values)).lines.join(" ");
    expect(await lines({ address: discord.apiUrl })).toMatch(/Discord has no token yet/);
    expect(await lines(typed("not-a-token"))).toMatch(/This is not a bot token/);
    expect(await tried(typed(discord.botToken.replace("fake_bot", "gone_bot")))).toMatchObject({ isOk: false, field: "token" });
    discord.setFlags(0);
    expect(await lines(typed(discord.botToken))).toMatch(/Message Content intent of this bot is off/);
    discord.setFlags(1 << 18);
    const { lines: said, link } = await tried(typed(discord.botToken));
    expect(said.join(" ")).toMatch(/The bot is Herald/);
    expect(link?.url).toMatch(
      new RegExp(
        `^https://discord\\.com/oauth2/authorize\\?client_id=${discord.appId}&scope=bot\\+applications\\.commands&permissions=\\d+$`,
      ),
    );
    expect(await save(desk, "discord", "discord", typed(discord.botToken))).toEqual({ outcome: "saved", waiting: ["Discord"] });
    expect(dotEnv()).toContain(`DISCORD_BOT_TOKEN=${discord.botToken}`);
    expect(loaded.config.channels.discord.enabled).toBe(true);
  });
});

describe("MCP servers", () => {
  it("[WB7] one is tried by listing its tools, added with its token in .env, changed, taken away", async () => {
    const desk = createDesk();
    const values = { name: "demo", kind: "stdio", command: NODE, args: [FAKE_MCP], variable: "DEMO_TOKEN", token: "mcp-secret-0123456789" };
    const tested = await desk.test({ section: "mcp", item: null, values });
    expect(tested).toMatchObject({ isOk: true, lines: [expect.stringMatching(/^It answers, with \d+ tools?: \w+/)] });
    const failed = await desk.test({ section: "mcp", item: null, values: { ...values, command: "/no/such/program" } });
    expect(failed).toMatchObject({ isOk: false, field: "command", lines: [expect.stringContaining("ENOENT")] });
    expect(await save(desk, "mcp", null, values)).toEqual({ outcome: "saved", waiting: ["MCP servers"] });
    expect(tree()).toMatchObject({
      mcp: { servers: { demo: { command: NODE, args: [FAKE_MCP], env: { DEMO_TOKEN: `$\{MCP_DEMO_TOKEN}` } } } },
    });
    expect(loaded.config.mcp.servers.demo).toMatchObject({ env: { DEMO_TOKEN: "mcp-secret-0123456789" } });
    const [item] = sectionOf(await desk.view(), "mcp").items;
    expect([fieldOf(item?.fields ?? [], "token")?.value, fieldOf(item?.fields ?? [], "variable")?.value]).toEqual([true, "DEMO_TOKEN"]);
    await expect(save(desk, "mcp", null, values)).rejects.toThrow(/there is a server demo already/);
    await save(desk, "mcp", "demo", { kind: "http", url: "http://127.0.0.1:9/mcp" }, true);
    expect(loaded.config.mcp.servers.demo).toEqual({
      ...{ enabled: true, kind: "http", url: "http://127.0.0.1:9/mcp", readOnly: [] },
      headers: { Authorization: "Bearer mcp-secret-0123456789" },
    });
    const { version } = await desk.view();
    expect(await desk.remove({ section: "mcp", item: "demo", version })).toMatchObject({ outcome: "saved" });
    expect([loaded.config.mcp.servers, dotEnv().includes("MCP_DEMO")]).toEqual([{}, false]);
  });
});

describe("what the page was shown", () => {
  it("[WB7] a secret's name in a setting is the secret again when its neighbour was changed, and is never written as a name", async () => {
    writeFileSync(
      file(),
      `{ models: { probeLocal: false }, mcp: { servers: { demo: { command: "${NODE}", args: ["--key=sk-literal-0123456789", "old"] } } } }`,
    );
    secrets.add("demo key", "sk-literal-0123456789");
    const desk = createDesk();
    await save(desk, "mcp", "demo", { args: ["--key=[demo key]", "new"] }, true);
    expect(tree()).toMatchObject({ mcp: { servers: { demo: { args: ["--key=sk-literal-0123456789", "new"] } } } });
    await expect(save(desk, "mcp", "demo", { command: "run [demo key]" }, true)).rejects.toThrow(
      /^Program: \[demo key\] stands for a secret/,
    );
    await save(desk, "agents", "main", { name: "Herald [beta]" });
    expect(tree()).toMatchObject({ agents: { list: [{ name: "Herald [beta]" }] } });
  });

  it("[WB7] Herald is not started anew on settings it could not start with", async () => {
    const desk = createDesk(null, "offline/rules", () => void audits.push("restarted"));
    expect((await desk.view()).canRestart).toBe(true);
    writeFileSync(file(), "{ web: ");
    await expect(desk.restart()).rejects.toThrow(/would not come back with these settings.*not valid JSON5/);
    writeFileSync(file(), "{}");
    expect([await desk.restart(), audits.at(-1)]).toEqual([true, "restarted"]);
  });
});

describe("agents and limits", () => {
  it("[WB7] a second agent keeps the first, which needs no line in the settings until then", async () => {
    const desk = createDesk();
    expect(sectionOf(await desk.view(), "agents").items.map(({ id, canRemove }) => [id, canRemove])).toEqual([["main", false]]);
    await save(desk, "agents", null, { id: "writer", name: "Writer", model: "openai/gpt-6-sol", deny: ["exec", ""] });
    expect(tree()).toMatchObject({
      agents: { list: [{ id: "main" }, { id: "writer", name: "Writer", model: "openai/gpt-6-sol", tools: { deny: ["exec"] } }] },
    });
    expect(loaded.config.agents.list.map(({ id, default: isDefault }) => [id, isDefault])).toEqual([
      ["main", true],
      ["writer", false],
    ]);
    await save(desk, "agents", "main", { name: "Herald" });
    await save(desk, "agents", "writer", { deny: null });
    expect(tree()).toMatchObject({ agents: { list: [{ id: "main", name: "Herald" }, { id: "writer" }] } });
    expect(JSON.stringify(tree())).not.toContain("deny");
    await expect(save(desk, "agents", null, { id: "Not An Id" })).rejects.toThrow(/agents\.list\[2\]\.id: must be lower case/);
    await expect(save(desk, "agents", "writer", { allow: ["no_such_tool"] })).rejects.toThrow(/no tool is called so/);
    const { version } = await desk.view();
    await desk.remove({ section: "agents", item: "writer", version });
    expect(loaded.config.agents.list.map(({ id }) => id)).toEqual(["main"]);
  });

  it("[WB7] limits are numbers, an emptied one is gone with its block, and what can't be is said by its path", async () => {
    const desk = createDesk("mini");
    await save(desk, "limits", "limits", { perDay: "2,5", approve: ["exec", "github__*"], unpriced: "allow" });
    expect(tree()).toMatchObject({ budgets: { perDay: { usd: 2.5 }, unpriced: "allow" }, tools: { approve: ["exec", "github__*"] } });
    await save(desk, "limits", "limits", { perDay: "" });
    expect(tree()).toMatchObject({ budgets: { unpriced: "allow" } });
    expect(JSON.stringify(tree())).not.toContain("perDay");
    await expect(save(desk, "limits", "limits", { maxConcurrent: "0" })).rejects.toThrow(
      /agents\.defaults\.subagents\.maxConcurrent: has a wrong value/,
    );
    const { machine, waiting, canRestart } = await desk.view();
    expect({ machine, waiting, canRestart }).toEqual({ machine: "mini", waiting: [], canRestart: false });
    expect(await desk.restart()).toBe(false);
    expect(await desk.save({ section: "limits", item: "limits", values: { perDay: "9" }, version: "old", isInsisted: false })).toEqual({
      outcome: "stale",
    });
  });
});
