// A plain message that answers a question: a reply to it, or, where the agent itself has asked, simply what it is told next in
// that chat; anything else would wait behind the very turn that waits for it. gateway.ts → here → questions/replies.ts
import type { Clock } from "../core/clock.ts";
import { agentIdOf } from "../core/ids.ts";
import type { Channel, Inbound } from "../core/message.ts";
import { liveId, type Question } from "../core/question.ts";
import { undecidedText } from "../questions/question-message.ts";
import { isBareVerdict, type Replies } from "../questions/replies.ts";
import type { Inbox, InboxRow } from "../stores/inbox.ts";
import { type LiveMessages, liveDelivery } from "../stores/live-messages.ts";
import type { Outbox } from "../stores/outbox.ts";
import type { Questions } from "../stores/questions.ts";
import type { Answer } from "./commands.ts";
import { isTurnOpen } from "./main-turn.ts";
import { routeOf } from "./route.ts";

export interface ReplyingDeps {
  readonly inbox: Pick<Inbox, "isWaiting">;
  readonly clock: Clock;
  readonly questions: Pick<Questions, "get" | "listOpen">;
  readonly live: Pick<LiveMessages, "findByRef">;
  readonly outbox: Pick<Outbox, "refsOf">;
  readonly replies: Pick<Replies, "settle">;
}

export type Meant =
  /** It answers this one. */
  | { readonly question: Question }
  /** It is for the agent, whose turn waits for an answer that this is not. */
  | { readonly behind: Question }
  /** It is for the agent, but may be meant as a Yes or No to what a sub-agent waits for. */
  | { readonly beside: Question };

const QUESTION = /^question:(.+)$/;

export interface Spoken {
  readonly row: Pick<InboxRow, "receivedAt">;
  readonly inbound: Inbound;
  readonly sessionKey: string;
}

/** Null: it has nothing to do with a question. */
export async function meantQuestion(deps: ReplyingDeps, { row, inbound, sessionKey }: Spoken): Promise<Meant | null> {
  const open = await deps.questions.listOpen(sessionKey);
  const replied = (await repliedTo(deps, inbound)) ?? (await repliedToPart(deps, inbound, sessionKey));
  if (replied !== null) return { question: replied };
  // The agent's own: a sub-agent's question holds up nobody, and what is said next is hardly meant for it.
  const own = open.filter(({ runId }) => runId === null);
  const asked = await firstAsked(deps, own, row);
  // A yes to a tool is never guessed from what somebody says.
  if (asked !== undefined && isToAgent(inbound) && !isOthers(inbound)) return { question: asked };
  const [first] = own;
  if (first !== undefined) return { behind: first };
  const [approval, ...others] = open.filter(({ kind }) => kind === "approve");
  const isMeant = approval !== undefined && others.length === 0 && inbound.address.kind === "dm" && isBareVerdict(inbound.text);
  return isMeant ? { beside: approval } : null;
}

/**
 * In a group anybody may be talking: there only what calls the agent by its name, and replies to nothing else. In a thread of Slack's
 * nobody could answer in words otherwise: a message in it replies to the thread's first one.
 */
const isToAgent = ({ address: { kind, thread }, mentioned, repliesTo }: Inbound): boolean =>
  kind === "dm" || (mentioned && (repliesTo === undefined || repliesTo === thread));

/** Forwarded, without a word of their own: it is somebody else's, no answer but something for the agent to read. */
const isOthers = ({ isWordless, quoted }: Inbound): boolean => isWordless === true && quoted !== undefined;

/**
 * What was said before it was asked is no answer to it: the very message that made the agent ask is looked at again when its channel
 * was off for a while. Nor is what comes when its time is over or nobody reads it any more, and only nobody has noticed yet.
 */
async function firstAsked(deps: ReplyingDeps, own: readonly Question[], { receivedAt }: Spoken["row"]): Promise<Question | undefined> {
  const asked = own.find(({ kind, createdAt, expiresAt }) => kind === "ask" && createdAt <= receivedAt && deps.clock.now() < expiresAt);
  return asked !== undefined && (await isTurnOpen(deps, asked.turnId)) ? asked : undefined;
}

async function repliedTo({ live, questions }: ReplyingDeps, { address, repliesTo }: Inbound): Promise<Question | null> {
  if (repliesTo === undefined) return null;
  // Slack answers a message of a direct chat in a thread below it.
  const { thread: _thread, ...chat } = address;
  const message = (await live.findByRef(address, repliesTo)) ?? (await live.findByRef(chat, repliesTo));
  const id = QUESTION.exec(message?.id ?? "")?.[1];
  return id === undefined ? null : await questions.get(id);
}

/**
 * A long one takes several messages, of which only the last changes (questions/question-message.ts): people reply to what they have read.
 * On Slack the thread below one of them is a conversation of its own, and what is asked is open in the one above.
 */
async function repliedToPart(
  { questions, outbox }: ReplyingDeps,
  { address, repliesTo }: Inbound,
  sessionKey: string,
): Promise<Question | null> {
  if (repliesTo === undefined) return null;
  const { thread, ...chat } = address;
  const above = thread === undefined ? null : routeOf(chat, agentIdOf(sessionKey));
  for (const key of [sessionKey, ...(above === null ? [] : [above.sessionKey])])
    for (const question of await questions.listOpen(key))
      if ((await outbox.refsOf(liveDelivery(liveId(question)))).includes(repliesTo)) return question;
  return null;
}

export const replyAnswer = ({ replies }: ReplyingDeps, { id }: Question, inbound: Inbound): Answer => ({
  act: (tx) => replies.settle(tx, id, inbound.sender, inbound.isWordless === true ? "" : inbound.text),
});

/** To who spoke to the agent while somebody waits for an answer. */
export function waitingText(channel: Channel, meant: Exclude<Meant, { readonly question: Question }>): string {
  if ("beside" in meant) return undecidedText(channel, meant.beside, false);
  if (meant.behind.kind === "approve") return undecidedText(channel, meant.behind, true);
  return "_⏳ I am waiting for an answer to the question above; this comes right after it._";
}
