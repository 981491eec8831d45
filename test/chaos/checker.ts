// The judge: reads the complete history of a chaos run and says what broke a promise. Every rule is its own small function
// over plain data; nothing here looks at a process, a file or a clock.
// history → sightings → rules → violations and figures.
import { type History, isMessage, type RunFact, type Said } from "./history.ts";
import { createIndex, type Fact, type Index, readSightings, type Sighting, type Sightings, UNKNOWN_GENERATION } from "./sightings.ts";

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
  | "trouble";

export interface Violation {
  readonly kind: ViolationKind;
  /** The message (`m17`), the child (`m17.2`) or the file it is about. */
  readonly about: string;
  readonly text: string;
}

export interface Figures {
  readonly messages: number;
  readonly commands: number;
  readonly runs: number;
  readonly generations: number;
  readonly announcements: number;
  /** Dropped by a /stop or /new that came after them. */
  readonly dropped: number;
  /** Given up after three crashes, which is said. */
  readonly apologies: number;
  /** Given up after two crashes, announced as unknown. */
  readonly interrupted: number;
  readonly stopped: number;
  readonly resumed: number;
  readonly archived: number;
  /** Telegram's texts that appeared twice, the second one marked. */
  readonly marked: number;
}

export interface Verdict {
  readonly violations: readonly Violation[];
  readonly figures: Figures;
  /** Facts seen again with a mark, for the list. */
  readonly markedRepeats: readonly string[];
}

interface Case {
  readonly history: History;
  readonly index: Index;
  readonly sightings: Sightings;
  readonly runsByLabel: ReadonlyMap<string, readonly RunFact[]>;
  readonly generations: readonly Generation[];
}

/** One generation of a run, as far as it ended. */
interface Generation {
  readonly run: RunFact;
  readonly number: number;
  readonly status: "success" | "error" | "timeout" | "unknown" | "stopped";
  /** Arrival of the words that began it. */
  readonly triggeredAt: number;
}

type Rule = (given: Case) => Violation[];

const RULES: readonly Rule[] = [
  recorded,
  answeredOnce,
  runsOnce,
  announcedOnce,
  inPlace,
  nothingAfterStop,
  repliesInOrder,
  deliveredInOrder,
  nothingStray,
  sendsRead,
  transcriptsWhole,
  archiveComplete,
  slotsFree,
  (given) => given.history.troubles.map((text) => ({ kind: "trouble", about: "-", text })),
];

export function check(history: History): Verdict {
  const index = createIndex(history);
  const sightings = readSightings(history, index);
  const runsByLabel = Map.groupBy(history.runs, (run) => run.label);
  const given: Case = { history, index, sightings, runsByLabel, generations: generationsOf(history, index, sightings) };
  const repeats = sightings.facts.filter((fact) => fact.sightings.length > 1 && isMarkedRepeat(fact));
  return {
    violations: RULES.flatMap((rule) => rule(given)),
    figures: figuresOf(given, repeats.length),
    markedRepeats: repeats.map((fact) => `${fact.kind} ${fact.about}`),
  };
}

/** The second and later ones say that they may be repeats, and only on Telegram may they be there at all. */
const isMarkedRepeat = (fact: Fact): boolean =>
  fact.place.startsWith("telegram/") && fact.sightings.filter((sighting) => !sighting.marked).length <= 1;

function generationsOf({ runs, ends, said }: History, index: Index, sightings: Sightings): Generation[] {
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

/** RC3: everything a platform delivered stands in the inbox and is settled. */
function recorded({ history, index }: Case): Violation[] {
  const states = new Map(history.inbox.map((row) => [row.id, row.state]));
  return history.said.flatMap((said): Violation[] => {
    const arrival = index.arrival(said.id);
    if (arrival === null) return [{ kind: "lost", about: said.id, text: `"${said.text}" was never recorded` }];
    const state = states.get(arrival);
    return state === "done" ? [] : [{ kind: "stuck", about: said.id, text: `"${said.text}" is still ${state}` }];
  });
}

/** RC1: a message is answered once, or dropped by a stop that came after it; a command is answered once. */
function answeredOnce(given: Case): Violation[] {
  return given.history.said.flatMap((said): Violation[] => {
    if (given.index.arrival(said.id) === null) return [];
    const facts = given.sightings.find(isMessage(said.kind) ? "reply" : "answer", said.id);
    return [...missing(given, said, facts), ...facts.flatMap((fact) => repeatedly(fact)), ...twoAnswers(said, facts)];
  });
}

function missing(given: Case, said: Said, facts: readonly Fact[]): Violation[] {
  if (facts.some((fact) => fact.isApology)) return [];
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

function repeatedly(fact: Fact): Violation[] {
  if (fact.sightings.length <= 1 || isMarkedRepeat(fact)) return [];
  const where = fact.sightings.map((sighting) => `${sighting.place} ${sighting.ref}`).join(", ");
  const text = `${fact.kind} of ${fact.about} (piece ${fact.piece}, generation ${fact.generation}) was seen ${fact.sightings.length} times: ${where}`;
  return [{ kind: "repeated", about: fact.about, text }];
}

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

const covers = (stop: Said, label: string, place: string): boolean =>
  stop.place === place &&
  (stop.kind === "stop" || stop.kind === "new" || stop.kind === "stop-all" || (stop.kind === "stop-one" && stop.target === label));

/** SP2: an answered spawn made each of its runs, none was made twice, and each came to an end. */
function runsOnce({ history, sightings, runsByLabel }: Case): Violation[] {
  const planned = history.said.flatMap((said) => {
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
  const open = history.runs.filter((run) => run.state === "queued" || run.state === "running");
  return [...made, ...open.map((run): Violation => ({ kind: "stuck", about: run.label, text: `its run is still ${run.state}` }))];
}

const STATUS_OF: Record<string, string> = {
  done: "success",
  error: "error",
  timeout: "timeout",
  interrupted: "unknown",
  stopped: "stopped",
};

/** AN1, AN6: a generation is announced once, with its own status; a stopped or skipped one never. */
function announcedOnce(given: Case): Violation[] {
  const plans = new Map(given.history.said.flatMap((said) => said.children.map((child) => [child.label, child])));
  const told = new Set(given.history.said.filter((one) => one.kind === "send").map((one) => one.target));
  const started = given.history.runs.flatMap((run) => startedOnce(given, run));
  const ended = given.generations.flatMap((generation): Violation[] => {
    const { run, number, status } = generation;
    const about = run.label;
    const fact = given.sightings.find("announcement", about).find((one) => one.generation === number);
    const isSkip = plans.get(about)?.kind === "skip" && number === 1 && status === "success";
    if (fact === undefined) {
      if (status === "stopped") return stoppedByWhom(given, generation);
      if (isSkip) return [];
      return [{ kind: "lost", about, text: `generation ${number} ended as ${status} and was not announced (delivery ${run.delivery})` }];
    }
    if (status === "stopped") return [{ kind: "after-stop", about, text: `generation ${number} was stopped and announced all the same` }];
    // A message that was sent to it in time makes it say something after all.
    if (isSkip && !told.has(about)) return [{ kind: "wrong-run", about, text: "it was to be skipped and was announced" }];
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

function stoppedByWhom({ history, index }: Case, { run, number, triggeredAt }: Generation): Violation[] {
  const by = history.said.some((one) => covers(one, run.label, run.place) && (index.arrival(one.id) ?? 0) > triggeredAt);
  return by ? [] : [{ kind: "lost", about: run.label, text: `generation ${number} is stopped, but nobody stopped it after it began` }];
}

function startedOnce({ sightings }: Case, run: RunFact): Violation[] {
  const facts = sightings.find("started", run.label);
  // The page has its own list of runs.
  const wanted = !run.place.startsWith("web/");
  if (wanted && facts.length === 0) return [{ kind: "lost", about: run.label, text: "nobody was told that it started" }];
  return facts.flatMap(repeatedly);
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

/** AN3, SP7: everything stands where it was asked for. */
function inPlace({ sightings }: Case): Violation[] {
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

const isSessionStop = (said: Said): boolean => said.kind === "stop" || said.kind === "new";
const isStop = (said: Said): boolean => isSessionStop(said) || said.kind === "stop-all" || said.kind === "stop-one";

/** ST2: once a stop is answered, nothing of what it ended is seen in that place. */
function nothingAfterStop(given: Case): Violation[] {
  const factsByPlace = Map.groupBy(given.sightings.facts, (fact) => fact.place);
  const answers = new Map(given.history.outbox.map((row) => [row.delivery, row]));
  return given.history.said.filter(isStop).flatMap((stop): Violation[] => {
    const answered = given.sightings.answer(stop.id);
    const at = given.index.arrival(stop.id);
    if (answered === null || at === null) return [];
    const effectAt = answers.get(`answer:${at}`)?.createdAt ?? 0;
    const later = (factsByPlace.get(stop.place) ?? []).filter((fact) => (fact.sightings[0]?.order ?? 0) > answered.order);
    return later
      .filter((fact) => wasEnded(given, fact, { stop, at, effectAt }))
      .map((fact) => ({
        kind: "after-stop",
        about: fact.about,
        text: `its ${fact.kind} was seen after the answer to ${stop.id} (${stop.text})`,
      }));
  });
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
  return generation.run.createdAt < effectAt;
}

/** AG1, DL2: replies of a session come in the order in which its messages arrived, and pieces in theirs. */
function repliesInOrder({ sightings, index, history }: Case): Violation[] {
  const replies = sightings.facts.filter((fact) => fact.kind === "reply");
  const late = [...Map.groupBy(replies, (fact) => fact.place).values()].flatMap((facts) => {
    const first = (fact: Fact): Sighting => fact.sightings[0] as Sighting;
    const seen = facts.toSorted((a, b) => first(a).order - first(b).order || a.piece - b.piece);
    return outOfOrder(seen, (fact) => (index.arrival(fact.about) ?? 0) * 1_000 + fact.piece).map((fact): Violation => {
      const text = `piece ${fact.piece} of its reply came after that of a later message`;
      return { kind: "reordered", about: fact.about, text };
    });
  });
  // Telegram and the page hand over what is said in a place in order; Slack's redeliveries may overtake each other.
  const ordered = history.said.filter((said) => !said.place.startsWith("slack/"));
  const arrivals = [...Map.groupBy(ordered, (said) => said.place).values()].flatMap((saids) =>
    outOfOrder(saids, (said) => index.arrival(said.id) ?? 0).map(
      (said): Violation => ({ kind: "reordered", about: said.id, text: "it was recorded before something that was said earlier there" }),
    ),
  );
  return [...late, ...arrivals];
}

/** DL5: what the outbox holds for a place leaves in its order. */
function deliveredInOrder({ history }: Case): Violation[] {
  const byKey = new Map(history.outbox.map((row) => [`${row.delivery}#${row.n}`, row]));
  const byRef = new Map(history.outbox.map((row) => [`${row.place} ${row.ref}`, row]));
  return [...Map.groupBy(history.seen, (seen) => seen.place).values()].flatMap((seen) => {
    const rows = seen.flatMap((one) => (one.key === null ? byRef.get(`${one.place} ${one.ref}`) : byKey.get(one.key)) ?? []);
    return outOfOrder(rows, (row) => row.id).map(
      (row): Violation => ({ kind: "reordered", about: row.delivery, text: `it left after a later row of ${row.place}` }),
    );
  });
}

/** Those that stand behind one with a higher rank. */
function outOfOrder<T>(items: readonly T[], rank: (item: T) => number): T[] {
  let highest = Number.NEGATIVE_INFINITY;
  return items.filter((item) => {
    const isLate = rank(item) < highest;
    highest = Math.max(highest, rank(item));
    return isLate;
  });
}

function nothingStray({ sightings }: Case): Violation[] {
  const strange = sightings.facts.filter((fact) => fact.kind === "announcement" && fact.generation === UNKNOWN_GENERATION);
  return [
    ...sightings.strays.map(
      (seen): Violation => ({ kind: "stray", about: seen.ref, text: `in ${seen.place}: ${seen.text.slice(0, 200)}` }),
    ),
    ...strange.map(
      (fact): Violation => ({ kind: "stray", about: fact.about, text: "it was announced in words the outbox never held there" }),
    ),
  ];
}

/** CM7: what was sent to a run is read by it once, unless the run was ended first. */
function sendsRead({ history, sightings, runsByLabel, generations }: Case): Violation[] {
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
function transcriptsWhole({ history, index, sightings }: Case): Violation[] {
  const damaged = history.transcripts.flatMap(({ name, problems }) =>
    problems.map((text): Violation => ({ kind: "transcript", about: name, text })),
  );
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
  const names = new Set(history.transcripts.map((one) => one.sessionId));
  const gone = history.runs.filter((run) => !names.has(run.sessionId));
  return [
    ...damaged,
    ...lines,
    ...gone.map((run): Violation => ({ kind: "transcript", about: run.label, text: "its transcript is gone" })),
  ];
}

/** AR1, AR3: a settled run that was to be deleted is archived; the file stands under the recorded name and no other. */
function archiveComplete({ history }: Case): Violation[] {
  const files = Map.groupBy(history.transcripts, (one) => one.sessionId);
  return history.runs.flatMap((run): Violation[] => {
    const names = (files.get(run.sessionId) ?? []).map((one) => one.name);
    const wanted = run.archivedAt === null ? `${run.sessionId}.jsonl` : (run.archiveName ?? "");
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

function slotsFree({ history: { slots } }: Case): Violation[] {
  const short = (lane: string, got: number, wanted: number): Violation[] =>
    got >= wanted ? [] : [{ kind: "slot", about: lane, text: `only ${got} of ${wanted} could work at once after the drain` }];
  return [...short("main", slots.main, slots.wantedMain), ...short("subagent", slots.subagent, slots.wantedSubagent)];
}

function figuresOf({ history, sightings, generations }: Case, marked: number): Figures {
  const messages = history.said.filter((said) => isMessage(said.kind));
  return {
    messages: messages.length,
    commands: history.said.length - messages.length,
    runs: history.runs.length,
    generations: generations.length,
    announcements: sightings.facts.filter((fact) => fact.kind === "announcement").length,
    dropped: messages.filter((said) => sightings.find("reply", said.id).length === 0).length,
    apologies: messages.filter((said) => sightings.find("reply", said.id).some((fact) => fact.isApology)).length,
    interrupted: generations.filter((one) => one.status === "unknown").length,
    stopped: generations.filter((one) => one.status === "stopped").length,
    resumed: history.runs.filter((run) => run.resumes > 0).length,
    archived: history.runs.filter((run) => run.archivedAt !== null).length,
    marked,
  };
}
