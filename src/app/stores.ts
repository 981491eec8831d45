// The state folder: made with tight modes, locked, and opened as the stores everything works on.
import { accessSync, chmodSync, constants, existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileStamp } from "../core/clock.ts";
import { AppError, errorText } from "../core/errors.ts";
import { createAccounts } from "../stores/accounts.ts";
import { createBriefs } from "../stores/briefs.ts";
import { createBrowsers } from "../stores/browsers.ts";
import { openDatabase } from "../stores/database.ts";
import { createDocumentFiles } from "../stores/document-files.ts";
import { createInbox } from "../stores/inbox.ts";
import { refuseForeignJournal, setJournalAside } from "../stores/journal.ts";
import { createListings } from "../stores/listings.ts";
import { LOCK, refuseUnlocked, takeLock } from "../stores/lock.ts";
import { createMail } from "../stores/mail.ts";
import { createNodes } from "../stores/nodes.ts";
import { createOutbox } from "../stores/outbox.ts";
import { createPairing } from "../stores/pairing.ts";
import { refuseAnew } from "../stores/remains.ts";
import { createRuns } from "../stores/runs.ts";
import { createScratchpad } from "../stores/scratchpad.ts";
import { createSessions } from "../stores/sessions.ts";
import { type HeldFile, holdStateFolder, type StateFolder } from "../stores/state-folder.ts";
import { createTranscripts } from "../stores/transcripts.ts";
import { createTries } from "../stores/tries.ts";
import { createWebMessages } from "../stores/web-messages.ts";
import { taskEntries } from "../subagents/child.ts";
import type { Base } from "./base.ts";

const DATABASE = "herald.db";

export interface StoreDeps extends Pick<Base, "stateDir" | "clock" | "bus" | "log" | "secrets" | "failpoint" | "bootId"> {
  /** The operator wants a new database although the folder holds remains of an earlier one. */
  readonly isNewWanted?: boolean;
}

export type Stores = ReturnType<typeof openStores>;

/** Throws AppError("state" | "locked") in words. */
export function openStores({ stateDir, clock, bus, log, secrets, failpoint, bootId, isNewWanted = false }: StoreDeps) {
  prepareFolder(stateDir);
  const path = join(stateDir, DATABASE);
  refuseUnlocked(stateDir, path);
  const lock = takeLock(stateDir, process.pid);
  try {
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
    folder = holdStateFolder(stateDir, [
      { name: LOCK },
      { name: DATABASE, neededBytes: () => db.neededBytes()?.file ?? null },
      // Where a file system has no shared memory SQLite works without a journal that stays.
      ...(existsSync(`${path}-wal`) ? [journal] : []),
    ]);
    const onDamaged = (error: unknown): void => log.error({ err: error }, "a run on record can't be read; it is left out");
    const runs = createRuns({ db, clock, bootId, onDamaged });
    const transcripts = createTranscripts({
      stateDir,
      log,
      redact,
      check,
      now: () => clock.now(),
      async opening({ sessionId }) {
        const kept = await runs.openingOf(sessionId);
        // It was there when the run took its first step.
        if (kept !== null && kept.steps > 0)
          log.warn({ sessionId }, "the transcript of a sub-agent at work is gone; it begins anew from its task");
        return kept === null ? null : { key: kept.childKey, parent: kept.requesterKey, entries: taskEntries(kept.requesterKey, kept.text) };
      },
    });
    const webMessages = createWebMessages({ db, clock });
    return {
      folder,
      db,
      runs,
      transcripts,
      sessionDocuments: createDocumentFiles(transcripts),
      accounts: createAccounts({ db }),
      inbox: createInbox({ db, clock, bootId, failpoint }),
      outbox: createOutbox({ db, clock, bootId }),
      nodes: createNodes({ db, clock, bootId }),
      sessions: createSessions({ db, clock }),
      mail: createMail({ db, clock }),
      briefs: createBriefs({ db, clock }),
      listings: createListings({ db, clock }),
      pairing: createPairing({ db, clock }),
      scratchpad: createScratchpad({ db, clock }),
      tries: createTries({ db, clock }),
      webMessages,
      browsers: createBrowsers({ db, clock }),
      close() {
        transcripts.close();
        db.close();
        lock.release();
      },
    };
  } catch (error) {
    lock.release();
    throw error;
  }
}

function prepareFolder(stateDir: string): void {
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
