// A Telegram Bot API on loopback: real HTTP, long polling with the offset's real meaning, webhook calls with retries,
// strict errors in Telegram's words, faults on demand, and a record of what people see in each chat and topic.
// The real grammY talks to it, from this process or from another one that a test kills.
import { createFaults, openFakeServer } from "./fake-platform.ts";
import { handleCall } from "./fake-telegram-api.ts";
import {
  type Chat,
  chatJson,
  chatOf,
  type Fault,
  messageJson,
  type SeenDraft,
  type SeenMessage,
  type State,
  wake,
} from "./fake-telegram-state.ts";
import { callWebhook, pushUpdate } from "./fake-telegram-updates.ts";
import type { FloodLimits } from "./flood-limits.ts";
import { waitOn } from "./wait.ts";

export type { Fault, SeenMessage } from "./fake-telegram-state.ts";

export interface SayOptions {
  chat: number;
  text?: string;
  /** Default: the chat's id in a private chat, else 1. */
  from?: number;
  /** Topic id; makes the chat a forum (or a private chat with topics). */
  thread?: number;
  replyTo?: number;
  /** Further fields of the Message, e.g. `{photo: […], caption: "…"}`. */
  extra?: Record<string, unknown>;
}

export interface FakeTelegramOptions {
  /** Default: any free one. */
  port?: number;
  token?: string;
  username?: string;
  /** It says 429 where the real one would (flood-limits.ts). */
  limits?: FloodLimits;
  /** Pause before a refused webhook call is repeated; default 50. */
  webhookRetryMs?: number;
}

export type FakeTelegram = Awaited<ReturnType<typeof createFakeTelegram>>;

export async function createFakeTelegram(options: FakeTelegramOptions = {}) {
  const state = createState(options);
  const { port, close } = await openFakeServer((request, response) => handleCall(state, request, response), options.port);
  return {
    apiRoot: `http://127.0.0.1:${port}`,
    port,
    token: state.token,
    botId: state.botId,
    username: state.username,
    calls: state.calls,
    /** What whoever pressed was shown, by the press's id; null: the button stopped spinning, without a word. */
    toasts: (): ReadonlyMap<string, string | null> =>
      new Map(
        state.calls.flatMap(({ method, payload, executed }) =>
          method === "answerCallbackQuery" && executed
            ? [[String(payload.callback_query_id), (payload.text as string | undefined) ?? null] as const]
            : [],
        ),
      ),
    /** Typing signs shown. */
    actions: state.actions,
    /** Drafts shown, in all chats. */
    drafts: state.drafts,
    /** The draft people see there now; it vanishes after half a minute. */
    draft: (chat: number): SeenDraft | null => standingDraft(state, chat),
    /** A person presses Stop under the draft. */
    stopDraft: (chat: number) => stopDraft(state, chat),
    commands: () => state.commands,
    /** A person writes. Returns the message id. */
    say: (message: SayOptions) => say(state, message, "message"),
    /** Something a person attaches: its file_id. */
    upload(bytes: Buffer): string {
      const id = `file${state.uploads.size + 1}`;
      state.uploads.set(id, bytes);
      return id;
    },
    /** A person edits; the update carries the whole message again. */
    edit: (message: SayOptions & { id: number }) => say(state, message, "edited_message"),
    /** A person presses a button of a bot's message; `data` defaults to that of the button with this label. */
    press: (press: { chat: number; message: number; data?: string; label?: string; from?: number; old?: boolean }) =>
      pressButton(state, press),
    /** Any update, as it is (an update_id is added). */
    inject: (update: Record<string, unknown>) => pushUpdate(state, update),
    /** Puts an update into the queue again under the id it had. */
    replay: (update: Record<string, unknown>) => {
      state.updates.push(update);
      wake(state);
      if (state.webhook !== null) callWebhook(state, update).catch(() => undefined);
    },
    /** What the bot said, in order. `thread` null: only in the chat itself; left out: everywhere in the chat. */
    messages: (chat: number, thread?: number | null): SeenMessage[] =>
      (state.chats.get(chat)?.messages ?? []).filter((seen) => seen.fromBot && (thread === undefined || seen.thread === thread)),
    /** Everything in the chat, people's messages too. */
    history: (chat: number): SeenMessage[] => state.chats.get(chat)?.messages ?? [],
    /** Every message of the bot in every chat. */
    allMessages: (): SeenMessage[] => [...state.chats.values()].flatMap((chat) => chat.messages.filter((seen) => seen.fromBot)),
    /** Updates not confirmed yet. */
    pending: () => state.updates,
    faults: {
      ...state.faults,
      /** For a chaos run: asked for every call that no added fault strikes. */
      choose(chooser: ((method: string, payload: Record<string, unknown>) => Fault | null) | null) {
        state.chooser = chooser;
      },
    },
    chats: {
      add: (id: number, kind: { forum?: boolean } = {}) => void Object.assign(chatOf(state, id), kind),
      addTopic: (id: number, thread: number) => void chatOf(state, id).topics.set(thread, "open"),
      deleteTopic: (id: number, thread: number) => void chatOf(state, id).topics.delete(thread),
      closeTopic: (id: number, thread: number) => void chatOf(state, id).topics.set(thread, "closed"),
      /** `unopened`: the person never wrote to the bot; null: all is well again. */
      block: (id: number, trouble: Chat["trouble"] = "blocked") => void Object.assign(chatOf(state, id), { trouble }),
      migrate(from: number, to: number) {
        chatOf(state, from).migratedTo = to;
        chatOf(state, to).type = "supergroup";
      },
      /** A message disappears (a person deleted it). */
      deleteMessage(id: number, message: number) {
        const chat = chatOf(state, id);
        chat.messages = chat.messages.filter((seen) => seen.id !== message);
        wake(state);
      },
    },
    /** The token is no longer valid (until called with false). */
    revoke: (revoked = true) => void Object.assign(state, { revoked }),
    webhook: () => state.webhook,
    /** Resolves with the first truthy value; rejects after the deadline. */
    until: <T>(check: () => T, what = "a condition", timeoutMs = 45_000): Promise<NonNullable<T>> =>
      waitOn(state.wakers, what, check, timeoutMs),
    async close() {
      state.closed = true;
      wake(state);
      await close();
    },
  };
}

function createState(options: FakeTelegramOptions): State {
  const token = options.token ?? "7000001:fake-token-for-tests-0123456789";
  return {
    token,
    username: options.username ?? "herald_test_bot",
    botId: Number(token.split(":")[0]),
    revoked: false,
    nextUpdate: 500_000,
    nextMessage: 1_000,
    nextQuery: 1,
    updates: [],
    chats: new Map(),
    queries: new Map(),
    webhook: null,
    webhookRetryMs: options.webhookRetryMs ?? 50,
    poll: null,
    wakers: new Set(),
    commands: [],
    actions: [],
    drafts: [],
    calls: [],
    uploads: new Map(),
    faults: createFaults(),
    limits: options.limits ?? null,
    chooser: null,
    closed: false,
  };
}

function say(state: State, message: SayOptions & { id?: number }, type: "message" | "edited_message"): number {
  const chat = chatOf(state, message.chat);
  const id = message.id ?? state.nextMessage++;
  if (message.thread !== undefined && message.thread !== 1) {
    chat.forum ||= chat.type === "supergroup";
    if (!chat.topics.has(message.thread)) chat.topics.set(message.thread, "open");
  }
  const from = message.from ?? (message.chat > 0 ? message.chat : 1);
  const target = chat.messages.find((seen) => seen.id === message.replyTo);
  const thread = message.thread === undefined || message.thread === 1 ? null : message.thread;
  const shown = {
    id,
    chat: chat.id,
    thread,
    text: message.text ?? "",
    file: null,
    entities: [],
    buttons: [],
    replyTo: message.replyTo ?? null,
  };
  if (type === "message") chat.messages.push({ ...shown, quiet: false, edits: 0, reactions: [], fromBot: false, live: [] });
  pushUpdate(state, {
    [type]: {
      message_id: id,
      date: Math.floor(Date.now() / 1000),
      chat: chatJson(chat),
      from: { id: from, is_bot: false, first_name: `User ${from}` },
      ...(message.text === undefined ? {} : { text: message.text }),
      ...(thread === null ? {} : { message_thread_id: thread, is_topic_message: true }),
      ...(target === undefined ? {} : { reply_to_message: messageJson(state, chat, target) }),
      ...message.extra,
    },
  });
  return id;
}

function standingDraft({ drafts }: State, chat: number): SeenDraft | null {
  const last = drafts.findLast((draft) => draft.chat === chat) ?? null;
  return last === null || last.isOver || Date.now() - last.at > 30_000 ? null : last;
}

function stopDraft(state: State, id: number): void {
  const draft = standingDraft(state, id);
  if (draft === null || !draft.canStop) throw new Error("the fake shows no draft to stop");
  const topic = draft.thread === null ? {} : { message_thread_id: draft.thread };
  pushUpdate(state, { stopped_message_generation: { chat: chatJson(chatOf(state, id)), draft_id: draft.id, ...topic } });
}

function pressButton(
  state: State,
  press: { chat: number; message: number; data?: string; label?: string; from?: number; old?: boolean },
): string {
  const chat = chatOf(state, press.chat);
  const seen = chat.messages.find((message) => message.id === press.message);
  const data = press.data ?? seen?.buttons.find((button) => button.text === press.label)?.data;
  if (data === undefined) throw new Error("the fake has no such button to press");
  const id = String(state.nextQuery++);
  state.queries.set(id, false);
  const from = press.from ?? (press.chat > 0 ? press.chat : 1);
  const message =
    seen === undefined || press.old === true
      ? { chat: chatJson(chat), message_id: press.message, date: 0 }
      : messageJson(state, chat, seen);
  pushUpdate(state, {
    callback_query: { id, from: { id: from, is_bot: false, first_name: `User ${from}` }, chat_instance: "1", data, message },
  });
  return id;
}
