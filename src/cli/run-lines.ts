// Runs in words for a terminal, and as the stable fields of --json. Names and labels are others' words: one visible line each.
import { isUnfinished, type RunState } from "../core/run.ts";
import { visibleLine } from "../core/visible-text.ts";
import type { BoardRow, RunView } from "../web/board.ts";
import type { Terminal } from "./terminal.ts";

const LONGEST = 300;
type Colour = Parameters<Terminal["paint"]>[0];
const COLOUR: Readonly<Record<RunState, Colour>> = {
  queued: "dim",
  running: "cyan",
  waiting: "yellow",
  done: "green",
  error: "red",
  timeout: "red",
  stopped: "dim",
  interrupted: "red",
};

/** A gateway of a newer version may know other states. */
const colourOf = (state: string): Colour => new Map<string, Colour>(Object.entries(COLOUR)).get(state) ?? "dim";

export const iso = (time: number | null): string | null => (time === null ? null : new Date(time).toISOString());
export const line = (text: string): string => visibleLine(text, LONGEST);

/** What --json promises of a run; new fields may come, none of these goes. */
export const runFields = (run: RunView) => ({
  ...{ id: run.id, label: run.label, state: run.state, delivery: run.delivery, origin: run.origin, chat: run.chat },
  ...{ parentId: run.parentId, rerunOf: run.rerunOf, group: run.group, depth: run.depth, position: run.position },
  ...{ createdAt: iso(run.createdAt), startedAt: iso(run.startedAt), endedAt: iso(run.endedAt) },
  ...{ doing: run.doing, step: run.step, tokens: run.tokens, costUsd: run.costUsd, isAsking: run.isAsking },
});

/** 5s · 5m12s · 2h03m · 3d */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m${String(seconds % 60).padStart(2, "0")}s`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")}m`;
  return `${Math.floor(seconds / 86_400)}d`;
}

export const usd = (cost: number | null): string =>
  cost === null ? "" : `$${cost >= 0.01 || cost === 0 ? cost.toFixed(2) : cost.toPrecision(2)}`;

const SHORTEST_LABEL = 16;

/** One line, at most so many columns wide. */
export function runLine(run: BoardRow, { now, columns, paint }: { now: number; columns: number; paint: Terminal["paint"] }): string {
  const state = run.isAsking ? "asks you" : run.position !== null && run.state === "queued" ? `queued #${run.position}` : run.state;
  const time = age((run.endedAt ?? now) - (run.startedAt ?? run.createdAt));
  const ago = run.endedAt === null ? "" : `, ${age(now - run.endedAt)} ago`;
  const unsaid = run.delivery === "blocked" ? "not delivered" : "";
  const doing = isUnfinished(run.state) ? [run.step, run.doing] : [unsaid];
  const rest = [`${time}${ago}`, ...doing.map((text) => line(text ?? "")), usd(run.costUsd)].filter((part) => part !== "").join(" · ");
  const head = `${run.shortId}  ${state.padEnd(11)}  `;
  const label = `${"  ".repeat(Math.min(run.level, 6))}${line(run.label)}`;
  // What changes is what is looked for: a long label leaves it room.
  const room = Math.max(SHORTEST_LABEL, columns - head.length - widthOf(rest) - 3);
  const cut = fitting(`${head}${fitting(label, room)} · ${rest}`, columns);
  const from = run.shortId.length + 2;
  const to = from + state.length;
  return `${paint("dim", cut.slice(0, from))}${paint(run.needsPerson ? "yellow" : colourOf(run.state), cut.slice(from, to))}${cut.slice(to)}`;
}

/** Pictures and ideographs take two columns. */
const WIDE = /^[\p{Emoji_Presentation}\p{Unified_Ideograph}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\uff01-\uff60]/u;
const segmentsOf = (text: string): { segment: string; width: number }[] =>
  [...new Intl.Segmenter().segment(text)].map(({ segment }) => ({ segment, width: WIDE.test(segment) ? 2 : 1 }));

/** In columns, of text without colours. */
export const widthOf = (text: string): number => segmentsOf(text).reduce((sum, { width }) => sum + width, 0);

/** So much of it as fits into so many columns, with a sign where something is left out. */
export function fitting(text: string, columns: number): string {
  let used = 0;
  let kept = "";
  for (const { segment, width } of segmentsOf(text)) {
    if (used + width > columns) return `${kept.replace(/.$/su, "")}…`;
    used += width;
    kept += segment;
  }
  return kept;
}
