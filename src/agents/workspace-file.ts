// Small text files below a folder that an agent can write to: read with a cap, append a line. Nothing is reached
// through a link that leads out, also when the agent swaps a folder for a link meanwhile: each step is opened
// relative to the handle of the step before. agents/memory.ts and tools/remember.ts → here.
import {
  closeSync,
  constants,
  fdatasyncSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  realpathSync,
  type Stats,
  writeSync,
} from "node:fs";
import { join, relative, sep } from "node:path";

const { O_RDONLY, O_RDWR, O_APPEND, O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;
/** Linux names an open folder's entries by its handle; elsewhere the path must do, without the guarantee under a race. */
const HAS_FD_PATHS = process.platform === "linux";

export type FileText =
  | { readonly ok: true; readonly text: string; readonly cut: boolean }
  /** `missing`: there is no such file; otherwise `reason` says in words why it was not read. */
  | { readonly ok: false; readonly missing: boolean; readonly reason: string };

export interface ReadOptions {
  readonly maxBytes: number;
  /** Which end to keep when the file is longer. */
  readonly keep: "head" | "tail";
  /** Where what was read is kept for the next time. */
  readonly seen?: SeenFiles;
}

/** What was read of files that lay still by then, by path: most of a prompt is the same at every step. */
export type SeenFiles = Map<string, SeenFile>;

interface SeenFile {
  readonly stamp: string;
  readonly text: FileText;
}

/**
 * Reads `path` (relative, "/"-separated, made by code) below `root`. Links are followed only inside `root`, and from
 * inside a folder not out of that folder. Never throws.
 * Synchronous inside: a prompt is built from a dozen small files before every step, and a dozen waits for a thread cost
 * many times what the reading does.
 */
export async function readInside(root: string, path: string, options: ReadOptions): Promise<FileText> {
  let file: number | null = null;
  try {
    // `join` would weigh every sign of what code put together, and there are a dozen for each step.
    const full = `${root}/${path}`;
    // Most of the dozen aren't there: to be told so without an error, made and caught, is much the cheapest.
    const found = lstatSync(full, { throwIfNoEntry: false });
    if (found === undefined) return MISSING;
    const known = options.seen?.get(full);
    const stamp = stampOf(found, options);
    if (known?.stamp === stamp) return known.text;
    file = openToRead(root, path.split("/"));
    if (file === null) return refuse(`it is a link that leads out of the ${path.includes("/") ? "folder" : "workspace"}`);
    const stat = fstatSync(file);
    if (!stat.isFile()) return refuse("it is not a regular file");
    const text = readEnd(file, stat.size, options);
    // What the name stood for when it was looked at is what was read; a link's own stamp says nothing about its target.
    if (stamp === stampOf(stat, options) && Date.now() - found.ctimeMs > TICK_MS) keepSeen(options.seen, full, { stamp, text });
    return text;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "unknown error";
    if (code === "ENOENT" || code === "ENOTDIR") return MISSING;
    return refuse(code === "ELOOP" ? "it is a link" : code);
  } finally {
    if (file !== null) closeSync(file);
  }
}

const MAX_SEEN = 200;
/** Two writes closer together than the file system's clock can tell leave the same stamp: what is younger is not kept. */
const TICK_MS = 1_000;

const stampOf = ({ dev, ino, size, ctimeMs, mtimeMs }: Stats, { maxBytes, keep }: ReadOptions): string =>
  `${dev}:${ino}:${size}:${ctimeMs}:${mtimeMs}:${maxBytes}:${keep}`;

function keepSeen(seen: SeenFiles | undefined, path: string, file: SeenFile): void {
  if (seen === undefined) return;
  const [oldest] = seen.keys();
  if (seen.size >= MAX_SEEN && !seen.has(path) && oldest !== undefined) seen.delete(oldest);
  seen.set(path, file);
}

/**
 * Null when links lead out. Most files are no links and lie under none: they are opened name by name, which follows none,
 * and nothing has to be resolved first. What links led to is opened in the same way, so a link put there in between
 * leads nowhere.
 */
function openToRead(root: string, steps: readonly string[]): number | null {
  try {
    return openInside(root, steps, O_RDONLY);
  } catch (error) {
    // A link among the names gives ELOOP, or ENOTDIR where a folder is asked for.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ELOOP" && code !== "ENOTDIR") throw error;
  }
  const top = realpathSync.native(root);
  const home = realpathSync.native(join(top, ...steps.slice(0, -1).slice(0, 1)));
  const real = realpathSync.native(join(top, ...steps));
  return isBelow(top, home) && isBelow(home, real) ? openInside(top, relative(top, real).split(sep), O_RDONLY) : null;
}

const isBelow = (folder: string, path: string): boolean => relative(folder, path).split(sep)[0] !== "..";

const MISSING: FileText = { ok: false, missing: true, reason: "there is no such file" };
const refuse = (reason: string): FileText => ({ ok: false, missing: false, reason });

function readEnd(file: number, size: number, { maxBytes, keep }: ReadOptions): FileText {
  const buffer = Buffer.alloc(Math.min(size, maxBytes));
  const bytesRead = readSync(file, buffer, 0, buffer.length, keep === "tail" ? Math.max(0, size - maxBytes) : 0);
  const text = new TextDecoder().decode(buffer.subarray(0, bytesRead));
  if (size <= maxBytes) return { ok: true, text, cut: false };
  // A character cut in half at the edge is no character.
  const whole = keep === "head" ? text.replace(/\ufffd+$/, "") : text.replace(/^\ufffd+/, "");
  const note = `[cut: the ${keep === "head" ? "first" : "last"} ${maxBytes} of ${size} bytes are shown]`;
  return { ok: true, text: keep === "head" ? `${whole}\n${note}` : `${note}\n${whole}`, cut: true };
}

export interface AppendOptions {
  readonly maxBytes: number;
}

/** Appends one line, making file (0600) and folders (0700) as needed. Resolves when it is on disk, to null or to why not. */
export async function appendInside(root: string, path: string, line: string, options: AppendOptions): Promise<string | null> {
  let file: number | null = null;
  try {
    file = openInside(realpathSync.native(root), path.split("/"), O_RDWR | O_APPEND | O_CREAT);
    const stat = fstatSync(file);
    // A second name of the file may stand outside.
    if (!stat.isFile() || stat.nlink > 1) return `${path} is not a plain file`;
    if (stat.size + Buffer.byteLength(line) + 2 > options.maxBytes) return `${path} is full (${options.maxBytes} bytes); tidy it up first`;
    const last = Buffer.alloc(1);
    if (stat.size > 0) readSync(file, last, 0, 1, stat.size - 1);
    // A person's editor may have left the last line open.
    const opening = stat.size > 0 && last[0] !== 0x0a ? "\n" : "";
    writeSync(file, `${opening}${line}\n`);
    fdatasyncSync(file);
    return null;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "unknown error";
    return code === "ELOOP" || code === "ENOTDIR" ? `${path} is a link or not a folder` : `${path} can't be written: ${code}`;
  } finally {
    if (file !== null) closeSync(file);
  }
}

function openInside(top: string, steps: readonly string[], flags: number): number {
  let folder = openSync(top, O_RDONLY | O_DIRECTORY);
  let path = top;
  try {
    for (const step of steps.slice(0, -1)) {
      const below = entryPath(folder, path, step);
      if ((flags & O_CREAT) !== 0) makeFolder(below);
      const next = openSync(below, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      closeSync(folder);
      folder = next;
      path = join(path, step);
    }
    // Without O_NONBLOCK a named pipe would hold this thread for ever.
    return openSync(entryPath(folder, path, steps.at(-1) ?? ""), flags | O_NOFOLLOW | O_NONBLOCK, 0o600);
  } finally {
    closeSync(folder);
  }
}

const entryPath = (folder: number, path: string, name: string): string =>
  HAS_FD_PATHS ? `/proc/self/fd/${folder}/${name}` : join(path, name);

function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}
