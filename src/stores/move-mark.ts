// A state folder that `npm run move` fills is marked from before its first file until it is complete. Half of an installation looks like
// a whole one: a gateway on it would go on with half of the runs, and number its messages anew. So it refuses, and only the next move,
// which begins again, may take away what lies here. One that was moved away is marked, too, and stays as it was: a gateway that was
// started on it by mistake would do again what is done elsewhere by now, and say it in the same chats.
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../core/errors.ts";
import { commandWords } from "../core/own-files.ts";
import { syncPath } from "./sync-path.ts";

const MARK = "move-unfinished";
/** The mark of what was left: its name in the folder. */
export const AWAY = "moved-away";

/** Durable on return: before anything else is written. */
export function markFilling(stateDir: string): void {
  const path = join(stateDir, MARK);
  writeFileSync(path, `${commandWords("move")} fills this folder; until that is done nothing here is complete.\n`, {
    mode: 0o600,
    flush: true,
  });
  rmSync(join(stateDir, AWAY), { force: true });
  syncPath(stateDir);
}

export const isFilling = (stateDir: string): boolean => existsSync(join(stateDir, MARK));

/** It is complete. Everything in it is on the disk before. */
export function markFilled(stateDir: string): void {
  rmSync(join(stateDir, MARK), { force: true });
  syncPath(stateDir);
}

/** Throws AppError("state"). */
export function refuseHalfFilled(stateDir: string): void {
  if (!isFilling(stateDir)) return;
  throw new AppError(
    "state",
    `The state folder ${stateDir} is being filled by ${commandWords("move")}, or that was broken off and it holds half of an installation: run ${commandWords("move", "--to embedded")} again, which begins anew.`,
  );
}

/** What is in it lives elsewhere from now on. Durable on return. */
export function markAway(stateDir: string, at: string): void {
  writeFileSync(join(stateDir, AWAY), `${at}\n`, { mode: 0o600, flush: true });
  syncPath(stateDir);
}

/** For whoever wants to work on it; to move once more what was left is nobody's harm. Throws AppError("state"). */
export function refuseMarked(stateDir: string): void {
  refuseHalfFilled(stateDir);
  const path = join(stateDir, AWAY);
  if (!existsSync(path)) return;
  const at = readFileSync(path, "utf8").trim();
  throw new AppError(
    "state",
    `What is in ${stateDir} was moved into PostgreSQL at ${at}, and would be done a second time from here. Set store.url, or DATABASE_URL in .env, to that database. To go on from here all the same, as it was then, remove ${path}.`,
  );
}
