// The state folder as a command finds it. Herald is often a user of its own: to anybody else its folder looks as if nothing were in it,
// and what root writes there the gateway can't read.
import { accessSync, constants, statSync } from "node:fs";
import { findStateDir } from "../config/config.ts";
import { AppError } from "../core/errors.ts";
import type { Terminal } from "./terminal.ts";

export interface Foreign {
  readonly text: string;
  readonly remedy: string;
}

/** Throws AppError("state") when it is somebody else's. `isWritten`: files are made in it, which have to be its owner's. */
export function stateFolderOf({ env, cwd }: Pick<Terminal, "env" | "cwd">, { isWritten = false } = {}): string {
  const stateDir = findStateDir({ env, cwd });
  const foreign = whyForeign(stateDir, isWritten);
  if (foreign !== null) throw new AppError("state", `The state folder ${foreign.text}. ${foreign.remedy}`);
  return stateDir;
}

/** Null: it can be used, or is not there. */
export function whyForeign(stateDir: string, isWritten = false): Foreign | null {
  const owner = ownerOf(stateDir);
  if (owner === undefined) return null;
  const remedy = `Use the user Herald runs as (sudo -u ${owner === null ? "USER" : `'#${owner}'`} …), or set HERALD_STATE_DIR to a folder of your own.`;
  if (!isOpen(stateDir))
    return { text: `${stateDir} can't be read by this user${owner === null ? "" : `; it is that of uid ${owner}`}`, remedy };
  if (!isWritten || process.getuid?.() !== 0 || owner === 0) return null;
  return { text: `${stateDir} is that of uid ${owner}, who could not read what root writes there`, remedy };
}

/** Undefined: it is not there. Null: not even that can be seen. */
function ownerOf(path: string): number | null | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false })?.uid;
  } catch {
    return null;
  }
}

function isOpen(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
