// A homeserver on loopback: sync with its tokens, sends by transaction, threads, edits, reactions, redactions, invitations, media, faults
// on demand, and a record of what people see in each room and thread. A real client talks to it, from this process or another one.
import { OWN_FIELD } from "../../src/channels/matrix/event.ts";
import { handleCall } from "./fake-matrix-api.ts";
import { addEvent, type FakeEvent, latestEdit, type Room, roomOf, type State, setMember, wake } from "./fake-matrix-state.ts";
import { createFaults, openFakeServer } from "./fake-platform.ts";
import { waitOn } from "./wait.ts";

export interface SeenMessage {
  id: string;
  room: string;
  /** The thread's root; null: it stands in the room itself. */
  thread: string | null;
  /** What a person reads now. */
  text: string;
  html: string | null;
  type: string;
  edits: number;
  /** All that ever stood there, in order. */
  versions: string[];
  /** What its numbers stand for. */
  buttons: { n: number; command: string; isOver?: boolean }[];
  /** Signs of the bot below it. */
  signs: string[];
  file: { name: string; bytes: Buffer; mimetype: string } | null;
  replyTo: string | null;
  isRedacted: boolean;
  /** When it was said. */
  at: number;
  /** Its place among all that was said. */
  pos: number;
  /** What the bot itself knows it by. */
  mark: string;
}

interface SayOptions {
  room: string;
  text?: string;
  from?: string;
  thread?: string;
  replyTo?: string;
  /** Further fields of the content. */
  extra?: Record<string, unknown>;
}

export type FakeMatrix = Awaited<ReturnType<typeof createFakeMatrix>>;

export const PERSON = "@ann:home.test";

export async function createFakeMatrix(options: { port?: number; now?(): number } = {}) {
  const state = createState(options.now ?? Date.now);
  const { port, close } = await openFakeServer((request, response) => handleCall(state, request, response), options.port);
  const isConnected = (): boolean => state.calls.some(({ method, query }) => method === "sync" && query.since !== undefined);
  return {
    homeserver: `http://127.0.0.1:${port}`,
    port,
    bot: state.bot,
    calls: state.calls,
    faults: state.faults,
    typing: state.typing,
    read: state.read,
    accountData: state.accountData,
    get token() {
      return state.token;
    },
    /** The token is worth nothing from now on. */
    signOut: (token: string) => void Object.assign(state, { token }),
    /** The same user on another device. */
    signIn: (token: string) => void state.otherTokens.add(token),
    /** As servers do after a while. */
    forgetTransactions: () => state.transactions.clear(),
    showEditsInPlace: () => void Object.assign(state, { showsEditsInPlace: true }),
    ...people(state),
    ...records(state),
    /** Events of people that no sync has gone past yet. */
    unconfirmed: (): number =>
      [...state.rooms.values()]
        .flatMap((room) => room.events)
        .filter(({ pos, sender, type }) => sender !== state.bot && type === "m.room.message" && pos > state.confirmed).length,
    /** The next sync begins before the last thing somebody said. */
    replay(): void {
      const said = [...state.rooms.values()].flatMap((room) => room.events).filter(({ sender }) => sender !== state.bot);
      state.replayFrom = Math.max(0, ...said.map(({ pos }) => pos)) - 1;
    },
    /** A sync that goes on from somewhere: what is said from here on is new to the bot. */
    connected: (): Promise<boolean> => waitOn(state.wakers, "the first sync", isConnected, 45_000),
    isConnected,
    until: <T>(check: () => T, what = "a condition", timeoutMs = 45_000): Promise<NonNullable<T>> =>
      waitOn(state.wakers, what, check, timeoutMs),
    async close() {
      state.closed = true;
      wake(state);
      await close();
    },
  };
}

function createState(now: () => number): State {
  return {
    token: "syt_fake_access_token_0123456789",
    otherTokens: new Set(),
    bot: "@herald:home.test",
    botName: "Herald",
    now,
    pos: 0,
    rooms: new Map(),
    transactions: new Map(),
    accountData: new Map(),
    media: new Map(),
    typing: [],
    read: [],
    calls: [],
    faults: createFaults(),
    ignored: new Set(),
    showsEditsInPlace: false,
    confirmed: 0,
    replayFrom: null,
    wakers: new Set(),
    closed: false,
  };
}

/** What people do. */
function people(state: State) {
  const event = (room: string, sender: string, type: string, content: Record<string, unknown>, more: Partial<FakeEvent> = {}): string =>
    addEvent(state, roomOf(state, room), { type, sender, content, ...more }).event_id;
  return {
    /** A room the bot is in, with these people. */
    room(id: string, others: readonly string[] = [PERSON]): void {
      const room = roomOf(state, id);
      for (const user of [...others, state.bot]) setMember(state, room, user, "join");
    },
    invite(id: string, from = PERSON, { isDirect = false } = {}): void {
      const room = roomOf(state, id);
      room.isDirect = isDirect;
      setMember(state, room, from, "join");
      setMember(state, room, state.bot, "invite", from);
    },
    /** Somebody is invited where the bot is. */
    ask: (id: string, user: string) => void setMember(state, roomOf(state, id), user, "invite", PERSON),
    /** The bot's account is not shown what they say. */
    ignore: (user: string) => void state.ignored.add(user),
    enter: (id: string, user: string) => void setMember(state, roomOf(state, id), user, "join"),
    leave: (id: string, user: string) => void setMember(state, roomOf(state, id), user, "leave"),
    encrypt: (id: string, from = PERSON): string =>
      event(id, from, "m.room.encryption", { algorithm: "m.megolm.v1.aes-sha2" }, { state_key: "" }),
    /** A person writes. Returns the event's id. */
    say: ({ room, text = "", from = PERSON, thread, replyTo, extra = {} }: SayOptions): string =>
      event(room, from, "m.room.message", { msgtype: "m.text", body: text, ...relation(thread, replyTo), ...extra }),
    /** Anything at all. */
    inject: event,
    react: (room: string, message: string, key: string, from = PERSON): string =>
      event(room, from, "m.reaction", { "m.relates_to": { rel_type: "m.annotation", event_id: message, key } }),
    redact(room: string, target: string, from = PERSON): void {
      const found = roomOf(state, room).events.find(({ event_id }) => event_id === target);
      if (found !== undefined) Object.assign(found, { content: {}, redactedBy: from });
      event(room, from, "m.room.redaction", {}, { redacts: target });
    },
    /** Something a person attaches, as a message names it. */
    attach(name: string, bytes: Buffer): string {
      const id = `theirs${state.media.size + 1}`;
      state.media.set(id, { bytes, name, type: "" });
      return `mxc://home.test/${id}`;
    },
    /** What the server answers in a room from now on. */
    break: (room: string, trouble: Room["trouble"]) => void Object.assign(roomOf(state, room), { trouble }),
  };
}

function relation(thread: string | undefined, replyTo: string | undefined): Record<string, unknown> {
  if (thread === undefined && replyTo === undefined) return {};
  const reply = { "m.in_reply_to": { event_id: replyTo ?? thread } };
  return {
    "m.relates_to":
      thread === undefined ? reply : { rel_type: "m.thread", event_id: thread, is_falling_back: replyTo === undefined, ...reply },
  };
}

/** What there is to see. */
function records(state: State) {
  const messages = (id: string, thread?: string | null): SeenMessage[] => {
    const room = state.rooms.get(id);
    const own = (room?.events ?? []).filter((event) => event.type === "m.room.message" && event.sender === state.bot && !isEdit(event));
    return own
      .map((event) => seen(state, room as Room, event))
      .filter((one) => !one.isRedacted && (thread === undefined || one.thread === thread));
  };
  return {
    /** What the bot said, in order. `thread` null: only in the room itself; left out: everywhere in the room. */
    messages,
    allMessages: (): SeenMessage[] => [...state.rooms.keys()].flatMap((id) => messages(id)),
    /** So often something was shown of an answer before it was whole. */
    drafts: (): number =>
      state.calls.filter(({ executed, body }) => executed && (body[OWN_FIELD] as { draft?: string } | undefined)?.draft !== undefined)
        .length,
    isIn: (id: string): boolean => state.rooms.get(id)?.members.get(state.bot) === "join",
    rooms: (): string[] => [...state.rooms.keys()],
  };
}

const relatesTo = ({ content }: FakeEvent) =>
  content?.["m.relates_to"] as { rel_type?: string; event_id?: string; key?: string; "m.in_reply_to"?: { event_id: string } } | undefined;
const isEdit = (event: FakeEvent): boolean => relatesTo(event)?.rel_type === "m.replace";

function seen(state: State, room: Room, event: FakeEvent): SeenMessage {
  const edits = room.events.filter((one) => isEdit(one) && relatesTo(one)?.event_id === event.event_id && one.redactedBy === undefined);
  const latest = latestEdit(room, event)?.content["m.new_content"] as Record<string, unknown> | undefined;
  const content = latest ?? event.content;
  const own = content[OWN_FIELD] as { buttons?: SeenMessage["buttons"]; key?: string } | undefined;
  const versions = [event.content, ...edits.map((one) => one.content["m.new_content"] as Record<string, unknown>)];
  const signs = room.events.filter(
    (one) =>
      one.type === "m.reaction" && one.sender === state.bot && relatesTo(one)?.event_id === event.event_id && one.redactedBy === undefined,
  );
  const related = relatesTo(event);
  const media = typeof content.url === "string" ? state.media.get(content.url.split("/").at(-1) ?? "") : undefined;
  const info = content.info as { mimetype?: string } | undefined;
  return {
    ...{ id: event.event_id, room: room.id, thread: related?.rel_type === "m.thread" ? (related.event_id ?? null) : null },
    text: String(content.body ?? ""),
    html: typeof content.formatted_body === "string" ? content.formatted_body : null,
    type: String(content.msgtype),
    edits: edits.length,
    versions: versions.map((one) => String(one.body ?? "")),
    buttons: own?.buttons ?? [],
    signs: signs.map((one) => String(relatesTo(one)?.key)),
    file: media === undefined ? null : { name: String(content.filename), bytes: media.bytes, mimetype: info?.mimetype ?? "" },
    replyTo: related?.["m.in_reply_to"]?.event_id ?? null,
    isRedacted: event.redactedBy !== undefined,
    ...{ at: event.origin_server_ts, pos: event.pos, mark: own?.key ?? "" },
  };
}
