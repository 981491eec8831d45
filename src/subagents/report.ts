// All text people and models read about runs: the announcement, the note to the requester's model, list, info. Pure.
// What a model wrote is only ever quoted; status, stats and headings come from the record (AN2).
import { fence, newFenceToken } from "../core/fence.ts";
import { shortId } from "../core/ids.ts";
import type { OutMessage, Stats } from "../core/message.ts";
import { type EndState, isUnfinished, type Run, type RunSections, SECTION_NAMES, STATUS_WORD, stepOf } from "../core/run.ts";
import { type Spend, totalTokens } from "../core/usage.ts";
import { cutText, visibleText } from "../core/visible-text.ts";
import { closed, codeLines } from "./markdown-blocks.ts";

/** What a run hands back, in the child's words. */
export interface RunResult {
  readonly result: string;
  readonly notes: string;
}

/** The whole answer of an announce step that has nothing to post. */
export const ANNOUNCE_SKIP = "ANNOUNCE_SKIP";
/** The whole answer, or the whole Result, of one whose last message is to be posted as it stands (AN8). */
export const ANNOUNCE_AS_IS = "ANNOUNCE_AS_IS";

/** A result is complete (AN10); what no model writes in one answer is cut here, so that no row can grow without end. */
export const MAX_WORDS = 1_000_000;
/** What a requester's model reads of the notes. */
const MAX_NOTES = 8_000;
const MAX_NOTE_RESULT = 8_000;

/** 5s · 5m12s · 2h03m */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m${String(seconds % 60).padStart(2, "0")}s`;
  return `${Math.floor(minutes / 60)}h${String(minutes % 60).padStart(2, "0")}m`;
}

/** 516 · 11.2k · 1.3M */
export function count(n: number): string {
  if (n < 1_000) return String(n);
  const [value, unit] = n < 999_950 ? [n / 1_000, "k"] : [n / 1_000_000, "M"];
  return `${value.toFixed(1).replace(/\.0$/, "")}${unit}`;
}

/** `est $0.12`; below a cent with the digits that matter. Null: no price is known, so nothing is said. */
export const cost = (usd: number | null): string | null =>
  usd === null ? null : `est $${usd === 0 || usd >= 0.01 ? usd.toFixed(2) : usd.toPrecision(2)}`;

export function tokens({ usage }: Spend): string {
  return usage === null ? "tokens n/a" : `tokens ${count(totalTokens(usage))} (in ${count(usage.input)} / out ${count(usage.output)})`;
}

/** One line: labels come from models and people. */
export const oneLine = (text: string): string =>
  visibleText(text)
    .replace(CONTROL_TOKENS, "")
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();

/** Marks of chat templates: a model may write them, nobody should meet them. */
const CONTROL_TOKENS = /<\|[a-z_]{1,40}\|>/gi;

const runtimeOf = (run: Run, now: number): number => (run.endedAt ?? now) - (run.startedAt ?? run.endedAt ?? now);

function statsOf(run: Run, now: number, transcript: string): Stats {
  const figures = [`runtime ${duration(runtimeOf(run, now))}`, tokens(run.spend), cost(run.spend.costUsd)];
  return {
    figures: figures.filter((figure) => figure !== null),
    names: [`sessionKey ${run.childKey}`, `sessionId ${run.sessionId}`, `transcript ${transcript}`],
  };
}

/** Control tokens and chat-template marks never reach a chat; lines that look like our own headings are quoted. */
export function quotable(text: string): string {
  const clean = text.replaceAll(ANNOUNCE_SKIP, "").replaceAll(ANNOUNCE_AS_IS, "").replace(CONTROL_TOKENS, "").trim();
  const code = codeLines(clean);
  return clean
    .split("\n")
    .map((line, n) => (!code.has(n) && /^[\s*_#]*(status|result|notes|stats)[\s*_]*:/i.test(line) ? `> ${line.trimStart()}` : line))
    .join("\n");
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

/** What became of it, in one plain sentence (NV3). */
export function outcomeSentence(run: Run, as: EndState, reason: string | null, incomplete: boolean): string {
  const name = `The sub-agent "${oneLine(run.label)}" (run ${shortId(run.id)})`;
  switch (as) {
    case "done":
      return incomplete ? `${name} stopped early: ${reason}. Its result may be incomplete.` : `${name} completed its task.`;
    case "error":
      return `${name} failed: ${reason ?? "no reason is known"}. What stands below is what it had until then.`;
    case "timeout":
      return `${name} ran out of time (${reason ?? "its limit"}) and was ended. What stands below is what it had until then.`;
    case "interrupted":
      return `${name} was interrupted by a restart of the gateway and did not finish. What stands below is what it had until then.`;
    case "stopped":
      return `${name} was stopped${reason === null ? "" : ` (${reason})`} before it finished. It announces nothing.`;
  }
}

/** `RISKS, BLOCKERS`: what the child left out of the output contract; empty when it kept it. */
const missingSections = (sections: RunSections): string =>
  SECTION_NAMES.filter((name) => sections[name] === null)
    .map((name) => name.toUpperCase())
    .join(", ");

/** The sections as the child was asked for them, and which it left out (RO3). */
export function sectionsText(sections: RunSections): string {
  const missing = missingSections(sections);
  const found = SECTION_NAMES.flatMap((name) => (sections[name] === null ? [] : [`${name.toUpperCase()}:\n${sections[name]}`]));
  return [...found, ...(missing === "" ? [] : [`(left out: ${missing})`])].join("\n\n");
}

export interface NoteOptions {
  readonly run: Run;
  readonly as: EndState;
  readonly answer: RunResult;
  readonly sentence: string;
  readonly sections?: RunSections | null;
}

/** For the requester's model: quoted data behind a fence no text can forge, never instructions (AN5). notes.ts adds what the person has seen. */
export function noteText(options: NoteOptions): string {
  const result = cutForNote(options.answer.result, MAX_NOTE_RESULT) || "(not available)";
  const notes = cutForNote(options.answer.notes, MAX_NOTES);
  const words = [result, ...(notes === "" ? [] : ["", "Notes:", notes]), ...noteSections(options)];
  return [
    `[Sub-agent ${options.run.childKey} — runtime status: ${STATUS_WORD[options.as]}]`,
    options.sentence,
    fence({ source: "the sub-agent", text: words.join("\n") }, newFenceToken()),
  ].join("\n");
}

function cutForNote(text: string, max: number): string {
  const whole = text.trim();
  if (whole.length <= max) return whole;
  return `${whole.slice(0, max)}\n… [${whole.length - max} more characters: call subagents with action "result"]`;
}

/** Not when the result is the child's own last text: then they stand in it. */
function noteSections({ sections, answer }: NoteOptions): string[] {
  if (sections == null) return [];
  const isRepeated = SECTION_NAMES.every((name) => sections[name] === null || answer.result.includes(sections[name]));
  const missing = missingSections(sections);
  if (isRepeated) return missing === "" ? [] : ["", `(sections left out: ${missing})`];
  return ["", "Sections of its last message:", sectionsText(sections)];
}

const ICON: Record<Run["state"], string> = {
  queued: "⏳",
  running: "▶️",
  done: "✅",
  error: "❌",
  timeout: "⏱️",
  stopped: "⏹️",
  interrupted: "⚡",
};

export interface ListOptions {
  readonly runs: readonly Run[];
  readonly now: number;
  readonly bootId: string;
  readonly title: string;
  /** How many of earlier starts are left out. */
  readonly leftOut: number;
  position(run: Run): number | null;
}

const NONE_YET = "No sub-agents yet. Ask the agent for something to be done in the background, or use `/subagents spawn <task>`.";

/** CM2: numbered, newest first; the caller remembers what each number meant. */
export function listText({ runs, now, bootId, title, leftOut, position }: ListOptions): string {
  const active = runs.filter((run) => isUnfinished(run.state)).length;
  const head = [`🧭 ${title}`, `Active: ${active} · Done: ${runs.length - active}`];
  const rest = leftOut === 0 ? [] : ["", `${leftOut} from before the gateway's last start: \`/subagents all\``];
  if (runs.length === 0) return [...head, ...(leftOut === 0 ? ["", NONE_YET] : rest)].join("\n");
  const lines = runs.map((run, i) => {
    const place = run.state === "queued" ? position(run) : null;
    const state = place === null ? run.state : `queued (place ${place})`;
    const when = run.startedAt === null ? `age ${duration(now - run.createdAt)}` : duration(runtimeOf(run, now));
    const ago = run.endedAt === null ? "" : `, ${duration(now - run.endedAt)} ago`;
    const doing = run.state === "running" && run.doing !== null ? ` · ${oneLine(run.doing)}` : "";
    const step = run.state === "running" && stepOf(run.plan) !== null ? ` · step ${stepOf(run.plan)}` : "";
    const earlier = run.bootId !== bootId && !isUnfinished(run.state) ? " · (earlier start)" : "";
    return `${i + 1}) ${ICON[run.state]} ${state} · ${oneLine(run.label)} · ${when}${ago} · ${shortId(run.id)} · \`${run.childKey}\`${step}${doing}${earlier}`;
  });
  return [...head, "", ...lines, ...rest].join("\n");
}

export interface InfoOptions {
  readonly run: Run;
  readonly now: number;
  readonly transcript: string;
  readonly archiveDue: number | null;
  readonly position: number | null;
  /** The models that really answered. */
  readonly answeredBy: readonly string[];
}

/** CM6. */
export function infoText({ run, now, transcript, archiveDue, position, answeredBy }: InfoOptions): string {
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
    ["Cleanup", run.cleanup],
    ["Archive", archive],
    ["Delivery", run.deliveryReason === null ? run.delivery : `${run.delivery} – ${run.deliveryReason}`],
  ];
  if (run.doing !== null) fields.splice(1, 0, ["Doing", oneLine(run.doing)]);
  const step = stepOf(run.plan);
  if (step !== null) fields.splice(1, 0, ["Step", step]);
  if (run.generation > 1) fields.push(["Generation", String(run.generation)]);
  if (run.resumes > 0) fields.push(["Resumed", `${run.resumes}×`]);
  const report = run.sections === null ? [] : ["", quotable(sectionsText(run.sections))];
  return ["🧭 Sub-agent", ...fields.map(([name, value]) => `- **${name}:** ${value}`), ...report].join("\n");
}
