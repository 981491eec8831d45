// One file with everything of a state folder, taken while a gateway works on it.
//
// Rows and transcripts have to agree as after a crash: an entry is written and synced before the row that rests on it is committed, so
// what recovery can take up is a transcript that is ahead of its rows by what nobody has committed yet, never one that is behind, and
// none that tells of later commits (a turn would go on from an answer to a message that is not there). So the length of every transcript
// is taken at the very moment the copy of the database is of, when nobody can commit (stores/snapshot.ts), and no more than that is read
// afterwards. They only grow; one that is archived meanwhile has another name and the same bytes. Documents are replaced as a whole and
// made again from rows: a newer one does no harm. Workspaces are the agents' own and are taken as they are found.
import { createHash, type Hash } from "node:crypto";
import { createReadStream, createWriteStream, existsSync, renameSync, rmSync, statSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip, gzipSync } from "node:zlib";
import { AppError, errorText, isStorageError } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import { copyAtOneMoment } from "../../stores/snapshot.ts";
import { syncPath } from "../../stores/sync-path.ts";
import { DATABASE } from "../stores.ts";
import { findRenamed, isLeftOut, knownSizes, type Listed, listRest, listTranscripts } from "./listing.ts";
import { FORM, MANIFEST, type Manifest, manifestBytes } from "./manifest.ts";
import { headOf, paddingOf, TAR_END } from "./tar.ts";

export interface BackupOptions {
  readonly stateDir: string;
  /** What is written; must not be there yet. */
  readonly target: string;
  /** Settings files that go along, by the name they get. */
  readonly settings: readonly { readonly name: string; readonly path: string }[];
  readonly withSecrets: boolean;
  readonly version: string;
  readonly now: number;
  readonly signal: AbortSignal;
  /** Told of each file that is about to be read. */
  onFile?(at: number, of: number): void;
}

export interface BackupReport {
  readonly files: number;
  readonly bytes: number;
  /** Paths below the state folder that hold secrets and were left out. */
  readonly leftOut: readonly string[];
  /** Removed while it was read. */
  readonly gone: number;
  /** Files and folders of workspaces that may not be read, and the first of them. */
  readonly unreadable: number;
  readonly firstUnreadable: string | null;
  /** Links and the like, which are not in it: paths below the state folder. */
  readonly unfollowed: readonly string[];
}

const PIECE = 256 * 1024;

/** All or nothing: under another name until it is whole and on disk. */
export async function backUp(options: BackupOptions): Promise<BackupReport> {
  const { stateDir, target, withSecrets, now } = options;
  if (existsSync(target)) throw new AppError("invalid", `There is a file ${target} already; it is not replaced.`);
  if (!existsSync(dirname(target))) throw new AppError("invalid", `There is no folder ${dirname(target)} to write it into.`);
  const draft = `${target}.${newId().slice(0, 8)}`;
  const [database, body, whole] = [`${draft}.db`, `${draft}.body`, `${draft}.part`];
  try {
    const known = knownSizes(listTranscripts(stateDir));
    const { found, schema } = await copyAtOneMoment(join(stateDir, DATABASE), database, () => listTranscripts(stateDir, known));
    const rest = listRest(stateDir, withSecrets);
    const sources = [
      { name: `state/${DATABASE}`, path: database, size: null },
      ...[...found, ...rest.files].filter(({ path }) => !join(stateDir, path).startsWith(draft)).map((file) => inState(stateDir, file)),
      ...options.settings.map(({ name, path }) => ({ name: `settings/${name}`, path, size: null })),
    ];
    const packing: Packing = {
      files: [],
      gone: 0,
      unreadable: [...rest.unreadable],
      seconds: Math.floor(now / 1000),
      signal: options.signal,
      onFile: (at) => options.onFile?.(at, sources.length),
    };
    await pipeline(Readable.from(pack(sources, packing)), createGzip(), createWriteStream(body, { flags: "wx", mode: 0o600 }));
    const about = { form: FORM, herald: options.version, schema, at: new Date(now).toISOString(), withSecrets };
    await writeWhole(whole, listFirst({ format: "herald-backup", ...about, files: packing.files }, packing.seconds), body);
    renameSync(whole, target);
    syncPath(dirname(target));
    const { files, gone, unreadable } = packing;
    const refused = { unreadable: unreadable.length, firstUnreadable: unreadable[0] ?? null };
    return { files: files.length, bytes: statSync(target).size, leftOut: rest.secrets, gone, ...refused, unfollowed: rest.unfollowed };
  } catch (error) {
    if (!isStorageError(error)) throw error;
    const asked = `It needs room for a copy of the database and twice the file itself in ${dirname(target)}.`;
    throw new AppError("storage", `The backup could not be written: ${errorText(error)}. ${asked}`, { cause: error });
  } finally {
    for (const path of [database, body, whole]) rmSync(path, { force: true });
  }
}

interface Source {
  readonly name: string;
  readonly path: string;
  readonly size: number | null;
}

interface Packing {
  readonly files: Manifest["files"][number][];
  gone: number;
  readonly unreadable: string[];
  readonly seconds: number;
  readonly signal: AbortSignal;
  onFile(at: number): void;
}

const inState = (stateDir: string, { path, size }: Listed): Source => ({ name: `state/${path}`, path: join(stateDir, path), size });

async function* pack(sources: readonly Source[], packing: Packing): AsyncGenerator<Buffer> {
  for (const [at, source] of sources.entries()) {
    packing.signal.throwIfAborted();
    packing.onFile(at + 1);
    const file = await openUnlessRefused(source, packing);
    if (file === null) continue;
    try {
      yield* packOne(file, source, packing);
    } finally {
      await file.close();
    }
  }
  yield TAR_END;
}

/** Null: it is not in the backup, and counted. */
async function openUnlessRefused(source: Source, packing: Packing): Promise<FileHandle | null> {
  try {
    const file = await openSource(source);
    if (file === null) packing.gone++;
    return file;
  } catch (error) {
    const below = source.name.replace(/^state\//, "");
    if (!isLeftOut(below, error)) throw error;
    packing.unreadable.push(below);
    return null;
  }
}

async function openSource({ path }: Source): Promise<FileHandle | null> {
  const isMissing = (error: unknown): null => {
    if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return null;
    throw error;
  };
  const file = await open(path, "r").catch(isMissing);
  if (file !== null || !basename(path).includes(".jsonl")) return file;
  const renamed = findRenamed(path);
  return renamed === null ? null : open(renamed, "r").catch(isMissing);
}

async function* packOne(file: FileHandle, { name, size: listed }: Source, packing: Packing): AsyncGenerator<Buffer> {
  const { size: now } = await file.stat();
  const size = Math.min(listed ?? now, now);
  yield headOf({ name, size }, packing.seconds);
  const hash: Hash = createHash("sha256");
  for (let at = 0; at < size; ) {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(Math.min(PIECE, size - at)), 0, Math.min(PIECE, size - at), at);
    if (bytesRead === 0) throw new AppError("state", `${name} became shorter while it was read. Try again.`);
    const piece = buffer.subarray(0, bytesRead);
    hash.update(piece);
    at += bytesRead;
    yield piece;
  }
  yield paddingOf(size);
  packing.files.push({ path: name, size, sha256: hash.digest("hex") });
}

/** The list comes first, so that a reader can refuse before it has read: it is packed by itself, and gzip's pieces read as one. */
function listFirst(manifest: Manifest, seconds: number): Buffer {
  const bytes = manifestBytes(manifest);
  return gzipSync(Buffer.concat([headOf({ name: MANIFEST, size: bytes.length }, seconds), bytes, paddingOf(bytes.length)]));
}

async function writeWhole(path: string, first: Buffer, rest: string): Promise<void> {
  const out = createWriteStream(path, { flags: "wx", mode: 0o600, flush: true });
  out.write(first);
  await pipeline(createReadStream(rest), out);
}
