// Two runs side by side (RP2): what they were given, what they took, and the difference of their results. The words are pure; what
// stands in the transcripts is gathered here, and told as missing where it is gone. Loaded by whoever compares, with its package.
import { createTwoFilesPatch } from "diff";
import { capText } from "../budgets/words.ts";
import { shortId } from "../core/ids.ts";
import type { Run } from "../core/run.ts";
import { cutText } from "../core/visible-text.ts";
import type { Transcripts } from "../stores/transcripts.ts";
import { resultOf } from "./announce.ts";
import { checksNote } from "./checks.ts";
import { cost, duration, runtimeOf, tokens } from "./figures.ts";
import { oneLine } from "./quoting.ts";
import { toolCounts } from "./transcript-view.ts";

export interface Compared {
  readonly run: Run;
  /** How often it called each tool; null: its transcript is gone. */
  readonly tools: ReadonlyMap<string, number> | null;
  readonly result: string | null;
}

export async function gather(transcripts: Transcripts, run: Run): Promise<Compared> {
  return { run, tools: await toolCounts(transcripts, run), result: await resultIfReadable(transcripts, run) };
}

async function resultIfReadable(transcripts: Transcripts, run: Run): Promise<string | null> {
  try {
    return (await resultOf(transcripts, run)).result;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return null;
  }
}

const MAX_CELL = 120;
/** The gateway waits while a difference is worked out: of longer results the beginnings are compared, and it is said. */
const MAX_COMPARED = 20_000;
const MAX_DIFFERING = 1_000;
const CONTEXT_LINES = 2;

export interface Comparison {
  /** What they were given and what they took, the same of both. */
  readonly fields: readonly { readonly name: string; readonly one: string; readonly other: string }[];
  /** That one of them is the other once more; null: it is not. */
  readonly link: string | null;
  /** The difference as a patch, or a sentence where there is none to show. */
  readonly results: { readonly patch: string; readonly isCut: boolean } | { readonly said: string };
}

export function compare(one: Compared, other: Compared, now: number): Comparison {
  const second = new Map(fieldsOf(other, now));
  const fields = fieldsOf(one, now).map(([name, value]) => ({ name, one: value, other: second.get(name) ?? "" }));
  return { fields, link: linkText(one.run, other.run), results: resultsOf(one, other) };
}

export function compareText(one: Compared, other: Compared, now: number): string {
  const { fields, link, results } = compare(one, other, now);
  const rows = fields.map((field) => `| ${field.name} | ${cell(field.one)} | ${cell(field.other)} |`);
  const head = `| | ${shortId(one.run.id)} | ${shortId(other.run.id)} |\n|---|---|---|`;
  const title = `🧭 ${oneLine(one.run.label)} and ${oneLine(other.run.label)}`;
  return [title, "", head, ...rows, "", ...(link === null ? [] : [link, ""]), resultsText(results)].join("\n");
}

const cell = (text: string): string => {
  const line = oneLine(text).replaceAll("|", "\\|");
  return line.length <= MAX_CELL ? line : `${cutText(line, MAX_CELL)}…`;
};

function fieldsOf({ run, tools }: Compared, now: number): [string, string][] {
  const { params } = run;
  const counted = tools === null ? "(its transcript is gone)" : [...tools].map(([name, count]) => `${name} ${count}×`).join(", ") || "none";
  return [
    ["Status", run.incomplete ? `${run.state} (incomplete)` : run.state],
    ["Task", run.task],
    ["Agent", run.agentId],
    ["Model", `${run.model} (thinking ${run.thinking})`],
    ["Role", params.role ?? "general"],
    ["Own prompt", params.systemPrompt ?? "-"],
    ["Tools allowed", params.allowedTools?.join(", ") ?? "-"],
    ["Most steps, longest time", `${run.maxIterations}, ${run.timeoutMs === 0 ? "no limit" : duration(run.timeoutMs)}`],
    ["Budget", run.budget === null ? "-" : capText(run.budget)],
    ["Checks", checksNote(params, run.checks)?.replace(/^Checks: /, "") ?? "-"],
    ["Steps", String(run.steps)],
    ["Tools", counted],
    ["Tokens", tokens(run.spend).replace(/^tokens /, "")],
    ["Cost", cost(run.spend.costUsd) ?? "-"],
    ["Time", run.startedAt === null ? "-" : duration(runtimeOf(run, now))],
  ];
}

function linkText(one: Run, other: Run): string | null {
  const [first, second] = one.rerunOf === other.id ? [other, one] : [one, other];
  return second.rerunOf === first.id ? `${shortId(second.id)} is ${shortId(first.id)} once more.` : null;
}

function resultsOf(one: Compared, other: Compared): Comparison["results"] {
  if (one.result === null || other.result === null) return { said: "The results can't be compared: a transcript is gone." };
  if (one.result === other.result) return { said: one.result === "" ? "Neither has a result." : "The results are the same." };
  const isCut = Math.max(one.result.length, other.result.length) > MAX_COMPARED;
  const [from, to] = [one.result, other.result].map((text) => `${cutText(text, MAX_COMPARED)}\n`);
  const names = [shortId(one.run.id), shortId(other.run.id)] as const;
  const patch = createTwoFilesPatch(...names, from ?? "", to ?? "", "", "", { context: CONTEXT_LINES, maxEditLength: MAX_DIFFERING });
  if (patch === undefined) return { said: "The results have little in common: the two transcripts show each." };
  const lines = patch.split("\n").filter((line) => !/^(?:=+|\\ No newline.*)$/.test(line));
  return { patch: lines.join("\n").trim(), isCut };
}

/** Of longer results the beginnings are compared. */
export const CUT_NOTE = `Of longer results the first ${MAX_COMPARED} characters are compared.`;

function resultsText(results: Comparison["results"]): string {
  if ("said" in results) return results.said;
  return `Their results:\n\n${fenced(results.patch)}${results.isCut ? `\n_${CUT_NOTE}_` : ""}`;
}

/** More back-ticks than any run of them inside. */
function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const marks = "`".repeat(longest + 1);
  return `${marks}diff\n${text}\n${marks}`;
}
