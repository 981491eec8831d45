// What the fake homeserver knows: rooms and all that ever happened in them, in one stream; who is a member; transactions; media; faults
// to make.
import type { Faults, PlatformFault } from "./fake-platform.ts";

export interface FakeEvent {
  type: string;
  event_id: string;
  sender: string;
  origin_server_ts: number;
  content: Record<string, unknown>;
  state_key?: string;
  redacts?: string;
  /** Its place in the stream of the server. */
  pos: number;
  /** Of what the bot sent. */
  transaction?: string;
  redactedBy?: string;
  prev?: Record<string, unknown>;
}

export interface Room {
  id: string;
  members: Map<string, "join" | "invite" | "leave">;
  events: FakeEvent[];
  /** When the bot was invited, in the stream; null: it was not, or it has followed. */
  invitedAt: number | null;
  invitedBy: string;
  isDirect: boolean;
  /** When the bot came, in the stream. */
  joinedAt: number;
  /** What the server answers there from now on. */
  trouble: { status: number; errcode: string; error?: string } | null;
}

/** Written by a person's client where lists stand inside lists, deeper than this process could write them itself. */
export const DEEP = "(lists inside lists)";
export const DEEP_JSON = `${"[".repeat(30_000)}${"]".repeat(30_000)}`;

export type Fault = PlatformFault | "html_200" | { status: number; errcode: string; retry_after_ms?: number; soft_logout?: boolean };

export interface Call {
  method: string;
  room: string;
  query: Record<string, string>;
  body: Record<string, unknown>;
  executed: boolean;
}

export interface State {
  token: string;
  /** Of other sign-ins of the same user. */
  otherTokens: Set<string>;
  bot: string;
  botName: string;
  now(): number;
  pos: number;
  rooms: Map<string, Room>;
  /** Room, type and transaction → the event that came of it. */
  transactions: Map<string, string>;
  accountData: Map<string, unknown>;
  media: Map<string, { bytes: Buffer; name: string; type: string }>;
  typing: { room: string; isTyping: boolean }[];
  read: { room: string; event: string; thread: string | null }[];
  calls: Call[];
  faults: Faults<Fault>;
  /** What they say is not shown to the bot. */
  ignored: Set<string>;
  /** A server shows edited messages with their last words in place of the first. */
  showsEditsInPlace: boolean;
  /** The newest token a sync was asked to go on from. */
  confirmed: number;
  /** The next sync that goes on from somewhere begins here, where that is earlier. */
  replayFrom: number | null;
  wakers: Set<() => void>;
  closed: boolean;
}

export function wake(state: State): void {
  for (const waker of [...state.wakers]) waker();
}

export function roomOf(state: State, id: string): Room {
  const known = state.rooms.get(id);
  if (known !== undefined) return known;
  const room: Room = {
    id,
    members: new Map(),
    events: [],
    invitedAt: null,
    invitedBy: "",
    isDirect: false,
    joinedAt: 0,
    trouble: null,
  };
  state.rooms.set(id, room);
  return room;
}

export function addEvent(
  state: State,
  room: Room,
  event: Omit<FakeEvent, "pos" | "event_id" | "origin_server_ts"> & Partial<FakeEvent>,
): FakeEvent {
  const pos = ++state.pos;
  const full: FakeEvent = { event_id: `$event${pos}/x+${room.id.length}`, origin_server_ts: state.now(), ...event, pos };
  room.events.push(full);
  wake(state);
  return full;
}

export function setMember(state: State, room: Room, user: string, membership: "join" | "invite" | "leave", sender = user): FakeEvent {
  const before = room.members.get(user);
  room.members.set(user, membership);
  const event = addEvent(state, room, {
    ...{ type: "m.room.member", sender, state_key: user, content: { membership, ...(room.isDirect ? { is_direct: true } : {}) } },
    ...(before === undefined ? {} : { prev: { membership: before } }),
  });
  if (user === state.bot) {
    room.invitedAt = membership === "invite" ? event.pos : null;
    room.invitedBy = membership === "invite" ? sender : room.invitedBy;
    if (membership === "join") room.joinedAt = event.pos;
  }
  return event;
}

/** An event as a client gets it. */
export function shown(state: State, room: Room, event: FakeEvent): Record<string, unknown> {
  const { pos: _pos, transaction, redactedBy, prev, ...rest } = event;
  const edit = latestEdit(room, event);
  const inPlace = edit !== null && state.showsEditsInPlace ? (edit.content["m.new_content"] as Record<string, unknown>) : null;
  // A person may send anything.
  const relates = (event.content as FakeEvent["content"] | null)?.["m.relates_to"];
  const content = inPlace === null ? event.content : { ...inPlace, ...(relates === undefined ? {} : { "m.relates_to": relates }) };
  const unsigned = {
    ...(transaction === undefined || event.sender !== state.bot ? {} : { transaction_id: transaction }),
    ...(prev === undefined ? {} : { prev_content: prev }),
    ...(redactedBy === undefined ? {} : { redacted_because: { type: "m.room.redaction", sender: redactedBy } }),
    ...(edit === null || state.showsEditsInPlace
      ? {}
      : { "m.relations": { "m.replace": { event_id: edit.event_id, sender: edit.sender, content: edit.content } } }),
  };
  return { ...rest, room_id: room.id, content, unsigned };
}

export function latestEdit(room: Room, event: FakeEvent): FakeEvent | null {
  const isEdit = ({ content, sender, redactedBy }: FakeEvent): boolean => {
    const related = content?.["m.relates_to"] as { rel_type?: string; event_id?: string } | undefined;
    return related?.rel_type === "m.replace" && related.event_id === event.event_id && sender === event.sender && redactedBy === undefined;
  };
  return room.events.findLast(isEdit) ?? null;
}
