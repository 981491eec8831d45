// The rules about groups (GR): all or none of them on record, said once together with the runtime's status, the agent woken once with what
// they found, each where and after whom it belongs, and nothing of it after a stop. Pure.

import { isUnfinished, type RunState } from "../../src/core/run.ts";
import { NOT_NEEDED } from "../../src/subagents/groups.ts";
import { type Case, coversGroup, foundNone, isSessionStop, isStop, repeatedly, type Violation, wasGivenUp } from "./case.ts";
import { type GroupFact, groupOf, isMessage, type MemberFact, rootOf, type Said } from "./history.ts";
import { STATUS_OF, shownOnce } from "./run-rules.ts";
import { type Fact, groupIn } from "./sightings.ts";

/** GR1: an answered message made its whole group, once, in its place; one that was not answered made all of it or nothing. All of it ended. */
export function groupsWhole({ history, sightings }: Case): Violation[] {
  const byName = Map.groupBy(history.groups, ({ name }) => name);
  return history.said.flatMap((said): Violation[] => {
    if (said.kind !== "group") return [];
    const about = groupOf(said.id);
    const [group, ...more] = byName.get(about) ?? [];
    const isAnswered = sightings.find("reply", said.id).some((fact) => !fact.isApology);
    if (group === undefined)
      return isAnswered ? [{ kind: "lost", about, text: `"${said.text}" was answered, but no group is on record` }] : [];
    if (more.length > 0) return [{ kind: "repeated", about, text: `${more.length + 1} groups were made for one call` }];
    return [...wrongMembers(said, group), ...misplaced(said, group), ...unfinished(group)];
  });
}

function wrongMembers({ children }: Said, { members }: GroupFact): Violation[] {
  const counts = Map.groupBy(members, ({ label }) => label);
  return children.flatMap(({ label }): Violation[] => {
    const count = counts.get(label)?.length ?? 0;
    if (count === 1) return [];
    return [{ kind: count === 0 ? "lost" : "repeated", about: label, text: `its group is on record, and ${count} runs of it` }];
  });
}

const misplaced = (said: Said, { name, place, members }: GroupFact): Violation[] =>
  [{ about: name, place }, ...members.map(({ label, place: own }) => ({ about: label, place: own }))]
    .filter((one) => one.place !== said.place)
    .map(({ about, place: where }) => ({ kind: "misplaced", about, text: `it is pinned to ${where} instead of ${said.place}` }));

const unfinished = ({ name, state, members }: GroupFact): Violation[] => [
  ...(state === "complete" ? [] : [{ kind: "stuck", about: name, text: `it is still ${state}` } as const]),
  ...members
    .filter((member) => isUnfinished(member.state as RunState))
    .map((member): Violation => ({ kind: "stuck", about: member.label, text: `its run is still ${member.state}` })),
];

const isStopped = ({ state }: MemberFact): boolean => state === "stopped";
const isAllStopped = ({ members }: GroupFact): boolean => members.every(isStopped);
const doneOf = ({ members }: GroupFact): MemberFact[] => members.filter(({ state }) => state === "done");

/** GR3: one announcement of all of them; of those who were all ended on purpose none. */
export function announcedTogether(given: Case): Violation[] {
  const known = new Set(given.history.groups.map(({ name }) => name));
  const unknown = given.sightings.facts.filter(({ kind, about }) => (kind === "group" || kind === "woken") && !known.has(about));
  return [
    ...unknown.map(({ kind, about }): Violation => ({ kind: "stray", about, text: `its ${kind} was seen, and it is not on record` })),
    ...given.history.groups.flatMap((group): Violation[] => {
      const { name: about, members } = group;
      const shown = members.flatMap((member) => shownOnce(given, member, isStopped(member)));
      const [fact] = given.sightings.find("group", about);
      if (isAllStopped(group))
        return fact === undefined ? shown : [...shown, { kind: "after-stop", about, text: "all of it was stopped, and it was announced" }];
      if (fact === undefined) return [...shown, { kind: "lost", about, text: "it was not announced" }];
      return [...shown, ...repeatedly(fact), ...wrongCounts(group, fact), ...members.flatMap((member) => wrongWords(member, fact))];
    }),
  ];
}

const textOf = (fact: Fact): string => fact.sightings[0]?.text ?? "";

function wrongCounts({ name, members }: GroupFact, fact: Fact): Violation[] {
  const count = (isOne: (member: MemberFact) => boolean): number => members.filter(isOne).length;
  const done = count(({ state }) => state === "done");
  const stopped = count(isStopped);
  const counts = [["✓", done] as const, ["✗", members.length - done - stopped] as const, ["⏹", stopped] as const];
  const wanted = counts.flatMap(([sign, n]) => (n === 0 ? [] : [`${sign} ${n}`])).join(" · ");
  const said = /^\**Group g\d+\**: (.*)$/m.exec(textOf(fact))?.[1]?.trim();
  return said === wanted ? [] : [{ kind: "wrong-run", about: name, text: `its announcement counts ${said} instead of ${wanted}` }];
}

/** Each is in it once, as it ended, with its own result; of one that was stopped only that. */
function wrongWords({ label: about, state, delivery }: MemberFact, fact: Fact): Violation[] {
  const pieces = textOf(fact).split(/(?=^\**Sub-agent: g\d)/m);
  const own = pieces.filter((piece) => /^\**Sub-agent: (g\d+\.\d+)\**/.exec(piece)?.[1] === about);
  if (own.length !== 1)
    return [{ kind: own.length === 0 ? "lost" : "repeated", about, text: `its group says ${own.length} times how it ended` }];
  const said = /^Status: (\w+)/m.exec(own[0] ?? "")?.[1];
  if (said !== STATUS_OF[state]) return [{ kind: "wrong-run", about, text: `it is ${state} and was announced as ${said}` }];
  const results = [...(own[0] ?? "").matchAll(/\bres (g\d+\.\d+) g\d+ 1\/1/g)].map((match) => match[1]);
  if (state === "stopped" && results.length > 0)
    return [{ kind: "after-stop", about, text: "it was stopped, and its result was announced" }];
  if (state === "done" && results.join() !== about)
    return [{ kind: "wrong-run", about, text: `it is announced with the result of ${results.join() || "nobody"}` }];
  return state === "stopped" || delivery === "delivered"
    ? []
    : [{ kind: "wrong-run", about, text: `it was announced, and its delivery is ${delivery}` }];
}

/** GR3: nobody is stopped but by somebody, or because enough others succeeded; and no more than enough of them go on to their end. */
export function stoppedWithReason({ history, index }: Case): Violation[] {
  return history.groups.flatMap((group): Violation[] => {
    const { name, enough, members } = group;
    const place = index.placeOfLabel(name);
    const done = doneOf(group).length;
    const from = index.arrival(rootOf(name)) ?? 0;
    const isByHand = history.said.some((one) => isStop(one) && coversGroup(one, name, place) && (index.arrival(one.id) ?? 0) > from);
    const wrong = members.flatMap(({ label: about, state, reason }): Violation[] => {
      if (state !== "stopped") return [];
      if (reason === NOT_NEEDED)
        return enough !== null && done >= enough
          ? []
          : [{ kind: "lost", about, text: `it was stopped as not needed, and ${done} of ${enough ?? "all"} had succeeded` }];
      return isByHand ? [] : [{ kind: "lost", about, text: `it is stopped (${reason}), but nobody stopped it` }];
    });
    const tooMany = enough !== null && done > enough;
    return tooMany ? [...wrong, { kind: "wrong-run", about: name, text: `${done} succeeded where ${enough} were enough` }] : wrong;
  });
}

/** GR4: the agent is woken once, with all that was found, or told why not; unless a stop of the session came first. */
export function wokenOnce(given: Case): Violation[] {
  return given.history.groups.flatMap((group): Violation[] => {
    const { name: about, wakes, state } = group;
    const facts = given.sightings.find("woken", about);
    if (state !== "complete") return [];
    if (isAllStopped(group))
      return wakes.length + facts.length === 0 ? [] : [{ kind: "after-stop", about, text: "all of it was stopped, and it woke the agent" }];
    const [wake, ...more] = wakes;
    if (wake === undefined) return [{ kind: "lost", about, text: "it is complete, and nobody was woken" }];
    if (more.length > 0) return [{ kind: "repeated", about, text: `the agent was woken ${wakes.length} times` }];
    if (wake.state !== "done") return [{ kind: "stuck", about, text: `its waking is still ${wake.state}` }];
    if (facts.length === 0) return wasDropped(given, group, wake.id) ? [] : [{ kind: "lost", about, text: "nothing came of its waking" }];
    if (facts.length > 1) return [{ kind: "repeated", about, text: "the agent was woken, and gave it up as well" }];
    return [...facts.flatMap(repeatedly), ...(facts[0]?.isApology === true ? [] : unread(given, group, wake.id))];
  });
}

/** As with a message: what was answered behind it shows that it did not wait any more when the stop came. */
function wasDropped({ history, index, sightings }: Case, { name, completedAt }: GroupFact, wakeId: number): boolean {
  const effects = new Map(history.outbox.map((row) => [row.delivery, row.createdAt]));
  const here = history.said.filter((one) => one.place === index.placeOfLabel(name));
  return here.filter(isSessionStop).some((stop) => {
    const at = index.arrival(stop.id);
    if (at === null || (effects.get(`answer:${at}`) ?? 0) < (completedAt ?? Number.POSITIVE_INFINITY)) return false;
    return !here.some((one) => {
      const arrival = index.arrival(one.id) ?? 0;
      return isMessage(one.kind) && arrival > wakeId && arrival < at && sightings.find("reply", one.id).length > 0;
    });
  });
}

/** What it read stands in its transcript once, with every result and nothing of who was stopped. */
function unread({ history }: Case, group: GroupFact, wakeId: number): Violation[] {
  const about = group.name;
  const read = history.transcripts.flatMap(({ entries }) => entries.filter(({ id }) => id === `in:${wakeId}`));
  if (read.length !== 1) return [{ kind: "transcript", about, text: `what woke the agent stands in transcripts ${read.length} times` }];
  const results = new Set([...(read[0]?.text ?? "").matchAll(/\bres (g\d+\.\d+) g\d+ 1\/1/g)].map((match) => match[1]));
  const missing = doneOf(group).filter(({ label }) => !results.has(label));
  const unwanted = group.members.filter((member) => isStopped(member) && results.has(member.label));
  return [
    ...missing.map(({ label }): Violation => ({ kind: "lost", about: label, text: "the agent was woken without its result" })),
    ...unwanted.map(
      ({ label }): Violation => ({ kind: "after-stop", about: label, text: "it was stopped, and the agent read its result" }),
    ),
  ];
}

/**
 * ST2: once a stop is answered, none of its group ends otherwise than stopped, and nothing of it is seen but what was in the outbox before.
 * A waking is the agent's own turn: only what ends those ends it.
 */
export function nothingOfGroupAfterStop(given: Case): Violation[] {
  const { history, index, sightings } = given;
  const rows = new Map(history.outbox.map((row) => [row.delivery, row]));
  const announcements = new Map(history.outbox.flatMap((row) => (row.delivery.endsWith(":group") ? [[groupIn(row.text), row.id]] : [])));
  return history.groups.flatMap((group) => {
    const { name: about, createdAt, members, wakes } = group;
    const place = index.placeOfLabel(about);
    const rowIds = { group: announcements.get(about), woken: rows.get(`reply:${wakes[0]?.id}`)?.id };
    return history.said
      .filter((one) => isStop(one) && coversGroup(one, about, place))
      .flatMap((stop): Violation[] => {
        const at = index.arrival(stop.id);
        const answer = rows.get(`answer:${at}`);
        const answered = sightings.answer(stop.id);
        if (at === null || answer === undefined || answered === null) return [];
        const isSession = isSessionStop(stop);
        const wasThere = isSession ? (index.arrival(rootOf(about)) ?? 0) < at : createdAt < answer.createdAt;
        if (!wasThere || wasGivenUp(given, stop) || foundNone(given, stop, rootOf(about))) return [];
        const by = `after the answer to ${stop.id} (${stop.text})`;
        const kinds = isSession ? (["group", "woken"] as const) : (["group"] as const);
        const seen = kinds.filter((kind) => {
          const isLater = sightings.find(kind, about).some((fact) => (fact.sightings[0]?.order ?? 0) > answered.order);
          return isLater && (rowIds[kind] ?? Number.POSITIVE_INFINITY) > answer.id;
        });
        const ended = members.filter((member) => !isStopped(member) && (member.endedAt ?? 0) > answer.createdAt);
        return [
          ...seen.map((kind): Violation => ({ kind: "after-stop", about, text: `its ${kind} was seen ${by}` })),
          ...ended.map(({ label, state }): Violation => ({ kind: "after-stop", about: label, text: `it ended as ${state} ${by}` })),
        ];
      });
  });
}

/** GR2: it begins when the one it comes after has ended well, and with what that one found. */
export function afterOthers({ history }: Case): Violation[] {
  const plans = new Map(history.said.flatMap(({ children }) => children.map((child) => [child.label, child])));
  const read = new Map(history.transcripts.map(({ sessionId, entries }) => [sessionId, entries.filter(({ id }) => id === "after")]));
  return history.groups.flatMap(({ name, members }) => {
    const first = members.find(({ label }) => label === `${name}.1`);
    const later = members.filter(({ label }) => plans.get(label)?.isAfter === true);
    return first === undefined ? [] : later.flatMap((member) => tooEarly(member, first, read.get(member.sessionId) ?? []));
  });
}

function tooEarly(member: MemberFact, first: MemberFact, quoted: readonly { readonly text: string }[]): Violation[] {
  const { label: about, state, startedAt, reason } = member;
  const isWell = first.state === "done";
  if (startedAt === null)
    return isWell && (state === "done" || reason?.startsWith("it was to begin after") === true)
      ? [{ kind: "wrong-run", about, text: `it is ${state} without having begun (${reason})` }]
      : [];
  if (!isWell) return [{ kind: "wrong-run", about, text: `it began although ${first.label} is ${first.state}` }];
  if (startedAt < (first.endedAt ?? Number.POSITIVE_INFINITY))
    return [{ kind: "reordered", about, text: `it began before ${first.label} had ended` }];
  const isTold = quoted.length === 1 && quoted[0]?.text.includes(`res ${first.label} `) === true;
  return state !== "done" || isTold ? [] : [{ kind: "lost", about, text: `it worked without the result of ${first.label}` }];
}
