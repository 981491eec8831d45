// What each message of the bot is about. seen → sightings by fact: `reply m17 3/40`, `answer m20`, `started m17.2`,
// `announcement m17.2 g1`. A fact is something people may be told once; checker.ts counts and compares. Pure.
import { type History, isMessage, type OutboxFact, type Place, type Said, type Seen } from "./history.ts";

/** What Telegram's second attempts begin with. */
const MARK = "(may be repeated)";

export interface Sighting extends Seen {
  /** It says itself that it may be a repeat. */
  readonly marked: boolean;
  /** So many announcements of the same label stand before it in the same message: two generations may share one. */
  readonly before: number;
}

export type FactKind = "reply" | "answer" | "started" | "announcement";

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
}

export function createIndex(history: History): Index {
  const said = new Map(history.said.map((one) => [one.id, one]));
  const rows = new Map(history.inbox.map((row) => [`${row.channel} ${row.externalId}`, row.id]));
  return {
    said,
    placeOfLabel: (label) => said.get(label.split(".")[0] ?? "")?.place ?? "nowhere",
    arrival(saidId) {
      const one = said.get(saidId);
      return one === undefined ? null : (rows.get(`${channelOf(one.place)} ${one.externalId}`) ?? null);
    },
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
      const place =
        about.kind === "started" || about.kind === "announcement" ? index.placeOfLabel(about.about) : index.said.get(about.about)?.place;
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
  const marked = seen.text.startsWith(MARK);
  const text = marked ? seen.text.slice(MARK.length).trimStart() : seen.text;
  if (!HEADING.test(text)) return [{ ...seen, marked, text, before: 0 }];
  const pieces = text.split(BETWEEN).flatMap((piece) => piece.split(/(?=^\**Sub-agent: m\d)/m).map((one) => one.trim()));
  const labels = pieces.map((piece) => labelOf(piece));
  return pieces.map((piece, n) => ({ ...seen, marked, text: piece, before: labels.slice(0, n).filter((one) => one === labels[n]).length }));
}

const labelOf = (text: string): string | undefined => HEADING.exec(text)?.[1];

/** What Telegram puts between them; Slack has a line of its own, which is no text. */
const BETWEEN = /\n\n―{5,}\n\n/;
const REPLY = /\bre (m\d+) (\d+)\/(\d+)/g;
const HEADING = /^\**Sub-agent: (m\d+\.\d+)\**/;
const STARTED = /^🧭 Sub-agent started: (m\d+\.\d+) \(/;
/** No outbox row of that place has these words. */
export const UNKNOWN_GENERATION = 0;
const WHOLE = { piece: 1, of: 1, generation: 1, isApology: false };

function createAttribution(history: History, index: Index): (seen: Sighting) => About[] {
  const byText = Map.groupBy(history.outbox, (row) => `${row.place} ${row.text.trim()}`);
  const byJoin = Map.groupBy(history.outbox, (row) => row.joinedAs ?? "");
  const byPlatformId = new Map(history.said.map((one) => [`${one.place} ${one.ref}`, one]));
  const byArrival = new Map(history.said.map((one) => [index.arrival(one.id), one]));
  return (seen) => {
    const started = STARTED.exec(seen.text)?.[1];
    if (started !== undefined) return [{ ...WHOLE, kind: "started", about: started }];
    const label = labelOf(seen.text);
    if (label !== undefined) {
      const generation = generationOf(seen, byText, byJoin, label);
      return [{ ...WHOLE, kind: "announcement", about: label, generation: generation ?? UNKNOWN_GENERATION }];
    }
    const pieces = [...seen.text.matchAll(REPLY)];
    if (pieces.length > 0) {
      return pieces.map((match) => ({ ...WHOLE, kind: "reply", about: match[1] ?? "", piece: Number(match[2]), of: Number(match[3]) }));
    }
    const arrival = /^(?:reply|answer):(\d+)#/.exec(seen.key ?? pressedKey(seen, byText))?.[1];
    const said = arrival === undefined ? byPlatformId.get(`${seen.place} ${seen.replyTo}`) : byArrival.get(Number(arrival));
    if (said === undefined) return [];
    return [
      isMessage(said.kind) ? { ...WHOLE, kind: "reply", about: said.id, isApology: true } : { ...WHOLE, kind: "answer", about: said.id },
    ];
  };
}

/** The answer to a press points at nothing on Telegram, and shows no key: its words are those of an outbox row. */
function pressedKey(seen: Sighting, byText: RowsBy): string {
  const answers = (byText.get(`${seen.place} ${seen.text}`) ?? []).filter((row) => row.delivery.startsWith("answer:"));
  return seen.replyTo === null ? `${rowOf(seen, answers)?.delivery ?? ""}#` : "";
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
