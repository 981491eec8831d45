// Documents as files, in the folder beside the transcript: `<state>/agents/<agentId>/sessions/<sessionId>/`. Replaced as a whole
// under a temporary name, so that a reader never meets half of one; nothing is read or written through a link. Not synced: what
// stands here is made again from rows and transcripts. One process holds the state folder, so one line in it is lock enough.
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  mkdir,
  open,
  openSync,
  readSync,
  rename,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { AppError } from "../core/errors.ts";
import { isUuid, newId } from "../core/ids.ts";
import { createInTurn } from "../core/in-turn.ts";
import { type DocumentEnd, type OpenDocument, type SessionDocuments, type SessionRef, textFrom } from "./session-documents.ts";

interface Deps {
  /** Where an agent's transcripts lie. Throws when nothing may be written there. */
  folder(agentId: string): string;
}

export function createDocumentFiles(deps: Deps): SessionDocuments {
  const inTurn = createInTurn();
  const folderOf = ({ agentId, sessionId }: SessionRef): string => {
    // Anything else could name another folder, and removeAll takes what it is given.
    if (!isUuid(sessionId)) throw new AppError("invalid", "not a session id");
    return join(deps.folder(agentId), sessionId);
  };
  return {
    read: async (ref, name, maxBytes = Number.POSITIVE_INFINITY) => readEnd(folderOf(ref), name, maxBytes)?.text ?? null,
    has: async (ref, name) => (statSync(join(folderOf(ref), name), { throwIfNoEntry: false })?.size ?? 0) > 0,
    replace: async (ref, name, text) => replaceText(folderOf(ref), name, text),
    change: (ref, name, work) => inTurn(async () => work(openDocument(folderOf(ref), name))),
    removeAll: async (ref) => rmSync(folderOf(ref), { recursive: true, force: true }),
  };
}

const openDocument = (folder: string, name: string): OpenDocument => ({
  end: async (maxBytes) => readEnd(folder, name, maxBytes),
  replace: (text) => replaceText(folder, name, text),
  async append(text) {
    await makeFolder(folder);
    writeAndClose(openRegular(folder, name, O_WRONLY | O_APPEND | O_CREAT), text);
  },
  remove: async () => rmSync(join(folder, name), { force: true }),
  rename: (to) => renameLater(join(folder, name), join(folder, to)),
});

const openLater = promisify(open);
const renameLater = promisify(rename);
const mkdirLater = promisify(mkdir);

/**
 * Writes the file in one step, 0600, making the folder (0700) as needed. What makes a name can wait a millisecond or more for
 * whoever syncs the disk at the time, so that is not done on the event loop. The rest is: each trip to another thread costs
 * more than a small file does, and most of what fs/promises takes are such trips.
 */
async function replaceText(folder: string, name: string, text: string): Promise<void> {
  const temporary = join(folder, `.${name}.${newId()}.tmp`);
  await makeFolder(folder);
  try {
    writeAndClose(await openLater(temporary, "wx", 0o600), text);
    await renameLater(temporary, join(folder, name));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

async function makeFolder(folder: string): Promise<void> {
  if (!existsSync(folder)) await mkdirLater(folder, { recursive: true, mode: 0o700 });
}

function writeAndClose(fd: number, text: string): void {
  try {
    writeFileSync(fd, text);
  } finally {
    closeSync(fd);
  }
}

const { O_RDONLY, O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;

/** Throws on a link of either kind, a pipe or a folder of that name. */
function openRegular(folder: string, name: string, flags: number): number {
  const fd = openSync(join(folder, name), flags | O_NOFOLLOW | O_NONBLOCK, 0o600);
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile()) throw new Error(`${name} is not a regular file`);
    if (stat.nlink > 1) throw new Error(`${name} is the second name of another file`);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Null when there is no such file, or nothing in it. */
function readEnd(folder: string, name: string, maxBytes: number): DocumentEnd | null {
  let fd: number;
  try {
    fd = openRegular(folder, name, O_RDONLY);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
  try {
    const { size } = fstatSync(fd);
    const buffer = Buffer.alloc(Math.min(size, maxBytes));
    const length = readSync(fd, buffer, 0, buffer.length, Math.max(0, size - maxBytes));
    return size === 0 ? null : { text: textFrom(buffer.subarray(0, length)), size };
  } finally {
    closeSync(fd);
  }
}
