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
async function refusalOf(work: () => Promise<unknown>): Promise<string> {
  faults.arm({ name: "unsynced", skip: 0, lasts: "once" });
  try {
    await work();
    return "none";
  } catch (error) {
    return isStorageError(error) ? errorText(error) : `not a storage error: ${errorText(error)}`;
  }
}

async function failTranscript(): Promise<FailedSyncs["transcript"]> {
  const transcripts = createTranscripts({ stateDir, log: silentLogger, now: Date.now, redact: (text) => text });
  const ref = { agentId: "main", sessionId: newId() };
  await transcripts.create(ref, { key: "agent:main:web:dm:main", parent: null });
  await transcripts.append(ref, [{ type: "note", text: "one" }]);
  const error = await refusalOf(() => transcripts.sync(ref));
  await transcripts.sync(ref);
  const { writes } = faults.tally();
  transcripts.close();
  return { error, writes };
}

async function failDatabase(): Promise<FailedSyncs["database"]> {
  const db = openDatabase({ path: join(stateDir, "herald.db") });
  const insert = async (tx: Tx, key: string): Promise<void> =>
    void (await tx.run("INSERT INTO web_messages (chat, key, author, text, at) VALUES ('main', ?, 'user', '', 1)", key));
  const sizeOfWal = (): number => statSync(join(stateDir, "herald.db-wal")).size;
  await db.transaction([], (tx) => insert(tx, "relaxed"), RELAXED);
  const error = await refusalOf(() => db.transaction([], (tx) => insert(tx, "refused")));
  const walBefore = sizeOfWal();
  await db.transaction([], (tx) => insert(tx, "accepted"));
  const rows = (await db.all("SELECT key FROM web_messages WHERE key IN ('relaxed', 'accepted')")).length;
  const result = { error, walBefore, walAfter: sizeOfWal(), rows };
  db.close();
  return result;
}

process.stdout.write(JSON.stringify({ transcript: await failTranscript(), database: await failDatabase() } satisfies FailedSyncs));
