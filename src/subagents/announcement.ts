// The announcement as a message (AN2, AN10). Status, stats and headings come from the record; what a model wrote is only ever
// quoted. Pure: ending.ts gathers what goes in and records what comes out.
import { dollars, isOwnLimit, TWICE, tokenCount } from "../budgets/words.ts";
import type { Button, Card, OutMessage, Stats } from "../core/message.ts";
import { type EndState, type Run, STATUS_WORD } from "../core/run.ts";
import { cutText } from "../core/visible-text.ts";
import { askedFor, isElsewhere } from "./announcing.ts";
import { costOf, duration, runtimeOf, tokens } from "./figures.ts";
import { closed } from "./markdown-blocks.ts";
import { oneLine, quotable } from "./quoting.ts";

/** What a run hands back, in the child's words. */
export interface RunResult {
  readonly result: string;
  readonly notes: string;
}

/** A result is complete (AN10); what no model writes in one answer is cut here, so that no row can grow without end. */
export const MAX_WORDS = 1_000_000;
function statsOf(run: Run, { now, transcript, limit }: Pick<AnnouncementOptions, "now" | "transcript" | "limit">): Stats {
  const figures = [`runtime ${duration(runtimeOf(run, now))}`, tokens(run.spend), costOf(run.spend.costUsd, limit)];
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
  /** What is spent of its own limit, in words; null: it has none. */
  readonly limit: string | null;
  /** Why it ended as it did. */
  readonly reason: string | null;
  /** Its page; null: there is none that could be opened from there. */
  readonly link: string | null;
  /** How much of what it wrote; left out: all that one message bears. */
  readonly maxWords?: number;
}

/** The form of AN2; the stats line stands below as data. `run` is the record before it ended. */
export function announcementOf({
  run,
  as,
  answer,
  remarks,
  now,
  transcript,
  limit,
  reason,
  link,
  maxWords = MAX_WORDS,
}: AnnouncementOptions): OutMessage & { stats: Stats } {
  const result = quoted(answer.result, transcript, maxWords);
  const words = quoted(answer.notes, transcript, maxWords);
  const notes = [...remarks, words].filter((note) => note !== "" && !/^-?\s*\(?none\)?\.?$/i.test(note));
  // Only the chat that asked for it steers it: pressed elsewhere, it would be told that there is no such run.
  const goOn = isElsewhere(run) ? null : raiseButton(run, reason);
  const card: Card = {
    ...{ label: oneLine(run.label), asked: isElsewhere(run) ? askedFor(run) : null, status: STATUS_WORD[as] },
    notes: notes.length === 0 ? "- (none)" : notes.join("\n"),
  };
  const lines = [
    `**Sub-agent: ${card.label}**${card.asked === null ? "" : ` (${card.asked})`}${link === null ? "" : ` · [open](${link})`}`,
    "",
    `Status: ${card.status}`,
    "",
    "Result:",
    result === "" ? "(not available)" : result,
    "",
    "Notes:",
    card.notes,
  ];
  return {
    ...{
      markdown: lines.join("\n"),
      stats: statsOf(run, { now, transcript, limit }),
      kind: "announcement",
      card,
      fileName: fileNameOf(run.label),
    },
    ...(goOn === null ? {} : { buttons: [goOn] }),
  };
}

/** Letters and digits of any script, so that no platform, shell or path takes the name for something else. */
function fileNameOf(label: string): string {
  const words = oneLine(label)
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-|-$/g, "");
  return `${[...words].slice(0, 60).join("") || "result"}.md`;
}

/** Leaves nothing open, or what stands below would be swallowed by it. */
function quoted(text: string, transcript: string, max: number): string {
  if (text.length <= max) return closed(quotable(text));
  const cut = cutText(text, Math.max(text.lastIndexOf("\n", max), max - 200));
  return `${closed(quotable(cut))}\n\n… (cut: ${text.length} characters in all, the whole text is in ${transcript})`;
}

/**
 * As much as it had once more, named with its generation: pressed again, it finds the run raised (BG6). Of both sides, where it has both:
 * raised on the one that was not used up, it would end at once where it ended before. Null: its own limit is not why it ended.
 */
export function raiseButton({ id, generation, budget }: Pick<Run, "id" | "generation" | "budget">, reason: string | null): Button | null {
  if (budget === null || !isOwnLimit(reason)) return null;
  const { usd, tokens: count } = budget;
  const more = [...(usd === null ? [] : [`+${dollars(usd)}`]), ...(count === null ? [] : [`+${tokenCount(count)} tokens`])];
  return { label: `Go on, ${more.join(", ")}`, command: `/subagents budget ${id} ${TWICE} g${generation}` };
}
