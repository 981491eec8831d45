// The environment inside the settings: ${NAME}, tokens of channels, and which values are kept out of sight.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findStoreUrl, loadConfig } from "../../../src/config/config.ts";
import { configJsonSchema } from "../../../src/config/schema.ts";
import { collectSecrets } from "../../../src/config/variables.ts";
import type { AppError } from "../../../src/core/errors.ts";

const variable = (name: string) => `\${${name}}`;
let cwd: string;

beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), "herald-variables-"));
  mkdirSync(join(cwd, "config"));
});
afterEach(() => rmSync(cwd, { recursive: true, force: true }));

function load(settings: object | null, env: Record<string, string> = {}) {
  if (settings !== null) writeFileSync(join(cwd, "config", "herald.json5"), JSON.stringify(settings), { mode: 0o600 });
  return loadConfig({ cwd, env: { HOME: join(cwd, "home"), ...env } });
}

function refusal(settings: object | null, env: Record<string, string> = {}): string {
  try {
    load(settings, env);
  } catch (error) {
    return (error as AppError).message.replaceAll(`${join(cwd, "config", "herald.json5")}: `, "");
  }
  throw new Error("the settings were accepted");
}

describe("variables in strings", () => {
  it("[CF2] a string takes variables, once, and $${ stands for ${", () => {
    const name = (text: string, env: Record<string, string>) =>
      load({ agents: { list: [{ id: "a", name: text }] } }, env).config.agents.list[0]?.name;
    expect(name(`${variable("A")}-${variable("B")}`, { A: "x", B: variable("A") })).toBe(`x-${variable("A")}`);
    expect(name(`$${variable("A")} costs $5 and $&`, { A: "x" })).toBe(`${variable("A")} costs $5 and $&`);
    expect(name(variable("A"), { A: "$& $1" })).toBe("$& $1");
  });

  it("[CF2] a missing or empty variable is an error that names it and the path, and nothing else (CFG-024)", () => {
    const settings = {
      channels: { telegram: { botToken: variable("TG") }, slack: { enabled: true, botToken: variable("SL"), appToken: "xapp-1" } },
    };
    expect(refusal(settings, { TG: "" })).toBe(
      "channels.telegram.botToken: the environment variable TG is not set\nchannels.slack.botToken: the environment variable SL is not set",
    );
    expect(refusal({ agents: { list: [{ id: "a", name: variable("constructor") }] } })).toMatch(/constructor is not set$/);
    const secret = {
      channels: { telegram: { botToken: "1:a", mode: "webhook", webhook: { url: "https://x.example", secret: variable("S") } } },
    };
    expect(refusal(secret)).toBe("channels.telegram.webhook.secret: the environment variable S is not set");
    for (const text of ["${", variable(""), variable("A B"), "${A"]) {
      expect(refusal({ agents: { list: [{ id: "a", name: text }] } }), text).toMatch(
        /^agents\.list\[0\]\.name: has a \$\{ that names no variable/,
      );
    }
  });

  it("[CF2] a variable inside a disabled block may be missing, in inner blocks and lists too", () => {
    const { config } = load({
      channels: {
        telegram: { enabled: false, botToken: variable("A"), webhook: { secret: variable("B") }, allowFrom: [variable("C"), 5] },
      },
      mcp: { servers: { one: { enabled: false, url: variable("D") } } },
    });
    expect(config.channels.telegram).toMatchObject({ enabled: false, allowFrom: ["5"] });
    expect(config.mcp.servers.one).toEqual({ enabled: false, kind: "off" });
    expect(refusal({ mcp: { servers: { one: { enabled: true, url: variable("D") } } } })).toMatch(/variable D is not set$/);
  });
});

describe("tokens of channels", () => {
  const slackEnv = { SLACK_BOT_TOKEN: "xoxb-12345678", SLACK_APP_TOKEN: "xapp-12345678" };

  it("[CF3] without a channels block the usual variables turn channels on", () => {
    const { channels } = load(null, { TELEGRAM_BOT_TOKEN: "1:abcdefgh", DISCORD_BOT_TOKEN: "abc.def.ghi", ...slackEnv }).config;
    expect(channels.discord).toMatchObject({ enabled: true, botToken: "abc.def.ghi", apiUrl: "https://discord.com/api" });
    expect(channels.telegram).toMatchObject({ enabled: true, botToken: "1:abcdefgh", allowFrom: [] });
    expect(channels.slack).toMatchObject({ enabled: true, botToken: "xoxb-12345678", appToken: "xapp-12345678" });
  });

  it("[RN2] a channel takes the tokens it doesn't state, whether the file has a block for it or not", () => {
    const env = { TELEGRAM_BOT_TOKEN: "1:abcdefgh", ...slackEnv };
    const { channels } = load({ channels: { telegram: { allowFrom: [7] } } }, env).config;
    expect(channels.telegram).toMatchObject({ enabled: true, botToken: "1:abcdefgh", allowFrom: ["7"] });
    expect(channels.slack).toMatchObject({ enabled: true, botToken: "xoxb-12345678" });
    expect(load({ channels: { telegram: { enabled: false } } }, env).config.channels.telegram).not.toHaveProperty("botToken");
    expect(load({ channels: { telegram: { botToken: "2:own" } } }, env).config.channels.telegram).toMatchObject({ botToken: "2:own" });
  });

  it("[CF3] half of Slack's tokens leave it off and say which is missing", () => {
    const { config, warnings } = load(null, { SLACK_BOT_TOKEN: "xoxb-12345678" });
    expect(config.channels.slack.enabled).toBe(false);
    expect(warnings).toContain("slack stays off: SLACK_BOT_TOKEN is set, but SLACK_APP_TOKEN is not");
  });

  it("[CF3][MX1] Matrix is on with both of its variables; half of them leave it off, and ids of another form are refused", () => {
    const env = { MATRIX_HOMESERVER: "https://matrix.example.org/", MATRIX_ACCESS_TOKEN: "syt_0123456789" };
    const on = { enabled: true, homeserver: "https://matrix.example.org", accessToken: "syt_0123456789", allowFrom: [], rooms: {} };
    expect(load(null, env).config.channels.matrix).toMatchObject(on);
    const { config, warnings } = load(null, { MATRIX_ACCESS_TOKEN: "syt_0123456789" });
    const off = "set channels.matrix.homeserver and accessToken, or MATRIX_HOMESERVER and MATRIX_ACCESS_TOKEN";
    expect(config.channels.matrix).toMatchObject({ enabled: false, off });
    expect(warnings).toContain("matrix stays off: MATRIX_ACCESS_TOKEN is set, but MATRIX_HOMESERVER is not");
    const matrix = (settings: object) => refusal({ channels: { matrix: settings } });
    expect(matrix({ enabled: true, accessToken: "x" })).toMatch(/^channels\.matrix\.homeserver: is missing/);
    for (const id of ["Ann", "ann:home.test", "@ann", "@a b:home.test"])
      expect(matrix({ allowFrom: [id] })).toMatch(/must be a Matrix user id/);
    expect(matrix({ rooms: { "#general:home.test": {} } })).toMatch(/must be a Matrix room id/);
  });

  it("[RN2] a channel that is off says which setting would turn it on", () => {
    const off = (channels: object) => {
      const { telegram, slack, discord } = load({ channels }).config.channels;
      return [telegram, slack, discord].map((channel) => (channel.enabled ? "on" : channel.off));
    };
    expect(off({})).toEqual([
      "set channels.telegram.botToken or TELEGRAM_BOT_TOKEN",
      "set channels.slack.botToken and appToken, or SLACK_BOT_TOKEN and SLACK_APP_TOKEN",
      "set channels.discord.botToken or DISCORD_BOT_TOKEN",
    ]);
    expect(off({ telegram: { enabled: false, botToken: "1:a" }, slack: { enabled: false }, discord: { enabled: false } })).toEqual([
      "set channels.telegram.enabled to true",
      "set channels.slack.enabled to true",
      "set channels.discord.enabled to true",
    ]);
    expect(off({ slack: { mode: "http", port: 3000 } })[1]).toBe(
      "set channels.slack.botToken and signingSecret, or SLACK_BOT_TOKEN and SLACK_SIGNING_SECRET",
    );
  });

  it("[SC5] a channel that is on needs what its mode needs", () => {
    const telegram = (settings: object) => refusal({ channels: { telegram: settings } });
    const slack = (settings: object) => refusal({ channels: { slack: settings } });
    expect(telegram({ enabled: true })).toMatch(/^channels\.telegram\.botToken: is missing/);
    expect(telegram({ botToken: "1:a", mode: "webhook" })).toMatch(
      /webhook\.url: is missing[^\n]*\nchannels\.telegram\.webhook\.secret: is missing/,
    );
    expect(telegram({ botToken: " " })).toMatch(/botToken: must not be empty/);
    expect(telegram({ botToken: "1:a", webhook: { secret: "short" } })).toMatch(/webhook\.secret: must be 16 to 256/);
    expect(slack({ botToken: "xoxb-1" })).toMatch(/^channels\.slack\.appToken: is missing/);
    expect(slack({ botToken: "xoxb-1", mode: "http" })).toMatch(/signingSecret: is missing[^\n]*\nchannels\.slack\.port: is missing/);
    expect(slack({ botToken: "xapp-1", appToken: "xoxb-1" })).toMatch(
      /botToken: is an app-level token[^\n]*\n[^\n]*appToken: is a bot token/,
    );
  });
});

describe("secrets", () => {
  it("[SC4] are returned by variable or by path, and ordinary values are not", () => {
    const { secrets } = load(
      {
        channels: { telegram: { botToken: `123:$${variable("x")}` }, slack: { enabled: false, signingSecret: variable("SIGN_IT") } },
        models: { providers: { lab: { api: "openai-compatible", baseUrl: variable("LAB_URL"), apiKey: variable("LAB") } } },
        mcp: { servers: { one: { url: "http://127.0.0.1", headers: { Authorization: "Bearer literal-header", "X-Mode": "ordinary" } } } },
      },
      {
        LAB: "lab-value",
        SIGN_IT: "sign-value",
        LAB_URL: "http://127.0.0.1:1",
        ANTHROPIC_API_KEY: "sk-ant-value",
        SSH_AUTH_SOCK: "/tmp/x",
      },
    );
    expect(secrets.map(({ name, value }) => [name, value]).sort()).toEqual([
      ["ANTHROPIC_API_KEY", "sk-ant-value"],
      ["LAB", "lab-value"],
      ["SIGN_IT", "sign-value"],
      ["channels.telegram.botToken", `123:${variable("x")}`],
      ["mcp.servers.one.headers.Authorization", "Bearer literal-header"],
      ["mcp.servers.one.headers.Authorization", "literal-header"],
    ]);
  });

  it("[SC4] what an MCP server's headers and variables hold is secret by its form too, whatever it is called", () => {
    const env = {
      GITHUB: "ghp_lab_key_000111222333abcdef",
      DATABASE_URL: "postgres://ann:hush@db.example/x",
      ID: "9f8c1d2e-1111-4222-8333-abcdefabcdef",
      SALT: "aGVsbG8+d29y/GQ9MQ==",
    };
    const headers = { "X-Custom": "Bearer hush-hush", "X-Second": variable("SECOND"), "X-Third": `Token ${variable("THIRD")}` };
    const harmless = {
      env: {
        HOME: variable("HOME"),
        LEVEL: "information",
        DATA: "/srv/data_of_the_team_2024",
        DAY: "2024-11-05",
        NOTE: "see page 1234567890123456a",
      },
      headers: { "X-Toolsets": "repos,issues,pull_requests", "User-Agent": "herald/1.0 (+https://example.com)", "X-Readonly": "true" },
    };
    const { secrets } = load(
      {
        mcp: {
          servers: {
            ...{ a: { command: "x", env }, b: { url: "http://127.0.0.1", headers } },
            ...{ c: { command: "x", env: harmless.env }, d: { url: "http://127.0.0.1", headers: harmless.headers } },
          },
        },
      },
      { SECOND: "xoxz-AbCdEfGh12345678ij", THIRD: "short-and-random" },
    );
    expect(secrets.map(({ value }) => value).sort()).toEqual(
      [...Object.values(env), "Bearer hush-hush", "hush-hush", "xoxz-AbCdEfGh12345678ij", "short-and-random"].sort(),
    );
    expect(secrets.find(({ value }) => value === "short-and-random")?.name).toBe("THIRD");
  });

  it("[SC4] the name of a server as its key is a name and no secret", () => {
    const local = (apiKey: string) => ({ api: "openai-compatible", baseUrl: "http://127.0.0.1:1", apiKey });
    const { secrets } = load({ models: { providers: { "lm-studio": local("lm-studio"), third: local("a-real-key") } } }, {});
    expect(secrets.map(({ value }) => value)).toEqual(["a-real-key"]);
    for (const name of ["ollama", "lmstudio", "llamacpp", "openai", "openrouter", "slack"]) {
      expect(load({ models: { providers: { lab: local(name) } } }).secrets, name).toEqual([]);
    }
  });

  it("[SC4] no word the settings offer a choice of is a secret, whatever the setting is called", () => {
    const choices: { path: (string | number)[]; words: string[] }[] = [];
    const visit = (schema: Record<string, unknown>, path: (string | number)[]): void => {
      const words = (schema.enum ?? (schema.const === undefined ? [] : [schema.const])) as unknown[];
      if (words.length > 0) choices.push({ path, words: words.filter((word) => typeof word === "string") });
      for (const [key, inner] of Object.entries((schema.properties ?? {}) as Record<string, Record<string, unknown>>))
        visit(inner, [...path, key]);
      for (const inner of [schema.items, schema.additionalProperties, ...((schema.anyOf ?? []) as unknown[])])
        if (typeof inner === "object" && inner !== null) visit(inner as Record<string, unknown>, [...path, 0]);
    };
    visit(configJsonSchema(), []);
    expect(choices.length).toBeGreaterThan(10);
    expect(choices.some(({ words }) => words.includes("fallback"))).toBe(true);
    for (const { path, words } of choices)
      for (const word of words) expect(collectSecrets({ [String(path.at(-1))]: word }, {}, []), `${path.join(".")}: ${word}`).toEqual([]);
  });

  it("[SC4] a refusal never shows the value of a setting", () => {
    const message = refusal({
      web: { token: "hush-hush" },
      channels: { telegram: { botToken: 5, mode: "hush-hush" }, slack: "hush-hush" },
    });
    expect(message.split("\n")).toHaveLength(4);
    expect(message).not.toContain("hush");
  });
});

describe("the address of PostgreSQL", () => {
  const secretsOf = (url: string): string[] =>
    load({}, { DATABASE_URL: url })
      .secrets.filter(({ name }) => name === "store.url")
      .map(({ value }) => value);

  it("[SO1] its password is a secret wherever it stands, as written and as meant", () => {
    expect(secretsOf("postgres://ann:long%2Fpassword@db/x")).toEqual(
      expect.arrayContaining(["postgres://ann:long%2Fpassword@db/x", "long%2Fpassword", "long/password"]),
    );
    expect(secretsOf("postgres://ann@db/x?password=long-password")).toEqual(
      expect.arrayContaining(["postgres://ann@db/x?password=long-password", "long-password"]),
    );
    expect(secretsOf("postgres://ann@db/x")).toEqual([]);
  });

  it("[SO1] a lone % in it is no reason not to start", () => {
    expect(load({}, { DATABASE_URL: "postgres://ann:100%sure@db/x" }).config.store.url).toBe("postgres://ann:100%sure@db/x");
    expect(secretsOf("postgres://ann:100%sure@db/x")).toContain("100%sure");
  });

  it("[SO1] the scripts find it as the gateway does, whatever else is wrong with the settings", () => {
    const find = (settings: object | null, env: Record<string, string> = {}): string | undefined => {
      if (settings !== null) writeFileSync(join(cwd, "config", "herald.json5"), JSON.stringify(settings), { mode: 0o600 });
      return findStoreUrl({ cwd, env });
    };
    expect(find(null)).toBeUndefined();
    expect(find(null, { DATABASE_URL: "postgres://db/a" })).toBe("postgres://db/a");
    expect(find({ web: { port: "wrong" } }, { DATABASE_URL: "mysql://db/a" })).toBeUndefined();
    expect(find({ web: { port: "wrong" }, store: { url: `postgres://${variable("HOST")}/b` } }, { HOST: "db" })).toBe("postgres://db/b");
    expect(find({ web: { token: variable("UNSET") } })).toBeUndefined();
    expect(() => find({ store: { url: `postgres://${variable("UNSET")}/b` } })).toThrow(/UNSET/);
    // Taken for none, people would be let in somewhere else.
    expect(() => find({ store: { url: 7 } })).toThrow(/store\.url: /);
    expect(() => find({ store: { url: "localhost/b" } })).toThrow(/store\.url: must be an address like/);
  });
});
