// trace.md of a session: who did what when, in time order, each entry once (BP1). New entries are nearly always the
// newest, so they are appended after a look at the file's end; only older ones make it read the whole. A file that
// grew long is put aside under a name with its time, so that a chat of years stays as cheap as a new one.
// One writer at a time: documents.ts does one run after the other.
import { appendFileSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { Trace, type TraceEntry } from "../../brief/trace.ts";
import { fileStamp } from "../../core/clock.ts";
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

const readWhole = (folder: string): string => readTraceEnd(folder, Number.POSITIVE_INFINITY);

/** Every entry. */
export const readTrace = (folder: string): Trace => Trace.parse(readWhole(folder));

/** Puts entries in at their place in time; those that are there already change nothing. */
export async function addToTrace(folder: string, entries: readonly TraceEntry[]): Promise<void> {
  if (entries.length === 0) return;
  const end = readTraceEnd(folder);
  if (end === "") return void (await startTrace(folder, "", entries));
  const { size } = statSync(join(folder, TRACE_FILE));
  const isWhole = Buffer.byteLength(end) === size;
  const known = Trace.parse(end);
  const [oldest] = known.getEntries();
  const isRecent = oldest !== undefined && entries.every((entry) => Date.parse(entry.timestamp) > Date.parse(oldest.timestamp));
  if (!isWhole && !isRecent) return void (await startTrace(folder, readWhole(folder), entries));
  const text = known.merge(toTrace(entries)).toString();
  if (text === end) return;
  if (!text.startsWith(end)) return replaceText(folder, TRACE_FILE, (isWhole ? "" : readWhole(folder).slice(0, -end.length)) + text);
  appendFileSync(join(folder, TRACE_FILE), text.slice(end.length));
  if (size > MAX_BYTES) renameSync(join(folder, TRACE_FILE), join(folder, `trace.${stampOf(known)}.md`));
}

/** A trace that begins with what another told. */
export async function startTrace(folder: string, before: string, entries: readonly TraceEntry[]): Promise<Trace> {
  const trace = Trace.parse(before).merge(toTrace(entries));
  await replaceText(folder, TRACE_FILE, trace.toString());
  return trace;
}

function toTrace(entries: readonly TraceEntry[]): Trace {
  const trace = Trace.create();
  for (const entry of entries) trace.append(entry);
  return trace;
}

const stampOf = (trace: Trace): string => fileStamp(Date.parse(trace.getEntries().at(-1)?.timestamp ?? "1970-01-01"));
