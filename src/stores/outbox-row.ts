// The outbox table ↔ OutboxRow: names and JSON columns, nothing else.
import type { Address } from "../core/address.ts";
import type { Part } from "../core/message.ts";
import { unescapeId } from "../core/platform-id.ts";
import { parseColumn } from "./database.ts";

export interface OutboxRow {
  readonly id: number;
  readonly delivery: string;
  readonly n: number;
  /** Stable over retries and restarts: `<delivery>#<n>`. */
  readonly key: string;
  readonly parts: number;
  readonly madeAt: number;
  readonly address: Address;
  /** What is sent: its own words, or those of several messages together. */
  readonly part: Part;
  readonly state: "queued" | "sending" | "unknown" | "joined" | "sent" | "blocked" | "withdrawn";
  /** The answer to a command. */
  readonly isAnswer: boolean;
  /** Under which key it was last sent together with others; null: never, or surely in vain. */
  readonly joinedAs: string | null;
  /** It is what is sent for the others too (stores/joined.ts). */
  readonly isLead: boolean;
  /** It was refused together with others: it goes alone from now on. */
  readonly isAlone: boolean;
  /** It failed before: what comes behind it doesn't wait for it. */
  readonly isAside: boolean;
  readonly notBefore: number;
  /** Tries that failed: the backoff grows by them. */
  readonly attempts: number;
  /** Since when it has failed without a break. */
  readonly firstAt: number | null;
  /** When the first attempt began that may have arrived and nobody has looked for; null: none has, surely. */
  readonly sendingAt: number | null;
  readonly ref: string | null;
  readonly reason: string | null;
  readonly runId: string | null;
  /** What stands in the row can't be read any more: there is nothing to send. */
  readonly isDamaged: boolean;
}

export interface StoredRow extends Record<string, unknown> {
  id: number;
}

/** Still to be sent. The indexes of the open rows are used only where these words are repeated exactly. */
export const OPEN = "state IN ('queued', 'sending', 'unknown')";
/** An attempt that surely did not arrive is forgotten. */
export const KEEP_DOUBT = "sending_at = CASE WHEN ? = 'unknown' THEN sending_at END";

export function fromRow(row: StoredRow): OutboxRow {
  const content = readContent(row);
  return {
    id: row.id,
    delivery: row.delivery as string,
    n: row.n as number,
    parts: row.parts as number,
    key: `${row.delivery}#${row.n}`,
    madeAt: row.created_at as number,
    ...content,
    state: row.state as OutboxRow["state"],
    isAnswer: row.rank === 0,
    joinedAs: row.joined_as as string | null,
    isLead: row.joined_part !== null,
    isAlone: row.alone === 1,
    isAside: row.aside === 1,
    notBefore: row.not_before as number,
    attempts: row.attempts as number,
    firstAt: row.first_at as number | null,
    sendingAt: row.sending_at as number | null,
    ref: row.ref as string | null,
    reason: row.reason as string | null,
    runId: row.run_id as string | null,
  };
}

/** A row that can't be read must not hold up those behind it: it is given up by name, and its address goes on. */
function readContent(row: StoredRow): Pick<OutboxRow, "address" | "part" | "isDamaged"> {
  const at = { table: "outbox", id: row.id };
  try {
    const address = parseColumn<Address>(row.address as string, { ...at, column: "address" });
    const text = (row.joined_part ?? row.part) as string;
    return { address, part: parseColumn<Part>(text, { ...at, column: "part" }), isDamaged: false };
  } catch {
    // Where it would have gone, as far as its key tells.
    const [channel = "", ...ids] = String(row.address_key).split("/");
    const [account = "", chat = ""] = ids.map((id) => unescapeId(id) ?? id);
    return { address: { channel, account, chat, kind: "dm" }, part: {}, isDamaged: true };
  }
}
