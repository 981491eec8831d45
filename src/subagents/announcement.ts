// The announcement as a message (AN2, AN10). Status, stats and headings come from the record; what a model wrote is only ever
// quoted. Pure: ending.ts gathers what goes in and records what comes out.
import type { OutMessage, Stats } from "../core/message.ts";
import { type EndState, type Run, STATUS_WORD } from "../core/run.ts";
import { cutText } from "../core/visible-text.ts";
import { cost, duration, runtimeOf, tokens } from "./figures.ts";
import { closed } from "./markdown-blocks.ts";
import { oneLine, quotable } from "./quoting.ts";

/** What a run hands back, in the child's words. */
export interface RunResult {
  readonly result: string;
  readonly notes: string;
}

/** A result is complete (AN10); what no model writes in one answer is cut here, so that no row can grow without end. */
export const MAX_WORDS = 1_000_000;
function statsOf(run: Run, now: number, transcript: string): Stats {
  const figures = [`runtime ${duration(runtimeOf(run, now))}`, tokens(run.spend), cost(run.spend.costUsd)];
  return {
    figures: figures.filter((figure) => figure !== null),
    names: [`sessionKey ${run.childKey}`, `sessionId ${run.sessionId}`, `transcript ${transcript}`],
  };
}

export interface AnnouncementOptions {
  readonly run: Run;
  readonly as: EndState;
  readonly answer: RunResult;
  /** What the runtime itself has to add: resumed, stopped early, timed out. */
  readonly remarks: readonly string[];
  readonly now: number;
  readonly transcript: string;
}

/** The form of AN2; the stats line stands below as data. `run` is the record before it ended. */
export function announcementOf({ run, as, answer, remarks, now, transcript }: AnnouncementOptions): OutMessage & { stats: Stats } {
  const result = quoted(answer.result, transcript);
  const words = quoted(answer.notes, transcript);
  const notes = [...remarks, words].filter((note) => note !== "" && !/^-?\s*\(?none\)?\.?$/i.test(note));
  const lines = [
    `**Sub-agent: ${oneLine(run.label)}**`,
    "",
    `Status: ${STATUS_WORD[as]}`,
    "",
    "Result:",
    result === "" ? "(not available)" : result,
    "",
    "Notes:",
    notes.length === 0 ? "- (none)" : notes.join("\n"),
  ];
  return { markdown: lines.join("\n"), stats: statsOf(run, now, transcript), kind: "announcement", fileName: fileNameOf(run.label) };
}

/** Letters and digits of any script, so that no platform, shell or path takes the name for something else. */
function fileNameOf(label: string): string {
  const words = oneLine(label)
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-|-$/g, "");
  return `${[...words].slice(0, 60).join("") || "result"}.md`;
}

/** Leaves nothing open, or what stands below would be swallowed by it. */
function quoted(text: string, transcript: string): string {
  if (text.length <= MAX_WORDS) return closed(quotable(text));
  const cut = cutText(text, Math.max(text.lastIndexOf("\n", MAX_WORDS), MAX_WORDS - 200));
  return `${closed(quotable(cut))}\n\n… (cut: ${text.length} characters in all, the whole text is in ${transcript})`;
}
