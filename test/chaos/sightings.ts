// What each message of the bot is about. seen → sightings by fact: `reply m17 3/40`, `answer m20`, `behind m21`, `started m17.2`,
// `question m17.2`, `announcement m17.2 g1`, `group g17`, `woken g17`. A fact is something people may be told once; checker.ts counts and compares. Pure.

import { type History, isMessage, type OutboxFact, type Place, rootOf, type Said, type Seen } from "./history.ts";
import { ASKED } from "./record.ts";

/** What Telegram's second attempts begin with. */
const MARK = "(may be repeated)";

export interface Sighting extends Seen {
  /** It says itself that it may be a repeat. */
  readonly marked: boolean;
  /** So many announcements of the same label stand before it in the same message: two generations may share one. */
  readonly before: number;
}

/** `behind`: its turn comes after an answer that the agent waits for. `group`: what all of a group say together; `woken`: what follows from it. */
export type FactKind = "reply" | "answer" | "behind" | "started" | "question" | "announcement" | "group" | "woken";
const OF_LABEL: ReadonlySet<FactKind> = new Set(["started", "question", "announcement", "group", "woken"]);

export interface Fact {
  readonly kind: FactKind;
  /** The message or the child it is about. */
  readonly about: string;
  readonly place: Place;
  readonly piece: number;
  readonly of: number;
  readonly generation: number;
  /** A reply that isn't the model's: the gateway gave the message up, or the model failed. */
  readonly isApology: boolean;
  readonly sightings: Sighting[];
}

export interface Sightings {
  readonly facts: readonly Fact[];
  /** Seen, but about nothing anybody said. */
  readonly strays: readonly Sighting[];
  find(kind: FactKind, about: string): readonly Fact[];
  /** First sighting of a command's answer. */
  answer(saidId: string): Sighting | null;
}

export interface Index {
  readonly said: ReadonlyMap<string, Said>;
  /** The child's message, and its plan. */
  readonly placeOfLabel: (label: string) => Place;
  /** When the gateway recorded what was said: its arrival order. Null: never. */
  readonly arrival: (saidId: string) => number | null;
  /** Whose row it is. */
  readonly saidAt: (row: number) => Said | undefined;
}

export function createIndex(history: History): Index {
  const said = new Map(history.said.map((one) => [one.id, one]));
  const rows = new Map(history.inbox.map((row) => [`${row.channel} ${row.externalId}`, row.id]));
  const rowOf = ({ place }: Said, id: string | undefined): number | undefined => rows.get(`${channelOf(place)} ${id}`);
  const hasOwn = (one: Said): boolean => rowOf(one, one.externalId) !== undefined;
  // The same press again is the row of the first. One row stands for all that came too late: that is one which has no other, or the last.
  const bySaid = new Map([
    ...history.said.toSorted((a, b) => Number(hasOwn(b)) - Number(hasOwn(a))).map((one) => [rowOf(one, one.lateId), one] as const),
    ...history.said.toReversed().map((one) => [rowOf(one, one.externalId), one] as const),
  ]);
  return {
    said,
    placeOfLabel: (label) => said.get(rootOf(label))?.place ?? "nowhere",
    arrival(saidId) {
      const one = said.get(saidId);
      return one === undefined ? null : (rowOf(one, one.externalId) ?? rowOf(one, one.lateId) ?? null);
    },
    saidAt: (row) => bySaid.get(row),
  };
}

const channelOf = (place: Place): string => place.split("/")[0] ?? "";

interface About {
  readonly kind: FactKind;
  readonly about: string;
  readonly piece: number;
  readonly of: number;
  readonly generation: number;
  readonly isApology: boolean;
}

export function readSightings(history: History, index: Index): Sightings {
  const facts = new Map<string, Fact>();
  const strays: Sighting[] = [];
  const attribute = createAttribution(history, index);
  for (const seen of history.seen) {
    for (const { sighting, about } of partsOf(seen).flatMap((sighting) => {
      const abouts = attribute(sighting);
      if (abouts.length === 0) strays.push(sighting);
      return abouts.map((about) => ({ sighting, about }));
    })) {
      const key = `${about.kind} ${about.about} ${about.piece} g${about.generation} ${about.isApology}`;
      const place = OF_LABEL.has(about.kind) ? index.placeOfLabel(about.about) : index.said.get(about.about)?.place;
      const fact = facts.get(key) ?? { ...about, place: place ?? "nowhere", sightings: [] };
      fact.sightings.push(sighting);
      facts.set(key, fact);
    }
  }
  const all = [...facts.values()];
  const byAbout = Map.groupBy(all, (fact) => `${fact.kind} ${fact.about}`);
  const find = (kind: FactKind, about: string): readonly Fact[] => byAbout.get(`${kind} ${about}`) ?? [];
  return { facts: all, strays, find, answer: (id) => find("answer", id)[0]?.sightings[0] ?? null };
}

/** Announcements that waited for their turn stand in one message (DL7): each is a sighting of its own. */
function partsOf(seen: Seen): Sighting[] {
  const marked = (seen.firstText ?? seen.text).startsWith(MARK);
  const text = seen.text.startsWith(MARK) ? seen.text.slice(MARK.length).trimStart() : seen.text;
  if (!HEADING.test(text) && !GROUP.test(text)) return [{ ...seen, marked, text, before: 0 }];
  const pieces = withMembers(text.split(BETWEEN).flatMap((piece) => piece.split(PIECE).map((one) => one.trim())));
  const labels = pieces.map((piece) => labelOf(piece));
  return pieces.map((piece, n) => ({ ...seen, marked, text: piece, before: labels.slice(0, n).filter((one) => one === labels[n]).length }));
}

/** What is said of each of a group belongs to what the group says. */
function withMembers(pieces: readonly string[]): string[] {
  const whole: string[] = [];
  for (const piece of pieces) {
    const last = whole.at(-1) ?? "";
    const group = MEMBER.exec(piece)?.[1];
    if (group !== undefined && GROUP.exec(last)?.[1] === group) whole.splice(-1, 1, `${last}\n\n${piece}`);
    else whole.push(piece);
  }
  return whole;
}

const labelOf = (text: string): string | undefined => HEADING.exec(text)?.[1];

/** What Telegram puts between them; Slack has a line of its own, which is no text. */
const BETWEEN = /\n\n―{5,}\n\n/;
const REPLY = /\bre (m\d+) (\d+)\/(\d+)/g;
const HEADING = /^\**Sub-agent: (m\d+\.\d+)\**/;
const GROUP = /^\**Group (g\d+)\**:/;
const MEMBER = /^\**Sub-agent: (g\d+)\.\d+\**/;
const PIECE = /(?=^\**(?:Sub-agent: [mg]\d|Group g\d))/m;
const AWAKE = /\bwoken (g\d+) 1\/1/;
const BEHIND = /^[_\W]*I am waiting for an answer/;
/** What a message reads that was taken for an answer. */
const TAKEN = /^(?:📨 .* goes on with: |Already answered by |This question is closed|That is neither a Yes nor a No)/;
/** A batch's status message, by its first line, and the runs it shows. */
const STATUS = /^\**(?:[▶💤⏳❓✓✗⏹] \d+(?: · )?)+\**\s*$/mu;
const SHOWN = /^[▶💤⏳❓✓✗⏹] ([mg]\d+\.\d+)\b/gmu;
const shownIn = (text: string): string[] => (STATUS.test(text) ? [...text.matchAll(SHOWN)].map((match) => match[1] ?? "") : []);
/** Whose announcement it is. */
export const groupIn = (text: string): string | undefined => GROUP.exec(text)?.[1];
export const isStatusOf = (text: string, label: string): boolean => shownIn(text).includes(label);
/** What an agent wants to know, or whether it may do something. */
export const isQuestion = (text: string): boolean => /^(?:❓|🔐)/u.test(text);
/** No outbox row of that place has these words. */
export const UNKNOWN_GENERATION = 0;
const WHOLE = { piece: 1, of: 1, generation: 1, isApology: false };

function createAttribution(history: History, index: Index): (seen: Sighting) => About[] {
  const byText = Map.groupBy(history.outbox, (row) => `${row.place} ${row.text.trim()}`);
  const byJoin = Map.groupBy(history.outbox, (row) => row.joinedAs ?? "");
  const byPlatformId = new Map(history.said.map((one) => [`${one.place} ${one.ref}`, one]));
  const wakes = new Map(history.groups.flatMap(({ name, wakes: rows }) => rows.map(({ id }) => [`reply:${id}`, name])));
  return (seen) => {
    const started = shownIn(seen.text);
    if (started.length > 0) return started.map((about) => ({ ...WHOLE, kind: "started", about }));
    const asked = isQuestion(seen.text) ? ASKED.exec(seen.text)?.[1] : undefined;
    if (asked !== undefined) return [{ ...WHOLE, kind: "question", about: asked }];
    const label = labelOf(seen.text);
    if (label !== undefined) {
      const generation = generationOf(seen, byText, byJoin, label);
      return [{ ...WHOLE, kind: "announcement", about: label, generation: generation ?? UNKNOWN_GENERATION }];
    }
    const pieces = [...seen.text.matchAll(REPLY)];
    if (pieces.length > 0) {
      return pieces.map((match) => ({ ...WHOLE, kind: "reply", about: match[1] ?? "", piece: Number(match[2]), of: Number(match[3]) }));
    }
    const group = groupIn(seen.text);
    if (group !== undefined) return [{ ...WHOLE, kind: "group", about: group }];
    const awake = AWAKE.exec(seen.text)?.[1];
    if (awake !== undefined) return [{ ...WHOLE, kind: "woken", about: awake }];
    const key = seen.key ?? keyOf(seen, byText, wakes);
    const unwoken = wakes.get(key.replace(/#\d+$/, ""));
    if (unwoken !== undefined) return [{ ...WHOLE, kind: "woken", about: unwoken, isApology: true }];
    const arrival = /^(?:reply|answer|behind):(\d+)#/.exec(key)?.[1];
    const said = arrival === undefined ? byPlatformId.get(`${seen.place} ${seen.replyTo}`) : index.saidAt(Number(arrival));
    if (said === undefined) return [];
    if (BEHIND.test(seen.text)) return [{ ...WHOLE, kind: "behind", about: said.id }];
    const isReply = isMessage(said.kind) && !TAKEN.test(seen.text);
    return [{ ...WHOLE, kind: isReply ? "reply" : "answer", about: said.id, isApology: isReply }];
  };
}

/** The answer to a press, and to nobody, points at nothing on Telegram, and shows no key: its words are those of an outbox row. */
function keyOf(seen: Sighting, byText: RowsBy, wakes: ReadonlyMap<string, string>): string {
  const isOf = ({ delivery }: OutboxFact): boolean => delivery.startsWith("answer:") || wakes.has(delivery);
  const answers = (byText.get(`${seen.place} ${seen.text}`) ?? []).filter(isOf);
  return seen.replyTo === null ? `${rowOf(seen, answers)?.delivery ?? ""}#0` : "";
}

type RowsBy = ReadonlyMap<string, readonly OutboxFact[]>;

/** From the key it was sent under; Telegram shows none, but its words are exactly those of an outbox row. */
function generationOf(seen: Sighting, byText: RowsBy, byJoin: RowsBy, label: string): number | null {
  const together = seen.key === null ? [] : (byJoin.get(seen.key) ?? []).filter((row) => labelOf(row.text) === label);
  const shared = together.toSorted((a, b) => a.id - b.id)[seen.before];
  const delivery =
    shared?.delivery ?? seen.key?.replace(/#\d+$/, "") ?? rowOf(seen, byText.get(`${seen.place} ${seen.text}`) ?? [])?.delivery;
  return delivery?.startsWith("announce:") === true ? Number(/:g(\d+)$/.exec(delivery)?.[1] ?? 1) : null;
}

/** Two generations may end in the same words. An attempt whose answer was lost stands before the one that is on record. */
function rowOf(seen: Sighting, rows: readonly OutboxFact[]): OutboxFact | undefined {
  const inOrder = rows.toSorted((a, b) => Number(a.ref) - Number(b.ref) || a.id - b.id);
  const since = inOrder.filter((row) => Number(row.ref) >= Number(seen.ref));
  return since[seen.before] ?? since[0] ?? inOrder.at(-1);
}
