// The state folder: made with tight modes, locked, and opened as the stores everything works on.
import { accessSync, chmodSync, constants, mkdirSync } from "node:fs";
import { join } from "node:path";
import { AppError, errorText } from "../core/errors.ts";
import { createAccounts } from "../stores/accounts.ts";
import { createBriefs } from "../stores/briefs.ts";
import { openDatabase } from "../stores/database.ts";
import { createInbox } from "../stores/inbox.ts";
import { createListings } from "../stores/listings.ts";
import { takeLock } from "../stores/lock.ts";
import { createMail } from "../stores/mail.ts";
import { createOutbox } from "../stores/outbox.ts";
import { createPairing } from "../stores/pairing.ts";
import { createRuns } from "../stores/runs.ts";
import { createScratchpad } from "../stores/scratchpad.ts";
import { createSessions } from "../stores/sessions.ts";
import { createTranscripts } from "../stores/transcripts.ts";
import { createTries } from "../stores/tries.ts";
import { createWebMessages } from "../stores/web-messages.ts";
import { taskEntries } from "../subagents/child.ts";
import type { Base } from "./base.ts";

export type StoreDeps = Pick<Base, "stateDir" | "clock" | "bus" | "log" | "secrets" | "failpoint">;

export type Stores = ReturnType<typeof openStores>;

/** Throws AppError("state" | "locked") in words. */
export function openStores({ stateDir, clock, bus, log, secrets, failpoint }: StoreDeps) {
  prepareFolder(stateDir);
  const lock = takeLock(stateDir, process.pid);
  try {
    const redact = (text: string): string => secrets.redact(text);
    const onSlow = (ms: number): void => log.warn({ ms }, "a transaction held the event loop");
    const db = openDatabase({ path: join(stateDir, "herald.db"), onSlow, redact });
    const onDamaged = (error: unknown): void => log.error({ err: error }, "a run on record can't be read; it is left out");
    const runs = createRuns({ db, clock, bus, onDamaged });
    const transcripts = createTranscripts({
      stateDir,
      log,
      redact,
      now: () => clock.now(),
      opening({ sessionId }) {
        const kept = runs.openingOf(sessionId);
        // It was there when the run took its first step.
        if (kept !== null && kept.steps > 0)
          log.warn({ sessionId }, "the transcript of a sub-agent at work is gone; it begins anew from its task");
        return kept === null ? null : { key: kept.childKey, parent: kept.requesterKey, entries: taskEntries(kept.requesterKey, kept.text) };
      },
    });
    return {
      db,
      runs,
      transcripts,
      accounts: createAccounts({ db }),
      inbox: createInbox({ db, clock, bus, failpoint }),
      outbox: createOutbox({ db, clock, bus }),
      sessions: createSessions({ db, clock }),
      mail: createMail({ db, clock }),
      briefs: createBriefs({ db, clock }),
      listings: createListings({ db, clock }),
      pairing: createPairing({ db, clock, bus }),
      scratchpad: createScratchpad({ db, clock }),
      tries: createTries({ db, clock }),
      webMessages: createWebMessages({ db, clock }),
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
