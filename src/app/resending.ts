// Other words in the place of the person's last message, or the same once more (WB3). In one transaction: the earlier exchange is marked on
// the page, the new message stands there, and its inbox row names the request it replaces. So kill -9 leaves the old exchange or the new
// one. The transcript only grows: the turn of the new request writes the line that sets the old one aside (gateway/request.ts).

import type { Agents } from "../agents/agent.ts";
import { WEB, type WebChannel } from "../channels/web/channel.ts";
import type { Address } from "../core/address.ts";
import type { Attachment } from "../core/attachment.ts";
import type { Clock } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Logger } from "../core/logger.ts";
import { parseCommandLine } from "../gateway/command-line.ts";
import { type Commands, plural } from "../gateway/commands.ts";
import { routeOf } from "../gateway/route.ts";
import { lock } from "../stores/lock-keys.ts";
import type { WebMessage } from "../stores/web-messages.ts";
import type { Resend, Resent } from "../web/chats.ts";
import type { AttachmentParts } from "./attachments.ts";
import type { Stores } from "./store-parts.ts";

export interface ChatDeskDeps {
  readonly stores: Stores;
  readonly agents: Agents;
  readonly channel: Pick<WebChannel, "health" | "decode">;
  readonly commands: Pick<Commands, "list" | "isKnown">;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly attaching: Pick<AttachmentParts, "sweep">;
  readonly failpoint: HitFailpoint;
  readonly log: Logger;
}

export const addressOf = (chat: string): Address => ({ ...WEB, chat, kind: "dm" });

/** More parts than any answer has. */
const MAX_BEHIND = 500;

const NOT_LAST = "This is not the last message of this chat any more. Write a new one.";
const A_COMMAND = "A command can't take the place of a message. Send it as a new one.";
const AT_WORK = "An answer is being written in this chat. Stop it first.";
const ON_ITS_WAY = "Something is on its way into this chat. Try again in a moment.";
const NO_WORDS = "This message has no files, so it needs words.";
const NOT_ANSWERED_BY_AGENT = "That was no message to the agent. Send it again as a new one.";
const NEWER = "Something newer stands behind this message. Write a new one instead.";

export function createResending(deps: ChatDeskDeps): (post: Resend) => Promise<Resent> {
  const { stores, bus, channel, agents } = deps;
  return async (post) => {
    const { id, chat, text } = post;
    const address = addressOf(chat);
    const key = routeOf(address, agents.defaultId())?.sessionKey;
    if (channel.health().state !== "on" || key === undefined) return { status: "off" };
    const message = { chat, key: `in:${id}`, author: "user", text } as const;
    const locks = [lock.inbox, lock.page(chat), lock.chat(address), lock.tree(key)];
    const done = await stores.db.transaction(locks, async (tx): Promise<Resent | { readonly seq: number }> => {
      if ((await stores.webMessages.findByKey(message.key)) !== null)
        return { status: (await stores.webMessages.post(tx, message)).status === "known" ? "known" : "conflict" };
      const found = await findReplaced(deps, post, key);
      if ("why" in found) return { status: "refused", text: found.why };
      // Other words for the same files.
      const attached = found.files.length === 0 ? null : { files: found.files };
      const { seq } = await stores.webMessages.post(tx, { ...message, extra: attached });
      await stores.webMessages.setAside(tx, chat, found.seqs, message.key);
      await stores.inbox.put(tx, WEB, [
        { externalId: id, raw: { id, chat, text, kind: "message", replaces: found.inboxId, files: found.files.map((file) => file.id) } },
      ]);
      return { seq };
    });
    if ("status" in done) return done;
    bus.emit({ type: "web.posted", chat, seq: done.seq });
    return { status: "accepted" };
  };
}

type Replaced =
  | { readonly inboxId: number; readonly seqs: readonly number[]; readonly files: readonly Attachment[] }
  | { readonly why: string };

/** The exchange that is to be set aside, or why it can't be, in words. */
async function findReplaced({ stores, commands }: ChatDeskDeps, post: Resend, sessionKey: string): Promise<Replaced> {
  if (parseCommandLine(post.text, commands.isKnown) !== null) return { why: A_COMMAND };
  const exchange = await stores.webMessages.lastExchange(post.chat, MAX_BEHIND);
  if (exchange?.asked.key !== `in:${post.replaces}`) return { why: NOT_LAST };
  const { asked, behind } = exchange;
  const row = await stores.inbox.findUpdate(WEB, post.replaces);
  if (row?.isDone === false || (await stores.inbox.countWaiting(sessionKey)) > 0) return { why: AT_WORK };
  // Its answer is on record and not shown yet: it would come behind the new message.
  if (await stores.outbox.hasWaiting(addressOf(post.chat))) return { why: ON_ITS_WAY };
  const inboxId = row?.id ?? repliedRow(behind[0]);
  if (inboxId === null || (row !== null && row.sessionKey === null)) return { why: NOT_ANSWERED_BY_AGENT };
  const sentOut = (await stores.runs.unfinishedBelow(sessionKey)).filter(({ createdAt }) => createdAt >= asked.at);
  if (sentOut.length > 0) return { why: stillAtWork(sentOut.length) };
  if (behind.some((message) => repliedRow(message) !== inboxId)) return { why: NEWER };
  const files = Array.isArray(asked.extra?.files) ? (asked.extra.files as Attachment[]) : [];
  if (post.text.trim() === "" && files.length === 0) return { why: NO_WORDS };
  return { inboxId, seqs: [asked, ...behind].map(({ seq }) => seq), files };
}

/** The inbox row a message of the agent's answers, by its name in the outbox; null: it answers none. */
const repliedRow = (message: WebMessage | undefined): number | null => Number(/^reply:(\d+)#/.exec(message?.key ?? "")?.[1] ?? 0) || null;

const stillAtWork = (count: number): string =>
  `${plural(count, "sub-agent")} that this message sent out ${count === 1 ? "is" : "are"} still at work. Stop ${count === 1 ? "it" : "them"} first, or write a new message.`;
