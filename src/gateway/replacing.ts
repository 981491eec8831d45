// A message that was posted in the place of another (WB3) and comes to nothing before a turn has read it: dropped by /stop or /new, or
// answered with why it can't be. The page folded the earlier exchange when it was posted, the transcript would have set it aside with the
// turn: left like that, people and the model would remember different conversations. The transcript decides, because it only grows: where the new request
// is not in it, what it was to replace counts again on the page, in the transaction that settles its row.
import type { Inbound } from "../core/message.ts";
import type { Tx } from "../stores/database.ts";
import type { WebMessages } from "../stores/web-messages.ts";
import { isOnRecord, type RequestDeps } from "./request.ts";

export interface ReplacingDeps extends Pick<RequestDeps, "sessions" | "transcripts"> {
  readonly webMessages: Pick<WebMessages, "bringBack">;
}

/** Of a row that is settled in this transaction, which holds the locks of its tree and of its chat of the page (lock.pageOf). */
export async function bringBackReplaced(
  deps: ReplacingDeps,
  tx: Tx,
  row: { readonly id: number; readonly sessionKey: string | null },
  inbound: Inbound | null,
): Promise<void> {
  if (inbound?.replaces === undefined || inbound.ref === undefined) return;
  if (row.sessionKey !== null && (await isOnRecord(deps, row.sessionKey, row.id))) return;
  const { chat } = inbound.address;
  for (const seq of await deps.webMessages.bringBack(tx, chat, `in:${inbound.ref}`)) tx.emit({ type: "web.edited", chat, seq });
}
