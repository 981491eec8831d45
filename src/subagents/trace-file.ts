// trace.md of a session: who did what when, in time order, each entry once (BP1). New entries are nearly always the
// newest, so they are appended after a look at the file's end; only older ones make it read the whole. A file that
// grew long is put aside under a name with its time, so that a chat of years stays as cheap as a new one.
import { appendFileSync, readFileSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { Trace, type TraceEntry } from "../brief/trace.ts";
import { fileStamp } from "../core/clock.ts";
import { readEnd, replaceText } from "./session-folder.ts";

export const TRACE_FILE = "trace.md";
const END_BYTES = 8 * 1024;
const MAX_BYTES = 256 * 1024;
const ENTRY_HEAD = "- **Agent**: `";

/** The newest entries as text, whole entries only; empty without a trace. */
export function readTraceEnd(folder: string, maxBytes = END_BYTES): string {
  const text = readEnd(folder, TRACE_FILE, maxBytes) ?? "";
  // Cut somewhere in the middle of an entry, unless this is the whole file.
  if (text.startsWith(ENTRY_HEAD)) return text;
  const head = text.indexOf(`\n${ENTRY_HEAD}`);
  return head < 0 ? "" : text.slice(head + 1);
}

/** Puts entries in at their place in time; those that are there already change nothing. */
export function addToTrace(folder: string, entries: readonly TraceEntry[]): void {
  const end = readTraceEnd(folder);
  if (end === "") return entries.length === 0 ? undefined : startTrace(folder, "", entries);
  const known = Trace.parse(end);
  const [oldest] = known.getEntries();
  const isWhole = Buffer.byteLength(end) === statSync(join(folder, TRACE_FILE)).size;
  const isRecent = oldest !== undefined && entries.every((entry) => Date.parse(entry.timestamp) > Date.parse(oldest.timestamp));
  if (!isWhole && !isRecent) return rewrite(folder, "", readTraceEnd(folder, Number.POSITIVE_INFINITY), entries);
  const text = known.merge(toTrace(entries)).toString();
  if (text === end) return;
  if (!text.startsWith(end)) {
    const all = isWhole ? end : readFileSync(join(folder, TRACE_FILE), "utf8");
    return rewrite(folder, all.slice(0, all.length - end.length), end, entries);
  }
  appendFileSync(join(folder, TRACE_FILE), text.slice(end.length));
  putAside(folder);
}

/** A trace that begins with what another told. */
export function startTrace(folder: string, before: string, entries: readonly TraceEntry[]): void {
  rewrite(folder, "", before, entries);
}

const toTrace = (entries: readonly TraceEntry[]): Trace => {
  const trace = Trace.create();
  for (const entry of entries) trace.append(entry);
  return trace;
};

/** `end` is merged with the entries; `start` stays as it is. */
function rewrite(folder: string, start: string, end: string, entries: readonly TraceEntry[]): void {
  replaceText(folder, TRACE_FILE, start + Trace.parse(end).merge(toTrace(entries)).toString());
}

function putAside(folder: string): void {
  const path = join(folder, TRACE_FILE);
  if (statSync(path).size <= MAX_BYTES) return;
  const last = Trace.parse(readTraceEnd(folder)).getEntries().at(-1);
  renameSync(path, join(folder, `trace.${fileStamp(Date.parse(last?.timestamp ?? "1970-01-01"))}.md`));
}
