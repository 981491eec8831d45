// Conversations of other channels as the page reads and steers them (WB4). What is said there from the page is a turn of that session like
// one of a group's end (core/wake.ts): it waits behind what is being answered, survives a kill, and the answer goes to that channel. The
// words themselves are posted there before it, so that nobody reads an answer to something they never saw.
// web/sessions-api.ts → here → gateway/conversation.ts, stores/inbox.ts
import { OPERATOR } from "../channels/web/channel.ts";
import { type Address, addressKey } from "../core/address.ts";
import { programNameOf } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import { visibleLine, visibleText } from "../core/visible-text.ts";
import { wakeRaw } from "../core/wake.ts";
import { plural } from "../gateway/commands.ts";
import type { Conversations } from "../gateway/conversation.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Session } from "../stores/sessions.ts";
import { isTopicNote } from "../stores/transcript-entry.ts";
import type { PageRange } from "../stores/transcript-page.ts";
import type { Steering } from "../subagents/steering.ts";
import type { Steered } from "../web/runs-api.ts";
import type { SessionDesk, SessionLine } from "../web/sessions.ts";
import { originOf } from "./board.ts";
import type { Channels } from "./channels.ts";
import type { Stores } from "./store-parts.ts";

export interface SessionDeskDeps {
  readonly stores: Pick<Stores, "db" | "sessions" | "transcripts" | "runs" | "inbox" | "outbox" | "pairing">;
  readonly channels: Pick<Channels, "find">;
  readonly conversations: Pick<Conversations, "halt">;
  readonly steering: Pick<Steering, "stopBelow">;
  readonly log: Logger;
}

/** A chat of another channel. */
type Chat = Session & { readonly address: Address };

const PAGE = OPERATOR.name ?? OPERATOR.id;
const MAX_LAST_WORDS = 160;
const isShown: PageRange["fits"] = (entry) => !isTopicNote(entry) && (entry.type !== "message" || entry.text.trim() !== "");
const isSaid: PageRange["fits"] = (entry) => entry.type === "message" && entry.text.trim() !== "";

export function createSessionDesk(deps: SessionDeskDeps): SessionDesk {
  const { sessions, transcripts } = deps.stores;
  const find = async (id: string): Promise<Chat | null> => {
    const session = await sessions.get(id);
    if (session === null || session.endedAt !== null || session.parentKey !== null) return null;
    // A program's, also where its runs are announced in a chat: nobody talks there.
    if (programNameOf(session.key) !== null) return null;
    return session.address === null || session.address.channel === "web" ? null : { ...session, address: session.address };
  };
  return {
    async list(after, limit) {
      const last = after === null ? null : await sessions.get(after);
      const listed = await sessions.listChats(last, limit + 1);
      const shown = listed
        .slice(0, limit)
        .flatMap((session) => (session.address === null ? [] : [{ ...session, address: session.address }]));
      const lines = await toLines(deps, shown);
      return { sessions: lines, next: listed.length > limit ? (listed[limit - 1]?.id ?? null) : null };
    },
    async find(id) {
      const session = await find(id);
      return session === null ? null : ((await toLines(deps, [session]))[0] ?? null);
    },
    async transcript(id, range) {
      const session = await find(id);
      if (session === null) return null;
      try {
        return await transcripts.page({ agentId: session.agentId, sessionId: id }, { ...range, fits: isShown });
      } catch (error) {
        // Gone: there is none to show, and what else is known still is.
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return { entries: [], before: null };
        throw error;
      }
    },
    async stop(id) {
      const session = await find(id);
      return session === null ? null : stop(deps, session);
    },
    async send(id, said) {
      const session = await find(id);
      return session === null ? null : send(deps, session, said);
    },
  };
}

async function toLines({ stores: { transcripts, runs, pairing } }: SessionDeskDeps, chats: readonly Chat[]): Promise<SessionLine[]> {
  const people = chats.length === 0 ? [] : await pairing.listPeople();
  const lines: SessionLine[] = [];
  for (const { id, key, agentId, address, createdAt } of chats) {
    // Moved away or damaged, it still has a name.
    const page = await transcripts.page({ agentId, sessionId: id }, { before: null, limit: 1, fits: isSaid }).catch(() => null);
    const last = page?.entries[0]?.entry;
    const isTheirs = (one: { address: Address | null }): boolean => one.address !== null && addressKey(one.address) === addressKey(address);
    const person = address.kind === "dm" ? people.find(isTheirs) : undefined;
    lines.push({
      ...{ id, key, channel: address.channel, origin: originOf(address), name: person?.senderName ?? null },
      lastAt: last === undefined ? createdAt : Date.parse(last.timestamp),
      lastWords: last?.type === "message" ? visibleLine(last.text, MAX_LAST_WORDS) : null,
      atWork: (await runs.unfinishedBelow(key)).length,
    });
  }
  return lines.sort((one, other) => other.lastAt - one.lastAt);
}

async function stop({ stores: { db }, conversations, steering, log }: SessionDeskDeps, { key, address }: Chat): Promise<Steered> {
  return db.transaction([lock.tree(key), lock.chat(address)], async (tx): Promise<Steered> => {
    let stopped = 0;
    const isHalted = await conversations.halt(tx, key, async () => {
      stopped = (await steering.stopBelow(tx, key, "from the page")).length;
    });
    if (!isHalted && stopped === 0) return { status: "late", text: "Nothing is at work there." };
    log.info({ audit: "stopped", sessionKey: key }, "a conversation was stopped from the page");
    return { status: "done", text: `What it was at is ended there. Stopped ${plural(stopped, "sub-agent")}.` };
  });
}

async function send(
  deps: SessionDeskDeps,
  { key: sessionKey, address }: Chat,
  { key, text: written }: { key: string; text: string },
): Promise<Steered> {
  const { db, inbox, outbox } = deps.stores;
  const channel = deps.channels.find(address.channel, address.account);
  if (channel === null) return { status: "late", text: `${originOf(address)} can't be reached: its channel is off.` };
  const text = visibleText(written);
  const quoted = text.replace(/^/gm, "> ");
  await db.transaction([lock.tree(sessionKey), lock.chat(address)], async (tx) => {
    const parts = channel.render({ markdown: `_Said on the page:_\n\n${quoted}` }, address);
    // Sent once more by a browser that heard no answer: both rows are there already.
    if (!(await outbox.add(tx, { delivery: `page:v1:${key}`, address, parts }))) return;
    const said = `[from whoever runs this gateway, on its page]\n${text}`;
    const raw = wakeRaw({ sessionKey, address, person: null, message: `page:${key}`, text: said, from: PAGE });
    await inbox.wake(tx, address, { key: `page:${key}`, sessionKey, raw });
  });
  deps.log.info({ audit: "said", sessionKey }, "something was said in a conversation from the page");
  return { status: "done", text: "Said there. The answer goes to that chat and stands here." };
}
