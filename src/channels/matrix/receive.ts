// One answer of /sync → rows for the inbox. What happened to rooms first (who came, what was removed), then what was said, oldest first,
// with whatever is needed to understand it later without the network. Whatever can't be asked now makes the whole answer be asked for
// again: nothing of it is confirmed before all of it is recorded.
// sync.ts → rowsOf → inbox rows and the next token, in one transaction
import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/logger.ts";
import { safeParse } from "../../core/safe-parse.ts";
import { type Answer, type Api, explainFailure, isRefused } from "./api.ts";
import { numberOf } from "./buttons.ts";
import { decodeEvent } from "./decode.ts";
import { eventSchema, isMessage, type MatrixEvent, type Other, relation, roomId, STICKER, type Stored, toKept } from "./event.ts";
import { pagesBack } from "./history.ts";
import type { Invites } from "./invites.ts";
import { lookAt, type Standing } from "./looking.ts";
import type { Rooms } from "./rooms.ts";

export interface Receiver {
  readonly api: Api;
  readonly clock: Clock;
  readonly log: Logger;
  readonly rooms: Rooms;
  readonly invites: Invites;
  readonly standing: Standing;
  /** How often in a row something could not be asked of a room. */
  readonly troubles: Map<string, number>;
  /** The settings name it. */
  isListed(room: string): boolean;
}

export interface Row {
  readonly externalId: string;
  readonly raw: Stored;
}

type Me = Stored["me"];

/** What is asked for: everything else costs a server and a line, and says nothing to us. */
export const TYPES = [
  "m.room.message",
  STICKER,
  "m.reaction",
  "m.room.encrypted",
  "m.room.encryption",
  "m.room.member",
  "m.room.redaction",
];
/** So much of one room is read back after an outage; what is older than this was missed. */
const MAX_PAGES = 50;
/** Some minutes, at the pace of sync.ts. */
const MAX_TROUBLES = 20;
/** Rows are remembered for six days: what is older than this could be answered twice. */
const MAX_AGE_MS = 5 * 24 * 3_600_000;

const joined = z.object({
  timeline: z
    .object({
      events: z.array(z.unknown()).catch([]),
      limited: z.boolean().optional().catch(undefined),
      prev_batch: z.string().optional().catch(undefined),
    })
    .catch({ events: [] }),
  state: z.object({ events: z.array(z.unknown()).catch([]) }).catch({ events: [] }),
});
type Joined = z.output<typeof joined>;

/** Throws MatrixFailure when something needed for it can't be asked now. */
export async function rowsOf(receiver: Receiver, me: Me, answer: Answer, since: string): Promise<Row[]> {
  const { join = {}, invite, leave = {} } = (answer.rooms ?? {}) as { join?: object; invite?: unknown; leave?: object };
  await receiver.invites.look(invite);
  for (const room of Object.keys(leave ?? {})) receiver.rooms.forget(room, "all");
  const rows: Row[] = [];
  for (const [room, body] of Object.entries(join ?? {})) {
    const { data } = safeParse(joined, body);
    if (data === undefined || !safeParse(roomId, room).success) continue;
    try {
      rows.push(...(await rowsIn(receiver, { room, body: data, me, since })));
      receiver.troubles.delete(room);
    } catch (error) {
      bear(receiver, room, error);
    }
  }
  return rows;
}

/** A server may be out of order for one room and stay so: everybody else is not kept waiting for it for ever. Throws while it may pass. */
function bear({ troubles, log }: Receiver, room: string, error: unknown): void {
  const { kind, reason } = explainFailure(error);
  if (kind !== "lost") throw error;
  const times = (troubles.get(room) ?? 0) + 1;
  troubles.set(room, times);
  if (times < MAX_TROUBLES) throw error;
  log.error({ room, reason }, "the homeserver answers nothing about a room; what was said there was missed");
}

async function rowsIn(receiver: Receiver, spot: Spot): Promise<Row[]> {
  const { room, me } = spot;
  const reader: Reader = { ...receiver, me, room, seen: new Map() };
  const rows: Row[] = [];
  let malformed = 0;
  for (const raw of await eventsOf(receiver, spot)) {
    const event = safeParse(eventSchema, raw);
    if (!event.success) malformed++;
    else rows.push(...(await rowOf(reader, toKept(event.data))));
  }
  if (malformed > 0) receiver.log.warn({ room, malformed }, "events without a readable form were skipped");
  return rows;
}

interface Spot {
  readonly room: string;
  readonly body: Joined;
  readonly me: Me;
  readonly since: string;
}

/** Oldest first. What stood there before the bot was asked to come is not for it. */
async function eventsOf(receiver: Receiver, { room, body, me, since }: Spot): Promise<unknown[]> {
  const { timeline, state } = body;
  const [isOwn, wasAsked] = [(event: unknown) => isMembership(event, me, "join"), (event: unknown) => isMembership(event, me, "invite")];
  const isLeftOut = timeline.limited === true && !timeline.events.some(isOwn);
  const gap = isLeftOut && timeline.prev_batch !== undefined ? await readGap(receiver, room, timeline.prev_batch, since) : [];
  const events = [...gap, ...timeline.events];
  for (const event of [...state.events, ...events]) note(receiver, room, event);
  // Who came in a gap that can't be read, and says nothing, is named nowhere.
  if (timeline.limited === true) receiver.rooms.forget(room, "people");
  const joinedAt = events.findLastIndex(isOwn);
  if (joinedAt === -1) return events;
  const askedAt = events.slice(0, joinedAt).findLastIndex(wasAsked);
  return events.slice((askedAt === -1 ? joinedAt : askedAt) + 1);
}

/** Whatever was known about it may be otherwise now. */
function note({ rooms, standing }: Receiver, room: string, raw: unknown): void {
  const { type, redacts, content } = (raw ?? {}) as { type?: unknown; redacts?: unknown; content?: { redacts?: unknown } | null };
  if (type === "m.room.member") rooms.forget(room, "people");
  if (type === "m.room.encryption") rooms.forget(room, "all");
  const removed = redacts ?? content?.redacts;
  if (type === "m.room.redaction" && typeof removed === "string") standing.forget(removed);
}

const membership = z.object({
  type: z.literal("m.room.member"),
  state_key: z.string(),
  content: z.object({ membership: z.string() }),
  unsigned: z
    .object({ prev_content: z.object({ membership: z.string() }).optional().catch(undefined) })
    .optional()
    .catch(undefined),
});

/** The bot's own, and no change of its name or picture. */
function isMembership(event: unknown, { userId }: Me, as: string): boolean {
  const { data } = safeParse(membership, event);
  return data?.state_key === userId && data.content.membership === as && data.unsigned?.prev_content?.membership !== as;
}

/** What a server left out between the last token and what it shows, oldest first. */
async function readGap({ api, log, clock }: Receiver, room: string, from: string, to: string): Promise<unknown[]> {
  const events: unknown[] = [];
  let pages = 0;
  try {
    for await (const page of pagesBack(api, room, { from, to, filter: JSON.stringify({ types: TYPES }) })) {
      if (++pages > MAX_PAGES) {
        log.warn({ room, events: events.length }, "more was said in a room than is read back after an outage; older messages were missed");
        break;
      }
      events.push(...page);
    }
  } catch (error) {
    if (!isRefused(error)) throw error;
    // Most often it is not in the room any more. Whatever it is, everybody else is not kept waiting for it.
    log.warn({ room, reason: explainFailure(error).reason }, "what was said in a room during an outage can't be read back");
  }
  const oldest = clock.now() - MAX_AGE_MS;
  return events.filter((event) => !(Number((event as { origin_server_ts?: unknown } | null)?.origin_server_ts) < oldest)).reverse();
}

interface Reader extends Receiver {
  readonly me: Me;
  readonly room: string;
  /** What was looked at for this answer of the server. */
  readonly seen: Map<string, Other | null>;
}

async function rowOf(reader: Reader, event: MatrixEvent): Promise<Row[]> {
  const { me, room } = reader;
  if (event.sender === me.userId) return [];
  if (event.type === "m.reaction") return reactionRow(reader, event);
  const isSealed = event.type === "m.room.encrypted" || event.type === "m.room.encryption";
  if (!isSealed && !isMessage(event)) return [];
  const plain: Stored = { me, room, isDirect: false, event };
  // Of most that nobody said to us this is all that is done.
  if (!isSealed && decodeEvent(plain, "") === null) return [];
  const { isDirect, isEncrypted } = await reader.rooms.of(room);
  // Once for a room, however much is said there.
  if (isSealed || isEncrypted) return [{ externalId: `encrypted ${room}`, raw: { ...plain, isDirect, isEncrypted: true } }];
  const related = isDirect || reader.isListed(room) ? await relatedTo(reader, event, isDirect) : {};
  const raw: Stored = { ...plain, isDirect, ...related };
  const inbound = decodeEvent(raw, "");
  return [{ externalId: inbound?.kind === "button" ? pressId(raw, inbound.text) : `event ${room} ${event.event_id}`, raw }];
}

/** The message it answers, and in a room the first one of its thread: both may call the bot. */
async function relatedTo(reader: Reader, { content }: MatrixEvent, isDirect: boolean): Promise<Pick<Stored, "about" | "root">> {
  const { data } = safeParse(relation, content["m.relates_to"]);
  const threadRoot = data?.rel_type === "m.thread" ? data.event_id : undefined;
  const answered = threadRoot !== undefined && data?.is_falling_back === true ? undefined : data?.["m.in_reply_to"]?.event_id;
  const about = answered === undefined ? null : await look(reader, answered);
  const root = threadRoot === undefined || isDirect ? null : await look(reader, threadRoot);
  return { ...(about === null ? {} : { about }), ...(root === null ? {} : { root }) };
}

async function look({ api, room, seen }: Reader, id: string): Promise<Other | null> {
  const known = seen.get(id);
  if (known !== undefined) return known;
  const found = await lookAt(api, room, id);
  seen.set(id, found);
  return found;
}

async function reactionRow(reader: Reader, event: MatrixEvent): Promise<Row[]> {
  const { me, room } = reader;
  const { data } = safeParse(relation, event.content["m.relates_to"]);
  if (data?.rel_type !== "m.annotation" || data.event_id === undefined || numberOf(data.key ?? "") === null) return [];
  const { isDirect } = await reader.rooms.of(room);
  if (!isDirect && !reader.isListed(room)) return [];
  const about = await look(reader, data.event_id);
  if (about === null || about.sender !== me.userId) return [];
  const raw: Stored = { me, room, isDirect, event, about };
  const press = decodeEvent(raw, "");
  return press === null ? [] : [{ externalId: pressId(raw, press.text), raw }];
}

/**
 * A person presses a button once: a sign that is taken back and put there again, or sent by a client a hundred times, is the same press.
 * Below a message whose choices are all over, any of them is.
 */
function pressId({ room, event, about }: Stored, command: string): string {
  const { data } = safeParse(relation, event.content["m.relates_to"]);
  const target = data?.rel_type === "m.annotation" ? data.event_id : data?.["m.in_reply_to"]?.event_id;
  const buttons = about?.buttons ?? [];
  // By what it stands for: around a number in a reply there may be the bot's name, or the words that are answered.
  const n = buttons.find((one) => one.command === command)?.n;
  return `press ${room} ${target} ${buttons.every((one) => one.isOver === true) ? "over" : n} ${event.sender}`;
}
