// The fake homeserver's client-server API: strict about tokens, membership, sizes and transactions; faults on demand.
import type { IncomingMessage, ServerResponse } from "node:http";
import { readBytes } from "../../src/core/read-bytes.ts";
import {
  addEvent,
  type Call,
  DEEP,
  DEEP_JSON,
  type FakeEvent,
  type Fault,
  type Room,
  roomOf,
  type State,
  setMember,
  shown,
  wake,
} from "./fake-matrix-state.ts";
import { syncAnswer } from "./fake-matrix-sync.ts";
import { isAfter, respondJson, spoil } from "./fake-platform.ts";

type Body = Record<string, unknown>;

class Refusal extends Error {
  readonly status: number;
  readonly body: Body;
  constructor(status: number, errcode: string, more: Body = {}) {
    super(errcode);
    this.status = status;
    this.body = { errcode, error: errcode, ...more };
  }
}

const MAX_EVENT_BYTES = 65_536;

interface Asked {
  readonly state: State;
  readonly query: Record<string, string>;
  readonly body: Body;
  readonly bytes: Buffer;
  readonly response: ServerResponse;
}

type Handler = (asked: Asked, segments: string[]) => unknown;

/** Method and path, `*` for any one segment → the name tests call it by, and what it does. */
const ROUTES: readonly [string, string, Handler][] = [
  ["GET account/whoami", "whoami", ({ state }) => ({ user_id: state.bot, device_id: "FAKE" })],
  ["GET profile/*/displayname", "profile", ({ state }) => ({ displayname: state.botName })],
  ["GET sync", "sync", ({ state, query, response }) => syncAnswer(state, query, response)],
  [
    "GET joined_rooms",
    "joined",
    ({ state }) => ({ joined_rooms: [...state.rooms.values()].filter((one) => isIn(state, one)).map(({ id }) => id) }),
  ],
  ["POST createRoom", "create", createRoom],
  [
    "GET user/*/account_data/*",
    "account_data",
    ({ state }, [, , , type = ""]) => state.accountData.get(type) ?? refuse(404, "M_NOT_FOUND"),
  ],
  ["PUT user/*/account_data/*", "account_data", ({ state, body }, [, , , type = ""]) => ({ set: state.accountData.set(type, body).size })],
  ["POST rooms/*/join", "join", join],
  ["PUT rooms/*/send/*/*", "send", send],
  ["PUT rooms/*/redact/*/*", "redact", redact],
  ["GET rooms/*/messages", "messages", messages],
  ["GET rooms/*/event/*", "event", ({ state }, [, room = "", , id = ""]) => eventOf(state, room, id)],
  ["GET rooms/*/members", "members", members],
  ["GET rooms/*/state/*/*", "state", stateOf],
  [
    "PUT rooms/*/typing/*",
    "typing",
    ({ state, body }, [, room = ""]) => ({ shown: state.typing.push({ room, isTyping: body.typing === true }) }),
  ],
  ["POST rooms/*/read_markers", "read", ({ state, body }, [, room = ""]) => read(state, room, String(body["m.read"]), null)],
  ["POST rooms/*/receipt/m.read/*", "read", ({ state, body }, [, room = "", , , id = ""]) => read(state, room, id, String(body.thread_id))],
];

const refuse = (status: number, errcode: string, more: Body = {}): never => {
  throw new Refusal(status, errcode, more);
};
const isIn = (state: State, room: Room): boolean => room.members.get(state.bot) === "join";

export async function handleCall(state: State, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "http://fake");
  const bytes = (await readBytes(request, 30_000_000)) ?? Buffer.alloc(0);
  const isMedia = url.pathname.includes("/media/");
  const segments = url.pathname
    .split("/")
    .slice(isMedia ? 1 : 4)
    .map(decodeURIComponent);
  const body = !isMedia && bytes.length > 0 ? (JSON.parse(bytes.toString()) as Body) : {};
  const route = isMedia ? mediaRoute(segments) : ROUTES.find(([pattern]) => fits(pattern, request.method ?? "", segments));
  const name = route?.[1] === "send" && segments[3] === "m.reaction" ? "react" : isEdit(body) ? "edit" : (route?.[1] ?? "unknown");
  const query = Object.fromEntries(url.searchParams);
  const call: Call = { method: name, room: segments[0] === "rooms" ? (segments[1] ?? "") : "", query, body, executed: false };
  state.calls.push(call);
  const isFirst = name === "sync" && query.since === undefined;
  const strike = (isFirst ? state.faults.take("first sync") : null) ?? state.faults.take(name);
  const fault = strike?.fault ?? null;
  wake(state);
  if (fault !== null && !isAfter(fault) && fault !== "slow" && fault !== "html_200")
    return strikeBefore(response, fault, strike?.options.retryAfter);
  if (fault === "slow") await new Promise((resolve) => setTimeout(resolve, strike?.options.delayMs ?? 100));
  const answer = await answerTo({ state, query, body, bytes, response }, request, route, segments);
  call.executed = answer.status === 200;
  wake(state);
  if (fault === "500_after") return respondJson(response, 500, { errcode: "M_UNKNOWN" });
  if (fault === "html_200" || (typeof fault === "string" && isAfter(fault)))
    return spoil(response, fault as "html_200", answer.body as object);
  if (answer.body instanceof Buffer) return void response.writeHead(200, { "content-type": "application/octet-stream" }).end(answer.body);
  const text = JSON.stringify(answer.body).replaceAll(JSON.stringify(DEEP), DEEP_JSON);
  if (!response.destroyed) response.writeHead(answer.status, { "content-type": "application/json" }).end(text);
}

function strikeBefore(response: ServerResponse, fault: Fault, retryAfter: number | undefined): void {
  if (typeof fault === "object") return respondJson(response, fault.status, fault);
  if (fault === "429") return respondJson(response, 429, { errcode: "M_LIMIT_EXCEEDED", retry_after_ms: (retryAfter ?? 0) * 1_000 });
  if (fault === "500") return respondJson(response, 500, { errcode: "M_UNKNOWN" });
  spoil(response, fault, {});
}

async function answerTo(asked: Asked, request: IncomingMessage, route: (typeof ROUTES)[number] | undefined, segments: string[]) {
  try {
    const { token, otherTokens } = asked.state;
    const given = request.headers.authorization?.replace(/^Bearer /, "") ?? "";
    if (given !== token && !otherTokens.has(given)) refuse(401, "M_UNKNOWN_TOKEN", { soft_logout: false });
    if (route === undefined) return refuse(404, "M_UNRECOGNIZED");
    return { status: 200, body: await route[2](asked, segments) };
  } catch (error) {
    if (error instanceof Refusal) return { status: error.status, body: error.body };
    throw error;
  }
}

function fits(pattern: string, method: string, segments: readonly string[]): boolean {
  const [verb, path = ""] = pattern.split(" ");
  const wanted = path.split("/");
  return verb === method && wanted.length === segments.length && wanted.every((one, n) => one === "*" || one === segments[n]);
}

const isEdit = ({ "m.relates_to": related }: Body): boolean => (related as { rel_type?: string } | undefined)?.rel_type === "m.replace";

/** The room, where the bot is in it. */
function entered(state: State, id: string): Room {
  const room = state.rooms.get(id);
  if (room?.trouble) return refuse(room.trouble.status, room.trouble.errcode, { error: room.trouble.error ?? "" });
  if (room === undefined || !isIn(state, room)) return refuse(403, "M_FORBIDDEN", { error: `User not in room ${id}` });
  return room;
}

function send({ state, body }: Asked, [, id = "", , type = "", transaction = ""]: string[]): Body {
  const room = entered(state, id);
  const known = state.transactions.get(`${id} ${type} ${transaction}`);
  if (known !== undefined) return { event_id: known };
  if (Buffer.byteLength(JSON.stringify(body)) + 2_000 > MAX_EVENT_BYTES) refuse(413, "M_TOO_LARGE");
  if (type === "m.room.message" && typeof body.body !== "string") refuse(400, "M_BAD_JSON");
  const related = body["m.relates_to"] as { rel_type?: string; event_id?: string; key?: string } | undefined;
  const isSame = ({ sender, content, redactedBy }: FakeEvent): boolean => {
    const other = content["m.relates_to"] as typeof related;
    return sender === state.bot && redactedBy === undefined && other?.event_id === related?.event_id && other?.key === related?.key;
  };
  if (related?.rel_type === "m.annotation" && room.events.some((one) => one.type === "m.reaction" && isSame(one)))
    refuse(400, "M_DUPLICATE_ANNOTATION");
  const event = addEvent(state, room, { type, sender: state.bot, content: body, transaction });
  state.transactions.set(`${id} ${type} ${transaction}`, event.event_id);
  return { event_id: event.event_id };
}

function redact({ state }: Asked, [, id = "", , target = ""]: string[]): Body {
  const room = entered(state, id);
  const event = room.events.find(({ event_id }) => event_id === target) ?? refuse(404, "M_NOT_FOUND");
  Object.assign(event, { content: {}, redactedBy: state.bot });
  return { event_id: addEvent(state, room, { type: "m.room.redaction", sender: state.bot, redacts: target, content: {} }).event_id };
}

function join({ state }: Asked, [, id = ""]: string[]): Body {
  const room = state.rooms.get(id);
  if (room?.trouble) return refuse(room.trouble.status, room.trouble.errcode);
  if (room?.members.get(state.bot) !== "invite") return refuse(403, "M_FORBIDDEN");
  setMember(state, room, state.bot, "join");
  return { room_id: id };
}

function createRoom({ state, body }: Asked): Body {
  const room = roomOf(state, `!made${++state.pos}:home.test`);
  setMember(state, room, state.bot, "join");
  for (const person of (body.invite ?? []) as string[]) setMember(state, room, person, "invite", state.bot);
  return { room_id: room.id };
}

function messages({ state, query }: Asked, [, id = ""]: string[]): Body {
  const room = entered(state, id);
  const { types, senders } = JSON.parse(query.filter ?? "{}") as { types?: string[]; senders?: string[] };
  const before = query.from === undefined ? Number.POSITIVE_INFINITY : Number(query.from.slice(1));
  const after = query.to === undefined ? 0 : Number(query.to.slice(1));
  const fitting = room.events
    .filter(
      ({ pos, type, sender }) => pos <= before && pos > after && (types?.includes(type) ?? true) && (senders?.includes(sender) ?? true),
    )
    .reverse();
  const chunk = fitting.slice(0, Number(query.limit ?? 10));
  const last = chunk.at(-1);
  const more = fitting.length > chunk.length && last !== undefined ? { end: `t${last.pos - 1}` } : {};
  // Who is ignored is left out of a page that is cut already: it may be empty, and not the last.
  const seen = chunk.filter(({ sender }) => !state.ignored.has(sender));
  return { start: query.from ?? "t0", chunk: seen.map((event) => shown(state, room, event)), ...more };
}

function eventOf(state: State, id: string, eventId: string): Body {
  const room = entered(state, id);
  const event = room.events.find(({ event_id }) => event_id === eventId) ?? refuse(404, "M_NOT_FOUND");
  return shown(state, room, event);
}

function members({ state }: Asked, [, id = ""]: string[]): Body {
  const room = entered(state, id);
  const last = (user: string) => room.events.findLast(({ type, state_key }) => type === "m.room.member" && state_key === user);
  return {
    chunk: [...room.members.keys()].flatMap((user) => (last(user) === undefined ? [] : [shown(state, room, last(user) as FakeEvent)])),
  };
}

function stateOf({ state }: Asked, [, id = "", , type = ""]: string[]): Body {
  const room = entered(state, id);
  return room.events.findLast((event) => event.type === type && event.state_key === "")?.content ?? refuse(404, "M_NOT_FOUND");
}

function read(state: State, room: string, event: string, thread: string | null): Body {
  state.read.push({ room, event, thread });
  return {};
}

const mediaRoute = (segments: readonly string[]): (typeof ROUTES)[number] =>
  segments.includes("upload")
    ? ["", "upload", upload]
    : ["", "download", ({ state }, path) => state.media.get(path.at(-1) ?? "")?.bytes ?? refuse(404, "M_NOT_FOUND")];

function upload({ state, query, bytes }: Asked): Body {
  const id = `media${state.media.size + 1}`;
  state.media.set(id, { bytes, name: query.filename ?? "", type: "" });
  return { content_uri: `mxc://home.test/${id}` };
}
