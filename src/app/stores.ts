// The state folder: made with tight modes, locked, and opened as the stores everything works on.
import { accessSync, chmodSync, constants, existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileStamp } from "../core/clock.ts";
import { AppError, errorText } from "../core/errors.ts";
import { openDatabase } from "../stores/database.ts";
import { createDocumentFiles } from "../stores/document-files.ts";
import { createFileBytes } from "../stores/file-bytes.ts";
import { refuseForeignJournal, setJournalAside } from "../stores/journal.ts";
import { LOCK, type Lock, refuseUnlocked, takeLock } from "../stores/lock.ts";
import { refuseMarked } from "../stores/move-mark.ts";
import { createNodes } from "../stores/nodes.ts";
import { refuseAnew } from "../stores/remains.ts";
import { type HeldFile, holdStateFolder, type StateFolder } from "../stores/state-folder.ts";
import { createTranscripts } from "../stores/transcripts.ts";

import { createParts, openingOf, type StoreDeps, type Stores } from "./store-parts.ts";

export const DATABASE = "herald.db";

/** Throws AppError("state" | "locked") in words. */
export async function openStores(deps: StoreDeps): Promise<Stores> {
  const { stateDir, shared } = deps;
  prepareFolder(stateDir);
  refuseUnlocked(stateDir, join(stateDir, DATABASE));
  const lock = takeLock(stateDir, process.pid);
  try {
    if (shared === undefined) return openEmbedded(deps, lock);
    // Not loaded by whoever works alone.
    const { openShared } = await import("./shared-stores.ts");
    return await openShared({ ...deps, shared }, lock);
  } catch (error) {
    lock.release();
    throw error;
  }
}

function openEmbedded({ stateDir, clock, bus, log, secrets, failpoint, bootId, isNewWanted = false }: StoreDeps, lock: Lock): Stores {
  refuseMarked(stateDir);
  const path = join(stateDir, DATABASE);
  const redact = (text: string): string => secrets.redact(text);
  const onSlow = (ms: number): void => log.warn({ ms }, "a transaction took long, and everybody else waited for it");
  let folder: StateFolder | null = null;
  const check = (isRelaxed?: boolean): void => folder?.check(isRelaxed);
  refuseForeignJournal(path);
  if (isNewWanted) setJournalAside(path, fileStamp(clock.now()));
  const db = openDatabase({
    ...{ path, onSlow, redact, check, isSole: true },
    onNew: () => (isNewWanted ? undefined : refuseAnew(stateDir, path)),
    onEvent: (event) => bus.emit(event),
    onMigrated: (step) => log.info(step, "the database was brought up to date; a copy from before is kept beside it"),
  });
  const journal: HeldFile = { name: `${DATABASE}-wal`, isJournal: true, neededBytes: () => db.neededBytes()?.journal ?? null };
  const held = holdStateFolder(stateDir, [
    { name: LOCK },
    { name: DATABASE, neededBytes: () => db.neededBytes()?.file ?? null },
    // Where a file system has no shared memory SQLite works without a journal that stays.
    ...(existsSync(`${path}-wal`) ? [journal] : []),
  ]);
  folder = held;
  const parts = createParts({ db, clock, bootId, failpoint, log });
  // What a transcript holds is promised by the commit behind it, which looks itself.
  const look = (): void => check(true);
  const transcripts = createTranscripts({
    stateDir,
    log,
    redact,
    check: look,
    now: () => clock.now(),
    opening: openingOf(parts, log),
  });
  return {
    ...parts,
    db,
    transcripts,
    sessionDocuments: createDocumentFiles(transcripts),
    attachmentBytes: createFileBytes(stateDir),
    nodes: createNodes({ db, clock, bootId }),
    installation: null,
    onEnd: db.onEnd,
    problem: () => held.problem(),
    async close() {
      transcripts.close();
      db.close();
      lock.release();
    },
  };
}

/** Throws AppError("state") when it can't be made or written. */
export function prepareFolder(stateDir: string): void {
  try {
    mkdirSync(stateDir, { recursive: true, mode: 0o700 });
    chmodSync(stateDir, 0o700);
    accessSync(stateDir, constants.W_OK);
  } catch (error) {
    throw new AppError(
      "state",
      `The state folder ${stateDir} can't be written: ${errorText(error)}. Make it writable, or set HERALD_STATE_DIR to another folder.`,
      {
        cause: error,
      },
    );
  }
}
