// The rules about what people see: each message answered once, in its place, in order, and nothing after a stop. Pure.
import {
  announceDelivery,
  type Case,
  covers,
  foundNone,
  isSessionStop,
  isStop,
  outOfOrder,
  repeatedly,
  type Violation,
  wasGivenUp,
} from "./case.ts";
import { isMessage, type OutboxFact, rootOf, type Said, type Seen } from "./history.ts";
import { type Fact, type Sighting, UNKNOWN_GENERATION } from "./sightings.ts";

/** RC3: everything a platform delivered stands in the inbox and is settled. */
export function recorded({ history, index }: Case): Violation[] {
  const states = new Map(history.inbox.map((row) => [row.id, row.state]));
  return history.said.flatMap((said): Violation[] => {
    const arrival = index.arrival(said.id);
    if (arrival === null) return said.isTaken ? [{ kind: "lost", about: said.id, text: `"${said.text}" was never recorded` }] : [];
    const state = states.get(arrival);
    return state === "done" ? [] : [{ kind: "stuck", about: said.id, text: `"${said.text}" is still ${state}` }];
  });
}

/** RC1: a message is answered once, or dropped by a stop that came after it; a command is answered once. */
export function answeredOnce(given: Case): Violation[] {
  return given.history.said.flatMap((said): Violation[] => {
    if (given.index.arrival(said.id) === null) return [];
    if (said.kind === "stranger") return [{ kind: "wrong-answer", about: said.id, text: "a stranger's press was recorded" }];
    const answers = given.sightings.find("answer", said.id);
    // Words may be taken for the answer to what the agent asks; then that is all.
    const replies = isMessage(said.kind) ? given.sightings.find("reply", said.id) : [];
    const facts = replies.length > 0 ? replies : answers;
    const both: Violation[] =
      replies.length > 0 && answers.length > 0
        ? [{ kind: "repeated", about: said.id, text: `"${said.text}" was answered and taken for an answer` }]
        : [];
    const behind = given.sightings.find("behind", said.id);
    return [...missing(given, said, facts), ...[...facts, ...behind].flatMap(repeatedly), ...twoAnswers(said, facts), ...both];
  });
}

function missing(given: Case, said: Said, facts: readonly Fact[]): Violation[] {
  if (facts.some((fact) => fact.isApology) || said.isPressed === true) return [];
  const of = facts[0]?.of ?? 1;
  const pieces = new Set(facts.map((fact) => fact.piece));
  const absent = Array.from({ length: of }, (_, n) => n + 1).filter((piece) => !pieces.has(piece));
  if (absent.length === 0) return [];
  if (facts.length === 0 && isMessage(said.kind) && wasDropped(given, said)) return [];
  const what = facts.length === 0 ? "was not answered" : `lacks the pieces ${absent.join(", ")} of its answer`;
  return [{ kind: "lost", about: said.id, text: `"${said.text}" ${what}` }];
}

const twoAnswers = (said: Said, facts: readonly Fact[]): Violation[] =>
  facts.some((fact) => fact.isApology) && facts.some((fact) => !fact.isApology)
    ? [{ kind: "repeated", about: said.id, text: `"${said.text}" got an answer and an apology` }]
    : [];

/**
 * A stop of the whole session came after it. A session answers in order, so a later message that was answered before the stop
 * shows that this one did not wait any more: then it is no excuse.
 */
function wasDropped({ history, index, sightings }: Case, said: Said): boolean {
  const arrival = (one: Said): number => index.arrival(one.id) ?? Number.POSITIVE_INFINITY;
  const later = history.said.filter((one) => one.place === said.place && arrival(one) > arrival(said));
  const stop = Math.min(...later.filter(isSessionStop).map(arrival));
  const overtook = later.some((one) => isMessage(one.kind) && arrival(one) < stop && sightings.find("reply", one.id).length > 0);
  return stop < Number.POSITIVE_INFINITY && !overtook;
}

/** AN3, SP7: everything stands where it was asked for. */
export function inPlace({ sightings }: Case): Violation[] {
  return sightings.facts.flatMap((fact) =>
    fact.sightings
      .filter((sighting) => sighting.place !== fact.place)
      .map(
        ({ place }): Violation => ({
          kind: "misplaced",
          about: fact.about,
          text: `${fact.kind} seen in ${place} instead of ${fact.place}`,
        }),
      ),
  );
}

/** ST2: once a stop is answered, nothing of what it ended is seen in that place; what was in the outbox before it had ended by itself (DL6). */
export function nothingAfterStop(given: Case): Violation[] {
  const factsByPlace = Map.groupBy(given.sightings.facts, (fact) => fact.place);
  const rows = new Map(given.history.outbox.map((row) => [row.delivery, row]));
  return given.history.said.filter(isStop).flatMap((stop): Violation[] => {
    const answered = given.sightings.answer(stop.id);
    const at = given.index.arrival(stop.id);
    if (answered === null || at === null || wasGivenUp(given, stop)) return [];
    const answer = rows.get(`answer:${at}`);
    const effectAt = answer?.createdAt ?? 0;
    const hadEnded = (fact: Fact): boolean => (rows.get(deliveryOf(given, fact))?.id ?? Number.POSITIVE_INFINITY) < (answer?.id ?? 0);
    const later = (factsByPlace.get(stop.place) ?? []).filter(
      (fact) => (fact.sightings[0]?.order ?? 0) > answered.order && !hadEnded(fact),
    );
    return later
      .filter((fact) => wasEnded(given, fact, { stop, at, effectAt }))
      .map((fact) => ({
        kind: "after-stop",
        about: fact.about,
        text: `its ${fact.kind} was seen after the answer to ${stop.id} (${stop.text})`,
      }));
  });
}

function deliveryOf({ index, generations }: Case, fact: Fact): string {
  if (fact.kind === "reply") return `reply:${index.arrival(fact.about)}`;
  const generation = generations.find((one) => one.run.label === fact.about && one.number === fact.generation);
  return generation === undefined ? "" : announceDelivery(generation);
}

/**
 * A stop of the session ends everything that arrived before it. One of runs ends those that were there: a message that
 * still waited then may spawn afterwards.
 */
function wasEnded(given: Case, fact: Fact, { stop, at, effectAt }: { stop: Said; at: number; effectAt: number }): boolean {
  if (fact.kind === "reply") return isSessionStop(stop) && (given.index.arrival(fact.about) ?? 0) < at;
  if (fact.kind !== "announcement" || !covers(stop, fact.about, stop.place)) return false;
  const generation = given.generations.find((one) => one.run.label === fact.about && one.number === fact.generation);
  if (generation === undefined) return false;
  if (isSessionStop(stop) || generation.number > 1) return generation.triggeredAt < at;
  return generation.run.createdAt < effectAt && !foundNone(given, stop, rootOf(fact.about));
}

/**
 * Most platforms hand over what is said in a place in order. Slack's redeliveries may overtake each other; Discord's presses come at once,
 * while what was said in an outage is still being fetched; on Matrix the same press again is the row of the first one.
 */
const arrivesInOrder = ({ place, isPressed }: Said): boolean =>
  !/^slack[@/]/.test(place) && !(isPressed === true && /^(?:discord|matrix)[@/]/.test(place));

/** AG1, DL2, DL6: replies come in the order in which their messages arrived, those that stepped aside excepted; pieces in theirs. */
export function repliesInOrder(given: Case): Violation[] {
  const { sightings, index, history } = given;
  const aside = new Set(history.outbox.filter((row) => row.isAside).map((row) => row.delivery));
  const isAside = (fact: Fact): boolean => aside.has(`reply:${index.arrival(fact.about)}`);
  const first = (fact: Fact): Sighting => fact.sightings[0] as Sighting;
  const inOrder = (facts: readonly Fact[]): Fact[] => facts.toSorted((a, b) => first(a).order - first(b).order || a.piece - b.piece);
  const replies = sightings.facts.filter((fact) => fact.kind === "reply");
  const overtaken = [...Map.groupBy(replies, (fact) => fact.place).values()].flatMap((facts) =>
    outOfOrder(inOrder(facts.filter((fact) => !isAside(fact))), (fact) => index.arrival(fact.about) ?? 0).map(
      (fact): Violation => ({ kind: "reordered", about: fact.about, text: "its reply came after that of a later message" }),
    ),
  );
  const torn = [...Map.groupBy(replies, (fact) => `${fact.place} ${fact.about}`).values()].flatMap((facts) =>
    outOfOrder(inOrder(facts), (fact) => fact.piece).map(
      (fact): Violation => ({ kind: "reordered", about: fact.about, text: `piece ${fact.piece} of its reply came after a later one` }),
    ),
  );
  const ordered = history.said.filter((said) => arrivesInOrder(said) && index.arrival(said.id) !== null);
  const arrivals = [...Map.groupBy(ordered, (said) => said.place).values()].flatMap((saids) =>
    outOfOrder(saids, (said) => index.arrival(said.id) ?? 0).map(
      (said): Violation => ({ kind: "reordered", about: said.id, text: "it was recorded before something that was said earlier there" }),
    ),
  );
  return [...overtaken, ...torn, ...arrivals];
}

/**
 * DL5, DL6: what the outbox holds for a place leaves in its order. What failed once may come late, its own parts in order; an
 * answer to a command may come early, but nothing newer before it. What stood there before its row did was shown while it was
 * written (LV6): its row only says that it is whole.
 */
export function deliveredInOrder({ history }: Case): Violation[] {
  const byKey = Map.groupBy(history.outbox, (row) => row.joinedAs ?? `${row.delivery}#${row.n}`);
  const byRef = Map.groupBy(history.outbox, (row) => `${row.place} ${row.ref}`);
  return [...Map.groupBy(history.seen, (seen) => seen.place).values()].flatMap((seen) => {
    const rowsOf = (one: Seen): readonly OutboxFact[] =>
      (one.key === null ? byRef.get(`${one.place} ${one.ref}`) : byKey.get(one.key)) ?? [];
    const rows = seen.flatMap((one) => rowsOf(one).filter((row) => row.createdAt <= one.at));
    const inLine = rows.filter((row) => !row.isAside);
    const late = [
      ...outOfOrder(
        inLine.filter((row) => !row.isAnswer),
        (row) => row.id,
      ),
      ...outOfOrder(inLine, (row) => row.id).filter((row) => row.isAnswer),
      ...[...Map.groupBy(rows, (row) => row.delivery).values()].flatMap((parts) => outOfOrder(parts, (row) => row.n)),
    ];
    return late.map((row): Violation => ({ kind: "reordered", about: row.delivery, text: `it left after a later row of ${row.place}` }));
  });
}

/** DL1: what is shown is about something, and goes back to a row. */
export function nothingStray({ history, sightings }: Case): Violation[] {
  const strange = sightings.facts.filter((fact) => fact.kind === "announcement" && fact.generation === UNKNOWN_GENERATION);
  const unnamed = history.seen.filter(({ key, mark = "" }) => mark !== "" && key === "");
  return [
    ...unnamed.map((seen): Violation => ({ kind: "stray", about: seen.ref, text: `in ${seen.place} it has the name of no outbox row` })),
    ...sightings.strays.map(
      (seen): Violation => ({ kind: "stray", about: seen.ref, text: `in ${seen.place}: ${seen.text.slice(0, 200)}` }),
    ),
    ...strange.map(
      (fact): Violation => ({ kind: "stray", about: fact.about, text: "it was announced in words the outbox never held there" }),
    ),
  ];
}
