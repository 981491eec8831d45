// README, CONTRIBUTING, CHANGELOG and docs/ against the code: what is made from it is current, every command is run by a test or named as
// not run, settings and examples are the real ones, links lead somewhere. What is typed into a chat: test/flow/examples.test.ts.
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";
import json5 from "json5";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Command } from "../src/cli/command.ts";
import { COMMANDS } from "../src/cli/table.ts";
import { loadConfig } from "../src/config/config.ts";
import { configJsonSchema } from "../src/config/schema.ts";
import { commandsIn, type Document, type Found, parse, ROOT, readDocuments } from "./documents/documents.ts";
import { LEDGER } from "./documents/ledger.ts";
import { madeDocuments } from "./documents/made.ts";
import { type SchemaNode, settingsOf } from "./documents/settings-tables.ts";

const documents = readDocuments();
const of = (take: (document: Document) => readonly Found[]): Found[] => documents.flatMap(take);
const said = (found: readonly Found[]): string[] => found.map(({ at, text }) => `${at} ${text}`);
const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: Record<string, string> };

it("[CF1] [RN2] herald.schema.json, docs/settings.md and docs/commands.md are what npm run schema writes", () => {
  const stale = madeDocuments().filter(({ path, text }) => readFileSync(join(ROOT, path), "utf8") !== text);
  expect(
    stale.map(({ path }) => path),
    "run npm run schema",
  ).toEqual([]);
});

it("[CF1] docs/settings.md has a row for every setting below a heading, with what it is for", () => {
  const text = readFileSync(join(ROOT, "docs/settings.md"), "utf8");
  const paths = [...settingsOf(configJsonSchema() as SchemaNode)].map(({ path }) => path).filter((path) => path.includes("."));
  expect(paths.length).toBeGreaterThan(150);
  const missing = paths.filter((path) => !new RegExp(`^\\| \`${RegExp.escape(path)}\` \\| .+ \\| .* \\| \\S.+ \\|$`, "m").test(text));
  expect(missing).toEqual([]);
});

describe("[RN2] commands", () => {
  const shown = of((document) => ["sh", "console"].flatMap((language) => document.fences(language).flatMap(commandsIn)));

  it("[RN2] every one in a block is run by a test, or named as not run; and the ledger names no other", () => {
    expect(shown.length).toBeGreaterThan(20);
    const unknown = shown.filter(({ text }) => !Object.hasOwn(LEDGER, text));
    expect(said(unknown), "a line in test/documents/ledger.ts for each").toEqual([]);
    const commands = new Set(shown.map(({ text }) => text));
    expect(
      Object.keys(LEDGER).filter((command) => !commands.has(command)),
      "in the ledger and in no document",
    ).toEqual([]);
  });

  it("[RN2] the tests the ledger names are there, and do it", () => {
    const wrong = Object.entries(LEDGER).filter(
      ([, entry]) => "by" in entry && !(existsSync(join(ROOT, entry.by)) && readFileSync(join(ROOT, entry.by), "utf8").includes(entry.as)),
    );
    expect(wrong).toEqual([]);
  });

  it("[RN2] those within a sentence are commands, scripts and flags there are", () => {
    const used = [...shown, ...of((document) => document.spans())].map(({ at, text }) => ({ at, text: text.replace(/^sudo /, "") }));
    expect(said(used.filter(({ text }) => !isKnown(text)))).toEqual([]);
  });
});

function isKnown(text: string): boolean {
  const script = /^npm run ([\w-]+)/.exec(text)?.[1];
  if (script !== undefined && !(script in scripts)) return false;
  const [, name = "", rest = ""] =
    /^(?:herald|npm start --) ([a-z]+)\b(.*)$/.exec(text) ?? /^npm run (pair|auth|token|move) --(.*)$/.exec(text) ?? [];
  if (name === "") return true;
  const command = COMMANDS.find((one) => one.name === name);
  return command !== undefined && flagsIn(rest).every((flag) => flag === "--help" || takes(command, flag));
}

const flagsIn = (text: string): string[] => text.match(/--[a-z][a-z-]*/g) ?? [];
const takes = ({ options, usage }: Command, flag: string): boolean =>
  Object.hasOwn(options, flag.slice(2)) || usage.some(([words]) => flagsIn(words).includes(flag));

it("[RN2] what docs/troubleshooting.md says that Herald says stands in the code", () => {
  const sources = globSync("src/**/*.{ts,js}", { cwd: ROOT }).map((path) => readFileSync(join(ROOT, path), "utf8"));
  const text = documents.find(({ path }) => path === "docs/troubleshooting.md")?.text ?? "";
  const symptoms = [...text.matchAll(/^\*\*(.+)\*\*<br>$/gm)].flatMap((match) => [...(match[1] ?? "").matchAll(/`([^`]+)`/g)]);
  expect(symptoms.length).toBeGreaterThan(15);
  // … stands for what differs from case to case.
  const pieces = symptoms.flatMap((match) => (match[1] ?? "").split("…")).filter((piece) => piece.trim().length > 3);
  expect(pieces.filter((piece) => !sources.some((source) => source.includes(piece)))).toEqual([]);
});

describe("[RN2] settings", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "herald-documents-"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** Throws as a start would. Variables that it takes are there. */
  function load(settings: string): void {
    const path = join(folder, "herald.json5");
    writeFileSync(path, settings, { mode: 0o600 });
    const named = [...settings.matchAll(/\$\{(\w+)\}/g)].map((match) => [match[1] ?? "", "A1b2".repeat(11)]);
    const env = {
      TELEGRAM_BOT_TOKEN: "123456:A1b2A1b2A1b2",
      SLACK_BOT_TOKEN: "xoxb-1-a",
      SLACK_APP_TOKEN: "xapp-1-a",
      SLACK_SIGNING_SECRET: "a1b2c3d4",
    };
    loadConfig({ cwd: folder, env: { HOME: folder, HERALD_CONFIG: path, ...env, ...Object.fromEntries(named) } });
  }

  it("[RN2] [CF1] every example is accepted by the real loader", () => {
    const examples = of((document) => document.fences("json5"));
    expect(examples.length).toBeGreaterThan(5);
    for (const { at, text } of examples) expect(() => load(text), at).not.toThrow();
  });

  it("[RN2] blocks of JSON are JSON, and no block goes by a language that nobody looks at", () => {
    for (const { text } of of((document) => document.fences("json"))) JSON.parse(text);
    const languages = documents.flatMap(({ text }) => [...text.matchAll(/^ *```(\S+)/gm)].map((match) => match[1] ?? ""));
    expect([...new Set(languages)].sort()).toEqual(["caddyfile", "json", "json5", "nginx", "sh", "text"]);
  });

  it("[RN2] every one that is named exists, and with its value is accepted", () => {
    const schema = configJsonSchema() as SchemaNode;
    const blocks = Object.keys(schema.properties ?? {}).join("|");
    const path = new RegExp(`^(?:${blocks})(?:\\.[\\w<>]+(?:\\[\\])?)+`);
    const named = of((document) => document.spans())
      .filter(({ text }) => path.test(text) && !/\.(?:md|json)$/.test(text))
      .map(({ at, text }) => ({ at, name: path.exec(text)?.[0] ?? "", value: /^[^:]+: (.+)$/.exec(text)?.[1] }));
    expect(named.length).toBeGreaterThan(50);
    expect(named.filter(({ name }) => !exists(schema, name.split("."))).map(({ at, name }) => `${at} ${name}`)).toEqual([]);
    for (const { at, name, value } of named)
      if (value !== undefined && /^[\w.]+$/.test(name)) expect(() => load(around(name, value)), at).not.toThrow();
  });
});

/** Is there such a key? `<name>` stands for any. */
function exists(node: SchemaNode, names: readonly string[]): boolean {
  const [name, ...rest] = names;
  if (name === undefined) return true;
  if (node.anyOf?.some((one) => exists(one, names)) === true) return true;
  const key = name.replace("[]", "");
  const { properties = {}, additionalProperties } = node;
  const inner = [
    ...(/^<.+>$/.test(key) ? Object.values(properties) : Object.hasOwn(properties, key) ? [properties[key] as SchemaNode] : []),
    ...(typeof additionalProperties === "object" ? [additionalProperties] : []),
  ];
  return inner.some((one) => exists(name.endsWith("[]") ? (one.items ?? {}) : one, rest));
}

/** `web.port`, `99` → the settings that say so. Slack's http mode asks for a port, and Telegram's webhook for its address. */
function around(path: string, value: string): string {
  const settings = path.split(".").reduceRight<unknown>((inner, key) => ({ [key]: inner }), json5.parse(value)) as {
    channels?: { slack?: { mode?: string; port?: number }; telegram?: { mode?: string; webhook?: object } };
  };
  const { slack, telegram } = settings.channels ?? {};
  if (slack?.mode === "http") slack.port = 3000;
  if (telegram?.mode === "webhook") telegram.webhook = { url: "https://bot.example.com/telegram", secret: "s".repeat(16) };
  return JSON.stringify(settings);
}

describe("[RN2] links", () => {
  const map = parse("src/README.md", readFileSync(join(ROOT, "src/README.md"), "utf8"));
  const byPath = new Map([...documents, map].map((document) => [document.path, document]));

  it("[RN2] files, pictures and headings that documents point to are there", () => {
    const targets = documents.flatMap((document) => document.targets().map((target) => ({ ...target, from: document.path })));
    expect(targets.length).toBeGreaterThan(30);
    const dead = targets.filter(({ from, text }) => {
      if (/^https?:\/\//.test(text)) return !URL.canParse(text);
      const [file = "", anchor] = text.split("#");
      const path = file === "" ? from : normalize(join(dirname(from), file));
      return !existsSync(join(ROOT, path)) || (anchor !== undefined && byPath.get(path)?.anchors().has(anchor) !== true);
    });
    expect(said(dead)).toEqual([]);
  });

  it("[RN2] files of this project that are named are there", () => {
    const named = of((document) => document.spans()).filter(({ text }) => /^(?:\.ci|config|docs|src|test)\/[\w./-]+$/.test(text));
    expect(named.length).toBeGreaterThan(5);
    expect(said(named.filter(({ text }) => !existsSync(join(ROOT, text))))).toEqual([]);
  });

  it("[RN2] README leads to every document", () => {
    const linked = new Set(
      byPath
        .get("README.md")
        ?.targets()
        .map(({ text }) => text.split("#")[0]),
    );
    expect(documents.map(({ path }) => path).filter((path) => path !== "README.md" && !linked.has(path))).toEqual([]);
  });
});
