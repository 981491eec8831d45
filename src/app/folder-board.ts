// Runs as their state folder tells of them while no gateway serves it: read, and nothing else. What only a gateway at work knows (a place
// in the queue, what is spent of a limit, when something is archived) is left open.
import { join } from "node:path";
import { systemClock } from "../core/clock.ts";
import { noFailpoints } from "../core/failpoints.ts";
import { silentLogger } from "../core/logger.ts";
import { createDocumentFiles } from "../stores/document-files.ts";
import { openReadOnly } from "../stores/read-only.ts";
import { createTranscripts } from "../stores/transcripts.ts";
import type { Board, RunDetails } from "../web/board.ts";
import { createRunBoard } from "./board.ts";
import { createParts } from "./store-parts.ts";
import { DATABASE } from "./stores.ts";

export interface FolderBoard {
  readonly board: Board;
  readonly details: RunDetails;
  close(): void;
}

/** Throws AppError("state") when there is nothing to read. */
export function openFolderBoard(stateDir: string): FolderBoard {
  const db = openReadOnly(join(stateDir, DATABASE));
  const common = { clock: systemClock, log: silentLogger };
  const parts = createParts({ ...common, db, bootId: "", failpoint: noFailpoints });
  const transcripts = createTranscripts({ stateDir, log: silentLogger, now: () => systemClock.now(), redact: (text) => text });
  const stores = { ...parts, transcripts, sessionDocuments: createDocumentFiles(transcripts) };
  return {
    ...createRunBoard({
      ...common,
      stores,
      lane: { positions: async () => new Map() },
      archiver: { dueAt: () => null },
      payments: { ownLevels: async () => new Map() },
      again: { taskOf: async () => null },
      briefing: { list: async () => [], version: async () => 0 },
    }),
    close() {
      transcripts.close();
      db.close();
    },
  };
}
