// The built-in search, in a thread of its own: a pattern that backtracks for ever blocks this thread only, and
// search.ts ends it at its deadline. Walks with open folder handles, so links and swaps lead nowhere.
// workerData: SearchTask → messages: Match[] per file, then "done"
import { readdir, readFile } from "node:fs/promises";
import { parentPort, workerData } from "node:worker_threads";
import { type GlobRule, type IgnoreFile, isIgnored, parseGlob, parseIgnoreFile } from "./glob.ts";
import type { Match, SearchTask } from "./search-task.ts";
import { type Folder, openFolder, openRegular } from "./workspace-files.ts";
import { isBelow } from "./workspace-path.ts";

const MAX_FILE_BYTES = 10 * 1024 * 1024;
const MAX_LINE_LENGTH = 300;

interface Walk {
  readonly task: SearchTask;
  readonly regex: RegExp;
  readonly glob: GlobRule | null;
  left: number;
}

async function main(task: SearchTask): Promise<void> {
  const regex = compile(task.pattern, task.ignoreCase ? "i" : "");
  const walk: Walk = { task, regex, glob: task.glob === undefined ? null : parseGlob(task.glob), left: task.limit };
  const ignore: IgnoreFile[] = [];
  // Rules of the folders above the one to be searched hold in it too.
  for (let depth = 0; depth < task.parts.length; depth += 1) await addIgnoreFile(task.root, task.parts.slice(0, depth), ignore);
  const stands = await standsFor(task);
  if (stands === "file") await searchFile(walk, task.parts.slice(0, -1), task.parts.at(-1) ?? "");
  else await searchFolder(walk, task.parts, ignore);
  parentPort?.postMessage("done");
}

// ripgrep accepts escapes such as "\\-" that JavaScript's Unicode mode does not.
function compile(pattern: string, flags: string): RegExp {
  try {
    return new RegExp(pattern, `${flags}u`);
  } catch {
    return new RegExp(pattern, flags);
  }
}

async function standsFor({ root, parts }: SearchTask): Promise<"file" | "folder"> {
  try {
    await using _ = await openFolder(root, parts);
    return "folder";
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOTDIR") return "file";
    throw error;
  }
}

async function addIgnoreFile(root: string, parts: readonly string[], ignore: IgnoreFile[]): Promise<void> {
  await using folder = await openFolder(root, parts);
  const text = await readText(folder, ".gitignore");
  if (text !== null) ignore.push(parseIgnoreFile(parts.join("/"), text));
}

async function searchFolder(walk: Walk, parts: readonly string[], above: readonly IgnoreFile[]): Promise<void> {
  const ignore = [...above];
  await addIgnoreFile(walk.task.root, parts, ignore);
  const entries = await listEntries(walk.task.root, parts);
  for (const entry of entries) {
    if (walk.left <= 0) return;
    const path = [...parts, entry.name].join("/");
    if (entry.name === ".git" || isBelow([...parts, entry.name], walk.task.closed) || isIgnored(path, entry.isDirectory(), ignore))
      continue;
    // A folder that vanished or is closed to us is skipped, as a file is.
    if (entry.isDirectory()) await searchFolder(walk, [...parts, entry.name], ignore).catch(skipMissing);
    else if (entry.isFile() && isWanted(path, walk.glob)) await searchFile(walk, parts, entry.name).catch(skipMissing);
  }
}

async function listEntries(root: string, parts: readonly string[]) {
  await using folder = await openFolder(root, parts);
  const entries = await readdir(folder.path, { withFileTypes: true });
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
}

const isWanted = (path: string, glob: GlobRule | null): boolean => glob === null || glob.matches(path) !== glob.negated;

function skipMissing(error: NodeJS.ErrnoException): void {
  if (error.code === undefined) throw error;
}

async function searchFile(walk: Walk, parts: readonly string[], name: string): Promise<void> {
  await using folder = await openFolder(walk.task.root, parts);
  const text = await readText(folder, name);
  if (text === null) return;
  const matches: Match[] = [];
  for (const [n, line] of text.split("\n").entries()) {
    if (!walk.regex.test(line)) continue;
    matches.push({ path: [...parts, name].join("/"), line: n + 1, text: line.slice(0, MAX_LINE_LENGTH) });
    walk.left -= 1;
    if (walk.left <= 0) break;
  }
  if (matches.length > 0) parentPort?.postMessage(matches);
}

/** Null for what is not searched: absent, special, linked, big or binary. */
async function readText(folder: Folder, name: string): Promise<string | null> {
  const opened = await openRegular(folder, name, name).catch(() => null);
  if (opened === null) return null;
  await using file = opened.file;
  if (opened.stats.size > MAX_FILE_BYTES) return null;
  const bytes = await readFile(file);
  return bytes.subarray(0, 8192).includes(0) ? null : bytes.toString("utf8");
}

await main(workerData as SearchTask);
