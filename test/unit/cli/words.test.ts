// Words and flags of commands that are refused, and help on a narrow terminal. The same commands as processes: test/flow.
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CONNECTIONS } from "../../../src/app/setup/connections.ts";
import { helpOf, overallHelp } from "../../../src/cli/command.ts";
import { runLine, widthOf } from "../../../src/cli/run-lines.ts";
import { COMMANDS } from "../../../src/cli/table.ts";
import { openDatabase } from "../../../src/stores/database.ts";
import type { BoardRow } from "../../../src/web/board.ts";
import { callCommand } from "../../support/call-command.ts";

const KEY = "sk-of-set-up-0123456789";
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-words-"));
  mkdirSync(join(dir, "config"));
  writeFileSync(join(dir, "config/herald.json5"), "{ models: { probeLocal: false } }", { mode: 0o600 });
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const call = (words: readonly string[], env: Record<string, string> = {}) =>
  callCommand(words, { cwd: dir, env: { HOME: dir, HERALD_STATE_DIR: join(dir, "state"), ...env } });

describe("setup", () => {
  it.each<[string, string[], Record<string, string>, RegExp]>([
    ["a key without its provider", ["--key-env", "MY_KEY"], { MY_KEY: KEY }, /^Missing: --model\./],
    ["a server without address and model", ["--model", "compatible"], {}, /^Missing: --address, --model\./],
    ["half of two things", ["--slack-bot-token-env", "A", "--model", "openai"], { A: "x" }, /^Missing: --key-env, --slack-app-token-env\./],
    ["a variable that is not set", ["--model", "openai", "--key-env", "NOT_SET"], {}, /^--key-env: the variable NOT_SET is not set\./],
    [
      "a variable that is empty",
      ["--model", "openai", "--key-env", "MY_KEY"],
      { MY_KEY: " " },
      /^--key-env: the variable MY_KEY is not set\./,
    ],
    ["the key itself", ["--model", "openai", "--key-env", KEY], {}, /^--key-env takes the name of a variable, never the secret itself\.$/],
    ["a provider there is not", ["--model", "opnai"], {}, /^--model: there is no provider "opnai"\. Did you mean openai\? There are: /],
    ["a key where none goes", ["--model", "ollama", "--key-env", "MY_KEY"], { MY_KEY: KEY }, /^--key-env is not for ollama\./],
    ["a switch that is none", ["--telegram", "maybe"], {}, /^--telegram is on or off\./],
    ["a flag there is not", ["--modle", "openai"], {}, /^Unknown option '--modle'\. Did you mean model\?/],
    ["a word", ["now"], {}, /^setup takes no further words\./],
  ])("[CL1] CLI-001 %s: exit 2, what is missing or wrong is named, nothing is read or written", async (_what, flags, env, says) => {
    const { code, out, err } = await call(["setup", ...flags], env);
    expect([code, out, err]).toEqual([2, "", expect.stringMatching(says)]);
    expect(err).not.toContain(KEY);
    expect([readdirSync(dir), readdirSync(join(dir, "config"))]).toEqual([["config"], ["herald.json5"]]);
  });

  it("[CL1] every field of every connection has its flag, a secret by the name of a variable alone", () => {
    const { options = {} } = COMMANDS.find(({ name }) => name === "setup") ?? {};
    for (const { id, secrets, plain } of CONNECTIONS) {
      const names = Object.keys(options).filter((name) => name === id || name.startsWith(`${id}-`));
      expect([id, names.length]).toEqual([id, 1 + secrets.length + plain.length]);
      expect([id, names.filter((name) => name.endsWith("-env")).length]).toEqual([id, secrets.length]);
    }
  });
});

describe("token", () => {
  it.each<[string[], RegExp]>([
    [["new", "wrong", "--scope", "SPAWN"], /^"SPAWN" is no scope\. There are: spawn, read/],
    [["new", "wrong", "--scope", "*"], /is no scope/],
    [["new", "wrong", "--scope", "spawn,,read"], /^"" is no scope/],
    [["new", "wrong", "--scope", "admin\u001b[31m"], /^"admin\[31m" is no scope/],
    [["new"], /^A token needs a name/],
    [["new", "wrong", "--days", "0"], /^--days takes/],
    [["new", "wrong", "--days", "1e3"], /^--days takes/],
    [["new", "wrong", "--agent", "NO ONE"], /is no agent's id/],
    [["new", "wrong", "more"], /takes no further words: "more"/],
    [["list", "more"], /takes no further words: "more"/],
    [["new", "wrong", "--scop", "read"], /^Unknown option '--scop'\. Did you mean scope\?/],
    [["revoke"], /^Which token\?/],
    [["revok", "looker"], /^token has no "revok"\. Did you mean revoke\?/],
  ])("[PR1] [CL1] MCPS-002 token %j is refused with 2 and makes none", async (words, says) => {
    mkdirSync(join(dir, "state"));
    const db = openDatabase({ path: join(dir, "state/herald.db") });
    try {
      expect(await call(["token", ...words])).toEqual({ code: 2, out: "", err: expect.stringMatching(says) });
      expect(await db.all("SELECT * FROM program_tokens")).toEqual([]);
    } finally {
      db.close();
    }
  });
});

describe("a run as a line", () => {
  const view = { shortId: "9fa0c835", level: 0, label: "compare ".repeat(20), state: "running", step: "2/3 read", doing: "web_fetch" };
  const run = { ...view, isAsking: false, position: null, needsPerson: false, createdAt: 0, startedAt: 0, endedAt: null, costUsd: 0.25 };
  const at = (columns: number): string => runLine(run as unknown as BoardRow, { now: 65_000, columns, paint: (_style, text) => text });

  it.each([80, 120])("[CL1] %i columns wide, a long label leaves room for the time, what it does and what it cost", (columns) => {
    expect(widthOf(at(columns))).toBe(columns);
    expect(at(columns)).toMatch(/^9fa0c835 {2}running {6}compare .*… · 1m05s · 2\/3 read · web_fetch · \$0\.25$/);
  });

  it("[CL1] narrower than that it is cut, and one that is short stands whole", () => {
    expect(widthOf(at(30))).toBe(30);
    expect(at(400)).toContain(`${"compare ".repeat(20).trim()} · 1m05s`);
  });
});

describe("help", () => {
  it("[CL1] on a terminal no line of it is wider than that, down to 80 columns; elsewhere each thing stands on one line", () => {
    for (const width of [80, 100, 140])
      for (const text of [overallHelp(COMMANDS, width), ...COMMANDS.map((one) => helpOf(one, `herald ${one.name}`, width))])
        for (const line of text.split("\n")) expect([line, line.length <= width]).toEqual([line, true]);
    for (const { name, usage, options, notes } of COMMANDS) {
      const command = COMMANDS.find((one) => one.name === name);
      const text = command === undefined ? "" : helpOf(command, `herald ${name}`);
      for (const about of [...usage.map(([, words]) => words), ...Object.values(options).map((one) => one.about), notes ?? ""])
        expect(text).toContain(about);
    }
  });
});
