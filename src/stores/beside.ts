// The database of a gateway that may be running, for a script beside it: the folder's, or the one that several share. A script writes rows
// of its own and holds neither the lock nor a node.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { AppError, errorText } from "../core/errors.ts";
import { silentLogger } from "../core/logger.ts";
import { type Database, openDatabase } from "./database.ts";
import { refuseMarked as refuseMarkedFolder } from "./move-mark.ts";

export interface Beside {
  readonly stateDir: string;
  /** Of `store.url`; undefined: the folder's own. */
  readonly url: string | undefined;
  /** How it is called where the server lists its connections. */
  readonly name: string;
}

/** Throws in words. */
export async function openBeside({ stateDir, url, name }: Beside): Promise<Database & { close(): void | Promise<void> }> {
  if (url !== undefined) return openShared(url, name);
  const path = join(stateDir, "herald.db");
  if (!existsSync(path)) throw new Error(`Herald has not been started with this state folder yet: ${stateDir}`);
  refuseMarkedFolder(stateDir);
  return openDatabase({ path });
}

/** Loaded by whom it concerns. */
async function openShared(url: string, name: string): Promise<Database & { close(): Promise<void> }> {
  const [{ openPostgres }, { hasTables, migrate }, { refuseMarked }] = await Promise.all([
    import("./postgres/database.ts"),
    import("./postgres/migrate.ts"),
    import("./postgres/move-mark.ts"),
  ]);
  const db = await openPostgres({ url, poolSize: 2, name, log: silentLogger, steady: () => performance.now() }).catch((error) => {
    if (error instanceof AppError) throw error;
    throw new AppError("state", `PostgreSQL can't be used: ${errorText(error)}. Start it, or look at store.url or DATABASE_URL.`, {
      cause: error,
    });
  });
  try {
    if (!(await hasTables(db))) throw new Error("Herald has not been started with the database of store.url yet.");
    await migrate(db, silentLogger);
    await refuseMarked(db);
    return db;
  } catch (error) {
    await db.close();
    throw error;
  }
}
