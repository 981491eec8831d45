// The code: every module of src and of the packages it uses, as few files that need no package. What is loaded with its first use stays a
// file of its own; what runs as a thread or process keeps its path (core/own-files.ts).
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { basename, dirname, join, relative, resolve } from "node:path";
import { type Plugin, rolldown } from "rolldown";

export interface Places {
  /** Of the repository. */
  readonly root: string;
  /** What is built. */
  readonly folder: string;
}

/** As deep below the top as core/own-files.ts, and as the folders of those that keep their path. */
const PARTS = "src/parts";

const ENTRIES = ["src/herald.js", "src/brief/brief-protocol.ts", "src/*/*-worker.ts", "src/*/*-process.ts"];

/**
 * Not ours to bring: a program that comes as a package for each platform (tools/ripgrep.ts takes the machine's own then), and what
 * packages look for and do without.
 */
const OUTSIDE = ["@vscode/ripgrep", "bufferutil", "canvas", "pg-native", "utf-8-validate", "zlib-sync"];

/** Paths of all modules that are in it. */
export async function bundle({ root, folder }: Places): Promise<string[]> {
  const entries = ENTRIES.flatMap((pattern) => globSync(pattern, { cwd: root }));
  const build = await rolldown({
    cwd: root,
    input: Object.fromEntries(entries.map((path) => [path.replace(/\.\w+$/, ""), path])),
    platform: "node",
    external: [/^node:/, ...builtinModules, ...OUTSIDE],
    plugins: [requiredLater()],
    // Whatever is missing would only be noticed by whoever needs it.
    onLog: (level, log, say) => (log.code === "UNRESOLVED_IMPORT" ? say("error", log) : say(level, log)),
  });
  const { output } = await build.write({
    dir: folder,
    format: "esm",
    entryFileNames: "[name].js",
    chunkFileNames: `${PARTS}/[name]-[hash].js`,
    sourcemap: true,
    // Names stay: whoever reads a stack without the map still finds his way, and it would save a megabyte on the disk and none at work.
    minify: { compress: true, mangle: false, codegen: { removeWhitespace: true } },
  });
  await build.close();
  for (const path of globSync("src/**/*.map", { cwd: folder })) tidyMap(join(folder, path), { root, folder });
  return output.flatMap((file) => (file.type === "chunk" ? file.moduleIds : []));
}

/**
 * A map tells where a line is from: by the paths of the repository, wherever this was built. The text of our own files goes along, that of
 * packages would be half of the whole.
 */
function tidyMap(path: string, { root, folder }: Places): void {
  const map = JSON.parse(readFileSync(path, "utf8")) as { sources: string[]; sourcesContent: (string | null)[] };
  const here = dirname(path);
  const known = map.sources.map((source) => relative(root, resolve(here, source)));
  const sources = known.map((source) => relative(here, join(folder, source)));
  const sourcesContent = map.sourcesContent.map((text, n) => (known[n]?.startsWith("src/") ? text : null));
  writeFileSync(path, JSON.stringify({ ...map, sources, sourcesContent }));
}

/**
 * What a module requires at its first use, at once and not later (`const require = createRequire(import.meta.url)`): no bundler looks
 * there, and the package would not be found. Each becomes a file of its own, which is required in its place.
 */
function requiredLater(): Plugin {
  const emitted = new Set<string>();
  return {
    name: "required-later",
    transform: {
      filter: { id: /\/src\/.+\.ts$/, code: "createRequire(import.meta.url)" },
      handler(code, importer) {
        const changed = code.replace(/\brequire\("([^"]+)"\)/g, (_call, id: string) => {
          const file = `later-${basename(id, ".ts").replace(/\W/g, "-")}.js`;
          if (!emitted.has(file)) this.emitFile({ type: "chunk", id, importer, fileName: join(PARTS, file), preserveSignature: "strict" });
          emitted.add(file);
          return `require("../${basename(PARTS)}/${file}")`;
        });
        // Its lines stay where they are.
        return { code: changed, map: null };
      },
    },
  };
}
