// The layout of src/README.md holds: who may import whom, where the big libraries may be seen, which names and which
// module state there must not be. Each failure is a sentence that says what to move where.
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, normalize, relative } from "node:path";
import { describe, expect, it } from "vitest";
import { createPageRoutes } from "../src/web/page-files.ts";

const SRC = new URL("../src/", import.meta.url).pathname;

const MAP = readFileSync(join(SRC, "README.md"), "utf8");

/** Folder (or file at the top) → folders it may import, as the map's table says. Its own files are always allowed. */
const MAY_IMPORT: ReadonlyMap<string, readonly string[]> = readTable(MAP);

function readTable(map: string): Map<string, readonly string[]> {
  const table = new Map<string, readonly string[]>();
  for (const [, name = "", cell = ""] of map.matchAll(/^\| `([\w.-]+)\/?` +\| .+ \| ([\w., ]+?) +\|$/gm))
    table.set(name, cell === "nothing" ? [] : cell === "everything above" ? [...table.keys()] : cell.split(", "));
  return table;
}

/** Library → the only places that may import it, and why nobody else needs it. */
const LIBRARY_HOME: readonly { library: RegExp; homes: readonly string[] }[] = [
  { library: /^(ai|ollama-ai-provider-v2)(\/|$)/, homes: ["models/"] },
  { library: /^@ai-sdk\/mcp(\/|$)/, homes: ["tools/"] },
  { library: /^@modelcontextprotocol\//, homes: ["web/mcp-server.ts"] },
  { library: /^@ai-sdk\/provider-utils(\/|$)/, homes: ["models/", "tools/"] },
  { library: /^@ai-sdk\/(?!mcp|provider-utils)/, homes: ["models/"] },
  { library: /^grammy(\/|$)/, homes: ["channels/telegram/"] },
  { library: /^@slack\//, homes: ["channels/slack/"] },
  { library: /^ajv(\/|$)/, homes: ["tools/"] },
  { library: /^p-queue$/, homes: ["lanes/"] },
  { library: /^pino(-pretty)?$/, homes: ["core/logger.ts"] },
  { library: /^node:sqlite$/, homes: ["stores/"] },
  { library: /^js-yaml$/, homes: ["brief/"] },
  { library: /^json5$/, homes: ["config/"] },
  { library: /^prom-client$/, homes: ["web/"] },
];

const BANNED_NAME =
  /^(utils?|helpers?|managers?|services?|common|types|index|misc|shared|lib)\.|[-.](utils?|helpers?|manager|service|types)\.(ts|js)$/;

interface Source {
  /** Relative to src, with slashes. */
  readonly path: string;
  readonly home: string;
  readonly text: string;
}

const sources: Source[] = readdirSync(SRC, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && /\.(ts|js)$/.test(entry.name))
  .map((entry) => relative(SRC, join(entry.parentPath, entry.name)).replaceAll("\\", "/"))
  .map((path) => ({ path, home: path.split("/")[0] ?? "", text: readFileSync(join(SRC, path), "utf8") }));

/** Modules of ours; the page's own scripts run in the browser and import only each other. */
const modules = sources.filter(({ path }) => !path.startsWith("web/page/"));

const IMPORT =
  /^\s*(?:import|export)\b[^"';]*?\bfrom\s*"([^"]+)"|^\s*import\s*"([^"]+)"|\bimport\(\s*"([^"]+)"\s*\)|\bimport\(\s*`([^`$]+)`/gm;
const importsOf = ({ text }: Source): string[] =>
  [...text.matchAll(IMPORT)].map((match) => match.slice(1).find((part) => part !== undefined) ?? "");

const isOurs = (name: string): boolean => name.startsWith(".");
/** `../core/ids.ts` seen from `stores/x.ts` → `core/ids.ts`. */
const targetOf = (source: Source, name: string): string => normalize(join(dirname(source.path), name)).replaceAll("\\", "/");

/** What is loaded with a module: types are not. */
const LOADED = /^\s*(?:import|export)\s+(?!type\b)[^"';]*?\bfrom\s*"([^"]+)"|^\s*import\s*"([^"]+)"/gm;

/** Everything that is loaded with these, by path in src or, of packages, by name. */
function loadedWith(...begin: string[]): Set<string> {
  const loaded = new Set<string>();
  const load = (path: string): void => {
    if (loaded.has(path)) return;
    loaded.add(path);
    const source = modules.find((one) => one.path === path);
    for (const [, from, bare] of source?.text.matchAll(LOADED) ?? []) {
      const name = from ?? bare ?? "";
      load(source !== undefined && isOurs(name) ? targetOf(source, name) : name);
    }
  };
  begin.forEach(load);
  return loaded;
}

/** Each is loaded by its first use: `await import()` at the place that needs it, core/first-use.ts where it is kept. */
const AT_FIRST_USE = [
  ...["app/attachments.ts", "app/page-desks.ts", "app/program-desk.ts", "app/shared-stores.ts"],
  ...["app/setup/desk.ts", "lanes/shared-lane.ts", "models/ai-sdk.ts", "models/offline/offline.ts"],
  ...["questions/elicitation.ts", "stores/run-search.ts", "subagents/compare.ts"],
  ...["subagents/documents/brief-history.ts", "subagents/documents/run-documents.ts", "tools/command.ts", "tools/mcp.ts"],
  ...["web/mcp-server.ts", "web/routes.ts"],
];

describe("what a start loads", () => {
  const loaded = loadedWith("cli/cli.ts", "cli/start.ts", "main.ts");

  it("is not what waits for its first use", () => {
    const paths = new Set(sources.map(({ path }) => path));
    expect(AT_FIRST_USE.filter((path) => !paths.has(path))).toEqual([]);
    expect(AT_FIRST_USE.filter((path) => loaded.has(path))).toEqual([]);
  });

  it("is few packages", () => {
    const packages = [...loaded].filter((name) => !/\.(ts|js)$|^node:/.test(name));
    expect(packages.sort()).toEqual(["json5", "p-queue", "pino", "zod"]);
  });
});

describe("the import table", () => {
  it("reads imports in every form", () => {
    const text =
      'import a from "./a.ts";\nimport type {\n  B,\n} from "../b.ts";\nexport { c } from "c";\nconst d = await import("./d.ts");\nimport "e";\n';
    expect(importsOf({ path: "x/y.ts", home: "x", text })).toEqual(["./a.ts", "../b.ts", "c", "./d.ts", "e"]);
    expect(modules.flatMap(importsOf).length).toBeGreaterThan(500);
  });

  it("knows every folder and no other: a new one needs a line in src/README.md", () => {
    expect([...MAY_IMPORT.keys()].sort()).toEqual([...new Set(sources.map(({ home }) => home))].sort());
  });

  it("names only what stands above: imports go up the list", () => {
    const names = [...MAY_IMPORT.keys()];
    for (const [home, allowed] of MAY_IMPORT) {
      const above = names.slice(0, names.indexOf(home));
      expect(
        allowed.filter((other) => !above.includes(other)),
        `what ${home} may import must stand above it`,
      ).toEqual([]);
    }
  });

  it("every import is in the table", () => {
    const wrong = modules.flatMap((source) =>
      importsOf(source)
        .filter(isOurs)
        .map((name) => ({ name, home: targetOf(source, name).split("/")[0] ?? "" }))
        .filter(({ home }) => home !== source.home && home !== ".." && MAY_IMPORT.get(source.home)?.includes(home) !== true)
        .map(({ name, home }) => {
          const allowed = MAY_IMPORT.get(source.home)?.join(", ") || "nothing of ours";
          return `src/${source.path} imports ${name}: ${source.home} may not import ${home} (only ${allowed}). Pass it in as an argument, or move what both need down.`;
        }),
    );
    expect(wrong).toEqual([]);
  });

  it("nothing below the composition root sees app, main or the settings", () => {
    for (const [home, allowed] of MAY_IMPORT) {
      if (home.includes(".") || home === "app" || home === "cli") continue;
      expect(allowed.filter((other) => ["app", "config", "main.ts"].includes(other))).toEqual([]);
    }
  });

  it("an import names a file that is there, with its extension", () => {
    const paths = new Set(sources.map(({ path }) => path));
    const missing = modules.flatMap((source) =>
      importsOf(source)
        .filter((name) => isOurs(name) && !name.endsWith(".json") && !paths.has(targetOf(source, name)))
        .map((name) => `src/${source.path} imports ${name}, which is no file of src`),
    );
    expect(missing).toEqual([]);
  });
});

it("the map names every file once, with what it is for, and none that is not there", () => {
  const listed = [...MAP.matchAll(/^- `([\w./-]+\.(?:ts|js))` (\S.*)$/gm)].map((match) => match[1] ?? "");
  const paths = sources.map(({ path }) => path);
  const advice = "src/README.md, Every file: a line `- `path` what it is for` for each";
  expect(
    paths.filter((path) => !listed.includes(path)),
    `${advice}; missing`,
  ).toEqual([]);
  expect(
    listed.filter((path, n) => !paths.includes(path) || listed.indexOf(path) !== n),
    `${advice}; gone or twice`,
  ).toEqual([]);
});

describe("libraries", () => {
  it.each(LIBRARY_HOME.map(({ library, homes }) => [String(library), library, homes] as const))(
    "%s stays at home",
    (_name, library, homes) => {
      const wrong = modules
        .filter(({ path }) => !homes.some((home) => path.startsWith(home)))
        .flatMap((source) =>
          importsOf(source)
            .filter((name) => !isOurs(name) && library.test(name))
            .map((name) => `src/${source.path} imports ${name}, which only ${homes.join(" and ")} may: go through what they export`),
        );
      expect(wrong).toEqual([]);
    },
  );

  it("core does no I/O", () => {
    const wrong = modules
      .filter(({ home }) => home === "core")
      .flatMap((source) => importsOf(source).filter((name) => /^node:(fs|net|http|https|child_process|sqlite|dgram|dns)/.test(name)))
      .map((name) => `core imports ${name}`);
    expect(wrong).toEqual([]);
  });

  it("the MCP SDK is loaded with the first request of a program: nobody imports its server before", () => {
    const early = modules.filter(({ path, text }) => /^(web|app)\//.test(path) && /^import (?!type)[^;]*\/mcp-server\.ts"/m.test(text));
    expect(early.map(({ path }) => path)).toEqual([]);
  });

  it("the page asks no other host: its scripts import only each other and the libraries it is served", () => {
    const served = new Set(createPageRoutes().map(({ path }) => path));
    const wrong = sources
      .filter(({ path }) => path.startsWith("web/page/"))
      .flatMap((source) =>
        importsOf(source).filter((name) => !/^\.?\/[\w-]+\.js$/.test(name) && !(name.startsWith("/lib/") && served.has(name))),
      );
    expect(wrong).toEqual([]);
  });
});

describe("house style", () => {
  it("there is no state on module level", () => {
    const wrong = modules.flatMap(({ path, text }) =>
      [...text.matchAll(/^(?:export )?(?:let|var) (\w+)/gm)].map(
        (match) => `src/${path} keeps \`${match[1]}\` on module level: make it part of a factory`,
      ),
    );
    expect(wrong).toEqual([]);
  });

  it("a file is called after what it is", () => {
    const wrong = sources.filter(({ path }) => BANNED_NAME.test(basename(path))).map(({ path }) => `src/${path} needs a noun for a name`);
    expect(wrong).toEqual([]);
    expect(["utils.ts", "index.ts", "run-utils.ts", "types.ts", "lane-manager.ts"].every((name) => BANNED_NAME.test(name))).toBe(true);
    expect(["run.ts", "mcp-server.ts", "indexes.ts"].some((name) => BANNED_NAME.test(name))).toBe(false);
  });

  it("there are no classes but errors and the brief documents", () => {
    const wrong = modules
      .filter(({ home }) => home !== "brief")
      .flatMap(({ path, text }) => [...text.matchAll(/^(?:export )?class (\w+)(?: extends (\w+))?/gm)].map((match) => ({ path, match })))
      .filter(({ match }) => match[2]?.endsWith("Error") !== true)
      .map(({ path, match }) => `src/${path} has a class ${match[1]}: make it a factory`);
    expect(wrong).toEqual([]);
  });

  it("every file begins with what it is for", () => {
    const wrong = modules.filter(({ text }) => !/^(#!.*\n)?\/\//.test(text)).map(({ path }) => `src/${path} begins without a comment`);
    expect(wrong).toEqual([]);
  });

  it("nobody exits the process or reads its environment but the entry points, the settings and the tools that start programs", () => {
    const entries = ["main.ts", "herald.js", "cli/cli.ts", "auth.ts", "pair.ts", "token.ts", "move.ts", "build/build.ts"];
    const wrong = modules
      .filter(({ path, home }) => !entries.includes(path) && home !== "config" && home !== "tools")
      .filter(({ text }) => /\bprocess\.(exit\(|exitCode|env\b|argv\b)/.test(text.replaceAll(/^\s*(\/\/|\*|\/\*).*$/gm, "")))
      .map(({ path }) => `src/${path} reaches for the process: take it as an option`);
    expect(wrong).toEqual([]);
  });
});
