// Which files of a state folder belong into a backup, and where one is that was renamed meanwhile.
import { type Dirent, readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { DATABASE } from "../stores.ts";
import { SETTINGS_FOLDER } from "./manifest.ts";

export interface Listed {
  /** Below the state folder, with slashes. */
  readonly path: string;
  /** No more than this of it: what is appended later belongs to rows that the copy of the database does not have. Null: all of it. */
  readonly size: number | null;
}

export interface Listing {
  readonly files: readonly Listed[];
  /** Left out because they hold secrets. */
  readonly secrets: readonly string[];
  /** Folders of workspaces that may not be looked into. */
  readonly unreadable: readonly string[];
  /** Links, pipes and sockets: nothing is read through them, and they are not kept either. */
  readonly unfollowed: readonly string[];
}

/** Made anew by every start, or of a process. */
const OURS_FOR_NOW = /^(?:(?:gateway|auth)\.(?:lock.*|pid)|sign-in-link(?:\..*)?|\.?.+\.tmp)$/;
const isOursForNow = (path: string, name: string): boolean => !IN_WORKSPACE.test(path) && OURS_FOR_NOW.test(name);
/** Also the draft of one, left by a process that was killed while it wrote it. */
const isSecret = (name: string): boolean => /^(?:auth\.json|web-token|\.env)(?:\.|$)/.test(name);
/** Agents' own: what programs of theirs made there need not be ours to read. */
const IN_WORKSPACE = /^workspace(?:-[^/]+)?\//;
const TRANSCRIPT = /^agents\/[^/]+\/sessions\/[^/]+\.jsonl(?:\.deleted\.[^/]+)?$/;

/** Sizes that won't change: of archived transcripts, which get another name before anybody writes to them again. */
type Known = ReadonlyMap<string, number>;

/** Under the lock every file that has to be asked for costs everybody a moment: with what was found before, only those that grow. */
export function listTranscripts(stateDir: string, known: Known = new Map()): Listed[] {
  return entriesOf(join(stateDir, "agents")).flatMap(({ name: agentId }) => {
    const folder = `agents/${agentId}/sessions`;
    const transcripts = entriesOf(join(stateDir, folder)).filter((entry) => entry.isFile() && TRANSCRIPT.test(`${folder}/${entry.name}`));
    return transcripts.map(({ name }) => {
      const path = `${folder}/${name}`;
      return { path, size: known.get(path) ?? statSync(join(stateDir, path), { throwIfNoEntry: false })?.size ?? null };
    });
  });
}

export const knownSizes = (transcripts: readonly Listed[]): Known =>
  new Map(transcripts.flatMap(({ path, size }) => (size !== null && !path.endsWith(".jsonl") ? [[path, size] as const] : [])));

/** Everything else: documents, workspaces, keys. A link, a pipe or a socket is none of ours: nothing is read through it. */
export function listRest(stateDir: string, withSecrets: boolean): Listing {
  const files: Listed[] = [];
  const secrets: string[] = [];
  const unreadable: string[] = [];
  const unfollowed: string[] = [];
  const folders = [""];
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    const entries = unlessRefused(at, () => entriesOf(join(stateDir, at)));
    if (entries === null) unreadable.push(at);
    for (const entry of entries ?? []) {
      const path = `${at}${entry.name}`;
      // What a restore has laid there; the settings in force go along by themselves.
      if (path === SETTINGS_FOLDER) continue;
      if (entry.isDirectory()) folders.push(`${path}/`);
      else if (!entry.isFile()) unfollowed.push(path);
      else if (path.startsWith(DATABASE) || isOursForNow(path, entry.name) || TRANSCRIPT.test(path)) continue;
      else if (isSecret(entry.name) && !withSecrets) secrets.push(path);
      else files.push({ path, size: null });
    }
  }
  return { files, secrets, unreadable, unfollowed };
}

/** Is this failure one that leaves out a file of a workspace, and nothing more? */
export const isLeftOut = (path: string, error: unknown): boolean =>
  IN_WORKSPACE.test(path) && ["EACCES", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "");

function unlessRefused<T>(path: string, read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (isLeftOut(path, error)) return null;
    throw error;
  }
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return [];
    throw error;
  }
}

/** Where a transcript is that was archived, or taken out of the archive, since it was listed; null: it is gone. */
export function findRenamed(path: string): string | null {
  const own = basename(path).replace(/(\.jsonl)\.deleted\..*$/, "$1");
  const found = entriesOf(dirname(path)).find(({ name }) => name === own || name.startsWith(`${own}.deleted.`));
  return found === undefined ? null : join(dirname(path), found.name);
}
