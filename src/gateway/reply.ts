// The answer to a message as rows of the outbox: rendered, and put in the place of its draft where one stands (LV6). What a stop leaves
// of an answer that was half shown is such a row, too: so it is there after kill -9, and said once.
import { publicErrorText } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel, OutMessage, Part } from "../core/message.ts";
import type { Tx } from "../stores/database.ts";
import type { Inbox } from "../stores/inbox.ts";
import type { Outbox } from "../stores/outbox.ts";
import { closeQuestions, type OpenQuestionDeps } from "../subagents/open-questions.ts";
import type { Answered } from "./elsewhere.ts";
import { stoppedText } from "./main-turn.ts";
import { bringBackReplaced, type ReplacingDeps } from "./replacing.ts";

export interface ReplyDeps extends OpenQuestionDeps, ReplacingDeps {
  readonly inbox: Pick<Inbox, "finish" | "draftOf" | "listDrafted">;
  readonly outbox: Pick<Outbox, "add" | "withdraw">;
  readonly log: Logger;
  channel(name: string, account: string): Channel | null;
  /** How much of an unfinished text's end may be the beginning of a secret. */
  heldBack(text: string): number;
}

/** The outbox's name for the answer to a message. */
export const replyDelivery = (inboxId: number): string => `reply:${inboxId}`;

/** What people see of the answer that is being ended says so; where nobody has seen anything of it, nothing is said. */
export async function endDrafts(deps: ReplyDeps, tx: Tx, sessionKey: string, written: string): Promise<void> {
  for (const row of await deps.inbox.listDrafted(tx, sessionKey)) {
    const channel = deps.channel(row.channel, row.account);
    const inbound = channel?.decode(row.raw) ?? null;
    if (channel === null || inbound === null) continue;
    const say = (words: string): Part[] =>
      renderReply(deps, { row, inbound, channel }, { markdown: stoppedText(words, "Stopped.", deps), onlyDrafted: true });
    // The draft is one message; what doesn't fit into it was never shown.
    const parts = [say(written), say("")].find(({ length }) => length === 1) ?? [];
    const draft = await deps.inbox.draftOf(tx, row.id);
    await deps.outbox.add(tx, { delivery: replyDelivery(row.id), address: inbound.address, parts, draft });
  }
}

/** In the caller's transaction. False: the row is done already, settled by /stop; then nothing is said. */
export async function finishReply(deps: ReplyDeps, tx: Tx, { row, inbound }: Answered, parts: readonly Part[]): Promise<boolean> {
  if (!(await deps.inbox.finish(tx, row.id))) return false;
  await bringBackReplaced(deps, tx, row, inbound);
  // One turn at a time: what is open of this session was asked by the one that ends here, by its time limit say.
  if (row.sessionKey !== null) await closeQuestions(deps, tx, { sessionKey: row.sessionKey });
  // Read behind the line above: from there on none is begun (inbox.beginDraft).
  const draft = await deps.inbox.draftOf(tx, row.id);
  await deps.outbox.add(tx, { delivery: replyDelivery(row.id), address: inbound.address, parts, draft });
  return true;
}

export function renderReply(
  deps: Pick<ReplyDeps, "log">,
  { row, inbound, channel }: Answered,
  message: Omit<OutMessage, "replyTo">,
): Part[] {
  try {
    return channel.render({ ...message, ...(inbound.ref === undefined ? {} : { replyTo: inbound.ref }) }, inbound.address);
  } catch (error) {
    deps.log.error({ err: error, inboxId: row.id }, "a reply could not be rendered");
    return channel.render({ markdown: `⚠️ The answer could not be shown: ${publicErrorText(error)}` }, inbound.address);
  }
}
