// Runs that begin when others have ended (GR2): which ones a name means, what they left for the one that waited, and what becomes of
// it when one of them failed. It waits as a row, without a place in the lane.
import { quotedLine } from "../core/fence.ts";
import { isUnfinished, type Run, STATUS_WORD } from "../core/run.ts";
import type { RunBegin } from "../stores/runs.ts";
import { resultOf } from "./announce.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import { noteText } from "./notes.ts";
import { outcomeSentence } from "./outcome.ts";
import { oneLine } from "./quoting.ts";
import { findEntry } from "./transcript-view.ts";

/** Another run of the same call. */
export interface Sibling {
  readonly id: string;
  readonly label: string;
  readonly after: readonly string[];
}

/** One that has to end first. */
export interface Before {
  readonly id: string;
  readonly label: string;
  readonly hasEnded: boolean;
}

type Resolved = { readonly before: ReadonlyMap<string, readonly Before[]> } | { readonly refused: string };

/** How many of the requester's runs are looked through for a name. */
const MAX_LISTED = 200;
const MIN_PREFIX = 4;

/** What each run of a call comes after, by its id. A run of another chat reads like one that doesn't exist. */
export async function resolveAfter(runs: SubagentDeps["runs"], requesterKey: string, siblings: readonly Sibling[]): Promise<Resolved> {
  const own = siblings.some(({ after }) => after.length > 0) ? await runs.listOf(requesterKey, MAX_LISTED) : [];
  const before = new Map<string, readonly Before[]>();
  for (const sibling of siblings) {
    const found = new Map<string, Before>();
    for (const name of sibling.after) {
      const fitting = fittingOf(name, siblings, own);
      const [one = await older(runs, requesterKey, name)] = fitting;
      if (one === null) return { refused: `after names ${shown(name)}, and you have no sub-agent of that name.` };
      if (fitting.length > 1)
        return { refused: `after names ${shown(name)}, which fits ${fitting.length} sub-agents: give each a label of its own.` };
      found.set(one.id, one);
    }
    before.set(sibling.id, [...found.values()]);
  }
  const cycle = findCycle(new Map([...before].map(([id, all]) => [id, all.map((one) => one.id)])));
  if (cycle === null) return { before };
  const labels = cycle.map((id) => shown(siblings.find((one) => one.id === id)?.label ?? id));
  return { refused: `after goes round in a circle: ${labels.join(" → ")}. None of them could ever begin.` };
}

const shown = (name: string): string => quotedLine(name.slice(0, 80));

/** Those of the same call first: they were named by whoever made it. */
function fittingOf(name: string, siblings: readonly Sibling[], own: readonly Run[]): Before[] {
  const wanted = name.trim().toLowerCase();
  const isNamed = ({ label }: Pick<Run, "label">): boolean => label.trim().toLowerCase() === wanted;
  const beside = siblings.filter(isNamed);
  if (beside.length > 0) return beside.map(({ id, label }) => ({ id, label, hasEnded: false }));
  const named = own.filter(isNamed);
  return (named.length > 0 ? named : own.filter(({ id }) => wanted.length >= MIN_PREFIX && id.startsWith(wanted))).map(toBefore);
}

const toBefore = ({ id, label, state }: Run): Before => ({ id, label, hasEnded: !isUnfinished(state) });

/** By its whole id: one further down, or of long ago. */
async function older(runs: SubagentDeps["runs"], requesterKey: string, id: string): Promise<Before | null> {
  const run = await runs.get(id.trim().toLowerCase());
  return run !== null && (await runs.isBelow(run.childKey, requesterKey)) ? toBefore(run) : null;
}

/** Null, or the way round, beginning and ending with the same. */
function findCycle(after: ReadonlyMap<string, readonly string[]>): string[] | null {
  const clear = new Set<string>();
  const walk = (id: string, way: readonly string[]): string[] | null => {
    if (way.includes(id)) return [...way.slice(way.indexOf(id)), id];
    if (clear.has(id)) return null;
    for (const next of after.get(id) ?? []) {
      const cycle = walk(next, [...way, id]);
      if (cycle !== null) return cycle;
    }
    clear.add(id);
    return null;
  };
  for (const id of after.keys()) {
    const cycle = walk(id, []);
    if (cycle !== null) return cycle;
  }
  return null;
}

/** How one begins that comes after these. What has ended by now is not waited for: nobody would ring. */
export function waitsToBegin(before: readonly Before[]): Pick<RunBegin, "waits"> {
  if (before.every(({ hasEnded }) => hasEnded)) return {};
  return { waits: { waits: [{ for: "after", ids: before.map(({ id }) => id) }], doing: doingOf(before) } };
}

const doingOf = (before: readonly Before[]): string =>
  `waiting for ${before
    .filter(({ hasEnded }) => !hasEnded)
    .map(({ label }) => oneLine(label))
    .join(", ")}`;

/** As lists show one that waits for these to end. */
export async function afterText(runs: Pick<SubagentDeps["runs"], "get">, ids: readonly string[]): Promise<string> {
  const found = await Promise.all(ids.map((id) => runs.get(id)));
  return doingOf(found.flatMap((run) => (run === null ? [] : [toBefore(run)])));
}

/** All that it waits to begin for has ended. One that is on record no more will not come either. */
export async function haveEnded(runs: Pick<SubagentDeps["runs"], "get">, ids: readonly string[]): Promise<boolean> {
  for (const id of ids) if (isUnfinished((await runs.get(id))?.state ?? "done")) return false;
  return true;
}

/** Null: it may begin. Else which of them failed, as the reason of its own end. Who is sent on after that goes on without them. */
export async function whyNotBegun({ runs }: Pick<SubagentDeps, "runs">, { params: { after }, generation }: Run): Promise<string | null> {
  if (after === undefined || after.ifFailed === "run" || generation > 1) return null;
  const failed: string[] = [];
  for (const id of after.ids) {
    const run = await runs.get(id);
    if (run === null) failed.push("one that is on record no more");
    // It goes on, and has not failed yet; who may begin has looked whether it is waited for.
    else if (run.state !== "done" && !isUnfinished(run.state))
      failed.push(`${quotedLine(run.label)} (${run.state === "stopped" ? "stopped" : STATUS_WORD[run.state]})`);
  }
  return failed.length === 0 ? null : `it was to begin after ${failed.join(" and ")}, which did not succeed`;
}

/** Much of what others found may be all it has to work with. */
const MAX_QUOTED = 60_000;
const MIN_QUOTED = 2_000;
const QUOTED = "after";

/** Their results stand behind its task before its first step, as data. Once: a second try finds them there. */
export async function quoteBefore(deps: Pick<SubagentDeps, "runs" | "transcripts">, run: Run): Promise<void> {
  const ids = run.params.after?.ids ?? [];
  const ref = transcriptOfRun(run);
  if (ids.length === 0 || (await findEntry(deps.transcripts, run, QUOTED)) !== null) return;
  const texts: string[] = [];
  for (const id of ids) {
    const before = await deps.runs.get(id);
    if (before === null || isUnfinished(before.state)) continue;
    const as = before.state;
    const answer = as === "stopped" ? { result: "", notes: "" } : await resultOf(deps.transcripts, before);
    const max = Math.max(MIN_QUOTED, Math.floor(MAX_QUOTED / ids.length));
    texts.push(
      noteText({
        run: before,
        as,
        answer,
        sentence: outcomeSentence(before, { ...before, as }, answer.result),
        data: before.data,
        cut: { max, more: "left out" },
      }),
    );
  }
  const text = ["[The gateway: what your task was to wait for has ended. What it left, as data:]", ...texts].join("\n\n");
  await deps.transcripts.append(ref, [{ type: "message", role: "user", text, from: "runtime", id: QUOTED }]);
}
