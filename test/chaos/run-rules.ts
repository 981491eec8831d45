// The rules about runs and what is kept of them: made once, announced once per generation, transcripts whole, archive
// complete, slots free. Pure.

import { isUnfinished, type RunState } from "../../src/core/run.ts";
import { MAX_DEATHS } from "../../src/stores/tries.ts";
import { announceDelivery, type Case, covers, type Generation, isOnTelegram, isWithdrawn, repeatedly, type Violation } from "./case.ts";
import { isMessage, type RunFact, type Said } from "./history.ts";
import type { Fact } from "./sightings.ts";

/** SP2: an answered spawn made each of its runs, none was made twice, and each came to an end. */
export function runsOnce({ history, sightings, runsByLabel }: Case): Violation[] {
  const spawns = history.said.filter(({ kind }) => kind !== "group");
  const planned = spawns.flatMap((said) => {
    const isAnswered = sightings.find("reply", said.id).some((fact) => !fact.isApology);
    return said.children.map((child) => ({ child, said, isAnswered }));
  });
  const made = planned.flatMap(({ child, said, isAnswered }): Violation[] => {
    const runs = runsByLabel.get(child.label) ?? [];
    if (runs.length > 1) return [{ kind: "repeated", about: child.label, text: `${runs.length} runs were made for one spawn` }];
    const [run] = runs;
    if (run === undefined)
      return isAnswered ? [{ kind: "lost", about: child.label, text: `"${said.text}" was answered, but this run is not on record` }] : [];
    return run.place === said.place
      ? []
      : [{ kind: "misplaced", about: child.label, text: `its run is pinned to ${run.place} instead of ${said.place}` }];
  });
  const open = [...history.runs, ...history.below].filter(({ state }) => isUnfinished(state as RunState));
  const stuck = open.map(({ label, state }): Violation => ({ kind: "stuck", about: label, text: `its run is still ${state}` }));
  return [...made, ...madeBelow(history), ...stuck];
}

/** A parent sends its one child out once, and has not done its work without it. */
function madeBelow({ runs, below, said }: Case["history"]): Violation[] {
  const plans = new Map(said.flatMap((one) => one.children.map((child) => [child.label, child.kind])));
  const counts = Map.groupBy(below, ({ label }) => label);
  // What it is told before it begins it simply answers.
  const told = new Set(said.filter((one) => one.kind === "send").map((one) => one.target));
  const twice = [...counts].filter(([, same]) => same.length > 1);
  const without = runs.filter(
    ({ label, state, generation }) =>
      ["parent", "wait"].includes(plans.get(label) ?? "") &&
      state === "done" &&
      generation === 1 &&
      !told.has(label) &&
      !counts.has(`${label}.1`),
  );
  return [
    ...twice.map(([label, same]): Violation => ({ kind: "repeated", about: label, text: `${same.length} runs were made for one spawn` })),
    ...without.map(({ label }): Violation => ({ kind: "lost", about: label, text: "it is done, but what it sent out is not on record" })),
  ];
}

export const STATUS_OF: Record<string, string> = {
  done: "success",
  error: "error",
  timeout: "timeout",
  interrupted: "unknown",
  stopped: "stopped",
};

const WHILE_ANNOUNCED = `The gateway ended ${MAX_DEATHS} times while this was announced`;

/** AN1, AN6: a generation is announced once, with its own status; a stopped or skipped one never. */
export function announcedOnce(given: Case): Violation[] {
  const plans = new Map(given.history.said.flatMap((said) => said.children.map((child) => [child.label, child])));
  const told = new Set(given.history.said.filter((one) => one.kind === "send").map((one) => one.target));
  const isStopped = (run: RunFact): boolean => given.generations.some((one) => one.run.id === run.id && one.status === "stopped");
  const started = given.history.runs.flatMap((run) => shownOnce(given, run, isStopped(run)));
  const ended = given.generations.flatMap((generation): Violation[] => {
    const { run, number, status } = generation;
    const about = run.label;
    const fact = given.sightings.find("announcement", about).find((one) => one.generation === number);
    const isSkip = plans.get(about)?.kind === "skip" && number === 1 && status === "success";
    if (fact === undefined) {
      if (status === "stopped") return stoppedByWhom(given, generation);
      if (isSkip) return [];
      // Named by somebody while it waited to be sent; a stop of everything is no excuse.
      if (isWithdrawn(given, announceDelivery(generation))) return stoppedByWhom(given, generation, "stop-one");
      return [{ kind: "lost", about, text: `generation ${number} ended as ${status} and was not announced (delivery ${run.delivery})` }];
    }
    if (status === "stopped") return [{ kind: "after-stop", about, text: `generation ${number} was stopped and announced all the same` }];
    // A message that was sent to it in time makes it say something after all. So do three deaths behind its last word: its end is
    // then recorded without asking it once more, because that question may be what ends the process.
    if (isSkip && !told.has(about) && !fact.sightings.some(({ text }) => text.includes(WHILE_ANNOUNCED)))
      return [{ kind: "wrong-run", about, text: "it was to be skipped and was announced" }];
    return [...repeatedly(fact), ...wrongWords(fact, status)];
  });
  const unended = given.history.runs.filter((run) => STATUS_OF[run.state] !== undefined && !endOf(given, run, STATUS_OF[run.state]));
  const without = unended.map(
    (run): Violation => ({
      kind: "wrong-run",
      about: run.label,
      text: `it is ${run.state} in generation ${run.generation}, but its requester was not told so`,
    }),
  );
  return [...started, ...ended, ...without];
}

const endOf = ({ generations }: Case, run: RunFact, status: string | undefined): boolean =>
  generations.some((one) => one.run.id === run.id && one.number === run.generation && one.status === status);

function stoppedByWhom({ history, index }: Case, { run, number, triggeredAt }: Generation, how?: Said["kind"]): Violation[] {
  const stops = history.said.filter((one) => covers(one, run.label, run.place) && (how === undefined || one.kind === how));
  const by = stops.some((one) => (index.arrival(one.id) ?? 0) > triggeredAt);
  return by ? [] : [{ kind: "lost", about: run.label, text: `generation ${number} is stopped, but nobody stopped it after it began` }];
}

/** LV1, LV3: its batch has one status message, which shows it. On Telegram one more may stand alone, left by a kill before its name was known. */
export function shownOnce(given: Case, run: RunFact, isStopped: boolean): Violation[] {
  const facts = given.sightings.find("started", run.label);
  // The page has its own list of runs; of one that was stopped before that was shown nobody needs to hear that it started.
  const wanted = !run.place.startsWith("web/") && !isStopped;
  if (wanted && facts.length === 0) return [{ kind: "lost", about: run.label, text: "no status message shows it" }];
  return facts.flatMap((fact) => (isOnTelegram(run.place) && fact.sightings.length <= 2 ? [] : repeatedly(fact)));
}

function wrongWords(fact: Fact, status: string): Violation[] {
  const text = fact.sightings[0]?.text ?? "";
  const said = /^Status: (\w+)/m.exec(text)?.[1];
  if (said !== status) return [{ kind: "wrong-run", about: fact.about, text: `it ended as ${status} and was announced as ${said}` }];
  const result = /\bres (m\d+\.\d+) m\d+ 1\/1/.exec(text)?.[1];
  if (status === "success" && result !== fact.about)
    return [{ kind: "wrong-run", about: fact.about, text: `its announcement carries the result of ${result ?? "nobody"}` }];
  return [];
}

/** CM7: what was sent to a run is read by it once, unless the run was ended first. */
export function sendsRead({ history, sightings, runsByLabel, generations }: Case): Violation[] {
  const bySession = new Map(history.transcripts.map((one) => [one.sessionId, one]));
  const ends = Map.groupBy(generations, (one) => one.run.id);
  return history.said.flatMap((said): Violation[] => {
    if (said.kind !== "send" || !(sightings.answer(said.id)?.text ?? "").startsWith("📨")) return [];
    const run = runsByLabel.get(said.target ?? "")?.[0];
    if (run === undefined) return [{ kind: "lost", about: said.id, text: `it was taken for ${said.target}, which is not on record` }];
    const read = (bySession.get(run.sessionId)?.entries ?? []).filter((entry) => entry.text.includes(`[${said.id}]`)).length;
    if (read > 1) return [{ kind: "repeated", about: said.id, text: `${run.label} read it ${read} times` }];
    const isBrokenOff = (ends.get(run.id) ?? []).some((one) => one.status !== "success");
    return read === 1 || isBrokenOff ? [] : [{ kind: "lost", about: said.id, text: `it was taken for ${run.label}, which never read it` }];
  });
}

/** SE2, SE3: every line is whole, and what was answered stands in a transcript once. */
export function transcriptsWhole({ history, index, sightings }: Case): Violation[] {
  const known = new Set(history.sessions);
  const damaged = history.transcripts
    .filter(({ sessionId }) => known.has(sessionId))
    .flatMap(({ name, problems }) => problems.map((text): Violation => ({ kind: "transcript", about: name, text })));
  const inputs = new Map<string, number>();
  for (const { entries } of history.transcripts)
    for (const { id } of entries) if (id.startsWith("in:")) inputs.set(id, (inputs.get(id) ?? 0) + 1);
  const lines = history.said.flatMap((said): Violation[] => {
    if (!isMessage(said.kind)) return [];
    const count = inputs.get(`in:${index.arrival(said.id)}`) ?? 0;
    const isAnswered = sightings.find("reply", said.id).some((fact) => !fact.isApology);
    if (count > 1) return [{ kind: "transcript", about: said.id, text: `its words stand in transcripts ${count} times` }];
    return count === 0 && isAnswered
      ? [{ kind: "transcript", about: said.id, text: "it was answered, but its words stand in no transcript" }]
      : [];
  });
  const files = new Set(history.transcripts.map((one) => one.sessionId));
  const gone = history.sessions.filter((id) => !files.has(id));
  return [...damaged, ...lines, ...gone.map((id): Violation => ({ kind: "transcript", about: id, text: "its transcript is gone" }))];
}

/**
 * AR1, AR3: a settled run that was to be deleted is archived; the file stands under the recorded name and no other. Under its own, where
 * renaming it had ended the gateway again and again: that is said, and the file is found there.
 */
export function archiveComplete({ history }: Case): Violation[] {
  const files = Map.groupBy(history.transcripts, (one) => one.sessionId);
  return [...history.runs, ...history.groups.flatMap(({ members }) => members)].flatMap((run): Violation[] => {
    const names = (files.get(run.sessionId) ?? []).map((one) => one.name);
    const own = `${run.sessionId}.jsonl`;
    const isLeft = history.leftUnnamed.includes(run.id) && names[0] === own;
    const wanted = run.archivedAt === null || isLeft ? own : (run.archiveName ?? "");
    const about = run.label;
    if (run.settledAt === null)
      return [{ kind: "archive", about, text: `it is ${run.state}, but was never settled (delivery ${run.delivery})` }];
    if (run.cleanup === "delete" && run.archivedAt === null)
      return [{ kind: "archive", about, text: "it is settled and was to be archived at once" }];
    return names.length === 1 && names[0] === wanted
      ? []
      : [{ kind: "archive", about, text: `its transcript is [${names.join(", ")}] instead of ${wanted}` }];
  });
}

export function slotsFree({ history: { slots } }: Case): Violation[] {
  const short = (lane: string, got: number, wanted: number): Violation[] =>
    got >= wanted ? [] : [{ kind: "slot", about: lane, text: `only ${got} of ${wanted} could work at once after the drain` }];
  return [...short("main", slots.main, slots.wantedMain), ...short("subagent", slots.subagent, slots.wantedSubagent)];
}
