// Making a chat's session (at its first message and at /new): the transcript file first, then its row, so that a row never
// points at nothing. A child's session is made by subagents/spawn.ts.
import type { Address } from "../core/address.ts";
import type { Database, Tx } from "../stores/database.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Session, Sessions } from "../stores/sessions.ts";
import type { TranscriptRef, Transcripts } from "../stores/transcripts.ts";

export interface SessionStores {
  readonly sessions: Sessions;
  readonly transcripts: Transcripts;
}

export interface SessionOwner {
  readonly key: string;
  readonly agentId: string;
  readonly address: Address | null;
  readonly parentKey: string | null;
}

/** Makes the file, durable on return; insert the row in the transaction that makes the session known. */
export async function prepareSession(
  { sessions, transcripts }: SessionStores,
  owner: SessionOwner,
): Promise<{ id: string; insert(tx: Tx): Promise<void> }> {
  const id = sessions.newSessionId();
  await transcripts.create({ agentId: owner.agentId, sessionId: id }, { key: owner.key, parent: owner.parentKey });
  return { id, insert: (tx) => sessions.insert(tx, { id, ...owner }) };
}

/** The open session of a key; made when there is none yet. */
export const ensureSession = async (stores: SessionStores & { readonly db: Database }, owner: SessionOwner): Promise<Session> =>
  (await stores.sessions.find(owner.key)) ??
  (await stores.db.transaction([lock.tree(owner.key)], (tx) => ensureSessionIn(stores, tx, owner)));

/** As part of the caller's transaction. */
export async function ensureSessionIn(stores: SessionStores, tx: Tx, owner: SessionOwner): Promise<Session> {
  const known = await stores.sessions.find(owner.key);
  if (known !== null) return known;
  const fresh = await prepareSession(stores, owner);
  await fresh.insert(tx);
  const made = await stores.sessions.find(owner.key);
  if (made === null) throw new Error(`session ${owner.key} vanished while it was made`);
  return made;
}

export const transcriptOf = (session: { agentId: string; id: string }): TranscriptRef => ({
  agentId: session.agentId,
  sessionId: session.id,
});
