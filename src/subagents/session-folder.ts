// The folder beside a session's transcript, `<state>/agents/<agentId>/sessions/<sessionId>/`: BRIEF.md, the run's brief
// and response, trace.md. Small files, replaced as a whole so that a reader never meets half of one. Not synced: what
// stands here is made from rows and transcripts, and made again after a crash (documents.ts, briefing.ts).
import { closeSync, constants, fstatSync, mkdirSync, openSync, readSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newId } from "../core/ids.ts";
import type { TranscriptRef, Transcripts } from "../stores/transcripts.ts";

export const sessionFolder = (transcripts: Pick<Transcripts, "folder">, ref: Pick<TranscriptRef, "agentId" | "sessionId">): string =>
  join(transcripts.folder(ref.agentId), ref.sessionId);

/** Writes the file in one step, 0600, making the folder (0700) as needed. */
export function replaceText(folder: string, name: string, text: string): void {
  const temporary = join(folder, `.${name}.${newId()}.tmp`);
  try {
    writeNew(folder, temporary, text);
    renameSync(temporary, join(folder, name));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

function writeNew(folder: string, path: string, text: string): void {
  const options = { mode: 0o600, flag: "wx" };
  try {
    writeFileSync(path, text, options);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(path, text, options);
  }
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;

/** The last `maxBytes` of the file, null when there is none. Throws on a link, a pipe or a folder of that name. */
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
    const buffer = Buffer.alloc(Math.min(stat.size, maxBytes));
    const length = readSync(fd, buffer, 0, buffer.length, Math.max(0, stat.size - maxBytes));
    return buffer.subarray(0, length).toString("utf8");
  } finally {
    closeSync(fd);
  }
}
