// trace.md of a session: who did what when, in time order, each entry once (BP1). New entries are nearly always the
// newest, so they are appended after a look at the document's end; only older ones make it read the whole. One that
// grew long is put aside under a name with its time, so that a chat of years stays as cheap as a new one.
// A requester's trace gains entries from all its children, on several machines at once: all of it happens in one `change`.
import { Trace, type TraceEntry } from "../../brief/trace.ts";
import { fileStamp } from "../../core/clock.ts";
import type { DocumentEnd, OpenDocument, SessionDocuments, SessionRef } from "../../stores/session-documents.ts";

export const TRACE_FILE = "trace.md";
const END_BYTES = 8 * 1024;
const MAX_BYTES = 256 * 1024;
const ENTRY_HEAD = "- **Agent**: `";

type Readable = Pick<SessionDocuments, "read">;

/** The newest entries as text, whole entries only; empty without a trace. */
export const readTraceEnd = async (documents: Readable, ref: SessionRef, maxBytes = END_BYTES): Promise<string> =>
  wholeEntries((await documents.read(ref, TRACE_FILE, maxBytes)) ?? "");

/** Every entry. */
export const readTrace = async (documents: Readable, ref: SessionRef): Promise<Trace> =>
  Trace.parse(await readTraceEnd(documents, ref, Number.POSITIVE_INFINITY));

/** A text may be cut somewhere in the middle of an entry, unless it is the whole document. */
function wholeEntries(text: string): string {
  if (text.startsWith(ENTRY_HEAD)) return text;
  const head = text.indexOf(`\n${ENTRY_HEAD}`);
  return head < 0 ? "" : text.slice(head + 1);
}

/**
 * Puts entries in at their place in time; those that are there already change nothing. Where there is no trace yet it begins with
 * what `before` tells, and at least what it tells since then is returned.
 */
export async function addToTrace(
  documents: Pick<SessionDocuments, "change">,
  ref: SessionRef,
  entries: readonly TraceEntry[],
  before: () => Promise<string> = async () => "",
): Promise<Trace | null> {
  if (entries.length === 0) return null;
  return documents.change(ref, TRACE_FILE, async (document) => {
    const found = await document.end(END_BYTES);
    if (found === null) return writeWhole(document, await before(), entries);
    await addBehind(document, found, entries);
    return null;
  });
}

async function addBehind(document: OpenDocument, found: DocumentEnd, entries: readonly TraceEntry[]): Promise<void> {
  const end = wholeEntries(found.text);
  const fresh = toTrace(entries);
  const behind = end === "" ? null : textBehind(end, fresh);
  if (behind !== null) return appendEntries(document, found, behind, fresh);
  const isWhole = Buffer.byteLength(end) === found.size;
  const known = Trace.parse(end);
  const [oldest] = known.getEntries();
  const isRecent = oldest !== undefined && entries.every((entry) => Date.parse(entry.timestamp) > Date.parse(oldest.timestamp));
  if (!isWhole && !isRecent) return void (await writeWhole(document, await readWhole(document), entries));
  const text = known.merge(fresh).toString();
  if (text === end) return;
  if (!text.startsWith(end)) return document.replace((isWhole ? "" : (await readWhole(document)).slice(0, -end.length)) + text);
  await appendEntries(document, found, text.slice(end.length), known);
}

/**
 * What is added, when all of it comes after what stands there, as nearly always: then none of it is there yet, and of thousands of signs
 * only the newest entry has to be understood. Of the same millisecond it may be the same entry, and behind half an entry (a full disk, an
 * editor) the first new one would be read as the rest of that: both have to be looked at.
 */
function textBehind(end: string, fresh: Trace): string | null {
  const tail = end.slice(end.lastIndexOf(`\n${ENTRY_HEAD}`) + 1);
  const last = Trace.parse(tail);
  const [newest] = last.getEntries();
  const [oldest] = fresh.getEntries();
  if (newest === undefined || oldest === undefined || last.toString() !== tail) return null;
  return Date.parse(oldest.timestamp) > Date.parse(newest.timestamp) ? fresh.toString() : null;
}

async function appendEntries(document: OpenDocument, { size }: DocumentEnd, text: string, upTo: Trace): Promise<void> {
  await document.append(text);
  if (size > MAX_BYTES) await document.rename(`trace.${stampOf(upTo)}.md`);
}

const readWhole = async (document: OpenDocument): Promise<string> =>
  wholeEntries((await document.end(Number.POSITIVE_INFINITY))?.text ?? "");

async function writeWhole(document: OpenDocument, before: string, entries: readonly TraceEntry[]): Promise<Trace> {
  const fresh = toTrace(entries);
  const behind = before === "" ? fresh.toString() : textBehind(before, fresh);
  const trace = behind === null ? Trace.parse(before).merge(fresh) : fresh;
  await document.replace(behind === null ? trace.toString() : before + behind);
  return trace;
}

/** In time order, each once. */
function toTrace(entries: readonly TraceEntry[]): Trace {
  const trace = Trace.create();
  for (const entry of entries) trace.append(entry);
  return entries.length > 1 ? trace.merge(Trace.create()) : trace;
}

const stampOf = (trace: Trace): string => fileStamp(Date.parse(trace.getEntries().at(-1)?.timestamp ?? "1970-01-01"));
