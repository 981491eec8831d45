// Runs as people ask about them: the numbered list (CM2) and everything on record about one (CM6). Pure.
import type { Group } from "../core/group.ts";
import { shortId } from "../core/ids.ts";
import { isUnfinished, type Run, stepOf } from "../core/run.ts";
import { checksMarkdown, checksNote } from "./checks.ts";
import { cost, duration, runtimeOf, tokens } from "./figures.ts";
import { countsOf } from "./group-message.ts";
import { sectionsText } from "./outcome.ts";
import { oneLine, quotable } from "./quoting.ts";
import { dataMarkdown } from "./typed-result.ts";
import { needsPerson } from "./waits.ts";

const ICON: Record<Run["state"], string> = {
  queued: "⏳",
  running: "▶️",
  waiting: "💤",
  done: "✅",
  error: "❌",
  timeout: "⏱️",
  stopped: "⏹️",
  interrupted: "⚡",
};

export interface ListOptions {
  readonly runs: readonly Run[];
  readonly now: number;
  /** Boot ids of the processes that are alive. */
  readonly boots: ReadonlySet<string>;
  readonly title: string;
  /** How many of earlier starts are left out. */
  readonly leftOut: number;
  /** Those any of the runs belongs to. */
  readonly groups: readonly Group[];
  position(run: Run): number | null;
  /** What is spent of its own limit, in words; null: it has none. */
  limitOf(run: Run): string | null;
  /** Why one can't start, whatever its place, or can't go on where its process left it; null: it can. */
  waitsFor(run: Run): string | null;
}

const NONE_YET = "No sub-agents yet. Ask the agent for something to be done in the background, or use `/subagents spawn <task>`.";

/** CM2: numbered, newest first; the caller remembers what each number meant. */
export function listText({ runs, now, boots, title, leftOut, groups, position, limitOf, waitsFor }: ListOptions): string {
  const active = runs.filter((run) => isUnfinished(run.state)).length;
  const head = [`🧭 ${title}`, `Active: ${active} · Done: ${runs.length - active}`];
  const rest = leftOut === 0 ? [] : ["", `${leftOut} from before the gateway's last start: \`/subagents all\``];
  if (runs.length === 0) return [...head, ...(leftOut === 0 ? ["", NONE_YET] : rest)].join("\n");
  const lines = runs.map((run, i) => {
    const place = run.state === "queued" ? position(run) : null;
    const why = waitsFor(run);
    const state = why !== null ? `${run.state} (${why})` : place === null ? run.state : `queued (place ${place})`;
    const when = run.startedAt === null ? `age ${duration(now - run.createdAt)}` : duration(runtimeOf(run, now));
    const ago = run.endedAt === null ? "" : `, ${duration(now - run.endedAt)} ago`;
    const isBegun = run.state === "running" || run.state === "waiting";
    const doing = isBegun && run.doing !== null ? ` · ${oneLine(run.doing)}` : "";
    const step = isBegun && stepOf(run.plan) !== null ? ` · step ${stepOf(run.plan)}` : "";
    const limit = limitOf(run) === null ? "" : ` · ${limitOf(run)}`;
    const unsaid = undelivered(run);
    const group = groups.find(({ id }) => id === run.groupId);
    const of = group === undefined ? "" : ` · group ${oneLine(group.name)}`;
    const earlier = !boots.has(run.bootId) && !isUnfinished(run.state) ? " · (earlier start)" : "";
    return `${i + 1}) ${needsPerson(run) ? "❓" : ICON[run.state]} ${state} · ${oneLine(run.label)} · ${when}${ago} · ${shortId(run.id)} · \`${run.childKey}\`${of}${step}${doing}${limit}${unsaid}${earlier}`;
  });
  return [...head, ...groups.map((group) => groupLine(group, runs)), "", ...lines, ...rest].join("\n");
}

/** What it waits for, and how far it is (GR5). */
function groupLine({ id, name, enough, state }: Group, runs: readonly Run[]): string {
  const counts = countsOf(runs.filter(({ groupId }) => groupId === id));
  const waits = state === "complete" ? "complete" : enough === null ? "waits for all" : `waits for ${enough} to succeed`;
  return `👥 ${oneLine(name)} · ${counts} · ${waits}`;
}

/** What people wait for in vain, or not yet: said where they look first (DL3, AP1). */
function undelivered({ delivery, deliveryReason }: Run): string {
  if (delivery !== "blocked" && delivery !== "pending") return "";
  if (deliveryReason === null) return "";
  return ` · ${delivery === "blocked" ? "⚠️ not delivered: " : ""}${oneLine(deliveryReason)}`;
}

export interface InfoOptions {
  readonly run: Run;
  readonly now: number;
  readonly transcript: string;
  readonly archiveDue: number | null;
  readonly position: number | null;
  /** The models that really answered. */
  readonly answeredBy: readonly string[];
  /** What is spent of its own limit, in words; null: it has none. */
  readonly limit: string | null;
  /** The one it belongs to. */
  readonly group: Group | null;
}

/** CM6. */
export function infoText({ run, now, transcript, archiveDue, position, answeredBy, limit, group }: InfoOptions): string {
  const at = (time: number | null): string =>
    time === null ? "-" : `${new Date(time).toISOString()} (${duration(Math.abs(now - time))} ${time > now ? "from now" : "ago"})`;
  const spent = [tokens(run.spend), cost(run.spend.costUsd)].filter((part) => part !== null).join(" • ");
  const state = [
    run.state,
    run.incomplete ? "(incomplete)" : "",
    position === null ? "" : `(place ${position})`,
    run.reason === null ? "" : `– ${run.reason}`,
  ];
  const archive = run.archivedAt !== null ? `archived ${at(run.archivedAt)}` : archiveDue === null ? "not due" : at(archiveDue);
  const fields: [string, string][] = [
    ["Status", state.filter((part) => part !== "").join(" ")],
    ["Label", oneLine(run.label)],
    ["Task", oneLine(run.task)],
    ["Run", run.id],
    ["Session key", run.childKey],
    ["Session id", run.sessionId],
    ["Transcript", transcript],
    ["Created", at(run.createdAt)],
    ["Started", at(run.startedAt)],
    ["Ended", at(run.endedAt)],
    ["Runtime", run.startedAt === null ? "-" : duration(runtimeOf(run, now))],
    ["Model", `${run.model} (thinking ${run.thinking})`],
    ["Answered by", answeredBy.length === 0 ? "-" : answeredBy.map(oneLine).join(", ")],
    ["Usage", spent],
    ...(limit === null ? [] : [["Budget", limit] satisfies [string, string]]),
    ["Cleanup", run.cleanup],
    ["Archive", archive],
    ["Delivery", run.deliveryReason === null ? run.delivery : `${run.delivery} – ${run.deliveryReason}`],
  ];
  if (run.doing !== null) fields.splice(1, 0, ["Doing", oneLine(run.doing)]);
  const step = stepOf(run.plan);
  if (step !== null) fields.splice(1, 0, ["Step", step]);
  if (group !== null) fields.push(["Group", oneLine(group.name)]);
  if (run.params.after !== undefined) fields.push(["After", run.params.after.ids.map(shortId).join(", ")]);
  if (run.rerunOf !== null) fields.push(["Once more after", run.rerunOf]);
  if (run.generation > 1) fields.push(["Generation", String(run.generation)]);
  if (run.resumes > 0) fields.push(["Resumed", `${run.resumes}×`]);
  const checked = checksNote(run.params, run.checks);
  if (checked !== null) fields.push(["Checks", checked.replace(/^Checks: /, "")]);
  const report = [
    ...(run.checks === null ? [] : ["", quotable(checksMarkdown(run.checks))]),
    ...(run.data === null ? [] : ["", dataMarkdown(run.data)]),
    ...(run.sections === null ? [] : ["", quotable(sectionsText(run.sections))]),
  ];
  return ["🧭 Sub-agent", ...fields.map(([name, value]) => `- **${name}:** ${value}`), ...report].join("\n");
}
