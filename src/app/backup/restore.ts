// A backup becomes a state folder. It is read twice: first everything is held against its list and nothing is written, then it is unpacked
// into a folder beside, which gets the state folder's name when it is whole. So whatever is wrong leaves everything as it was.
import { createHash } from "node:crypto";
import { createReadStream, existsSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync, statfsSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { AppError, errorText } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import { type Comeback, inspectDatabase } from "../../stores/snapshot.ts";
import { DATABASE } from "../stores.ts";
import { MANIFEST, MAX_MANIFEST_BYTES, type Manifest, placeOf, readManifest } from "./manifest.ts";
import { readTar, type TarEntry } from "./tar.ts";

export interface RestoreOptions {
  readonly file: string;
  readonly stateDir: string;
  readonly signal: AbortSignal;
  /** Told of each file that is about to be checked, and then again as it is written. */
  onFile?(what: "checked" | "written", at: number, of: number): void;
}

export interface RestoreReport {
  readonly manifest: Manifest;
  readonly comeback: Comeback;
}

/** What must be left on the disk beside it. */
const SPARE_BYTES = 64 * 1024 * 1024;

/** Throws AppError in words; then nothing has changed. */
export async function restore({ file, stateDir, signal, onFile }: RestoreOptions): Promise<RestoreReport> {
  refuseInUse(stateDir);
  const parent = dirname(stateDir);
  const manifest = await readBackup(file, signal, {
    onList: ({ files }) => requireRoom(parent, files),
    onFile: async (entry, hash, at, of) => {
      onFile?.("checked", at, of);
      for await (const piece of entry.bytes()) hash(piece);
    },
  });
  if (!manifest.files.some(({ path }) => path === `state/${DATABASE}`))
    throw new AppError("invalid", "The backup holds no database. Nothing was written.");
  const draft = `${stateDir}.restoring-${newId().slice(0, 8)}`;
  try {
    makeDraft(draft);
    await readBackup(file, signal, {
      onList() {},
      onFile: (entry, hash, at, of) => {
        onFile?.("written", at, of);
        return unpack(draft, entry, hash);
      },
    });
    const comeback = inspectDatabase(join(draft, DATABASE));
    // Looked at again: a gateway may have been started on it meanwhile.
    refuseInUse(stateDir);
    if (existsSync(stateDir)) rmdirSync(stateDir);
    renameSync(draft, stateDir);
    return { manifest, comeback };
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

/** Beside, so that one step gives it its name: the folder around has to be one that this user may write. */
function makeDraft(path: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    throw new AppError(
      "storage",
      `It is unpacked beside its place first, which can't be done: ${errorText(error)}. Set HERALD_STATE_DIR to a folder below one that this user may write.`,
      { cause: error },
    );
  }
}

function refuseInUse(stateDir: string): void {
  if (!existsSync(stateDir)) return;
  const names = readdirSync(stateDir);
  if (names.length === 0) return;
  const why = names.includes("sign-in-link") ? "a gateway runs on it, or was killed there" : `it holds ${names.length} files and folders`;
  throw new AppError(
    "state",
    `The state folder ${stateDir} is in use (${why}). Restoring replaces nothing: name an empty one with HERALD_STATE_DIR, or move this one away.`,
  );
}

function requireRoom(parent: string, files: Manifest["files"]): void {
  const needed = files.reduce((sum, { size }) => sum + size, 0) + SPARE_BYTES;
  const at = nearestFolder(parent);
  const { bavail, bsize } = statfsSync(at);
  if (bavail * bsize < needed)
    throw new AppError(
      "storage",
      `There is no room for it below ${at}: it needs ${Math.ceil(needed / 1e6)} MB, ${Math.floor((bavail * bsize) / 1e6)} MB are free.`,
    );
}

const nearestFolder = (path: string): string => (existsSync(path) || dirname(path) === path ? path : nearestFolder(dirname(path)));

interface Reading {
  onList(manifest: Manifest): void;
  /** Reads all of its bytes and gives each piece to `hash`. */
  onFile(entry: TarEntry, hash: (piece: Buffer) => void, at: number, of: number): Promise<void>;
}

/** Throws AppError("invalid") that names the first thing that is not as the list says. */
async function readBackup(file: string, signal: AbortSignal, reading: Reading): Promise<Manifest> {
  try {
    return await pipeline(createReadStream(file), createGunzip(), (source) => checkAll(readTar(source), signal, reading));
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "EISDIR") throw new AppError("invalid", `There is no file ${file}.`, { cause: error });
    if (!code.startsWith("Z_") && code !== "ERR_STREAM_PREMATURE_CLOSE") throw error;
    throw new AppError("invalid", `The file ${file} is damaged, or no backup of Herald: ${errorText(error)}.`, { cause: error });
  }
}

async function checkAll(entries: AsyncIterable<TarEntry>, signal: AbortSignal, { onList, onFile }: Reading): Promise<Manifest> {
  let manifest: Manifest | null = null;
  let at = 0;
  for await (const entry of entries) {
    signal.throwIfAborted();
    if (manifest === null) {
      manifest = readManifest(await manifestText(entry));
      onList(manifest);
      continue;
    }
    const expected = manifest.files[at++];
    if (expected?.path !== entry.name || expected.size !== entry.size)
      throw new AppError(
        "invalid",
        `The archive holds ${JSON.stringify(entry.name)}, which is not what its list says. Nothing was written.`,
      );
    const hash = createHash("sha256");
    await onFile(entry, (piece) => void hash.update(piece), at, manifest.files.length);
    if (hash.digest("hex") !== expected.sha256)
      throw new AppError("invalid", `${entry.name} is damaged in the backup. Nothing was written.`);
  }
  const missing = manifest === null ? MANIFEST : manifest.files[at]?.path;
  if (manifest === null || missing !== undefined) throw new AppError("invalid", `The backup lacks ${missing}. Nothing was written.`);
  return manifest;
}

async function manifestText({ name, size, bytes }: TarEntry): Promise<string> {
  if (name !== MANIFEST || size > MAX_MANIFEST_BYTES)
    throw new AppError("invalid", "The file is no backup of Herald: it does not begin with the list of what it holds.");
  const pieces: Buffer[] = [];
  for await (const piece of bytes()) pieces.push(piece);
  return Buffer.concat(pieces).toString("utf8");
}

async function unpack(draft: string, { name, bytes }: TarEntry, hash: (piece: Buffer) => void): Promise<void> {
  const path = join(draft, placeOf(name));
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const file = await open(path, "wx", 0o600);
  try {
    for await (const piece of bytes()) {
      hash(piece);
      await file.writeFile(piece);
    }
    await file.sync();
  } finally {
    await file.close();
  }
}
