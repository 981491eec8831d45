// Archived transcripts of one folder, by the names archiving gave them (subagents/archive): when, and whose they were.
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../core/errors.ts";

export interface ArchivedTranscript {
  readonly sessionId: string;
  readonly name: string;
}

const ARCHIVED = /^([^/]*)\.jsonl\.deleted\.([^/]+)$/;

/** Those archived before this time, as their names tell it. */
export function listArchived(folder: string, before: string): ArchivedTranscript[] {
  return namesIn(folder).flatMap((name) => {
    const [, sessionId = "", stamp = before] = ARCHIVED.exec(name) ?? [];
    return stamp < before ? [{ sessionId, name }] : [];
  });
}

/** Refuses the name of anything else. */
export function removeArchived(folder: string, name: string): void {
  if (!ARCHIVED.test(name)) throw new AppError("invalid", "not the name of an archived transcript");
  rmSync(join(folder, name), { force: true });
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
