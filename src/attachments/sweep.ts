// Forgetting files: uploads nobody sent, what is older than the settings keep or of a chat that was deleted, and bytes without a row, which
// a process left that was killed between the two. Copies in workspaces go first, because only the row says which they are: killed behind
// them, the row is still there and the next sweep goes on. Rows go before bytes: bytes nobody knows of are found by the next sweep, a row
// without bytes would be a promise.
import type { Clock } from "../core/clock.ts";
import type { AttachmentBytes } from "../stores/attachment-bytes.ts";
import type { Attachments, Due, StoredAttachment } from "../stores/attachments.ts";
import type { Database } from "../stores/database.ts";

export interface SweepDeps {
  readonly db: Database;
  readonly attachments: Attachments;
  readonly bytes: AttachmentBytes;
  readonly clock: Clock;
  /** The copy that was laid into a workspace, wherever there is one that is still as it was laid there. Never rejects. */
  removeCopies(file: StoredAttachment): Promise<void>;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const AT_ONCE = 200;

export async function sweepAttachments(deps: SweepDeps, keepDays: number): Promise<void> {
  const { bytes, attachments } = deps;
  const now = deps.clock.now();
  const older = { unsentBefore: now - DAY_MS, before: now - keepDays * DAY_MS };
  for (let isMore = true; isMore; ) isMore = await sweepSome(deps, older);
  // Longer than any upload takes.
  const old = await bytes.listBefore(now - HOUR_MS);
  const known = await attachments.known(old);
  await bytes.remove(old.filter((id) => !known.has(id)));
}

/** False: that was all. */
async function sweepSome({ db, attachments, bytes, removeCopies }: SweepDeps, older: Due): Promise<boolean> {
  const due = await attachments.listDue(older, AT_ONCE);
  for (const file of due) await removeCopies(file);
  // What was sent meanwhile is not due any more: it had no copy yet.
  const ids = due.map(({ id }) => id);
  await bytes.remove(await db.transaction([], (tx) => attachments.purge(tx, ids, older)));
  return due.length === AT_ONCE;
}
