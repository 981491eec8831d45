// The settings file: any bytes give settings or one AppError that lists what is wrong, and never show a value.
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import JSON5 from "json5";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type LoadedConfig, loadConfig } from "../../src/config/config.ts";
import { configSchema } from "../../src/config/schema.ts";
import { parseConfigText } from "../../src/config/text.ts";
import { substitute } from "../../src/config/variables.ts";
import { AppError } from "../../src/core/errors.ts";
import { safeParse } from "../../src/core/safe-parse.ts";
import { cases, checkPrototype, damagedBytes, damagedTree } from "./cases.ts";

const SHIPPED = readFileSync(new URL("../../config/herald.json5", import.meta.url), "utf8");
const SECRET = "hunter2-hunter2-hunter2";
const VARIABLE = ["$", "{A}"].join("");
/** Something of everything, so that damage meets every branch of the schema. */
const FULL = {
  agents: {
    defaults: {
      model: { primary: "a/b", fallbacks: ["c/d"] },
      thinking: "low",
      maxConcurrent: 4,
      subagents: { maxSpawnDepth: 2, runTimeoutSeconds: 0 },
    },
    list: [
      {
        id: "main",
        name: "Herald",
        default: true,
        tools: { allow: ["read"], deny: [] },
        subagents: { allowAgents: ["*"], announce: "post" },
      },
    ],
  },
  tools: { deny: ["exec"], subagents: { tools: { deny: [] } } },
  mcp: {
    servers: { one: { command: "x", args: ["y"], env: { A: VARIABLE } }, two: { url: "http://127.0.0.1:1/", headers: { h: "v" } } },
  },
  models: {
    providers: {
      proxy: {
        api: "openai-compatible",
        baseUrl: "http://127.0.0.1:1",
        apiKey: SECRET,
        models: [{ id: "m", cost: { input: 1, output: 2 } }],
      },
    },
  },
  channels: {
    telegram: {
      enabled: false,
      botToken: VARIABLE.replace("A", "MISSING"),
      allowFrom: [1, "2"],
      groups: { "-100": { requireMention: false } },
    },
    slack: { enabled: false, allowFrom: ["U1"], channels: { C1: {} } },
  },
  web: { enabled: true, host: "127.0.0.1", port: 8787 },
  gateway: { drainSeconds: 20 },
  logging: { level: "info" },
};
const text = fc.constantFrom(SHIPPED, SHIPPED.slice(0, 1_500), JSON.stringify(FULL), JSON5.stringify(FULL, null, 1));

let cwd: string;
beforeAll(() => {
  cwd = realpathSync(mkdtempSync(join(tmpdir(), "herald-config-")));
  mkdirSync(join(cwd, "config"));
  // The JSON5 package warns of U+2028 inside strings.
  vi.spyOn(console, "warn").mockImplementation(() => undefined);
});
afterAll(() => {
  vi.restoreAllMocks();
  rmSync(cwd, { recursive: true, force: true });
});

/** Null for a file that is refused; throws when anything but the declared error comes out. */
function load(bytes: string | Uint8Array): LoadedConfig | null {
  writeFileSync(join(cwd, "config", "herald.json5"), bytes);
  try {
    return loadConfig({ cwd, env: { HOME: join(cwd, "home"), A: "a" } });
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "config") throw error;
    const lines = error.message.split("\n");
    expect(lines.length).toBeLessThanOrEqual(51);
    for (const line of lines) expect(line.startsWith(`${cwd}/config/herald.json5: `)).toBe(true);
    expect(error.message).not.toContain(SECRET);
    return null;
  }
}

it("[CF1] any bytes are a tree, or refused with a problem that says where", () => {
  let trees = 0;
  fc.assert(
    fc.property(damagedBytes(text), (bytes) => {
      const { tree, problems } = parseConfigText(bytes);
      checkPrototype();
      for (const problem of problems) expect(problem.text).not.toBe("");
      if (tree === undefined) expect(problems).toHaveLength(1);
      else trees++;
    }),
    // JSON5 reads the shipped file character by character.
    cases(10),
  );
  expect(trees).toBeGreaterThan(0);
});

it("[CF1] a key given twice is found wherever it stands and however it is spelled", () => {
  const spelled = (key: string) => [key, `"${key}"`, `'${key}'`, `\\u0061${key.slice(1)}`, `"\\x61${key.slice(1)}"`];
  const gap = fc.constantFrom("", " ", "\n", "/* } */", "// ,\n", "\ufeff");
  const value = fc.constantFrom("1", "null", "'}'", '"\\""', "[1,{a1:2},]", "{a2:{}}", "+.5e1");
  const member = (keys: string[]) =>
    fc.tuple(gap, fc.constantFrom(...keys), gap, value, gap).map(([a, key, b, one, c]) => `${a}${key}${b}:${one}${c}`);
  const others = fc.array(member(["b", "'c,d'", '"e:f"', "$g"]), { maxLength: 1 });
  const block = fc
    .tuple(others, member(spelled("ab")), member(["x", "y", "'{'"]), member(spelled("ab")), fc.nat(3))
    .map(
      ([before, first, between, second, depth]) =>
        `${"{z:".repeat(depth)}{${[...before, first, between, second].join(",")}}${"}".repeat(depth)}`,
    );
  fc.assert(
    fc.property(block, (file) => {
      expect(JSON5.parse(file)).toBeTypeOf("object");
      expect(parseConfigText(Buffer.from(file)).problems.map((problem) => problem.text)).toEqual(["this key is given twice; remove one"]);
    }),
    cases(2), // each file is read three times
  );
});

const KEYS = new Set(["$schema", ...Object.keys(configSchema.parse({}))]);

it("[CF1][CF2] any tree is refused, or gives settings of the known keys with every variable filled in", () => {
  let accepted = 0;
  fc.assert(
    fc.property(damagedTree(fc.constant(FULL)), (tree) => {
      const read = parseConfigText(Buffer.from(JSON.stringify(tree)));
      const { value, missing } = substitute(read.tree, { A: "a" });
      const parsed = safeParse(configSchema, value);
      checkPrototype();
      if (!parsed.success || missing.length + read.problems.length > 0) return;
      accepted++;
      for (const key of Object.keys(parsed.data)) if (!KEYS.has(key)) throw new Error(`unknown key ${key}`);
      expect(JSON.stringify(parsed.data.mcp)).not.toContain(VARIABLE);
    }),
    cases(10), // a whole settings file each
  );
  expect(accepted).toBeGreaterThan(0);
});

it("[CF1] a file is loaded frozen, or refused in lines that name it and show no value", () => {
  const file = fc.oneof(
    damagedBytes(text),
    damagedTree(fc.constant(FULL)).map((tree) => JSON.stringify(tree)),
  );
  fc.assert(
    fc.property(file, (bytes) => {
      const loaded = load(bytes);
      checkPrototype();
      if (loaded !== null) expect(Object.isFrozen(loaded.config) && Object.isFrozen(loaded.config.agents.list)).toBe(true);
    }),
    // A file is written and read, and each refusal derives the JSON schema for its words.
    cases(100),
  );
});

it("[CF1] a length that can't be compared is refused like any wrong value", () => {
  expect(load("{web:{host:{length:{toString:1,valueOf:1}}}}")).toBeNull();
});
