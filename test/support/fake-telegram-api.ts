// The fake's methods: strict errors in Telegram's words, and faults before or after execution.
import type { IncomingMessage, ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { isAfter, respondJson, type Strike, spoil } from "./fake-platform.ts";
import {
  type ApiAnswer,
  bad,
  checkCaption,
  checkCommands,
  checkEntities,
  checkMarkup,
  checkText,
  type Entity,
  liveWords,
  ok,
  refuse,
} from "./fake-telegram-rules.ts";
import { type Call, type Chat, type Fault, messageJson, type SeenMessage, type State, wake } from "./fake-telegram-state.ts";
import { callWebhook, getUpdates, OTHER_POLLER } from "./fake-telegram-updates.ts";

export async function handleCall(state: State, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.url?.startsWith("/file/") === true) return handOut(state, request.url, response);
  const body = await readPayload(request);
  const [, token, method = ""] = /^\/bot([^/]+)\/(\w+)/.exec(request.url ?? "") ?? [];
  if (token === undefined) return respond(response, refuse(404, "Not Found"));
  if (token !== state.token || state.revoked) return respond(response, refuse(401, "Unauthorized"));
  const payload = body;
  const call: Call = { method, payload, at: Date.now(), executed: false };
  state.calls.push(call);
  const fault = takeFault(state, method, payload);
  if (fault !== null && !isAfter(fault.fault)) {
    if (fault.fault !== "slow") return strike(state, response, fault);
    await new Promise((resolve) => setTimeout(resolve, fault.options.delayMs ?? 100));
  }
  const tooMuch = COUNTED.has(method) ? (state.limits?.check(Number(payload.chat_id)) ?? null) : null;
  if (tooMuch !== null) return strike(state, response, { fault: "429", options: { retryAfter: tooMuch } });
  const answer = method === "getUpdates" ? await getUpdates(state, payload, response) : execute(state, method, payload);
  call.executed = answer.status === 200;
  wake(state);
  if (fault !== null && isAfter(fault.fault)) return strike(state, response, fault, answer);
  respond(response, answer);
}

/** An edit counts like a message. */
const COUNTED: ReadonlySet<string> = new Set(["sendMessage", "sendDocument", "sendPhoto", "editMessageText", "editMessageMedia"]);

/** JSON, or a form with files as Telegram takes them: what `attach://…` names is put in its place. */
async function readPayload(request: IncomingMessage): Promise<Record<string, unknown>> {
  const type = request.headers["content-type"] ?? "";
  const bytes = await buffer(request);
  if (!type.startsWith("multipart/form-data")) return bytes.length === 0 ? {} : (JSON.parse(bytes.toString()) as Record<string, unknown>);
  const form = await new Response(bytes, { headers: { "content-type": type } }).formData();
  const files = new Map<string, { name: string; content: string }>();
  const fields: [string, unknown][] = [];
  for (const [name, value] of form) {
    if (typeof value === "string") fields.push([name, readField(value)]);
    else files.set(`attach://${name}`, { name: value.name, content: await value.text() });
  }
  const put = (value: unknown): unknown => {
    if (typeof value === "string") return files.get(value) ?? value;
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, put(inner)]))
      : value;
  };
  return Object.fromEntries(fields.map(([name, value]) => [name, put(value)]));
}

/** Objects and numbers come as JSON in a form. */
function readField(value: string): unknown {
  if (!/^[{[]|^-?\d+$|^(?:true|false)$/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

function takeFault(state: State, method: string, payload: Record<string, unknown>): Strike<Fault> | null {
  const planned = state.faults.take(method);
  if (planned !== null) return planned;
  const chosen = state.chooser?.(method, payload) ?? null;
  return chosen === null ? null : { fault: chosen, options: {} };
}

function strike(state: State, response: ServerResponse, { fault, options }: Strike<Fault>, answer?: ApiAnswer): void {
  wake(state);
  if (typeof fault === "object") return respond(response, refuse(fault.code, fault.description, fault.parameters));
  const retryAfter = options.retryAfter ?? 1;
  switch (fault) {
    case "429":
      return respond(response, refuse(429, `Too Many Requests: retry after ${retryAfter}`, { retry_after: retryAfter }));
    case "401":
      return respond(response, refuse(401, "Unauthorized"));
    case "409":
      return respond(response, OTHER_POLLER);
    case "500":
    case "500_after":
      return respond(response, refuse(500, "Internal Server Error"));
    default:
      return spoil(response, fault, answer?.body ?? {});
  }
}

const respond = (response: ServerResponse, { status, body }: ApiAnswer): void => respondJson(response, status, body);

function execute(state: State, method: string, payload: Record<string, unknown>): ApiAnswer {
  switch (method) {
    case "getMe":
      return ok({ id: state.botId, is_bot: true, first_name: "Herald", username: state.username });
    case "sendMessage":
      return sendMessage(state, payload);
    case "sendDocument":
    case "sendPhoto":
      return sendMessage(state, payload);
    case "getFile":
      return getFile(state, String(payload.file_id));
    case "editMessageText":
    case "editMessageMedia":
      return editMessage(state, payload);
    case "sendMessageDraft":
      return sendDraft(state, payload);
    case "sendChatAction":
      return sendAction(state, payload);
    case "setMessageReaction":
      return setReaction(state, payload);
    case "answerCallbackQuery":
      if (typeof payload.text === "string" && payload.text.length > 200) return bad("MESSAGE_TOO_LONG");
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

/** What a bot may have at most. */
const MAX_FILE_BYTES = 20 * 1024 * 1024;

function getFile(state: State, id: string): ApiAnswer {
  const bytes = state.uploads.get(id);
  if (bytes === undefined) return bad("wrong file_id or the file is temporarily unavailable");
  if (bytes.length > MAX_FILE_BYTES) return bad("file is too big");
  return ok({ file_id: id, file_unique_id: id, file_size: bytes.length, file_path: `documents/${id}.bin` });
}

/** The bytes themselves, under the bot's own address. */
function handOut(state: State, url: string, response: ServerResponse): void {
  const [, token, id = ""] = /^\/file\/bot([^/]+)\/documents\/(\w+)\.bin$/.exec(url) ?? [];
  const bytes = token === state.token ? state.uploads.get(id) : undefined;
  state.calls.push({ method: "download", payload: { id }, at: Date.now(), executed: bytes !== undefined });
  wake(state);
  if (bytes === undefined) return void response.writeHead(404).end();
  const fault = state.faults.take("download");
  response.writeHead(200, { "content-length": bytes.length, "content-type": "application/octet-stream" });
  if (fault === null) return void response.end(bytes);
  response.write(bytes.subarray(0, Math.floor(bytes.length / 2)), () => {
    if (fault.fault === "drop") response.destroy();
  });
}

/** The chat a call goes to, or why it can't. */
function findChat(state: State, payload: Record<string, unknown>): Chat | ApiAnswer {
  const chat = state.chats.get(Number(payload.chat_id));
  if (chat === undefined) return bad("chat not found");
  if (chat.migratedTo !== null) return bad("group chat was upgraded to a supergroup chat", { migrate_to_chat_id: chat.migratedTo });
  if (chat.trouble === "blocked") return refuse(403, "Forbidden: bot was blocked by the user");
  if (chat.trouble === "unopened") return refuse(403, "Forbidden: bot can't initiate conversation with a user");
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
  const content = contentOf(payload);
  if ("status" in content) return content;
  const reply = payload.reply_parameters as { message_id?: number; allow_sending_without_reply?: boolean } | undefined;
  const target = chat.messages.find((seen) => seen.id === reply?.message_id);
  if (reply !== undefined && target === undefined && reply.allow_sending_without_reply !== true)
    return bad("message to be replied not found");
  const seen: SeenMessage = {
    id: state.nextMessage++,
    chat: chat.id,
    thread,
    ...content,
    replyTo: target?.id ?? null,
    quiet: payload.disable_notification === true,
    edits: 0,
    reactions: [],
    fromBot: true,
    live: liveWords(content.text, content.entities),
  };
  chat.messages.push(seen);
  for (const draft of state.drafts) if (draft.chat === chat.id) draft.isOver = true;
  return ok(messageJson(state, chat, seen));
}

/** Only in private chats; it replaces the one before. */
function sendDraft(state: State, payload: Record<string, unknown>): ApiAnswer {
  const chat = findChat(state, payload);
  if ("status" in chat) return chat;
  if (chat.type !== "private") return bad("TEXTDRAFT_PEER_INVALID");
  const thread = payload.message_thread_id === undefined ? null : Number(payload.message_thread_id);
  if (thread !== null && !chat.topics.has(thread)) return bad("message thread not found");
  if (!Number.isSafeInteger(payload.draft_id) || payload.draft_id === 0) return bad("DRAFT_ID_INVALID");
  const known = ["chat_id", "message_thread_id", "draft_id", "text", "parse_mode", "entities", "can_stop", "keep_on_stop"];
  if (Object.keys(payload).some((field) => !known.includes(field))) return bad("wrong parameter");
  const text = String(payload.text ?? "");
  const refusal = (text === "" ? null : checkText(text)) ?? checkEntities(text, payload.entities);
  if (refusal !== null) return refusal;
  const draft = { chat: chat.id, thread, id: Number(payload.draft_id), text, canStop: payload.can_stop === true };
  state.drafts.push({ ...draft, at: Date.now(), isOver: false });
  return ok(true);
}

const buttonsOf = (markup: unknown): { text: string; data: string }[] =>
  ((markup as { inline_keyboard?: { text: string; callback_data: string }[][] } | undefined)?.inline_keyboard ?? [])
    .flat()
    .map((button) => ({ text: button.text, data: button.callback_data }));

type Content = Pick<SeenMessage, "text" | "entities" | "buttons" | "file">;

const photoOf = ({ photo }: Record<string, unknown>): unknown =>
  typeof photo === "object" && photo !== null ? { ...photo, kind: "photo" } : photo;

/** What a message shows, or why it can't: its text, or a file and what stands under it. */
function contentOf(payload: Record<string, unknown>): Content | ApiAnswer {
  const file = (payload.document ?? payload.media ?? photoOf(payload) ?? null) as SeenMessage["file"] | string;
  const isFile = file !== null;
  if (typeof file === "string" || (isFile && (file.name === "" || file.content === ""))) return bad("file must be non-empty");
  const words = isFile ? (payload.caption ?? "") : payload.text;
  const ranges = isFile ? payload.caption_entities : payload.entities;
  const refusal =
    (isFile ? checkCaption(words) : checkText(words)) ?? checkEntities(String(words), ranges) ?? checkMarkup(payload.reply_markup);
  if (refusal !== null) return refusal;
  return { text: String(words), entities: (ranges as Entity[] | undefined) ?? [], buttons: buttonsOf(payload.reply_markup), file };
}

function editMessage(state: State, payload: Record<string, unknown>): ApiAnswer {
  const chat = findChat(state, payload);
  if ("status" in chat) return chat;
  const seen = chat.messages.find((message) => message.id === Number(payload.message_id) && message.fromBot);
  if (seen === undefined) return bad("message to edit not found");
  const next = contentOf((payload.media as Record<string, unknown> | undefined) ?? payload);
  if ("status" in next) return next;
  const live = liveWords(next.text, next.entities);
  if (JSON.stringify(next) === JSON.stringify({ text: seen.text, entities: seen.entities, buttons: seen.buttons, file: seen.file })) {
    return bad(
      "message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message",
    );
  }
  Object.assign(seen, next, { live, edits: seen.edits + 1 });
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
