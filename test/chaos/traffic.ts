// Seeded people: they talk in a handful of places at once, spawn, stop, send and ask, and move on to a new place after a
// while, so that no session grows without end. What they said is written down the moment a platform has taken it.

import type { Random } from "../support/random.ts";
import { type ChildKind, type ChildPlan, isMessage, type Said, type SaidKind } from "./history.ts";
import type { Scene, Spot } from "./scene.ts";
import { wordsOf } from "./script.ts";

export interface Traffic {
  /** Somebody says something; returns at once. */
  step(): void;
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
  count: number;
}

const KINDS: Record<SaidKind, number> = {
  say: 30,
  tool: 10,
  slow: 5,
  long: 4,
  spawn: 24,
  door: 0,
  send: 9,
  "stop-one": 4,
  "stop-all": 2,
  stop: 2,
  new: 1,
  list: 3,
  status: 3,
};
const CHILDREN: Record<ChildKind, number> = { quick: 40, tool: 20, slow: 12, hang: 6, skip: 5, fail: 5, parent: 6, wait: 6, door: 0 };
const CHANNELS = ["telegram", "telegram", "telegram", "slack", "slack", "slack", "web", "web", "web"] as const;
/** A few each, so that no chat is asked for more than its platform takes in a minute. */
const WORDS_PER_PLACE = 12;

export function createTraffic(world: Scene, random: Random): Traffic {
  const seats = [...CHANNELS.map((channel) => world.newPlace(channel)), ...world.direct].map((spot) => sit(spot, random));
  const state: State = { world, random, seats, said: [], refusals: [], underWay: new Set(), count: 0 };
  return {
    step() {
      const seat = random.pick(seats);
      const { channel } = seat.spot;
      // Private chats have no other place to go to; there a new conversation is begun instead (kind `new`).
      if (seat.left-- <= 0 && !world.direct.includes(seat.spot))
        Object.assign(seat, sit(world.newPlace(channel), random), { last: seat.last });
      utter(state, seat, kindFor(seat, random));
    },
    probe() {
      for (let n = 0; n < world.lanes.main; n++) utter(state, sit(world.newPlace("web"), random), "door");
      const children = Array.from({ length: world.lanes.subagent }, () => ({ kind: "door" as const, cleanup: "keep" as const }));
      utter(state, sit(world.newPlace("web"), random), "spawn", children);
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
  left: random.between(WORDS_PER_PLACE / 2, WORDS_PER_PLACE),
  last: Promise.resolve(),
});

function kindFor(seat: Seat, random: Random): SaidKind {
  const kind = random.weighted(KINDS);
  // A thread begins with words for the agent; steering needs somebody to steer.
  const opens = seat.spot.opensThread && seat.spot.thread === null;
  const isEmpty = seat.labels.length === 0 && (kind === "send" || kind === "stop-one");
  return isEmpty || (opens && !isMessage(kind)) ? "say" : kind;
}

type NewChild = Omit<ChildPlan, "label">;

function utter(state: State, seat: Seat, kind: SaidKind, given: readonly NewChild[] | null = null): void {
  const { random } = state;
  const id = `m${++state.count}`;
  const children = kind === "spawn" ? (given ?? newChildren(random)).map((child, n) => ({ ...child, label: `${id}.${n + 1}` })) : [];
  const target = kind === "send" || kind === "stop-one" ? random.pick(seat.labels.slice(-6)) : null;
  seat.labels.push(...children.map((child) => child.label));
  const words = isMessage(kind) ? wordsOf({ id, kind, children }) : commandLine(id, kind, target, random);
  // People paste what they shouldn't.
  const text = (kind === "say" || kind === "send") && random.chance(0.3) ? `${words} ${state.world.secrets.pick(id)}` : words;
  const { spot } = seat;
  const at = Date.now();
  // Recorded in the order in which it was said, also when a tab's post takes a while.
  const before = seat.last;
  const send = async (): Promise<void> => {
    const delivered = await (byHand(state, spot, { kind, text, target }) ?? state.world.say(spot, text));
    state.said.push({ id, kind, text, at, children, target, ...delivered });
  };
  const refuse = (error: unknown): void => void state.refusals.push(`${id} "${text}": ${String(error)}`);
  // Telegram and Slack take it at once, and a thread's root must be known to who speaks next.
  const sent = (spot.channel === "web" ? before.then(send) : send()).catch(refuse);
  seat.last = sent;
  state.underWay.add(sent);
  void sent.finally(() => state.underWay.delete(sent));
}

/** Most of those who could press a button or use a slash command do so. */
function byHand({ world, random }: State, spot: Spot, { kind, text, target }: Pick<Said, "kind" | "text" | "target">) {
  if (isMessage(kind) || spot.channel === "web" || random.chance(0.2)) return null;
  if (kind === "stop-one" && target !== null) return world.press(spot, target);
  return spot.channel === "slack" && spot.thread === null && text.startsWith("/") ? world.slash(spot, text) : null;
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
    case "stop-one":
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
