// The state folder as the stores found it. A file that is moved or removed goes on working for whoever has it open: a
// gateway whose folder is gone would go on answering, into a database that nobody will ever open again. So whoever is about
// to promise something looks first whether the files behind the names are still those that were opened.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../core/errors.ts";

export interface StateFolder {
  /** Looks. Null: all is well; else what is wrong, in words. */
  problem(): string | null;
  /**
   * Throws AppError("storage") as long as something is wrong: what waits goes on when the folder is back. Asked before every
   * promise, so it looks at the first file alone, and at all of them only to say what is wrong.
   */
  check(): void;
}

/** From now on these files of the folder are the ones it must hold. */
export function holdStateFolder(stateDir: string, names: readonly string[]): StateFolder {
  const held = names.map((name) => ({ path: join(stateDir, name), id: idOf(join(stateDir, name)) }));
  const problem = (): string | null => {
    const lost = held.find(({ path, id }) => idOf(path) !== id);
    if (lost === undefined) return null;
    const what = idOf(lost.path) === null ? `${lost.path} is gone` : `${lost.path} is another file than the one in use`;
    return `The state folder was moved, removed or replaced while Herald runs: ${what}. Nothing is taken in until it is back; put it back, or start Herald again.`;
  };
  return {
    problem,
    check() {
      const [first] = held;
      if (first === undefined || idOf(first.path) === first.id) return;
      throw new AppError("storage", problem() ?? "The state folder was gone for a moment.");
    },
  };
}

const idOf = (path: string): string | null => {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? null : `${stat.dev}:${stat.ino}`;
};

/** What a folder without a database holds of an earlier life; null: nothing. */
export function findRemains(stateDir: string, databasePath: string): string | null {
  // SQLite would throw away the journal of a database that is not there.
  if ((statSync(`${databasePath}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0) return `${databasePath}-wal`;
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
