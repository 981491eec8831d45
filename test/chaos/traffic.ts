// Seeded people: they talk in a handful of places at once, spawn, stop, send and ask, and move on to a new place after a
// while, so that no session grows without end. What they said is written down the moment a platform has taken it.

import type { Random } from "../support/random.ts";
import { type ChildKind, type ChildPlan, groupOf, isMessage, type Said, type SaidKind } from "./history.ts";
import type { Scene } from "./scene.ts";
import { optionsOf, VERDICTS, wordsOf } from "./script.ts";
import { type Delivered, type Spot, WEB } from "./spots.ts";

export interface Traffic {
  /** Somebody says something; returns at once. */
  step(): void;
  /** Somebody answers what can be seen to be asked; this never makes more work. */
  tend(): void;
  /** As many at once as there are slots in both lanes; each waits until all of them work. */
  probe(): void;
  /** Resolves when everything said was taken by its platform. */
  settled(): Promise<void>;
  said(): readonly Said[];
  /** Posts nobody took: they are no messages. */
  refusals(): readonly string[];
}

interface Seat {
  spot: Spot;
  /** Labels of children spawned here. */
  labels: string[];
  /** Groups sent out here. */
  groups: string[];
  /** Those that may ask, the agent itself among them (`m17`). */
  askers: string[];
  left: number;
  /** Posts of one tab go out one after the other. */
  last: Promise<void>;
}

interface State {
  readonly world: Scene;
  readonly random: Random;
  readonly seats: Seat[];
  readonly said: Said[];
  readonly refusals: string[];
  /** Said, but not taken yet. */
  readonly underWay: Set<Promise<void>>;
  /** How often somebody answered this one because it was seen to ask: a copy on Telegram that nobody knows of keeps its buttons. */
  readonly tended: Map<string, number>;
  /** Children that need a yes. */
  readonly approvers: Set<string>;
  count: number;
}

const KINDS: Record<SaidKind, number> = {
  say: 30,
  tool: 10,
  slow: 5,
  long: 4,
  spawn: 24,
  group: 14,
  door: 0,
  send: 9,
  "stop-one": 4,
  "stop-group": 4,
  "stop-all": 2,
  stop: 2,
  new: 1,
  list: 3,
  status: 3,
  ask: 5,
  reply: 3,
  answer: 6,
  press: 10,
  stranger: 3,
};
const MOST_TENDED = 4;
/** Where a question stands with its buttons. */
const TO_ASKER = { press: 6, answer: 2, reply: 2, stranger: 1 };
const CHILDREN: Record<ChildKind, number> = {
  quick: 40,
  tool: 20,
  slow: 12,
  hang: 6,
  skip: 5,
  fail: 5,
  parent: 6,
  wait: 6,
  ask: 14,
  approve: 8,
  door: 0,
};
/** Of a group: those that need nobody and send nobody out. */
const MEMBERS = { quick: 6, tool: 4, slow: 4, fail: 2, hang: 2 } as const;
/** Places people are in at once: a few on each channel. */
const SEATS = 9;
/** A few each, so that no chat is asked for more than its platform takes in a minute. */
const WORDS_PER_PLACE = 12;

export function createTraffic(world: Scene, random: Random): Traffic {
  const perChannel = Math.ceil(SEATS / world.channels.length);
  const rooms = world.channels.flatMap((channel) => Array.from({ length: perChannel }, () => world.newPlace(channel)));
  const seats = [...rooms, ...world.direct].map((spot) => sit(spot, random));
  const state: State = {
    world,
    random,
    seats,
    said: [],
    refusals: [],
    underWay: new Set(),
    tended: new Map(),
    approvers: new Set(),
    count: 0,
  };
  return {
    tend() {
      const open = seats.flatMap((seat) =>
        seat.spot.channel === WEB ? [] : world.hands.asking(seat.spot).map((label) => ({ seat, label })),
      );
      const asked = open.filter(({ label }) => (state.tended.get(label) ?? 0) < MOST_TENDED);
      if (asked.length === 0) return;
      const { seat, label } = random.pick(asked);
      state.tended.set(label, (state.tended.get(label) ?? 0) + 1);
      const kind = random.weighted(TO_ASKER);
      utter(state, seat, isAlone(kind, seat.spot) ? "press" : kind, { target: label });
    },
    step() {
      const seat = random.pick(seats);
      const { channel } = seat.spot;
      // Private chats have no other place to go to; there a new conversation is begun instead (kind `new`).
      if (seat.left-- <= 0 && !world.direct.includes(seat.spot))
        Object.assign(seat, sit(world.newPlace(channel), random), { last: seat.last });
      utter(state, seat, kindFor(seat, random));
    },
    probe() {
      for (let n = 0; n < world.lanes.main; n++) utter(state, sit(world.newPlace(WEB), random), "door");
      const children = Array.from({ length: world.lanes.subagent }, () => ({ kind: "door" as const, cleanup: "keep" as const }));
      utter(state, sit(world.newPlace(WEB), random), "spawn", { children });
    },
    async settled() {
      await Promise.all(state.underWay);
    },
    said: () => state.said,
    refusals: () => state.refusals,
  };
}

const sit = (spot: Spot, random: Random): Seat => ({
  spot,
  labels: [],
  groups: [],
  askers: [],
  left: random.between(WORDS_PER_PLACE / 2, WORDS_PER_PLACE),
  last: Promise.resolve(),
});

function kindFor(seat: Seat, random: Random): SaidKind {
  const kind = random.weighted(KINDS);
  // A thread begins with words for the agent; steering needs somebody to steer.
  const opens = seat.spot.opensThread && seat.spot.thread === null;
  return lacksTarget(seat, kind) || isAlone(kind, seat.spot) || (opens && !isMessage(kind)) ? "say" : kind;
}

function lacksTarget({ labels, groups, askers }: Seat, kind: SaidKind): boolean {
  if (kind === "stop-group") return groups.length === 0;
  return kind === "send" || kind === "stop-one" ? labels.length === 0 : isForAsker(kind) && askers.length === 0;
}

/** Strangers to a chat of two, or to the page, are nobody there. */
const isAlone = (kind: SaidKind, spot: Spot): boolean => kind === "stranger" && !spot.hasOthers;
const FOR_ASKER: ReadonlySet<SaidKind> = new Set(["reply", "answer", "press", "stranger"]);
const isForAsker = (kind: SaidKind): boolean => FOR_ASKER.has(kind);

function targetFor(state: State, seat: Seat, kind: SaidKind): string | null {
  if (isForAsker(kind)) return state.random.pick(askersAt(state, seat));
  if (kind === "stop-group") return state.random.pick(seat.groups.slice(-3));
  return kind === "send" || kind === "stop-one" ? state.random.pick(seat.labels.slice(-6)) : null;
}

/** Those who can be seen to ask, or, now and then, whoever may have. */
function askersAt({ world, random }: State, { spot, askers }: Seat): readonly string[] {
  const seen = spot.channel === WEB ? [] : world.hands.asking(spot);
  return seen.length > 0 && (askers.length === 0 || random.chance(0.8)) ? seen : askers.slice(-4);
}

/** Who may come to ask through this: children and what they send out, or the agent itself. */
const askersOf = (id: string, kind: SaidKind, children: readonly ChildPlan[]): string[] => [
  ...(kind === "ask" ? [id] : []),
  ...children.filter((child) => child.kind === "ask" || child.kind === "approve").map(({ label }) => label),
  ...children.filter((child) => child.kind === "parent" || child.kind === "wait").map(({ label }) => `${label}.1`),
];

type NewChild = Omit<ChildPlan, "label">;

/** What is not left to chance. */
interface Given {
  readonly children?: readonly NewChild[];
  readonly target?: string;
}

function utter(state: State, seat: Seat, kind: SaidKind, given: Given = {}): void {
  const { random } = state;
  const id = `m${++state.count}`;
  const children = childrenFor(random, id, kind, given.children);
  const target = given.target ?? targetFor(state, seat, kind);
  if (kind === "group") seat.groups.push(groupOf(id));
  else seat.labels.push(...children.map((child) => child.label));
  seat.askers.push(...askersOf(id, kind, children));
  for (const child of children) if (child.kind === "approve") state.approvers.add(child.label);
  const words = isMessage(kind) ? wordsOf({ id, kind, children }) : commandLine(id, kind, target, random);
  // People paste what they shouldn't.
  const text = (kind === "say" || kind === "send") && random.chance(0.3) ? `${words} ${state.world.secrets.pick(id)}` : words;
  const { spot } = seat;
  const at = Date.now();
  // Recorded in the order in which it was said, also when a tab's post takes a while.
  const before = seat.last;
  const send = async (): Promise<void> => {
    const all = await (byHand(state, spot, { kind, text, target }) ?? state.world.say(spot, text).then((one) => [one]));
    // Pressed twice is said twice.
    for (const [n, delivered] of all.entries())
      state.said.push({ id: n === 0 ? id : `m${++state.count}`, kind, text, at, children, target, ...delivered });
  };
  const refuse = (error: unknown): void => void state.refusals.push(`${id} "${text}": ${String(error)}`);
  // Platforms take it at once, and a thread's root must be known to who speaks next.
  const sent = (spot.channel === WEB ? before.then(send) : send()).catch(refuse);
  seat.last = sent;
  state.underWay.add(sent);
  void sent.finally(() => state.underWay.delete(sent));
}

/** Most of those who could press a button or use a slash command do so. */
function byHand(
  { world, random, approvers }: State,
  spot: Spot,
  { kind, text, target }: Pick<Said, "kind" | "text" | "target">,
): Promise<Delivered[]> | null {
  const { hands } = world;
  if (target !== null && isForAsker(kind)) {
    if (kind === "reply") return hands.reply(spot, target, text);
    if (kind === "answer") return hands.answer(spot, target, text);
    const option = random.pick(approvers.has(target) ? VERDICTS : optionsOf(target));
    return kind === "stranger"
      ? hands.meddle(spot, target, option)
      : hands.choose(spot, target, { option, times: random.chance(0.3) ? 2 : 1 });
  }
  if (isMessage(kind) || spot.channel === WEB || random.chance(0.2)) return null;
  if (kind === "stop-one" && target !== null) return hands.stop(spot, target);
  return text.startsWith("/") ? hands.slash(spot, text) : null;
}

function childrenFor(random: Random, id: string, kind: SaidKind, given: readonly NewChild[] | undefined): ChildPlan[] {
  if (kind === "spawn") return (given ?? newChildren(random)).map((child, n) => ({ ...child, label: `${id}.${n + 1}` }));
  return kind === "group" ? newMembers(random).map((child, n) => ({ ...child, label: `${groupOf(id)}.${n + 1}` })) : [];
}

function newMembers(random: Random): NewChild[] {
  const cleanup = random.chance(0.4) ? "delete" : "keep";
  const hasOrder = random.chance(0.4);
  return Array.from({ length: random.between(2, 4) }, (_, n) => {
    const child = { kind: random.weighted(MEMBERS), cleanup } as const;
    return hasOrder && n > 0 && random.chance(0.6) ? { ...child, isAfter: true } : child;
  });
}

function newChildren(random: Random): NewChild[] {
  return Array.from({ length: random.between(1, 3) }, () => ({
    kind: random.weighted(CHILDREN),
    cleanup: random.chance(0.4) ? "delete" : "keep",
  }));
}

function commandLine(id: string, kind: SaidKind, target: string | null, random: Random): string {
  switch (kind) {
    case "send":
      return `/subagents send ${target} [${id}] more`;
    case "answer":
    case "press":
    case "stranger":
      return `/subagents answer ${target} from ${id}`;
    case "stop-one":
    case "stop-group":
      return `/subagents stop ${target}`;
    case "stop-all":
      return "/subagents stop all";
    case "stop":
      return random.pick(["/stop", "stop", "abort"]);
    case "new":
      return "/new";
    case "list":
      return "/subagents list";
    default:
      return "/status";
  }
}
