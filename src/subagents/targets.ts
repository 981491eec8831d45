// Which run a person or a model means: a number of the last list, `last`, a run-id prefix, a label or a full key (CM3).
// Looks only below the caller's own session: a run of somebody else and one that does not exist get the same answer.
import { quotedLine } from "../core/fence.ts";
import { isUuid, shortId } from "../core/ids.ts";
import type { Run } from "../core/run.ts";
import { isUnfinished } from "../core/run.ts";
import { readSpelled } from "../core/visible-text.ts";
import type { Listings } from "../stores/listings.ts";
import type { Runs } from "../stores/runs.ts";
import { needsPerson } from "./waits.ts";

export type Found = { readonly run: Run } | { readonly problem: string };

const MAX_LISTED = 200;

/** Runs below a session: its own, newest first, and unfinished ones further down. */
export async function runsOf(runs: Runs, sessionKey: string): Promise<Run[]> {
  const own = await runs.listOf(sessionKey, MAX_LISTED);
  const known = new Set(own.map((run) => run.id));
  const deeper = (await runs.unfinishedBelow(sessionKey)).filter((run) => !known.has(run.id));
  return [...own, ...deeper].sort((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1));
}

/** RU3: this boot's and all unfinished ones; `all` shows the earlier ones too. */
export const currentRuns = (runs: readonly Run[], boots: ReadonlySet<string>): Run[] =>
  runs.filter((run) => boots.has(run.bootId) || isUnfinished(run.state));

/** Those that wait for a person before all others, whatever their age (QA2). */
export const needyFirst = (runs: readonly Run[]): Run[] => [...runs.filter(needsPerson), ...runs.filter((run) => !needsPerson(run))];

export interface TargetDeps {
  readonly runs: Runs;
  readonly listings: Listings;
}

const NUMBER = /^#?\d{1,4}$/;

/** By its place in a list, its id or its key: it means a run, whatever else is called so. */
export const isRunsOwn = (target: string): boolean =>
  NUMBER.test(target) || target.toLowerCase() === "last" || isUuid(target) || target.startsWith("agent:");

/** `knownBy`: only runs that were there by then. */
export async function findTarget(deps: TargetDeps, sessionKey: string, text: string, knownBy = Number.POSITIVE_INFINITY): Promise<Found> {
  // As a model was told it.
  const target = readSpelled(text)
    .trim()
    .replace(/^"(.*)"$/, "$1");
  if (target === "") return { problem: "Which sub-agent? Give a number of the list, `last`, a run id, a label or a session key." };
  if (NUMBER.test(target)) return byNumber(deps, sessionKey, Number(target.replace("#", "")));
  const all = (await runsOf(deps.runs, sessionKey)).filter((run) => run.createdAt <= knownBy);
  const [newest] = all;
  if (target.toLowerCase() === "last")
    return newest === undefined ? { problem: "There are no sub-agents in this session yet." } : { run: newest };
  if (target.startsWith("agent:")) return byKey(deps, sessionKey, target.toLowerCase());
  const wanted = target.toLowerCase();
  const byLabel = all.filter((run) => run.label.toLowerCase() === wanted);
  const matches = byLabel.length > 0 ? byLabel : all.filter((run) => wanted.length >= 4 && run.id.startsWith(wanted));
  const direct = matches.length === 0 ? await deps.runs.get(wanted) : null;
  if (direct !== null && (await deps.runs.isBelow(direct.childKey, sessionKey))) return { run: direct };
  return pick(matches, target);
}

async function byNumber(deps: TargetDeps, sessionKey: string, number: number): Promise<Found> {
  const listed = await deps.listings.find(sessionKey);
  const id = listed[number - 1];
  const run = id === undefined ? null : await deps.runs.get(id);
  if (run !== null) return { run };
  if (listed.length === 0) return { problem: "The numbers come from `/subagents list`: call it first." };
  return { problem: `There is no number ${number}: the last list went from 1 to ${listed.length}.` };
}

async function byKey(deps: TargetDeps, sessionKey: string, key: string): Promise<Found> {
  const run = await deps.runs.findByChildKey(key);
  return run !== null && (await deps.runs.isBelow(key, sessionKey)) ? { run } : unknown(key);
}

function pick(matches: readonly Run[], target: string): Found {
  const [first] = matches;
  if (first === undefined) return unknown(target);
  if (matches.length === 1) return { run: first };
  const some = matches.slice(0, 5).map((run) => `${shortId(run.id)} (${quotedLine(run.label)})`);
  return { problem: `"${target.slice(0, 80)}" fits ${matches.length} sub-agents: ${some.join(", ")}. Use a number or more of the run id.` };
}

const unknown = (target: string): Found => ({
  problem: `There is no sub-agent "${target.slice(0, 80)}" in this session. \`/subagents list\` shows them.`,
});
