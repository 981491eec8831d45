// The folder beside a session's transcript, `<state>/agents/<agentId>/sessions/<sessionId>/`: BRIEF.md, the run's brief
// and response, trace.md. Small files, replaced as a whole so that a reader never meets half of one. Not synced: what
// stands here is made from rows and transcripts, and made again after a crash (documents.ts, briefing.ts).
import { closeSync, constants, existsSync, fstatSync, mkdir, open, openSync, readSync, rename, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { newId } from "../../core/ids.ts";
import type { TranscriptRef, Transcripts } from "../../stores/transcripts.ts";

export const sessionFolder = (transcripts: Pick<Transcripts, "folder">, ref: Pick<TranscriptRef, "agentId" | "sessionId">): string =>
  join(transcripts.folder(ref.agentId), ref.sessionId);

const openLater = promisify(open);
const renameLater = promisify(rename);
const mkdirLater = promisify(mkdir);

/**
 * Writes the file in one step, 0600, making the folder (0700) as needed. What makes a name can wait a millisecond or more for
 * whoever syncs the disk at the time, so that is not done on the event loop. The rest is: each trip to another thread costs
 * more than a small file does, and most of what fs/promises takes are such trips.
 */
export async function replaceText(folder: string, name: string, text: string): Promise<void> {
  const temporary = join(folder, `.${name}.${newId()}.tmp`);
  if (!existsSync(folder)) await mkdirLater(folder, { recursive: true, mode: 0o700 });
  try {
    writeAndClose(await openLater(temporary, "wx", 0o600), text);
    await renameLater(temporary, join(folder, name));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

function writeAndClose(fd: number, text: string): void {
  try {
    writeFileSync(fd, text);
  } finally {
    closeSync(fd);
  }
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;

/** The last `maxBytes` of the file, null when there is none. Throws on a link of either kind, a pipe or a folder of that name. */
export function readEnd(folder: string, name: string, maxBytes: number): string | null {
  let fd: number;
  try {
    fd = openSync(join(folder, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile()) throw new Error(`${name} is not a regular file`);
    if (stat.nlink > 1) throw new Error(`${name} is the second name of another file`);
    const buffer = Buffer.alloc(Math.min(stat.size, maxBytes));
    const length = readSync(fd, buffer, 0, buffer.length, Math.max(0, stat.size - maxBytes));
    return buffer.toString("utf8", 0, length);
  } finally {
    closeSync(fd);
  }
}
