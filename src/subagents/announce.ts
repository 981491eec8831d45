// The announce step: one more turn inside the child's session asks for what people should read, and what it answered
// is read back. Its question and reply stand in the transcript under ids of their own, so a crash in between repeats nothing.
import { lastAssistantText, toMessages } from "../agents/context.ts";
import { abortAfter } from "../core/clock.ts";
import type { Run } from "../core/run.ts";
import { visibleText } from "../core/visible-text.ts";
import type { Entry } from "../stores/transcript-entry.ts";
import type { Transcripts } from "../stores/transcripts.ts";
import { childFallbacks } from "./child.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import { ANNOUNCE_SKIP, type RunResult } from "./report.ts";

const ASK = `Your work is over. Write what the person who asked should read, in exactly this form and nothing else:

Result:
<the result itself, complete, in Markdown>

Notes:
<what they should know about it: assumptions, doubts, what is missing; or "- (none)">

Status and figures are added for you. If there is truly nothing worth posting, answer with exactly ${ANNOUNCE_SKIP} instead.`;

/** The last words may stand before many tool calls. */
const LOOK_BACK = 200;

export type AnnounceDeps = Pick<SubagentDeps, "db" | "runs" | "sessions" | "transcripts" | "agents" | "models" | "clock" | "log">;

/** One more model turn without tools. Null when it failed or timed out: the last words of the work are used then. */
export async function announceStep(deps: AnnounceDeps, run: Run, entries: readonly Entry[], signal: AbortSignal): Promise<string | null> {
  const ref = transcriptOfRun(run);
  const ids = announceIds(entries, run.generation);
  const known = entries.find((entry) => entry.id === ids.reply);
  if (known?.type === "message") return known.text;
  if (!entries.some((entry) => entry.id === ids.ask)) {
    deps.transcripts.append(ref, [{ type: "message", role: "user", text: ASK, from: "runtime", id: ids.ask, phase: "announce" }]);
  }
  const agent = deps.agents.find(run.agentId);
  const limit = new AbortController();
  const clear = abortAfter(deps.clock, agent?.subagents.announceTimeoutMs ?? 60_000, limit);
  const call = deps.models.call(
    {
      model: run.model,
      fallbacks: agent === null ? [] : childFallbacks(agent, run.model),
      thinking: run.thinking,
      system: "You have finished a task as a sub-agent. Now you report it.",
      messages: [...toMessages(entries), { role: "user", text: ASK }],
      tools: [],
      agentId: run.agentId,
      signal: AbortSignal.any([signal, limit.signal]),
    },
    () => {},
  );
  const reply = await call.finally(clear);
  deps.db.relaxed(() => {
    const spend = { usage: reply.usage, costUsd: reply.costUsd };
    deps.runs.addSpend(run.id, spend);
    deps.sessions.addSpend(run.sessionId, reply.model, spend);
  });
  if (reply.outcome !== "ok" || reply.text.trim() === "") {
    deps.log.warn({ runId: run.id, outcome: reply.outcome, reason: reply.error?.message }, "the announce step failed; using the last text");
    return null;
  }
  const text = visibleText(reply.text);
  deps.transcripts.append(ref, [
    { type: "message", role: "assistant", text, model: reply.model, usage: reply.usage, calls: 0, id: ids.reply, phase: "announce" },
  ]);
  return text;
}

/** A step that was begun is taken up under its own ids; what the child said after it makes it stale, and the next one has new ids. */
function announceIds(entries: readonly Entry[], generation: number): { ask: string; reply: string } {
  const prefix = `announce:${generation}:ask`;
  const asked = entries.filter((entry) => entry.id === prefix || entry.id.startsWith(`${prefix}:`));
  const isOpen =
    entries.findLastIndex((entry) => entry.phase === "announce") > entries.findLastIndex((entry) => entry.phase !== "announce");
  const round = asked.length + (isOpen && asked.length > 0 ? 0 : 1);
  const suffix = round === 1 ? "" : `:${round}`;
  return { ask: `${prefix}${suffix}`, reply: `announce:${generation}:reply${suffix}` };
}

const isAnnounceReply = ({ id }: Entry, generation: number): boolean =>
  id === `announce:${generation}:reply` || id.startsWith(`announce:${generation}:reply:`);

/** "Result: … Notes: …" → parts; without those headings the whole text is the result. A Status line is ours to write. */
export function parseAnnounceReply(text: string): RunResult {
  const body = text.replace(/^\s*(\*\*)?status(\*\*)?\s*:.*\n+/i, "");
  const result = /^[ \t]*(?:#{1,6}[ \t]*)?(?:\*\*)?result(?:\*\*)?[ \t]*:(?:\*\*)?[ \t]*/im.exec(body);
  const rest = result === null ? body : body.slice(result.index + result[0].length);
  const headings = [...rest.matchAll(/^[ \t]*(?:#{1,6}[ \t]*)?(?:\*\*)?notes(?:\*\*)?[ \t]*:(?:\*\*)?[ \t]*/gim)];
  const notes = headings.at(-1);
  if (notes === undefined) return { result: rest.trim(), notes: "" };
  return { result: rest.slice(0, notes.index).trim(), notes: rest.slice(notes.index + notes[0].length).trim() };
}

/** What an ended run handed back: its announce reply, else its last words. */
export function resultOf(transcripts: Transcripts, run: Run): RunResult {
  const entries = transcripts.tail(transcriptOfRun(run), LOOK_BACK);
  const reply = entries.findLast((entry) => isAnnounceReply(entry, run.generation));
  if (reply?.type === "message" && reply.text.trim() !== ANNOUNCE_SKIP) return parseAnnounceReply(reply.text);
  return { result: lastWords(entries, run), notes: "" };
}

/** What it said before this generation was announced then. */
export const lastWords = (entries: readonly Entry[], { generation, queuedAt }: Run): string =>
  lastAssistantText(generation === 1 ? entries : entries.filter((entry) => Date.parse(entry.timestamp) >= queuedAt));
