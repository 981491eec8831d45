// A state folder that `npm run move` fills is marked from before its first file until it is complete. Half of an installation looks like
// a whole one: a gateway on it would go on with half of the runs, and number its messages anew. So it refuses, and only the next move,
// which begins again, may take away what lies here.
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../core/errors.ts";
import { commandWords } from "../core/own-files.ts";
import { syncPath } from "./sync-path.ts";

const MARK = "move-unfinished";

/** Durable on return: before anything else is written. */
export function markFilling(stateDir: string): void {
  const path = join(stateDir, MARK);
  writeFileSync(path, `${commandWords("move")} fills this folder; until that is done nothing here is complete.\n`, {
    mode: 0o600,
    flush: true,
  });
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
