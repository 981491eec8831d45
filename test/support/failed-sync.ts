// A process under io-faults.c that meets a failed sync of a transcript and of the database, and tells what its stores did
// about it. The kernel may forget what it could not sync and call the next sync a success, so the bytes must be written anew.
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { errorText, isStorageError } from "../../src/core/errors.ts";
import { newId } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { openDatabase, RELAXED, type Tx } from "../../src/stores/database.ts";
import { createTranscripts } from "../../src/stores/transcripts.ts";
import { openFaultControl } from "./io-faults.ts";

export interface FailedSyncs {
  /** What the first sync said; the second worked. */
  readonly transcript: { readonly error: string; readonly writes: number };
  /** What the commit said; the next one worked. */
  readonly database: { readonly error: string; readonly walBefore: number; readonly walAfter: number; readonly rows: number };
}

const { HERALD_STATE_DIR: stateDir = "", IO_FAULTS_CONTROL: path = "" } = process.env;
mkdirSync(stateDir);
const faults = openFaultControl(path);

/** The storage error of what is tried under a sync that fails once. */
function refusalOf(work: () => void): string {
  faults.arm({ name: "unsynced", skip: 0, lasts: "once" });
  try {
    work();
    return "none";
  } catch (error) {
    return isStorageError(error) ? errorText(error) : `not a storage error: ${errorText(error)}`;
  }
}

function failTranscript(): FailedSyncs["transcript"] {
  const transcripts = createTranscripts({ stateDir, log: silentLogger, now: Date.now, redact: (text) => text });
  const ref = { agentId: "main", sessionId: newId() };
  transcripts.create(ref, { key: "agent:main:web:dm:main", parent: null });
  transcripts.append(ref, [{ type: "note", text: "one" }]);
  const error = refusalOf(() => transcripts.sync(ref));
  transcripts.sync(ref);
  const { writes } = faults.tally();
  transcripts.close();
  return { error, writes };
}

function failDatabase(): FailedSyncs["database"] {
  const db = openDatabase({ path: join(stateDir, "herald.db") });
  const insert = (tx: Tx, key: string): void =>
    void tx.run("INSERT INTO web_messages (chat, key, author, text, at) VALUES ('main', ?, 'user', '', 1)", key);
  const sizeOfWal = (): number => statSync(join(stateDir, "herald.db-wal")).size;
  db.transaction([], (tx) => insert(tx, "relaxed"), RELAXED);
  const error = refusalOf(() => db.transaction([], (tx) => insert(tx, "refused")));
  const walBefore = sizeOfWal();
  db.transaction([], (tx) => insert(tx, "accepted"));
  const rows = db.all("SELECT key FROM web_messages WHERE key IN ('relaxed', 'accepted')").length;
  const result = { error, walBefore, walAfter: sizeOfWal(), rows };
  db.close();
  return result;
}

process.stdout.write(JSON.stringify({ transcript: failTranscript(), database: failDatabase() } satisfies FailedSyncs));
