// A Telegram Bot API on loopback: real HTTP, long polling with the offset's real meaning, webhook calls with retries,
// strict errors in Telegram's words, faults on demand, and a record of what people see in each chat and topic.
// The real grammY talks to it, from this process or from another one that a test kills.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
  type ApiAnswer,
  bad,
  checkCommands,
  checkEntities,
  checkMarkup,
  checkText,
  type Entity,
  ok,
  refuse,
} from "./fake-telegram-rules.ts";

export interface SeenMessage {
  id: number;
  chat: number;
  /** null: the chat itself (or its General topic). */
  thread: number | null;
  text: string;
  entities: Entity[];
  buttons: { text: string; data: string }[];
  replyTo: number | null;
  quiet: boolean;
  /** How often it was edited. */
  edits: number;
  /** Emoji the bot put on it (on people's messages). */
  reactions: string[];
  fromBot: boolean;
}

/** `…_after`: the call is executed, then the answer goes wrong. */
export type Fault =
  | "429"
  | "500"
  | "500_after"
  | "html"
  | "401"
  | "409"
  | "drop"
  | "drop_after"
  | "truncate_after"
  | "hang"
  | "hang_after"
  | "slow"
  | { code: number; description: string; parameters?: Record<string, unknown> };

export interface FaultOptions {
  /** Calls of the method that pass before the fault strikes; default 0. */
  skip?: number;
  /** How many calls it strikes; default 1, Infinity until clear(). */
  times?: number;
  /** For 429: seconds. */
  retryAfter?: number;
  /** For slow: milliseconds. */
  delayMs?: number;
}

interface Call {
  method: string;
  payload: Record<string, unknown>;
  /** Whether the method did its work (also when the answer was then lost). */
  executed: boolean;
}

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

interface Chat {
  id: number;
  type: "private" | "group" | "supergroup";
  forum: boolean;
  topics: Map<number, "open" | "closed">;
  trouble: "blocked" | "kicked" | null;
  migratedTo: number | null;
  messages: SeenMessage[];
}

export interface FakeTelegramOptions {
  /** Default: any free one. */
  port?: number;
  token?: string;
  username?: string;
  /** Pause before a refused webhook call is repeated; default 50. */
  webhookRetryMs?: number;
}

interface State {
  token: string;
  username: string;
  botId: number;
  revoked: boolean;
  nextUpdate: number;
  nextMessage: number;
  nextQuery: number;
  updates: Record<string, unknown>[];
  chats: Map<number, Chat>;
  queries: Map<string, boolean>;
  webhook: { url: string; secret: string } | null;
  webhookRetryMs: number;
  poll: { end(answer: ApiAnswer): void } | null;
  wakers: Set<() => void>;
  commands: unknown[];
  actions: { chat: number; thread: number | null }[];
  calls: Call[];
  faults: { method: string; fault: Fault; skip: number; times: number; options: FaultOptions }[];
  chooser: ((method: string, payload: Record<string, unknown>) => Fault | null) | null;
  open: Set<ServerResponse>;
  closed: boolean;
}

export type FakeTelegram = Awaited<ReturnType<typeof createFakeTelegram>>;

export async function createFakeTelegram(options: FakeTelegramOptions = {}) {
  const state = createState(options);
  const server = createServer((request, response) => {
    state.open.add(response);
    response.on("close", () => state.open.delete(response));
    handle(state, request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const changed = () => {
    for (const wake of [...state.wakers]) wake();
  };
  return {
    apiRoot: `http://127.0.0.1:${port}`,
    port,
    token: state.token,
    botId: state.botId,
    username: state.username,
    calls: state.calls,
    /** Typing signs shown. */
    actions: state.actions,
    commands: () => state.commands,
    /** A person writes. Returns the message id. */
    say: (message: SayOptions) => say(state, message, "message"),
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
      changed();
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
      add(method: string, fault: Fault, given: FaultOptions = {}) {
        state.faults.push({ method, fault, skip: given.skip ?? 0, times: given.times ?? 1, options: given });
      },
      clear: () => void state.faults.splice(0),
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
      block: (id: number, trouble: Chat["trouble"] = "blocked") => void Object.assign(chatOf(state, id), { trouble }),
      migrate(from: number, to: number) {
        chatOf(state, from).migratedTo = to;
        chatOf(state, to).type = "supergroup";
      },
      /** A message disappears (a person deleted it). */
      deleteMessage(id: number, message: number) {
        const chat = chatOf(state, id);
        chat.messages = chat.messages.filter((seen) => seen.id !== message);
        changed();
      },
    },
    /** The token is no longer valid (until called with false). */
    revoke: (revoked = true) => void Object.assign(state, { revoked }),
    webhook: () => state.webhook,
    /** Resolves with the first value that is not undefined, null or false; rejects after the deadline. */
    until: <T>(check: () => T, what = "a condition", deadlineMs = 15_000): Promise<NonNullable<T>> => until(state, check, what, deadlineMs),
    async close() {
      state.closed = true;
      for (const response of state.open) response.destroy();
      changed();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
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
    calls: [],
    faults: [],
    chooser: null,
    open: new Set(),
    closed: false,
  };
}

function until<T>(state: State, check: () => T, what: string, deadlineMs: number): Promise<NonNullable<T>> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      clearInterval(ticker);
      state.wakers.delete(look);
    };
    const look = () => {
      const value = check();
      if (value === undefined || value === null || value === false) return;
      end();
      resolve(value as NonNullable<T>);
    };
    const timer = setTimeout(() => {
      end();
      reject(new Error(`waited ${deadlineMs} ms for ${what}`));
    }, deadlineMs);
    const ticker = setInterval(look, 10);
    state.wakers.add(look);
    look();
  });
}

function chatOf(state: State, id: number): Chat {
  const known = state.chats.get(id);
  if (known !== undefined) return known;
  const type = id > 0 ? "private" : String(id).startsWith("-100") ? "supergroup" : "group";
  const chat: Chat = { id, type, forum: false, topics: new Map(), trouble: null, migratedTo: null, messages: [] };
  state.chats.set(id, chat);
  return chat;
}

const wake = (state: State) => {
  for (const waker of [...state.wakers]) waker();
};

function pushUpdate(state: State, update: Record<string, unknown>): Record<string, unknown> {
  const full = { update_id: state.nextUpdate++, ...update };
  state.updates.push(full);
  wake(state);
  if (state.webhook !== null) callWebhook(state, full).catch(() => undefined);
  return full;
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
  const shown = { id, chat: chat.id, thread, text: message.text ?? "", entities: [], buttons: [], replyTo: message.replyTo ?? null };
  if (type === "message") chat.messages.push({ ...shown, quiet: false, edits: 0, reactions: [], fromBot: false });
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

const chatJson = (chat: Chat) => ({
  id: chat.id,
  type: chat.type,
  ...(chat.forum ? { is_forum: true } : {}),
  ...(chat.id > 0 ? {} : { title: "Group" }),
});

function messageJson(state: State, chat: Chat, seen: SeenMessage): Record<string, unknown> {
  const from = seen.fromBot
    ? { id: state.botId, is_bot: true, first_name: "Herald", username: state.username }
    : { id: 1, is_bot: false, first_name: "User 1" };
  const topic = seen.thread === null ? {} : { message_thread_id: seen.thread, is_topic_message: true };
  return { message_id: seen.id, date: Math.floor(Date.now() / 1000), chat: chatJson(chat), from, text: seen.text, ...topic };
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

async function handle(state: State, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const [, token, method = ""] = /^\/bot([^/]+)\/(\w+)/.exec(request.url ?? "") ?? [];
  if (token === undefined) return respond(response, refuse(404, "Not Found"));
  if (token !== state.token || state.revoked) return respond(response, refuse(401, "Unauthorized"));
  const text = Buffer.concat(chunks).toString("utf8");
  const payload = (text === "" ? {} : JSON.parse(text)) as Record<string, unknown>;
  const call: Call = { method, payload, executed: false };
  state.calls.push(call);
  const fault = takeFault(state, method, payload);
  if (fault !== null && !isAfter(fault.fault)) {
    if (fault.fault !== "slow") return strike(state, response, fault);
    await new Promise((resolve) => setTimeout(resolve, fault.options.delayMs ?? 100));
  }
  const answer = method === "getUpdates" ? await getUpdates(state, payload, response) : execute(state, method, payload);
  call.executed = answer.status === 200;
  wake(state);
  if (fault !== null && isAfter(fault.fault)) return strike(state, response, fault, answer);
  respond(response, answer);
}

const isAfter = (fault: Fault): boolean => typeof fault === "string" && fault.endsWith("_after");

function takeFault(state: State, method: string, payload: Record<string, unknown>): { fault: Fault; options: FaultOptions } | null {
  for (const fault of state.faults) {
    if (fault.method !== method || fault.times <= 0) continue;
    if (fault.skip > 0) fault.skip--;
    else {
      fault.times--;
      return fault;
    }
  }
  const chosen = state.chooser?.(method, payload) ?? null;
  return chosen === null ? null : { fault: chosen, options: {} };
}

function strike(
  state: State,
  response: ServerResponse,
  { fault, options }: { fault: Fault; options: FaultOptions },
  answer?: ApiAnswer,
): void {
  wake(state);
  if (typeof fault === "object") return respond(response, refuse(fault.code, fault.description, fault.parameters));
  const retryAfter = options.retryAfter ?? 1;
  switch (fault) {
    case "429":
      return respond(response, refuse(429, `Too Many Requests: retry after ${retryAfter}`, { retry_after: retryAfter }));
    case "401":
      return respond(response, refuse(401, "Unauthorized"));
    case "409":
      return respond(
        response,
        refuse(409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"),
      );
    case "500":
    case "500_after":
      return respond(response, refuse(500, "Internal Server Error"));
    case "html":
      response.writeHead(502, { "content-type": "text/html" }).end("<html><body><h1>502 Bad Gateway</h1></body></html>");
      return;
    case "truncate_after": {
      const text = JSON.stringify(answer?.body ?? {});
      response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
      response.write(text.slice(0, Math.floor(text.length / 2)), () => response.destroy());
      return;
    }
    case "drop":
    case "drop_after":
      response.destroy();
      return;
    default:
      // hang: the connection stays open and silent until the client or close() ends it.
      return;
  }
}

function respond(response: ServerResponse, answer: ApiAnswer): void {
  if (response.destroyed) return;
  response.writeHead(answer.status, { "content-type": "application/json" }).end(JSON.stringify(answer.body));
}

/** Confirms everything below `offset` for good, then answers with what is left, or waits for something. */
async function getUpdates(state: State, payload: Record<string, unknown>, response: ServerResponse): Promise<ApiAnswer> {
  if (state.webhook !== null) {
    return refuse(409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first");
  }
  state.poll?.end(refuse(409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"));
  const offset = Number(payload.offset ?? 0);
  state.updates = state.updates.filter((update) => Number(update.update_id) >= offset);
  const allowed = Array.isArray(payload.allowed_updates) ? (payload.allowed_updates as string[]) : null;
  // Telegram never offers what was not asked for, also not later.
  if (allowed !== null) state.updates = state.updates.filter((update) => allowed.some((type) => Object.hasOwn(update, type)));
  wake(state);
  const limit = Math.min(Number(payload.limit ?? 100), 100);
  if (state.updates.length > 0 || Number(payload.timeout ?? 0) === 0) return ok(state.updates.slice(0, limit));
  return new Promise((resolve) => {
    const end = (answer: ApiAnswer) => {
      clearTimeout(timer);
      state.wakers.delete(look);
      if (state.poll?.end === end) state.poll = null;
      resolve(answer);
    };
    const look = () => {
      const fitting = state.updates.filter((update) => allowed === null || allowed.some((type) => Object.hasOwn(update, type)));
      if (fitting.length > 0 || state.closed) end(ok(fitting.slice(0, limit)));
    };
    const timer = setTimeout(() => end(ok([])), Number(payload.timeout) * 1000);
    state.poll = { end };
    state.wakers.add(look);
    response.on("close", () => end(ok([])));
  });
}

async function callWebhook(state: State, update: Record<string, unknown>): Promise<void> {
  while (!state.closed && state.webhook !== null && state.updates.includes(update)) {
    const { url, secret } = state.webhook;
    const headers = { "content-type": "application/json", "x-telegram-bot-api-secret-token": secret };
    const status = await fetch(url, { method: "POST", headers, body: JSON.stringify(update) }).then(
      (answer) => answer.status,
      () => 0,
    );
    if (status === 200) state.updates = state.updates.filter((other) => other !== update);
    else await new Promise((resolve) => setTimeout(resolve, state.webhookRetryMs));
    wake(state);
  }
}

function execute(state: State, method: string, payload: Record<string, unknown>): ApiAnswer {
  switch (method) {
    case "getMe":
      return ok({ id: state.botId, is_bot: true, first_name: "Herald", username: state.username });
    case "sendMessage":
      return sendMessage(state, payload);
    case "editMessageText":
      return editMessage(state, payload);
    case "sendChatAction":
      return sendAction(state, payload);
    case "setMessageReaction":
      return setReaction(state, payload);
    case "answerCallbackQuery":
      if (state.queries.get(String(payload.callback_query_id)) !== false) {
        return bad("query is too old and response timeout expired or query ID is invalid");
      }
      state.queries.set(String(payload.callback_query_id), true);
      return ok(true);
    case "setMyCommands": {
      const refusal = checkCommands(payload.commands);
      if (refusal === null) state.commands = payload.commands as unknown[];
      return refusal ?? ok(true);
    }
    case "setWebhook":
      state.webhook = { url: String(payload.url), secret: String(payload.secret_token ?? "") };
      for (const update of state.updates) callWebhook(state, update).catch(() => undefined);
      return ok(true);
    case "deleteWebhook":
      state.webhook = null;
      return ok(true);
    default:
      return refuse(404, "Not Found: method not found");
  }
}

/** The chat a call goes to, or why it can't. */
function findChat(state: State, payload: Record<string, unknown>): Chat | ApiAnswer {
  const chat = state.chats.get(Number(payload.chat_id));
  if (chat === undefined) return bad("chat not found");
  if (chat.migratedTo !== null) return bad("group chat was upgraded to a supergroup chat", { migrate_to_chat_id: chat.migratedTo });
  if (chat.trouble === "blocked") return refuse(403, "Forbidden: bot was blocked by the user");
  if (chat.trouble === "kicked") return refuse(403, `Forbidden: bot was kicked from the ${chat.type} chat`);
  return chat;
}

function sendMessage(state: State, payload: Record<string, unknown>): ApiAnswer {
  const chat = findChat(state, payload);
  if ("status" in chat) return chat;
  const thread = payload.message_thread_id === undefined ? null : Number(payload.message_thread_id);
  // General (1) can't be written to by its id.
  if (thread !== null && !chat.topics.has(thread)) return bad("message thread not found");
  if (thread !== null && chat.topics.get(thread) === "closed") return bad("TOPIC_CLOSED");
  const refusal = checkText(payload.text) ?? checkEntities(String(payload.text), payload.entities) ?? checkMarkup(payload.reply_markup);
  if (refusal !== null) return refusal;
  const reply = payload.reply_parameters as { message_id?: number; allow_sending_without_reply?: boolean } | undefined;
  const target = chat.messages.find((seen) => seen.id === reply?.message_id);
  if (reply !== undefined && target === undefined && reply.allow_sending_without_reply !== true)
    return bad("message to be replied not found");
  const seen: SeenMessage = {
    id: state.nextMessage++,
    chat: chat.id,
    thread,
    text: String(payload.text),
    entities: (payload.entities as Entity[] | undefined) ?? [],
    buttons: buttonsOf(payload.reply_markup),
    replyTo: target?.id ?? null,
    quiet: payload.disable_notification === true,
    edits: 0,
    reactions: [],
    fromBot: true,
  };
  chat.messages.push(seen);
  return ok(messageJson(state, chat, seen));
}

const buttonsOf = (markup: unknown): { text: string; data: string }[] =>
  ((markup as { inline_keyboard?: { text: string; callback_data: string }[][] } | undefined)?.inline_keyboard ?? [])
    .flat()
    .map((button) => ({ text: button.text, data: button.callback_data }));

function editMessage(state: State, payload: Record<string, unknown>): ApiAnswer {
  const chat = findChat(state, payload);
  if ("status" in chat) return chat;
  const seen = chat.messages.find((message) => message.id === Number(payload.message_id) && message.fromBot);
  if (seen === undefined) return bad("message to edit not found");
  const refusal = checkText(payload.text) ?? checkEntities(String(payload.text), payload.entities) ?? checkMarkup(payload.reply_markup);
  if (refusal !== null) return refusal;
  const next = {
    text: String(payload.text),
    entities: (payload.entities as Entity[] | undefined) ?? [],
    buttons: buttonsOf(payload.reply_markup),
  };
  if (JSON.stringify(next) === JSON.stringify({ text: seen.text, entities: seen.entities, buttons: seen.buttons })) {
    return bad(
      "message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message",
    );
  }
  Object.assign(seen, next, { edits: seen.edits + 1 });
  return ok(messageJson(state, chat, seen));
}

function sendAction(state: State, payload: Record<string, unknown>): ApiAnswer {
  const chat = findChat(state, payload);
  if ("status" in chat) return chat;
  const thread = payload.message_thread_id === undefined ? null : Number(payload.message_thread_id);
  const general = thread === 1 && chat.forum;
  if (thread !== null && !general && !chat.topics.has(thread)) return bad("message thread not found");
  state.actions.push({ chat: chat.id, thread });
  return ok(true);
}

function setReaction(state: State, payload: Record<string, unknown>): ApiAnswer {
  const chat = findChat(state, payload);
  if ("status" in chat) return chat;
  const seen = chat.messages.find((message) => message.id === Number(payload.message_id));
  if (seen === undefined) return bad("message to react not found");
  const emoji = ((payload.reaction as { emoji?: string }[] | undefined) ?? []).map((reaction) => reaction.emoji ?? "");
  if (emoji.length > 1 || emoji.some((one) => !["👀", "👍", "💔", "❤", "🔥"].includes(one))) return bad("REACTION_INVALID");
  seen.reactions = emoji;
  return ok(true);
}
