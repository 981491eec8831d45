// The judge: reads the complete history of a chaos run and says what broke a promise. Every rule is its own small function
// over plain data; nothing here looks at a process, a file or a clock.
// history → sightings → rules → violations and figures.
import { type Case, generationsOf, isMarkedRepeat, type Rule, type Violation } from "./case.ts";
import { afterOthers, announcedTogether, groupsWhole, nothingOfGroupAfterStop, stoppedWithReason, wokenOnce } from "./group-rules.ts";
import { type History, isMessage } from "./history.ts";
import { answeredOnce, deliveredInOrder, inPlace, nothingAfterStop, nothingStray, recorded, repliesInOrder } from "./message-rules.ts";
import { answersRead, askedOnce, firstCounts, nothingAskedAfterStop, onlyWithYes } from "./question-rules.ts";
import { announcedOnce, archiveComplete, runsOnce, sendsRead, slotsFree, transcriptsWhole } from "./run-rules.ts";
import { createIndex, readSightings } from "./sightings.ts";

export interface Figures {
  readonly messages: number;
  readonly commands: number;
  readonly runs: number;
  readonly generations: number;
  readonly announcements: number;
  /** Dropped by a /stop or /new that came after them. */
  readonly dropped: number;
  readonly groups: number;
  /** Turns the agent had because a group was complete. */
  readonly wakings: number;
  readonly questions: number;
  readonly answered: number;
  readonly expired: number;
  /** Given up after three crashes, which is said. */
  readonly apologies: number;
  /** Given up after two crashes, announced as unknown. */
  readonly interrupted: number;
  readonly stopped: number;
  readonly resumed: number;
  readonly archived: number;
  /** Files a kill left of sessions that never came to be. */
  readonly leftovers: number;
  /** Telegram's texts that appeared twice, the second one marked. */
  readonly marked: number;
}

export interface Verdict {
  readonly violations: readonly Violation[];
  readonly figures: Figures;
  /** Facts seen again with a mark, for the list. */
  readonly markedRepeats: readonly string[];
}

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
  askedOnce,
  answersRead,
  firstCounts,
  onlyWithYes,
  nothingAskedAfterStop,
  groupsWhole,
  announcedTogether,
  stoppedWithReason,
  wokenOnce,
  nothingOfGroupAfterStop,
  afterOthers,
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

function figuresOf({ history, sightings, generations }: Case, marked: number): Figures {
  const messages = history.said.filter((said) => isMessage(said.kind));
  return {
    messages: messages.length,
    commands: history.said.length - messages.length,
    runs: history.runs.length,
    generations: generations.length,
    announcements: sightings.facts.filter((fact) => fact.kind === "announcement").length,
    dropped: messages.filter((said) => sightings.find("reply", said.id).length + sightings.find("answer", said.id).length === 0).length,
    groups: history.groups.length,
    wakings: sightings.facts.filter((fact) => fact.kind === "woken" && !fact.isApology).length,
    questions: history.questions.length,
    answered: history.questions.filter(({ state }) => state === "answered").length,
    expired: history.questions.filter(({ state }) => state === "expired").length,
    apologies: messages.filter((said) => sightings.find("reply", said.id).some((fact) => fact.isApology)).length,
    interrupted: generations.filter((one) => one.status === "unknown").length,
    stopped: generations.filter((one) => one.status === "stopped").length,
    resumed: history.runs.filter((run) => run.resumes > 0).length,
    archived: history.runs.filter((run) => run.archivedAt !== null).length,
    leftovers: history.transcripts.filter((one) => !history.sessions.includes(one.sessionId)).length,
    marked,
  };
}
