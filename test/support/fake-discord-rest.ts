// The fake's REST API, version 10: messages with enforced nonces, edits, history, reactions, direct chats, commands, the answers to
// interactions; Discord's error codes, and faults before or after execution.
import type { IncomingMessage, ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { delayOf, faultFor, isBefore, strike } from "./fake-discord-faults.ts";
import { dispatch } from "./fake-discord-gateway.ts";
import { answerInteraction } from "./fake-discord-interactions.ts";
import { buttonsOf, checkMessage, type MessageBody, pings, type Refusal, refuse } from "./fake-discord-rules.ts";
import {
  type Call,
  channelJson,
  channelOf,
  type FakeChannel,
  nextId,
  type SeenAttachment,
  type SeenMessage,
  type State,
  toJson,
  wake,
} from "./fake-discord-state.ts";
import { isAfter, respondJson } from "./fake-platform.ts";

export interface Request {
  readonly body: Record<string, unknown>;
  readonly files: SeenAttachment[];
  readonly query: URLSearchParams;
}

type Answer = { status: number; body: object } | Refusal;
type Route = [method: string, pattern: RegExp, name: string, handle: (state: State, ids: string[], request: Request) => Answer];

const good = (body: object, status = 200): Answer => ({ status, body });
const DONE: Answer = { status: 204, body: {} };
const UNKNOWN_CHANNEL = refuse(404, 10_003, "Unknown Channel");
const UNKNOWN_MESSAGE = refuse(404, 10_008, "Unknown Message");

const ROUTES: readonly Route[] = [
  ["GET", /^\/gateway\/bot$/, "getGateway", (state) => good(gatewayOf(state))],
  ["GET", /^\/users\/@me$/, "getMe", (state) => good({ id: state.botId, username: "herald", bot: true })],
  ["GET", /^\/applications\/@me$/, "getApplication", (state) => good({ id: state.appId, name: "Herald", flags: state.applicationFlags })],
  ["GET", /^\/applications\/(\d+)\/commands$/, "getCommands", (state) => good(state.commands)],
  ["PUT", /^\/applications\/(\d+)\/commands$/, "putCommands", (state, _ids, { body }) => putCommands(state, body)],
  ["POST", /^\/users\/@me\/channels$/, "createDM", (state, _ids, { body }) => openDirect(state, String(body.recipient_id))],
  ["GET", /^\/channels\/(\d+)$/, "getChannel", (state, [id = ""]) => inChannel(state, id, (channel) => good(channelJson(state, channel)))],
  ["PATCH", /^\/channels\/(\d+)$/, "editChannel", (state, [id = ""]) => inChannel(state, id, (channel) => reopen(state, channel))],
  [
    "POST",
    /^\/channels\/(\d+)\/messages$/,
    "createMessage",
    (state, [id = ""], request) => inChannel(state, id, (channel) => post(state, channel, request)),
  ],
  [
    "GET",
    /^\/channels\/(\d+)\/messages$/,
    "getMessages",
    (state, [id = ""], { query }) => inChannel(state, id, (channel) => list(state, channel, query)),
  ],
  [
    "GET",
    /^\/channels\/(\d+)\/messages\/(\d+)$/,
    "getMessage",
    (state, ids) => onMessage(state, ids, (message) => good(toJson(state, message))),
  ],
  [
    "PATCH",
    /^\/channels\/(\d+)\/messages\/(\d+)$/,
    "editMessage",
    (state, ids, request) => onMessage(state, ids, (message) => edit(state, message, request)),
  ],
  [
    "DELETE",
    /^\/channels\/(\d+)\/messages\/(\d+)$/,
    "deleteMessage",
    (state, ids) => onMessage(state, ids, (message) => remove(state, message)),
  ],
  [
    "PUT",
    /^\/channels\/(\d+)\/messages\/(\d+)\/reactions\/([^/]+)\/@me$/,
    "react",
    (state, ids) => onMessage(state, ids, (message) => react(message, ids[2] ?? "")),
  ],
  ["POST", /^\/channels\/(\d+)\/typing$/, "typing", (state, [id = ""]) => inChannel(state, id, () => type(state, id))],
  [
    "POST",
    /^\/interactions\/(\d+)\/([\w.~-]+)\/callback$/,
    "callback",
    (state, ids, { body }) => answerInteraction(state, "callback", ids[1] ?? "", body),
  ],
  [
    "PATCH",
    /^\/webhooks\/(\d+)\/([\w.~-]+)\/messages\/@original$/,
    "editReply",
    (state, ids, { body }) => answerInteraction(state, "editReply", ids[1] ?? "", body),
  ],
  [
    "DELETE",
    /^\/webhooks\/(\d+)\/([\w.~-]+)\/messages\/@original$/,
    "deleteReply",
    (state, ids, { body }) => answerInteraction(state, "deleteReply", ids[1] ?? "", body),
  ],
  [
    "POST",
    /^\/webhooks\/(\d+)\/([\w.~-]+)$/,
    "followUp",
    (state, ids, { body }) => answerInteraction(state, "followUp", ids[1] ?? "", body),
  ],
];

export async function handleCall(state: State, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams: query } = new URL(request.url ?? "/", "http://fake");
  if (pathname.startsWith("/cdn/")) return handOut(state, pathname.slice("/cdn/".length), response);
  const path = decodeURIComponent(pathname).replace(/^\/api\/v10/, "");
  const given = await readBody(state, request);
  const route = ROUTES.find(([method, pattern]) => method === request.method && pattern.test(path));
  if (route === undefined) return respondJson(response, 404, { message: "404: Not Found", code: 0 });
  const [, pattern, method, handle] = route;
  const ids = (pattern.exec(path) ?? []).slice(1);
  const call: Call = { method, channel: ids[0] ?? "", body: given.body, at: state.now(), executed: false };
  state.calls.push(call);
  wake(state);
  const fault = faultFor(state, call);
  if (fault !== null && isBefore(fault.fault)) {
    if (fault.fault !== "slow") return strike(response, fault);
    await new Promise((resolve) => setTimeout(resolve, fault.options.delayMs ?? 100));
  }
  const needsToken = !/^\/(?:interactions|webhooks)\//.test(path);
  const isKnown = request.headers.authorization === `Bot ${state.token}`;
  const answer = needsToken && !isKnown ? refuse(401, 0, "401: Unauthorized") : handle(state, ids, { ...given, query });
  call.executed = "body" in answer;
  wake(state);
  await delayOf(fault);
  if (fault !== null && isAfter(fault.fault)) return strike(response, fault, "body" in answer ? answer.body : {});
  if ("body" in answer)
    return answer.status === 204 ? void response.writeHead(204).end() : respondJson(response, answer.status, answer.body);
  respondJson(response, answer.status, { message: answer.message, code: answer.code });
}

async function readBody(state: State, request: IncomingMessage): Promise<Omit<Request, "query">> {
  const bytes = await buffer(request);
  const type = request.headers["content-type"] ?? "";
  if (!type.startsWith("multipart/form-data")) return { body: bytes.length === 0 ? {} : JSON.parse(bytes.toString("utf8")), files: [] };
  const form = await new Response(new Uint8Array(bytes), { headers: { "content-type": type } }).formData();
  const files: SeenAttachment[] = [];
  for (const [key, value] of form) {
    if (!(value instanceof File) || !key.startsWith("files[")) continue;
    const content = Buffer.from(await value.arrayBuffer());
    // Discord allows few signs in a name.
    const filename = value.name.replace(/[^\w.-]+/g, "_");
    files.push({ id: nextId(state), filename, size: content.length, content_type: value.type, bytes: content });
  }
  return { body: JSON.parse(String(form.get("payload_json") ?? "{}")), files };
}

const gatewayOf = (state: State): object => ({
  url: state.gatewayUrl ?? `${state.origin.replace("http", "ws")}/gateway`,
  shards: 1,
  session_start_limit: { total: 1000, remaining: state.startsLeft, reset_after: 60_000, max_concurrency: 1 },
});

function putCommands(state: State, body: object): Answer {
  state.commandWrites++;
  state.commands = (body as Record<string, unknown>[]).map((one) => ({
    id: nextId(state),
    version: nextId(state),
    default_permission: true,
    ...one,
  }));
  return good(state.commands);
}

function openDirect(state: State, recipient: string): Answer {
  const known = [...state.channels.values()].find((one) => one.recipient === recipient);
  return known === undefined ? refuse(400, 50_033, "Invalid Recipient(s)") : good(channelJson(state, known));
}

function inChannel(state: State, id: string, work: (channel: FakeChannel) => Answer): Answer {
  const channel = state.channels.get(id);
  if (channel === undefined) return UNKNOWN_CHANNEL;
  return channel.trouble === null ? work(channel) : refuse(...channel.trouble);
}

function onMessage(state: State, [channel = "", id = ""]: string[], work: (message: SeenMessage) => Answer): Answer {
  return inChannel(state, channel, ({ messages }) => {
    const message = messages.find((one) => one.id === id);
    return message === undefined ? UNKNOWN_MESSAGE : work(message);
  });
}

function post(state: State, channel: FakeChannel, { body, files }: Request): Answer {
  const given = body as MessageBody;
  const refusal = checkMessage(given, files.length);
  if (refusal !== null) return refusal;
  if (channel.archived === "locked") return refuse(400, 160_005, "Thread is locked");
  channel.archived = "no";
  const reply = given.message_reference?.message_id ?? null;
  const isThere = reply === null || channel.messages.some(({ id }) => id === reply);
  if (!isThere && given.message_reference?.fail_if_not_exists !== false)
    return refuse(400, 50_035, "Invalid Form Body\nmessage_reference: Unknown message");
  const known = given.enforce_nonce === true && given.nonce !== undefined ? channel.nonces.get(given.nonce) : undefined;
  const before =
    known !== undefined && state.now() - known.at < state.nonceMs ? channel.messages.find(({ id }) => id === known.id) : undefined;
  if (before !== undefined) return good(toJson(state, before, true));
  const message: SeenMessage = {
    id: nextId(state),
    channel: channel.id,
    author: { id: state.botId, username: "herald", bot: true },
    content: (given.content ?? "").trim(),
    buttons: buttonsOf(given),
    attachments: files,
    replyTo: isThere ? reply : null,
    nonce: given.nonce ?? null,
    flags: given.flags ?? 0,
    edits: 0,
    versions: [(given.content ?? "").trim()],
    reactions: [],
    pinged: pings(given),
    type: reply === null ? 0 : 19,
    extra: {},
  };
  channel.messages.push(message);
  if (given.nonce !== undefined) channel.nonces.set(given.nonce, { id: message.id, at: state.now() });
  const guild = channel.type === 1 ? {} : { guild_id: state.guild };
  dispatch(state, "MESSAGE_CREATE", { ...toJson(state, message, true), ...guild });
  return good(toJson(state, message, true));
}

/** The hundred behind `after`, newest first, as Discord does. */
function list(state: State, channel: FakeChannel, query: URLSearchParams): Answer {
  const after = BigInt(query.get("after") ?? 0);
  const limit = Number(query.get("limit") ?? 50);
  const found = channel.messages.filter(({ id }) => BigInt(id) > after).slice(0, limit);
  return good(found.map((message) => toJson(state, message)).reverse());
}

function reopen(state: State, channel: FakeChannel): Answer {
  if (channel.archived === "locked") return refuse(403, 50_013, "Missing Permissions");
  channel.archived = "no";
  return good(channelJson(state, channel));
}

function edit(state: State, message: SeenMessage, { body }: Request): Answer {
  if (channelOf(state, message.channel).archived !== "no") return refuse(400, 50_083, "Thread is archived");
  const given = body as MessageBody;
  if (message.author.id !== state.botId) return refuse(403, 50_005, "Cannot edit a message authored by another user");
  const refusal = checkMessage(given, message.attachments.length);
  if (refusal !== null) return refusal;
  const content = (given.content ?? message.content).trim();
  Object.assign(message, { content, buttons: buttonsOf(given), edits: message.edits + 1, pinged: message.pinged || pings(given) });
  message.versions.push(content);
  dispatch(state, "MESSAGE_UPDATE", toJson(state, message));
  return good(toJson(state, message));
}

function remove(state: State, message: SeenMessage): Answer {
  const channel = channelOf(state, message.channel);
  channel.messages = channel.messages.filter((one) => one !== message);
  return DONE;
}

function react(message: SeenMessage, emoji: string): Answer {
  message.reactions.push(emoji);
  return DONE;
}

function type(state: State, channel: string): Answer {
  state.typing.push(channel);
  return DONE;
}

/** What people attached: on a server of its own, which knows no token. */
function handOut(state: State, id: string, response: ServerResponse): void {
  const file = [...state.channels.values()]
    .flatMap(({ messages }) => messages.flatMap((one) => one.attachments))
    .find((one) => one.id === id);
  state.calls.push({ method: "download", channel: id, body: {}, at: state.now(), executed: file !== undefined });
  wake(state);
  const fault = state.faults.take("download");
  if (fault?.fault === "500") return void response.writeHead(500).end();
  if (file === undefined) return void response.writeHead(404).end();
  response.writeHead(200, { "content-length": file.bytes.length });
  if (fault === null) return void response.end(file.bytes);
  response.write(file.bytes.subarray(0, Math.floor(file.bytes.length / 2)), () => {
    if (fault.fault === "drop") response.destroy();
  });
}
