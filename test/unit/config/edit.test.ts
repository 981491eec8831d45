// Settings and secrets changed in place: what stays to the last byte, what is kept, what is refused and said.
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadConfig } from "../../../src/config/config.ts";
import { createSettingsEditor, type SettingsChange } from "../../../src/config/edit.ts";
import { NODE } from "../../support/harness.ts";

let dir: string;
const file = (): string => join(dir, "config/herald.json5");
const dotEnv = (): string => join(dir, ".env");
const env: Record<string, string> = {};
const options = () => ({ env, cwd: dir });
const editor = () => createSettingsEditor(options());
type Change = Partial<Omit<SettingsChange, "version">>;

function write(change: Change, made = editor()): unknown {
  return made.write({ version: made.now().version, set: [], remove: [], secrets: {}, ...change });
}

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-edit-"));
});
afterEach(() => {
  rmSync(dir, { recursive: true, force: true });
  for (const name of Object.keys(env)) delete env[name];
});

describe("the settings file", () => {
  it("[WB7] is made with words about itself when there is none, and holds nothing but what was set", () => {
    write({ set: [{ path: ["agents", "defaults", "model"], value: "openai/gpt-6-sol" }] });
    expect(readFileSync(file(), "utf8")).toMatch(
      /^\/\/ Herald's settings:[\s\S]*\n\{\n {2}agents: \{\n {4}defaults: \{\n {6}model: "openai\/gpt-6-sol",\n/,
    );
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    expect(loadConfig(options()).config.agents.defaults.model.primary).toBe("openai/gpt-6-sol");
    expect(existsSync(`${file()}.bak`)).toBe(false);
  });

  it("[WB7] the file that comes with the program keeps every line but the changed one, and its mode; the old one is kept", () => {
    mkdirSync(join(dir, "config"));
    const before = readFileSync(new URL("../../../config/herald.json5", import.meta.url), "utf8");
    writeFileSync(file(), before, { mode: 0o640 });
    chmodSync(file(), 0o640);
    write({
      set: [
        { path: ["agents", "defaults", "model"], value: "ollama/qwen3" },
        { path: ["agents", "defaults", "timeoutSeconds"], value: 900 },
        { path: ["budgets", "perDay", "usd"], value: 5 },
      ],
    });
    const after = readFileSync(file(), "utf8");
    const added = after.split("\n").filter((line) => !before.split("\n").includes(line));
    const gone = before.split("\n").filter((line) => !after.split("\n").includes(line));
    expect(gone).toEqual(["      timeoutSeconds: 600, // of one turn; 0 = no limit"]);
    expect(added).toEqual(
      expect.arrayContaining(["      timeoutSeconds: 900, // of one turn; 0 = no limit", '      model: "ollama/qwen3",', "      usd: 5,"]),
    );
    expect(added.length).toBeLessThanOrEqual(5);
    expect(statSync(file()).mode & 0o777).toBe(0o640);
    expect(readFileSync(`${file()}.bak`, "utf8")).toBe(before);
    expect(readdirSync(join(dir, "config")).sort()).toEqual(["herald.json5", "herald.json5.bak"]);
    write({
      remove: [
        ["agents", "defaults", "model"],
        ["budgets", "perDay"],
      ],
      set: [{ path: ["agents", "defaults", "timeoutSeconds"], value: 600 }],
    });
    expect(readFileSync(file(), "utf8")).toBe(before);
  });

  it("[WB7] a link stays a link; CRLF and a mark at the beginning stay", () => {
    mkdirSync(join(dir, "config"));
    const real = join(dir, "real.json5");
    writeFileSync(real, "\ufeff{\r\n\t// mine\r\n\tgateway: {},\r\n}\r\n");
    symlinkSync(real, file());
    write({ set: [{ path: ["budgets", "perDay", "usd"], value: 2 }] });
    expect(lstatSync(file()).isSymbolicLink()).toBe(true);
    expect(readFileSync(real, "utf8")).toBe(
      "\ufeff{\r\n\t// mine\r\n\tgateway: {},\r\n\tbudgets: {\r\n\t\tperDay: {\r\n\t\t\tusd: 2,\r\n\t\t},\r\n\t},\r\n}\r\n",
    );
  });

  it("[WB7] what the schema refuses is not written, and said with its path; nor is anything into a file that is no JSON5", () => {
    mkdirSync(join(dir, "config"));
    writeFileSync(file(), "{}");
    expect(() => write({ set: [{ path: ["web", "port"], value: 99_999 }], secrets: { A_KEY: "value-1234" } })).toThrow(
      /web\.port: has a wrong value/,
    );
    expect([readFileSync(file(), "utf8"), existsSync(dotEnv())]).toEqual(["{}", false]);
    writeFileSync(file(), "{ web: ");
    const made = editor();
    expect(made.now().problem).toMatch(/not valid JSON5/);
    expect(() => write({ set: [{ path: ["web", "port"], value: 1 }] }, made)).toThrow(/not valid JSON5/);
    // A value the schema refuses can be put right from here.
    writeFileSync(file(), "{ web: { port: 'eighty' } } // mine");
    write({ set: [{ path: ["web", "port"], value: 80 }] });
    expect(readFileSync(file(), "utf8")).toBe("{ web: { port: 80 } } // mine");
  });

  it("[WB7] changed by somebody else since it was read: nothing is written", () => {
    const made = editor();
    const { version } = made.now();
    const change = { version, remove: [], secrets: {}, set: [{ path: ["web", "port"], value: 81 }] };
    expect(made.write(change)).not.toBe("stale");
    expect(made.write({ ...change, set: [{ path: ["web", "port"], value: 82 }] })).toBe("stale");
    const seen = made.now().version;
    writeFileSync(dotEnv(), "NEW=1\n");
    expect(made.write({ ...change, version: seen })).toBe("stale");
    expect(loadConfig(options()).config.web.port).toBe(81);
  });

  it("[WB7] a folder that can't be written: one sentence that says which and what to do, and nothing is left behind", () => {
    mkdirSync(join(dir, "config"));
    writeFileSync(file(), "{}", { mode: 0o644 });
    for (const path of [dir, join(dir, "config")]) chmodSync(path, 0o555);
    const script = `const { createSettingsEditor } = await import(${JSON.stringify(new URL("../../../src/config/edit.ts", import.meta.url).href)});
      const editor = createSettingsEditor({ env: {}, cwd: ${JSON.stringify(dir)} });
      try { editor.write({ version: editor.now().version, set: [{ path: ["web", "port"], value: 81 }], remove: [], secrets: { X_KEY: "abcdefgh" } }); }
      catch (error) { console.log(error.code, error.message); }`;
    // Root may write anywhere: then somebody else tries.
    const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
    const { stdout } = spawnSync(NODE, ["--input-type=module", "-e", script], { encoding: "utf8", ...user });
    for (const path of [dir, join(dir, "config")]) chmodSync(path, 0o755);
    expect(stdout).toMatch(/^storage Herald may not write in \S+ \(EACCES\)\. Give its user the right .* nothing was changed\.\n$/);
    expect([readFileSync(file(), "utf8"), readdirSync(dir), readdirSync(join(dir, "config"))]).toEqual([
      "{}",
      ["config"],
      ["herald.json5"],
    ]);
  });
});

describe("both files", () => {
  /** As where the file is a mount of its own: everything beside it can be written, and nothing put in its place. */
  const writeWithMount = (mounted: string, change: Change): string => {
    const script = `import fs from "node:fs";
      import { syncBuiltinESMExports } from "node:module";
      const rename = fs.renameSync;
      fs.renameSync = (from, to) => {
        if (to === ${JSON.stringify(mounted)}) throw Object.assign(new Error("busy"), { code: "EBUSY" });
        rename(from, to);
      };
      syncBuiltinESMExports();
      const { createSettingsEditor } = await import(${JSON.stringify(new URL("../../../src/config/edit.ts", import.meta.url).href)});
      const editor = createSettingsEditor({ env: {}, cwd: ${JSON.stringify(dir)} });
      try { editor.write({ version: editor.now().version, set: [], remove: [], secrets: {}, ...${JSON.stringify(change)} }); }
      catch (error) { console.log(error.message); }`;
    return spawnSync(NODE, ["--input-type=module", "-e", script], { encoding: "utf8" }).stdout;
  };
  const TOKEN = ["channels", "telegram", "botToken"];
  beforeEach(() => {
    mkdirSync(join(dir, "config"));
    writeFileSync(file(), `{ channels: { telegram: { botToken: "$\{TG_TOKEN}" } } }`);
    writeFileSync(dotEnv(), "TG_TOKEN=1234567890:abcdefghijklmnopqrstuvwxyzABCDEFGHI\n");
  });

  it("[WB7] settings that can't be replaced keep the secrets they name, and what was changed is said", () => {
    const change = { remove: [TOKEN], secrets: { TG_TOKEN: null } };
    expect(writeWithMount(file(), change)).toMatch(/\(EBUSY\)\..* nothing was changed\.\n$/);
    expect(readFileSync(dotEnv(), "utf8")).toContain("TG_TOKEN=");
    expect(() => loadConfig(options())).not.toThrow();
    expect(writeWithMount(file(), { ...change, secrets: { TG_TOKEN: null, NEW_KEY: "abcdefgh" } })).toMatch(
      /only \S+\/\.env was changed so far\.\n$/,
    );
    expect(loadConfig(options()).env).toMatchObject({ NEW_KEY: "abcdefgh", TG_TOKEN: expect.any(String) });
    expect([...readdirSync(dir), ...readdirSync(join(dir, "config"))].filter((name) => name.endsWith(".new"))).toEqual([]);
  });

  it("[WB7] secrets that can't be removed stay behind settings that no longer name them", () => {
    expect(writeWithMount(dotEnv(), { remove: [TOKEN], secrets: { TG_TOKEN: null } })).toMatch(
      /only \S+\/herald\.json5 was changed so far\.\n$/,
    );
    expect(readFileSync(file(), "utf8")).not.toContain("TG_TOKEN");
    expect(loadConfig(options()).env.TG_TOKEN).toBeDefined();
  });
});

describe(".env", () => {
  it("[WB7] PAGE-002 odd secrets are read by the loader as typed, beside lines that stay; the file is 0600 from then on", () => {
    const lines = "# mine\nOTHER='a # b'\nexport LAST=1 # note\n";
    writeFileSync(dotEnv(), lines, { mode: 0o644 });
    const odd = ["a#b", "$HOME", `$\{HOME}`, 'say "hi"', "it's", "back\\slash\\n", "a=b=", "  blanks  ", "🔑 clé", "`tick`"];
    for (const typed of odd) {
      write({ secrets: { ODD_KEY: typed } });
      expect([typed, loadConfig(options()).env.ODD_KEY]).toEqual([typed, typed]);
      expect(readFileSync(dotEnv(), "utf8").startsWith(lines)).toBe(true);
    }
    expect(statSync(dotEnv()).mode & 0o777).toBe(0o600);
    expect(loadConfig(options()).secrets.some(({ name, value }) => name === "ODD_KEY" && value === "`tick`")).toBe(true);
    write({ secrets: { ODD_KEY: null } });
    expect(readFileSync(dotEnv(), "utf8")).toBe(lines);
    expect(() => write({ secrets: { ODD_KEY: "two\nlines" } })).toThrow(/one line/);
    expect(() => write({ secrets: { ODD_KEY: " '\"` all of them" } })).toThrow(/all three kinds of quotes/);
    expect(readFileSync(dotEnv(), "utf8")).toBe(lines);
  });

  it("[WB7] an existing line is replaced where it stands, and a variable of the real environment is known as fixed", () => {
    writeFileSync(dotEnv(), "# keys\nA_KEY=\nB_KEY=two\n");
    env.C_KEY = "from outside";
    env.B_KEY = "";
    write({ secrets: { A_KEY: "one" } });
    expect(readFileSync(dotEnv(), "utf8")).toBe("# keys\nA_KEY=one\nB_KEY=two\n");
    const now = editor().now();
    expect(["A_KEY", "B_KEY", "C_KEY", "D_KEY"].map(now.sourceOf)).toEqual(["file", null, "environment", null]);
  });

  it("[WB7] settings that name a variable and the variable itself come in one change", () => {
    const path = ["channels", "telegram", "botToken"];
    expect(() => write({ set: [{ path, value: `$\{MY_TOKEN}` }] })).toThrow(/MY_TOKEN is not set/);
    write({ set: [{ path, value: `$\{MY_TOKEN}` }], secrets: { MY_TOKEN: "123456:abcdefghijk" } });
    expect(loadConfig(options()).config.channels.telegram).toMatchObject({ enabled: true, botToken: "123456:abcdefghijk" });
    expect(() => write({ secrets: { MY_TOKEN: null } })).toThrow(/MY_TOKEN is not set/);
  });
});
