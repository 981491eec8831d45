// The folder beside a session's transcript, `<state>/agents/<agentId>/sessions/<sessionId>/`: BRIEF.md, the run's brief
// and response, trace.md. Small files, replaced as a whole so that a reader never meets half of one. Not synced: what
// stands here is made from rows and transcripts, and made again after a crash (documents.ts, briefing.ts).
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { newId } from "../../core/ids.ts";
import type { TranscriptRef, Transcripts } from "../../stores/transcripts.ts";

export const sessionFolder = (transcripts: Pick<Transcripts, "folder">, ref: Pick<TranscriptRef, "agentId" | "sessionId">): string =>
  join(transcripts.folder(ref.agentId), ref.sessionId);

/**
 * Writes the file in one step, 0600, making the folder (0700) as needed. Not on the event loop: a new name can wait for
 * whoever syncs the disk at the time.
 */
export async function replaceText(folder: string, name: string, text: string): Promise<void> {
  const temporary = join(folder, `.${name}.${newId()}.tmp`);
  const write = (): Promise<void> => writeFile(temporary, text, { mode: 0o600, flag: "wx" });
  try {
    await write().catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await write();
    });
    await rename(temporary, join(folder, name));
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
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
