// Making a chat's session (at its first message and at /new): the transcript file first, then its row, so that a row never
// points at nothing. A child's session is made by subagents/spawn.ts.
import type { Address } from "../core/address.ts";
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
export function prepareSession({ sessions, transcripts }: SessionStores, owner: SessionOwner): { id: string; insert(): void } {
  const id = sessions.newSessionId();
  transcripts.create({ agentId: owner.agentId, sessionId: id }, { key: owner.key, parent: owner.parentKey });
  return { id, insert: () => sessions.insert({ id, ...owner }) };
}

/** The open session of a key; made when there is none yet. */
export function ensureSession(stores: SessionStores, owner: SessionOwner): Session {
  const known = stores.sessions.find(owner.key);
  if (known !== null) return known;
  prepareSession(stores, owner).insert();
  const made = stores.sessions.find(owner.key);
  if (made === null) throw new Error(`session ${owner.key} vanished while it was made`);
  return made;
}

export const transcriptOf = (session: { agentId: string; id: string }): TranscriptRef => ({
  agentId: session.agentId,
  sessionId: session.id,
});
