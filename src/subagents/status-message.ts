// The one message of a batch (LV1): how many are at what, then a line for each run, edited as they go on. Pure, and the same bytes as
// long as nothing changed: times tick together, in steps, so that a message nobody's work changes is not edited every second.
import { hash } from "node:crypto";
import type { Group } from "../core/group.ts";
import type { Button, Channel, OutMessage, Part } from "../core/message.ts";
import { isUnfinished, type Run, stepOf } from "../core/run.ts";
import { shortText } from "../core/visible-text.ts";
import { cost, duration, runtimeOf } from "./figures.ts";
import { oneLine } from "./quoting.ts";
import { needsPerson } from "./waits.ts";

/** What is accepted in one turn is one batch. Short: a button has to carry it. */
export const batchOf = ({ sessionId, turnId }: { readonly sessionId: string; readonly turnId: string }): string =>
  hash("sha256", `${sessionId} ${turnId}`).slice(0, 12);

export const statusId = (batch: string): string => `status:${batch}`;

/** A run in one generation: behind a button it means nothing else, however late it is pressed (LV4). Within Telegram's 64 bytes. */
export const stopCommand = ({ id, generation }: Pick<Run, "id" | "generation">): string => `/subagents stop ${id}@${generation}`;
/** The batch, in no generation that comes after these. */
const stopAllCommand = (batch: string, runs: readonly Run[]): string =>
  `/subagents stop batch:${batch}@${Math.max(...runs.map((run) => run.generation))}`;

type Sign = "❓" | "▶" | "💤" | "⏳" | "✓" | "✗" | "⏹";

/** In the order in which they are counted; when not all fit, the first ones here are shown. */
const COUNTED: readonly Sign[] = ["▶", "💤", "⏳", "❓", "✓", "✗", "⏹"];
const FIRST: readonly Sign[] = ["❓", "✗", "▶", "💤", "⏳", "⏹", "✓"];

const SIGN: Record<Run["state"], Sign> = {
  queued: "⏳",
  running: "▶",
  waiting: "💤",
  done: "✓",
  error: "✗",
  timeout: "✗",
  interrupted: "✗",
  stopped: "⏹",
};

const signOf = (run: Run): Sign => (needsPerson(run) ? "❓" : SIGN[run.state]);

const MAX_LINES = 20;
const MAX_BUTTONS = 6;
const MAX_BUTTON_LABEL = 24;
const MAX_LABEL = 60;
const MAX_DOING = 60;
/** No platform's message is that long in lines of ours; what fits is found by rendering it. */
const SHRINK = 0.75;

/** The groups that any of the runs belongs to. */
type Groups = readonly Pick<Group, "id" | "name" | "enough">[];

/** One message of the platform, however many runs there are. */
export function statusParts(channel: Channel, runs: readonly Run[], now: number, groups: Groups = []): Part[] {
  const [first] = runs;
  if (first === undefined) return [];
  for (let lines = Math.min(runs.length, MAX_LINES); ; lines = Math.floor(lines * SHRINK)) {
    const parts = channel.render(statusMessage(runs, now, { maxLines: lines, groups }), first.address);
    if (parts.length === 1 || lines === 0) return parts.slice(0, 1);
  }
}

export function statusMessage(
  runs: readonly Run[],
  now: number,
  { maxLines = MAX_LINES, groups = [] }: { readonly maxLines?: number; readonly groups?: Groups } = {},
): OutMessage {
  const shown = new Set(inOrder(runs).slice(0, maxLines));
  const more = runs.length - shown.size;
  const lines = runs
    .filter((run) => shown.has(run))
    .flatMap((run, n, all) => [...(run.groupId === (all[n - 1]?.groupId ?? null) ? [] : headOf(run, groups)), lineOf(run, now)]);
  const rest = more === 0 ? [] : [`and ${more} more`];
  // Two blanks: a new line to every reader of Markdown.
  return { markdown: [countsOf(runs), ...lines, ...rest].join("  \n"), buttons: buttonsOf(runs), quiet: true };
}

/** Above the first of a group: those of one call stand one after the other. */
function headOf({ groupId }: Run, groups: Groups): string[] {
  const group = groups.find(({ id }) => id === groupId);
  if (group === undefined) return [];
  return [`👥 ${plain(group.name, MAX_LABEL)}${group.enough === null ? "" : ` · ${group.enough} of them will do`}`];
}

const inOrder = (runs: readonly Run[]): Run[] => FIRST.flatMap((sign) => runs.filter((run) => signOf(run) === sign));

function countsOf(runs: readonly Run[]): string {
  const counts = COUNTED.map((sign) => [sign, runs.filter((run) => signOf(run) === sign).length] as const);
  return `**${counts.flatMap(([sign, count]) => (count === 0 ? [] : [`${sign} ${count}`])).join(" · ")}**`;
}

function lineOf(run: Run, now: number): string {
  const parts = [plain(run.label, MAX_LABEL), ...doingOf(run).map((text) => plain(text, MAX_DOING)), ...timeOf(run, now)];
  return `${signOf(run)} ${[...parts, cost(run.spend.costUsd)].filter((part) => part !== null).join(" · ")}`;
}

/** Its step and tool while it is at work, how it ended where the sign doesn't say it. */
function doingOf(run: Run): string[] {
  if (run.state === "timeout" || run.state === "interrupted") return [run.state];
  if (!isUnfinished(run.state) || run.state === "queued") return [];
  const step = stepOf(run.plan);
  return [...(step === null ? [] : [step]), ...(run.doing === null ? [] : [run.doing])];
}

function timeOf(run: Run, now: number): string[] {
  if (run.startedAt === null) return [];
  if (!isUnfinished(run.state)) return [duration(runtimeOf(run, now))];
  const ms = shownMs(run, now);
  return ms === 0 ? [] : [duration(ms)];
}

/** A model's or a person's words: one line, and no markup of theirs. */
const plain = (text: string, max: number): string => shortText(oneLine(text), max).replace(MARKUP, "\\$&");
/** Inside a word an underscore is only that. */
const MARKUP = /[\\`*[\]<>~#|&!]|(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu;

const TICK_MS = 15_000;
/** Nobody counts the seconds of what takes so long. */
const SLOW_AFTER_MS = 10 * 60_000;
const SLOW_TICK_MS = 60_000;

/** All tick together, at the same quarters of a minute. */
const tickMs = (startedAt: number, now: number): number => (now - startedAt < SLOW_AFTER_MS ? TICK_MS : SLOW_TICK_MS);

function shownMs({ startedAt }: Run, now: number): number {
  const ms = tickMs(startedAt ?? now, now);
  return Math.max(0, Math.floor(now / ms) * ms - (startedAt ?? now));
}

/** When it looks different although nothing happens; null: not any more. */
export function nextTickAt(runs: readonly Run[], now: number): number | null {
  const ticking = runs.filter((run) => isUnfinished(run.state) && run.startedAt !== null);
  if (ticking.length === 0) return null;
  const ms = Math.min(...ticking.map((run) => tickMs(run.startedAt ?? now, now)));
  return (Math.floor(now / ms) + 1) * ms;
}

/** Stop for as many as a phone shows well, those first that a person looks for. */
function buttonsOf(runs: readonly Run[]): Button[] {
  const unfinished = inOrder(runs).filter((run) => isUnfinished(run.state));
  const [first] = unfinished;
  if (first === undefined) return [];
  const label = (run: Run): string => (runs.length === 1 ? "Stop" : shortText(`Stop ${oneLine(run.label)}`, MAX_BUTTON_LABEL));
  const stops = unfinished.slice(0, MAX_BUTTONS).map((run) => ({ label: label(run), command: stopCommand(run), danger: true }));
  const { batch } = first;
  const all =
    unfinished.length > 1 && batch !== null ? [{ label: "Stop all", command: stopAllCommand(batch, unfinished), danger: true }] : [];
  return [...stops, ...all, { label: "List", command: "/subagents list" }];
}
