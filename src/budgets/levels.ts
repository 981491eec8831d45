// Which limits a call is under, from the innermost to the installation's month (BG1). A child's limit is a ceiling, not a grant: its
// calls count at every level above it as well. Days and months are UTC's, for all machines alike, and stand in a level's id: a call
// that was held before midnight is settled into the day it was held in.
import type { Cap, Level } from "../core/budget.ts";
import { dayOf } from "../core/clock.ts";
import { quotedLine } from "../core/fence.ts";
import { nameOf, type Person } from "../core/question.ts";
import type { Run } from "../core/run.ts";

export interface BudgetSettings {
  readonly message: Cap | null;
  readonly chatPerDay: Cap | null;
  readonly personPerDay: Cap | null;
  readonly agentPerDay: Cap | null;
  readonly perDay: Cap | null;
  readonly perMonth: Cap | null;
  /** A model without a known price where a limit in USD applies. */
  readonly unpriced: "refuse" | "allow";
}

/** Whose call it is. */
export interface Payer {
  /** The run that calls and those above it, innermost first; none in a main session. */
  readonly runs: readonly Pick<Run, "id" | "label" | "budget">[];
  /** The message that set it off. */
  readonly message: string;
  /** The chat's main session. */
  readonly rootKey: string;
  /** With its channel: ids of two platforms may be the same. */
  readonly person: (Person & { readonly channel: string }) | null;
  readonly agentId: string;
}

/** The outermost last. Only levels that limit something. */
export function levelsOf(settings: BudgetSettings, payer: Payer, now: number): Level[] {
  const { runs, message, rootKey, person, agentId } = payer;
  // Most set no limit at all, and this is asked at each spawn and each call.
  if (CAPS.every((name) => isOpen(settings[name])) && runs.every(({ budget }) => isOpen(budget))) return [];
  const day = dayOf(now);
  const own = runs.map(({ id, label, budget }, n): Named => {
    const run = `the run ${quotedLine(label)}`;
    return [runLevelId(id), n === 0 ? "this run" : `${run} above it`, budget, run];
  });
  const levels: Named[] = [
    ...own,
    [`message:${message}`, "this message and all it set off", settings.message],
    [`chat:${rootKey}:${day}`, "this chat today", settings.chatPerDay],
    ...(person === null ? [] : [personal(person, day, settings.personPerDay)]),
    [`agent:${agentId}:${day}`, `the agent ${agentId} today`, settings.agentPerDay],
  ];
  return [...limiting(levels), ...overallLevels(settings, now)];
}

const personal = ({ channel, ...person }: NonNullable<Payer["person"]>, day: string, cap: Cap | null): Named => {
  const inChat = `${quotedLine(nameOf(person))} today`;
  return [`person:${channel}:${person.id}:${day}`, "this person today", cap, inChat];
};

/** Of the installation, whoever pays. */
export function overallLevels({ perDay, perMonth }: Pick<BudgetSettings, "perDay" | "perMonth">, now: number): Level[] {
  const day = dayOf(now);
  return limiting([
    [`day:${day}`, "everything today", perDay],
    [`month:${day.slice(0, 7)}`, "everything this month", perMonth],
  ]);
}

/** Whoever is named, each by itself. */
export interface Everybody {
  readonly agents: readonly string[];
  readonly persons: readonly { readonly channel: string; readonly id: string; readonly name: string }[];
}

export function levelsOfToday(settings: BudgetSettings, { agents, persons }: Everybody, now: number): Level[] {
  const day = dayOf(now);
  return limiting([
    ...agents.map((id): Named => [`agent:${id}:${day}`, `the agent ${id} today`, settings.agentPerDay]),
    ...persons.map(({ channel, id, name }): Named => [`person:${channel}:${id}:${day}`, `${name} today`, settings.personPerDay]),
  ]);
}

const CAPS = ["message", "chatPerDay", "personPerDay", "agentPerDay", "perDay", "perMonth"] as const;
const isOpen = (cap: Cap | null): cap is null => cap === null || (cap.usd === null && cap.tokens === null);

const limiting = (levels: readonly Named[]): Level[] =>
  levels.flatMap(([id, name, cap, inChat = name]) => (isOpen(cap) ? [] : [{ id, name, cap, inChat }]));

/** `inChat`: where `name` means something only to whoever it is about. */
type Named = readonly [id: string, name: string, cap: Cap | null, inChat?: string];

export const runLevelId = (runId: string): string => `run:${runId}`;
