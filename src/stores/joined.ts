// Several short messages of one address sent as one (DL7). The first of them, the lead, carries the words of all and is what
// delivery works on; the others are `joined` to it and share its fate: sent with it, given up with it. What is sent stands in the
// lead's row before the call, under a key of its own, so that after a crash it is asked for, or sent again, as the same message:
// the lead's own key would not do, because alone it says less, and finding that would pass for having found them all.
import type { Clock } from "../core/clock.ts";
import type { Part } from "../core/message.ts";
import type { Database, Tx } from "./database.ts";
import { fromRow, KEEP_DOUBT, OPEN, type OutboxRow, type StoredRow } from "./outbox-row.ts";

export interface Joined {
  /** These go out with the lead, as this part. Returns the lead as it is now. The same transaction marks it as being sent. */
  join(tx: Tx, lead: OutboxRow, others: readonly OutboxRow[], part: Part): Promise<OutboxRow>;
  /** Those that go out with this lead. */
  listJoined(lead: OutboxRow): Promise<OutboxRow[]>;
  /** They don't go together: each alone from now on, as if nothing had been tried, but for what may have arrived. */
  dissolve(tx: Tx, lead: OutboxRow, as: "queued" | "unknown"): Promise<void>;
}

interface Release {
  /** Takes a message out of one it shares with others, if that surely has not arrived. False: it may have. */
  release(tx: Tx, delivery: string): Promise<boolean>;
}

/** Names who is in it: another selection under the same lead is another message. */
const keyFor = (lead: OutboxRow, others: readonly OutboxRow[]): string => `${lead.key}+${others.map((row) => row.id).join("+")}`;

export function createJoined(db: Database, clock: Clock): Joined & Release {
  const setApart = async (tx: Tx, joinedAs: string, as: "queued" | "unknown", isAlone: boolean): Promise<void> => {
    await tx.run(
      `UPDATE outbox SET state = ?, joined_part = NULL, joined_as = CASE WHEN ? = 'unknown' THEN joined_as END, ${KEEP_DOUBT}, alone = CASE WHEN alone = 1 THEN 1 ELSE ? END,
         aside = 0, not_before = 0, attempts = 0, first_at = NULL WHERE joined_as = ? AND (${OPEN} OR state = 'joined')`,
      ...[as, as, as, Number(isAlone), joinedAs],
    );
  };
  return {
    async join(tx, lead, others, part) {
      const joinedAs = keyFor(lead, others);
      await tx.run("UPDATE outbox SET joined_as = ?, joined_part = ? WHERE id = ?", joinedAs, JSON.stringify(part), lead.id);
      for (const { id } of others)
        await tx.run("UPDATE outbox SET state = 'joined', joined_as = ?, sending_at = ? WHERE id = ?", joinedAs, clock.now(), id);
      return { ...lead, joinedAs, part, isLead: true };
    },
    listJoined: async ({ id, joinedAs }) =>
      (await db.all<StoredRow>("SELECT * FROM outbox WHERE joined_as = ? AND id <> ? AND state = 'joined' ORDER BY id", joinedAs, id)).map(
        fromRow,
      ),
    async dissolve(tx, { joinedAs }, as) {
      if (joinedAs !== null) await setApart(tx, joinedAs, as, true);
    },
    async release(tx, delivery) {
      const joined = await tx.all<{ joined_as: string }>(
        `SELECT DISTINCT joined_as FROM outbox WHERE delivery = ? AND joined_as IS NOT NULL AND (${OPEN} OR state = 'joined')`,
        delivery,
      );
      for (const { joined_as: joinedAs } of joined) {
        const lead = await tx.get<{ state: string }>("SELECT state FROM outbox WHERE joined_as = ? AND joined_part IS NOT NULL", joinedAs);
        if (lead?.state === "sending" || lead?.state === "unknown") return false;
        if (lead !== undefined) await setApart(tx, joinedAs, "queued", false);
      }
      return true;
    },
  };
}
