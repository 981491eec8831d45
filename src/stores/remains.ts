// What an earlier life left in a state folder whose database is missing or empty. That one takes every run, chat and pairing
// along: it is never made good by a new one without a word.
import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { AppError } from "../core/errors.ts";
import { hasJournal, journalAdvice } from "./journal.ts";

/** Throws AppError("state") that names the way out when the folder was in use before. */
export function refuseAnew(stateDir: string, databasePath: string): void {
  const remains = findRemains(stateDir, databasePath);
  if (remains === null) return;
  const advice = hasJournal(databasePath) ? ` ${journalAdvice(databasePath)}` : "";
  throw new AppError(
    "state",
    `The database ${databasePath} is missing or empty, but the folder was in use before (${remains}). Put the database back: a backup, or one of the copies ${databasePath}.schema-* from before an update.${advice} To begin anew and keep the old files, start once with HERALD_NEW_DATABASE=1.`,
  );
}

/** Null: nothing. */
function findRemains(stateDir: string, databasePath: string): string | null {
  if (hasJournal(databasePath)) return `${databasePath}-wal`;
  const database = basename(databasePath);
  // The page's token is made later in a start than the database.
  const isOfOld = (name: string): boolean =>
    name === "web-token" || name.startsWith(`${database}.schema-`) || name.startsWith(`${database}-wal.before-`);
  const own = listFolder(stateDir).find(isOfOld);
  if (own !== undefined) return join(stateDir, own);
  const agents = join(stateDir, "agents");
  for (const agentId of listFolder(agents)) {
    const sessions = join(agents, agentId, "sessions");
    const transcript = listFolder(sessions).find((name) => /\.jsonl(\.deleted\..+)?$/.test(name));
    if (transcript !== undefined) return join(sessions, transcript);
  }
  return null;
}

function listFolder(path: string): string[] {
  try {
    return readdirSync(path);
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return [];
    throw error;
  }
}
