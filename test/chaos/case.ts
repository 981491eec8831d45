// What the rules of the chaos run's judge work on: the history, read and indexed once, and the words for what broke. Pure.
import { MAX_DEATHS } from "../../src/stores/tries.ts";
import type { History, RunFact, Said } from "./history.ts";
import type { Fact, Index, Sightings } from "./sightings.ts";

export type ViolationKind =
  | "lost"
  | "repeated"
  | "misplaced"
  | "after-stop"
  | "reordered"
  | "stray"
  | "stuck"
  | "wrong-run"
  | "transcript"
  | "archive"
  | "slot"
  | "wrong-answer"
  | "trouble";

export interface Violation {
  readonly kind: ViolationKind;
  /** The message (`m17`), the child (`m17.2`) or the file it is about. */
  readonly about: string;
  readonly text: string;
}

export interface Case {
  readonly history: History;
  readonly index: Index;
  readonly sightings: Sightings;
  readonly runsByLabel: ReadonlyMap<string, readonly RunFact[]>;
  readonly generations: readonly Generation[];
}

/** One generation of a run, as far as it ended. */
export interface Generation {
  readonly run: RunFact;
  readonly number: number;
  readonly status: "success" | "error" | "timeout" | "unknown" | "stopped";
  /** Arrival of the words that began it. */
  readonly triggeredAt: number;
}

export type Rule = (given: Case) => Violation[];

export function generationsOf({ runs, ends, said }: History, index: Index, sightings: Sightings): Generation[] {
  const byId = new Map(runs.map((run) => [run.id, run]));
  const goneOn = said.filter((one) => one.kind === "send" && /goes on with your message/.test(sightings.answer(one.id)?.text ?? ""));
  const byLabel = Map.groupBy(goneOn, (one) => one.target ?? "");
  return ends.flatMap(({ runId, generation, status }) => {
    const run = byId.get(runId);
    if (run === undefined) return [];
    const triggers = (byLabel.get(run.label) ?? []).map((one) => index.arrival(one.id) ?? 0).sort((a, b) => a - b);
    const first = index.arrival(run.label.split(".")[0] ?? "") ?? 0;
    return [{ run, number: generation, status, triggeredAt: generation === 1 ? first : (triggers[generation - 2] ?? first) }];
  });
}

/** On either of its accounts. */
export const isOnTelegram = (place: string): boolean => /^telegram(?:@[^/]+)?\//.test(place);

/** The second and later ones say that they may be repeats, and only on Telegram may they be there at all. */
export const isMarkedRepeat = (fact: Fact): boolean =>
  isOnTelegram(fact.place) && fact.sightings.filter((sighting) => !sighting.marked).length <= 1;

export function repeatedly(fact: Fact): Violation[] {
  if (fact.sightings.length <= 1 || isMarkedRepeat(fact)) return [];
  const where = fact.sightings.map((sighting) => `${sighting.place} ${sighting.ref}`).join(", ");
  const text = `${fact.kind} of ${fact.about} (piece ${fact.piece}, generation ${fact.generation}) was seen ${fact.sightings.length} times: ${where}`;
  return [{ kind: "repeated", about: fact.about, text }];
}

export const isSessionStop = (said: Said): boolean => said.kind === "stop" || said.kind === "new";
export const isStop = (said: Said): boolean => isSessionStop(said) || ["stop-all", "stop-one", "stop-group"].includes(said.kind);

export const covers = (stop: Said, label: string, place: string): boolean =>
  stop.place === place &&
  (stop.kind === "stop" || stop.kind === "new" || stop.kind === "stop-all" || (stop.kind === "stop-one" && stop.target === label));

/** The same of a group. */
export const coversGroup = (stop: Said, name: string, place: string): boolean =>
  stop.kind === "stop-group" ? stop.place === place && stop.target === name : covers(stop, name, place);

export const announceDelivery = ({ run, number }: Generation): string =>
  `announce:v1:${run.childKey}:${run.id}${number === 1 ? "" : `:g${number}`}`;

/** It waited to be sent when a stop made it untrue, and no part of it was. */
export const isWithdrawn = ({ history }: Case, delivery: string): boolean => {
  const rows = history.outbox.filter((row) => row.delivery === delivery);
  return rows.length > 0 && rows.every((row) => row.state === "withdrawn");
};

/** Those that stand behind one with a higher rank. */
export function outOfOrder<T>(items: readonly T[], rank: (item: T) => number): T[] {
  let highest = Number.NEGATIVE_INFINITY;
  return items.filter((item) => {
    const isLate = rank(item) < highest;
    highest = Math.max(highest, rank(item));
    return isLate;
  });
}

/** It was not carried out, and its answer said so: the gateway had ended too often while it worked on it. Whoever wants it sends it again. */
export const wasGivenUp = ({ sightings }: Pick<Case, "sightings">, stop: Said): boolean =>
  sightings.answer(stop.id)?.text.includes(`This was not carried out: the gateway ended ${MAX_DEATHS} times at it.`) === true;

/**
 * It found none, and nobody had been told of one: what it names was being written down at that moment. When its row was begun says nothing
 * about when it was there for others, and a database that crashes or loses an answer puts seconds in between.
 */
export function foundNone({ sightings }: Pick<Case, "sightings">, stop: Said, root: string): boolean {
  const answer = sightings.answer(stop.id);
  if (answer === null || !/^There is no sub-agent /.test(answer.text)) return false;
  return !sightings.find("reply", root).some((fact) => (fact.sightings[0]?.order ?? 0) < answer.order);
}
