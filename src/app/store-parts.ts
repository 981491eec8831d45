// What everything works on, whichever database stands behind it: the stores that are made the same way for all of them.

import { addressKey } from "../core/address.ts";
import { onFirstUse } from "../core/first-use.ts";
import type { Logger } from "../core/logger.ts";
import { createAccounts } from "../stores/accounts.ts";
import { createApprovalRules } from "../stores/approval-rules.ts";
import type { AttachmentBytes } from "../stores/attachment-bytes.ts";
import { type Attachments, createAttachments } from "../stores/attachments.ts";
import { createBriefs } from "../stores/briefs.ts";
import { createBrowsers } from "../stores/browsers.ts";
import { createBudgets } from "../stores/budgets.ts";
import type { Database, SqliteDatabase } from "../stores/database.ts";
import { createDigests } from "../stores/digests.ts";
import { createGroups } from "../stores/groups.ts";
import { createInbox } from "../stores/inbox.ts";
import { createLedger } from "../stores/ledger.ts";
import { createListings } from "../stores/listings.ts";
import { createLiveMessages } from "../stores/live-messages.ts";
import { createMail } from "../stores/mail.ts";
import type { Nodes } from "../stores/nodes.ts";
import { createOutbox } from "../stores/outbox.ts";
import { createPairing } from "../stores/pairing.ts";
import { createProgramTokens } from "../stores/program-tokens.ts";
import { createQuestions } from "../stores/questions.ts";
import type { RunListDeps } from "../stores/run-lists.ts";
import type { RunSearch } from "../stores/run-search.ts";
import { createRuns, type RunDeps, type Runs } from "../stores/runs.ts";
import { createScratchpad } from "../stores/scratchpad.ts";
import type { SessionDocuments } from "../stores/session-documents.ts";
import { createSessions } from "../stores/sessions.ts";
import type { Opening, TranscriptRef, Transcripts } from "../stores/transcripts.ts";
import { createTries } from "../stores/tries.ts";
import { createWebChats } from "../stores/web-chats.ts";
import { createWebMessages } from "../stores/web-messages.ts";
import { taskEntries } from "../subagents/child.ts";
import { closeQuestions } from "../subagents/open-questions.ts";
import type { Base } from "./base.ts";
import type { Installation, SharedOptions } from "./installation.ts";

export interface StoreDeps extends Pick<Base, "stateDir" | "clock" | "bus" | "log" | "secrets" | "failpoint" | "bootId"> {
  /** The operator wants a new database although the folder holds remains of an earlier one. */
  readonly isNewWanted?: boolean;
  /** PostgreSQL, and this process among those that share it; left out: alone on its folder. */
  readonly shared?: SharedOptions;
}

type Parts = ReturnType<typeof createParts>;

export interface Stores extends Parts {
  readonly db: Database;
  readonly transcripts: Transcripts;
  readonly sessionDocuments: SessionDocuments;
  readonly attachmentBytes: AttachmentBytes;
  readonly nodes: Nodes;
  /** What several processes have in common; null: there is only this one. */
  readonly installation: Installation | null;
  /** As of SqliteDatabase; left out: several processes share it. */
  readonly onEnd?: SqliteDatabase["onEnd"];
  /** What keeps it from taking anything in; null: nothing does. */
  problem(): string | null;
  close(): Promise<void>;
}

/** How a child's transcript begins that is not there yet. */
export const openingOf =
  ({ runs, attachments }: { runs: Pick<Runs, "openingOf">; attachments: Pick<Attachments, "picturesNamed"> }, log: Logger) =>
  async ({ sessionId }: TranscriptRef): Promise<Opening | null> => {
    const kept = await runs.openingOf(sessionId);
    // It was there when the run took its first step.
    if (kept !== null && kept.steps > 0)
      log.warn({ sessionId }, "the transcript of a sub-agent at work is gone; it begins anew from its task");
    if (kept === null) return null;
    const pictures = await attachments.picturesNamed(addressKey(kept.address), kept.text);
    return { key: kept.childKey, parent: kept.requesterKey, entries: taskEntries(kept.requesterKey, kept.text, pictures) };
  };

export interface PartDeps extends Pick<Base, "clock" | "bootId" | "failpoint" | "log"> {
  readonly db: Database;
  readonly onQueued?: RunDeps["onQueued"];
}

/** The stores that are the same whatever database stands behind them. */
export function createParts({ db, clock, bootId, failpoint, log, onQueued }: PartDeps) {
  const onDamaged = (error: unknown): void => log.error({ err: error }, "a run on record can't be read; it is left out");
  const asked = {
    questions: createQuestions({ db, clock }),
    outbox: createOutbox({ db, clock, bootId }),
    live: createLiveMessages({ db, clock }),
  };
  const onEnded: RunDeps["onEnded"] = (tx, runId) => closeQuestions(asked, tx, { runId });
  return {
    ...asked,
    runs: createRuns({ db, clock, bootId, onDamaged, onEnded, ...(onQueued === undefined ? {} : { onQueued }) }),
    runSearch: createSearching({ db, onDamaged }),
    accounts: createAccounts({ db }),
    inbox: createInbox({ db, clock, bootId, failpoint }),
    sessions: createSessions({ db, clock }),
    mail: createMail({ db, clock }),
    briefs: createBriefs({ db, clock }),
    listings: createListings({ db, clock }),
    pairing: createPairing({ db, clock }),
    scratchpad: createScratchpad({ db, clock }),
    tries: createTries({ db, clock }),
    webMessages: createWebMessages({ db, clock }),
    webChats: createWebChats({ db }),
    browsers: createBrowsers({ db, clock }),
    rules: createApprovalRules({ db, clock }),
    budgets: createBudgets({ db, clock, bootId, failpoint }),
    digests: createDigests({ db, clock }),
    groups: createGroups({ db, clock }),
    ledger: createLedger({ db }),
    attachments: createAttachments({ db, clock }),
    programTokens: createProgramTokens({ db, clock }),
  };
}

/** Loaded by whoever first looks at the board. */
function createSearching(deps: RunListDeps): RunSearch {
  const search = onFirstUse(async () => (await import("../stores/run-search.ts")).createRunSearch(deps));
  return {
    page: async (...wanted) => (await search()).page(...wanted),
    among: async (...wanted) => (await search()).among(...wanted),
    totals: async (filter) => (await search()).totals(filter),
    facets: async () => (await search()).facets(),
  };
}
