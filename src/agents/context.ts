// What the model sees of a conversation: transcript entries → chat messages. Pure functions; model-step.ts calls them
// before every model step. Whatever the transcript lost in a crash is mended here, so a provider never meets a tool
// call without its result.
import type { ChatMessage, ToolCall } from "../models/model.ts";
import { type CutShort, type Entry, isHeldNote, picturesOf, STOP_NOTE } from "../stores/transcript-entry.ts";
import { shownText, type Topic } from "./topics.ts";

const NO_RESULT = "No result: the turn ended before this call was finished. Its outcome is unknown.";
const STOPPED_RESULT = "No result: stopped by the person before this call was finished. Its outcome is unknown.";

/** `about` of the note that says a request was stopped by the person; `entryId` is the request's. */
export const stopMark = (entryId: string): string => `${STOP_NOTE}${entryId}`;
/** Id of the request that this note says was stopped; null: it says something else. */
export const stoppedBy = (entry: Entry): string | null =>
  entry.type === "note" && typeof entry.about === "string" && entry.about.startsWith(STOP_NOTE)
    ? entry.about.slice(STOP_NOTE.length)
    : null;

/** Entries, oldest first → messages. Entries of the announce step are not part of the conversation. `held`: what may be shown of the topics that can be taken back. */
export function toMessages(entries: readonly Entry[], held: readonly Topic[] = []): ChatMessage[] {
  const results = new Map<string, Extract<Entry, { type: "tool_result" }>>();
  for (const entry of entries) if (entry.type === "tool_result") results.set(entry.callId, entry);
  const stopped = new Set(entries.flatMap((entry) => (entry.type === "note" && entry.about !== undefined ? [entry.about] : [])));

  // A summary stands behind what it kept, because the file only grows; the model reads it first.
  const summary = summaryOf(entries);
  const messages: ChatMessage[] = summary === "" ? [] : [{ role: "user", text: `[Summary of the earlier conversation]\n${summary}` }];
  // Its line is no part of the conversation: behind the question, it would keep the notes after it from their place before that.
  const conversation = inReadingOrder(entries.filter((entry) => entry.phase !== "announce" && entry.type !== "compaction"));
  let request = "";
  for (let i = 0; i < conversation.length; i++) {
    const entry = conversation[i] as Entry;
    if (entry.type === "note") {
      const text = shownText(entry, held);
      if (text !== null) messages.push({ role: "user", text });
    } else if (entry.type === "message" && entry.role === "user") {
      request = entry.id;
      const pictures = picturesOf(entry).map(({ id, name, type, size }) => ({ id, name, type, size }));
      messages.push({ role: "user", text: entry.text, ...(pictures.length === 0 ? {} : { pictures }) });
    } else if (entry.type === "message") {
      const calls = callsAfter(conversation, i).map(({ entryId: _, calledAt: __, ...call }) => call);
      if (entry.text === "" && calls.length === 0) continue;
      const extras = entry.extras === undefined ? {} : { extras: entry.extras };
      const counted = entry.counted === undefined ? {} : { counted: entry.counted };
      messages.push({ role: "assistant", text: entry.text, toolCalls: calls, ...extras, ...counted });
      const missing = stopped.has(stopMark(request)) ? STOPPED_RESULT : NO_RESULT;
      for (const call of calls) {
        const { text = missing, isError = true } = results.get(call.id) ?? {};
        messages.push({ role: "tool", callId: call.id, name: call.name, text, isError });
      }
    }
  }
  return messages;
}

/**
 * The person's own words are the last thing the model reads (SE8): notes that were taken in with a message stand before it,
 * though the transcript has them behind it. By place alone, so that an entry never moves once an answer stands behind it. Of
 * a child the task is the first message, and its brief stands behind that.
 */
function inReadingOrder(entries: readonly Entry[]): Entry[] {
  const read: Entry[] = [];
  for (const entry of entries) {
    const last = read.at(-1);
    const isBehind = entry.type === "note" && !isHeldNote(entry) && last?.type === "message" && last.role === "user";
    read.splice(isBehind ? read.length - 1 : read.length, 0, entry);
  }
  return read;
}

/** All that was summed up so far; empty when nothing was. */
export function summaryOf(entries: readonly Entry[]): string {
  const summaries = entries.filter((entry) => entry.type === "compaction");
  const newest = summaries.findLastIndex((entry) => entry.carries === true);
  return summaries
    .slice(Math.max(0, newest))
    .map((entry) => entry.summary)
    .join("\n\n");
}

/** A call that stands in the transcript. Providers use ids again; that of its entry names one call for good, also after a restart. */
export interface RecordedCall extends ToolCall {
  readonly entryId: string;
  readonly calledAt: number;
}

/** The calls an assistant entry made: the tool_call entries that follow it, up to the next message. */
function callsAfter(entries: readonly Entry[], index: number): RecordedCall[] {
  const calls: RecordedCall[] = [];
  for (let i = index + 1; i < entries.length; i++) {
    const entry = entries[i] as Entry;
    if (entry.type === "message") break;
    if (entry.type !== "tool_call") continue;
    calls.push({
      entryId: entry.id,
      calledAt: Date.parse(entry.timestamp) || 0,
      id: entry.callId,
      name: entry.name,
      args: entry.args,
      ...(entry.invalid === undefined ? {} : { invalid: entry.invalid }),
    });
  }
  return calls;
}

/** How a transcript stands at its end: what a turn that takes it up has to do first. */
export type Standing =
  | { readonly kind: "answered"; readonly text: string; readonly cut?: CutShort }
  /** Of the calls a step `made`, those without a result: they wait, or the process ended while they ran. */
  | { readonly kind: "calls"; readonly calls: readonly RecordedCall[]; readonly made: readonly RecordedCall[] }
  /** Ended in the middle of the model's own words. */
  | { readonly kind: "cut" }
  | { readonly kind: "open" };

export function standingOf(entries: readonly Entry[]): Standing {
  const conversation = entries.filter((entry) => entry.phase !== "announce");
  const index = conversation.findLastIndex((entry) => entry.type === "message");
  const last = conversation[index];
  if (last?.type !== "message" || last.role === "user") return { kind: "open" };
  const after = conversation.slice(index + 1);
  if (after.some((entry) => entry.type === "note")) return { kind: "open" };
  if (last.calls === 0 && last.partial === true) return { kind: "cut" };
  if (last.calls === 0) return { kind: "answered", text: last.text, ...(last.cut === undefined ? {} : { cut: last.cut }) };
  const done = new Set(after.flatMap((entry) => (entry.type === "tool_result" ? [entry.callId] : [])));
  const calls = callsAfter(conversation, index);
  if (calls.length === 0) return { kind: "cut" };
  const open = calls.filter((call) => !done.has(call.id));
  return open.length > 0 ? { kind: "calls", calls: open, made: calls } : { kind: "open" };
}

/** What came after the last message to the agent; all of it when that message was summed up. Earlier answers answered something else. */
export const sinceLastMessage = (entries: readonly Entry[]): readonly Entry[] =>
  entries.slice(entries.findLastIndex((entry) => entry.type === "message" && entry.role === "user" && entry.phase !== "announce") + 1);

/** The last words of the agent itself, however the turn ended. */
export function lastAssistantText(entries: readonly Entry[]): string {
  const last = entries.findLast(
    (entry) => entry.type === "message" && entry.role === "assistant" && entry.phase !== "announce" && entry.text.trim() !== "",
  );
  return last?.type === "message" ? last.text : "";
}
