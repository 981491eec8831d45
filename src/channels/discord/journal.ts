// How far we have heard Discord out. Of a session it is the number of the last event that is on record: whoever connects next asks for all
// that came after it. Of a channel it is the id of its last message: by that it is read on when Discord has forgotten the session. All of
// it is written with the inbox rows it belongs to (the channel's cursor), so that after a kill nothing is skipped; what comes once more
// is known by its id.
import { z } from "zod";
import { safeParse } from "../../core/safe-parse.ts";
import { DIRECT, type Place, placeSchema } from "./payload.ts";
import { laterOf, SNOWFLAKE } from "./snowflake.ts";

export interface Session {
  readonly id: string;
  /** Where it is taken up again. */
  readonly url: string;
  readonly seq: number;
}

export interface Journal {
  session: Session | null;
  /** Since when Discord may have said something that no session brings; null: nothing is missing. */
  missingSince: number | null;
  /**
   * Since when threads may have been begun unseen; null: since none. It lasts until every server has listed its own, which each does by
   * itself, behind the gap's other channels.
   */
  threadsSince: number | null;
  /** When it was last certain that nothing is missing but what `gaps` and `unopened` name. */
  heardAt: number;
  /** Channels that have to be read before anything that is told of them counts (gaps.ts). */
  readonly gaps: Map<string, Gap>;
  /** People whose direct chat may hold something, and is not known. */
  readonly unopened: Map<string, Span>;
  readonly channels: Map<string, Known>;
  /** The direct chats of people, by their ids. */
  readonly direct: Map<string, string>;
  /** When it was last written. */
  writtenAt: number;
}

/** Where a session is missing, as ids of that moment. */
export interface Span {
  readonly from: string;
  /** What came later was told in a session. */
  readonly until: string;
}

export interface Gap extends Span {
  /** What is told of the channel meanwhile, in order. Not written: whoever is killed reads it. */
  readonly told: Told[];
  /** Something was said that `told` doesn't have, and that a reading which has begun may lack. */
  isBehind: boolean;
  /** How many were read of it, however often that was broken off. */
  pages: number;
}

export interface Told {
  readonly payload: unknown;
  /** The event says so, and a message doesn't. */
  readonly isDirect: boolean;
}

interface Known {
  readonly place: Place;
  /** Null: nothing that was said there is on record. */
  readonly last: string | null;
}

/** All of them are written with each row. */
const MAX_WRITTEN = 200;
const MAX_KNOWN = 5_000;

const id = z.string().regex(SNOWFLAKE);
const span = z.object({ from: id, until: id });
const stored = z.object({
  session: z
    .object({ id: z.string().max(200), url: z.string().max(500), seq: z.number().int() })
    .nullable()
    .catch(null),
  missingSince: z.number().nullable().catch(null),
  threadsSince: z.number().nullable().catch(null),
  heardAt: z.number().optional().catch(undefined),
  channels: z.record(id, z.object({ place: placeSchema, last: id })),
  direct: z.record(id, id).catch({}),
  // Unreadable, they are not "none": then nothing of it is believed, and all is read since it was written.
  gaps: z.record(id, span).default({}),
  unopened: z.record(id, span).default({}),
});

export function openJournal(cursor: { readonly value: string; readonly at: number } | null, now: number): Journal {
  const empty: Journal = {
    session: null,
    missingSince: null,
    threadsSince: null,
    heardAt: cursor?.at ?? now,
    channels: new Map(),
    direct: new Map(),
    gaps: new Map(),
    unopened: new Map(),
    writtenAt: 0,
  };
  const parsed = cursor === null ? null : safeParse(stored, parseJson(cursor.value));
  if (parsed?.success !== true) return empty;
  const { heardAt = empty.heardAt, channels, direct, gaps, unopened, ...rest } = parsed.data;
  const journal: Journal = {
    ...{ ...empty, ...rest, heardAt, channels: new Map(Object.entries(channels)), direct: new Map(Object.entries(direct)) },
    gaps: new Map(Object.entries(gaps).map(([channel, one]) => [channel, createGap(one)])),
    unopened: new Map(Object.entries(unopened)),
  };
  // Where nothing was said yet no place is written.
  for (const channel of journal.direct.values()) learnPlace(journal, channel, DIRECT);
  return journal;
}

export const createGap = (span: Span): Gap => ({ ...span, told: [], isBehind: false, pages: 0 });

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** What a row changes. */
export interface Step {
  /** Null: it was read, not told in the session. */
  readonly seq: number | null;
  readonly said?: { readonly channel: string; readonly id: string; readonly place: Place };
}

/** As it will be once the row is on record. A session is only written when nothing before it is missing: it would never be asked for. */
export function textAfter(journal: Journal, { seq, said }: Step): string {
  const { session, missingSince, threadsSince, heardAt } = journal;
  const known = [...journal.channels].flatMap(([channel, { place, last }]) => (last === null ? [] : [[channel, { place, last }] as const]));
  const channels = new Map(known.slice(-MAX_WRITTEN));
  if (said !== undefined)
    channels.set(said.channel, { place: said.place, last: laterOf(said.id, channels.get(said.channel)?.last ?? "1") });
  const kept = missingSince !== null || session === null ? null : { ...session, seq: seq ?? session.seq };
  const direct = [...journal.direct].slice(-MAX_WRITTEN);
  // All of them, however many: of one that is left out nobody would ever hear what was missed.
  const gaps = [...journal.gaps].map(([channel, { from, until }]) => [channel, { from, until }] as const);
  const missing = { gaps: Object.fromEntries(gaps), unopened: Object.fromEntries(journal.unopened) };
  const lists = { channels: Object.fromEntries(channels), direct: Object.fromEntries(direct), ...missing };
  // Who is stopped in the middle of an outage writes this, too: the time of the write says nothing.
  return JSON.stringify({ session: kept, missingSince, threadsSince, heardAt, ...lists });
}

/** It is on record, or nothing that has to be. */
export function advance(journal: Journal, { seq, said }: Step): void {
  if (seq !== null && journal.session !== null) journal.session = { ...journal.session, seq: Math.max(seq, journal.session.seq) };
  if (said === undefined) return;
  const last = laterOf(said.id, journal.channels.get(said.channel)?.last ?? "1");
  // At the end again: the oldest are forgotten first.
  journal.channels.delete(said.channel);
  journal.channels.set(said.channel, { place: said.place, last });
  forgetOldest(journal);
}

export function learnPlace(journal: Journal, channel: string, place: Place): void {
  journal.channels.set(channel, { place, last: journal.channels.get(channel)?.last ?? null });
  forgetOldest(journal);
}

/** It can't be read: it is not asked for after each outage. Where it stands stays known, for what is told of it. */
export function forgetLast({ channels }: Journal, channel: string): void {
  const known = channels.get(channel);
  if (known !== undefined) channels.set(channel, { ...known, last: null });
}

export function learnDirect({ direct }: Journal, person: string, channel: string): void {
  direct.delete(person);
  direct.set(person, channel);
  for (const oldest of direct.keys()) {
    if (direct.size <= MAX_KNOWN) return;
    direct.delete(oldest);
  }
}

function forgetOldest({ channels }: Journal): void {
  for (const [channel, { last }] of channels) {
    if (channels.size <= MAX_KNOWN) return;
    if (last === null || channels.size > 2 * MAX_KNOWN) channels.delete(channel);
  }
}
