// The page's chats as a person keeps them: name, removal, other words for the last message, the commands to complete (WB3).
// web/chats-api.ts → here → stores
import { fileChat, WEB } from "../channels/web/channel.ts";
import { fileStamp } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import { chatKey } from "../core/ids.ts";
import { type Commands, plural } from "../gateway/commands.ts";
import { lock } from "../stores/lock-keys.ts";
import type { ChatDesk, CommandHint } from "../web/chats.ts";
import { archiveDeleted } from "./deleted-chats.ts";
import { addressOf, type ChatDeskDeps, createResending } from "./resending.ts";

export function createChatDesk(deps: ChatDeskDeps): ChatDesk {
  const { stores, bus } = deps;
  return {
    resend: createResending(deps),
    async rename(chat, title) {
      await stores.db.transaction([lock.page(chat)], (tx) => stores.webChats.rename(tx, chat, title));
      bus.emit({ type: "chat.changed", chat, isGone: false });
    },
    async about(chat) {
      const keys = keysOf(deps, chat);
      const running = await Promise.all(keys.map((key) => stores.runs.unfinishedBelow(key)));
      return { messages: await stores.webChats.count(chat), isAtWork: await isAtWork(deps, chat, keys), running: running.flat().length };
    },
    remove: (chat) => remove(deps, chat),
    commands: () => deps.commands.list().flatMap(hintsOf),
  };
}

/** Whichever agent it was led to. */
const keysOf = ({ agents }: ChatDeskDeps, chat: string): string[] => agents.list().map(({ id }) => chatKey(id, addressOf(chat)));

/** Also a message that was posted a moment ago and that nobody has looked at yet: it has no session so far. */
async function isAtWork({ stores, channel }: ChatDeskDeps, chat: string, keys: readonly string[]): Promise<boolean> {
  const open = await stores.inbox.listOpen(WEB);
  return open.some(({ raw, sessionKey }) => keys.includes(sessionKey ?? "") || channel.decode(raw)?.address.chat === chat);
}

/**
 * Only of a chat at rest: what still runs would go on without a chat to answer in. Its messages and files are removed; its transcripts are archived
 * like those of sub-agents, and go when those go (archive.purgeAfterDays). Runs stay on record.
 */
async function remove(deps: ChatDeskDeps, chat: string): Promise<string | null> {
  const { stores, log } = deps;
  const keys = keysOf(deps, chat);
  const locks = [lock.inbox, lock.page(chat), lock.chat(addressOf(chat)), ...keys.map(lock.tree)];
  const refusal = await stores.db.transaction(locks, async (tx) => {
    const why = await whyNot(deps, chat, keys);
    if (why !== null) return why;
    await stores.webChats.remove(tx, chat);
    await stores.attachments.forgetOf(tx, fileChat(chat));
    for (const session of (await Promise.all(keys.map((key) => stores.sessions.listOf(key)))).flat()) {
      await stores.sessions.end(tx, session.id);
      await stores.sessions.setToArchive(tx, session.id, `${session.id}.jsonl.deleted.${fileStamp(deps.clock.now())}`);
    }
    return null;
  });
  if (refusal !== null) return refusal;
  deps.failpoint("chat.deleted");
  log.info({ audit: "chat deleted", chat }, "a chat was deleted on the page");
  deps.bus.emit({ type: "chat.changed", chat, isGone: true });
  await archiveDeleted(stores, log);
  // Killed before it, or refused by the disk: the next sweep finds them.
  await deps.attaching
    .sweep()
    .catch((error: unknown) => log.warn({ reason: errorText(error) }, "the files of a deleted chat are removed later"));
  return null;
}

async function whyNot(deps: ChatDeskDeps, chat: string, keys: readonly string[]): Promise<string | null> {
  const { stores } = deps;
  if (await isAtWork(deps, chat, keys)) return "An answer is being written in this chat. Stop it first.";
  const running = (await Promise.all(keys.map((key) => stores.runs.unfinishedBelow(key)))).flat().length;
  if (running > 0)
    return `${plural(running, "sub-agent")} of this chat ${running === 1 ? "is" : "are"} still at work. Stop ${running === 1 ? "it" : "them"} first: /stop in that chat ends all of it.`;
  return (await stores.outbox.hasWaiting(addressOf(chat))) ? "Something is on its way into this chat. Try again in a moment." : null;
}

function hintsOf({ name, usage, summary, actions = [] }: ReturnType<Commands["list"]>[number]): CommandHint[] {
  if (usage === "") return [];
  const more = actions.map((action) => ({ text: `/${name} ${action.name}`, usage: `/${name} ${action.usage}`, summary: action.summary }));
  return [{ text: `/${name}`, usage: more.length === 0 ? usage : `/${name} …`, summary }, ...more];
}
