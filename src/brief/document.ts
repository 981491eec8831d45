// The file format below briefs and responses: Markdown with YAML front matter (Brief protocol 1.2.0).
// bytes or text → parseDocument → { meta, body } → serializeDocument → text that any YAML 1.1 or 1.2 reader understands.
// Documents come from strangers, so the header is bounded before YAML sees it and only plain data is let through.
import { createRequire } from "node:module";
import { isDeepStrictEqual } from "node:util";
import type { MappingNode, visit as visitNodes } from "js-yaml";

export const MAX_HEADER_BYTES = 64 * 1024;
const MAX_HEADER_KEYS = 100;
const MAX_HEADER_DEPTH = 5;
export const MAX_DOCUMENT_BYTES = 16 * 1024 * 1024;

export interface ParsedDocument<M extends object = Record<string, unknown>> {
  readonly meta: M;
  readonly body: string;
}

// With the first document: whoever only holds the library ready doesn't have to keep it in memory.
const require = createRequire(import.meta.url);
const yaml = (): typeof import("js-yaml") => require("js-yaml");

/** The document is refused; the message says why in one sentence. */
export class DocumentError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "DocumentError";
  }
}

/** Strict UTF-8, a byte order mark removed. Throws a DocumentError that names the first bad byte. */
export function decodeDocument(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new DocumentError(`not UTF-8: invalid byte at offset ${firstInvalidByte(bytes)}`, { cause });
  }
}

/**
 * Front matter and body. The body begins after the closing `---` and at most one empty line.
 * Throws a DocumentError; a missing or endless header is refused after the first 64 KB, however long the rest.
 */
export function parseDocument<M extends object = Record<string, unknown>>(content: string | Uint8Array): ParsedDocument<M> {
  if (content.length > MAX_DOCUMENT_BYTES) {
    locateHeader(typeof content === "string" ? content : Buffer.from(content.subarray(0, HEAD_LENGTH)).toString("latin1"));
    throw new DocumentError(`document larger than ${MAX_DOCUMENT_BYTES / 1024 / 1024} MB`);
  }
  const text = typeof content === "string" ? content : decodeDocument(content);
  const { start, end, bodyStart } = locateHeader(text);
  return { meta: readHeader(text.slice(start, end)) as M, body: text.slice(bodyStart) };
}

/**
 * The text of a document; top-level keys that are undefined are left out.
 * Reads back what it wrote: either parseDocument returns exactly this meta and body, or a DocumentError is thrown here.
 */
export function serializeDocument(meta: object, body: string): string {
  const kept = withoutUndefined(meta);
  if (!body.isWellFormed()) throw new DocumentError("body is not well-formed Unicode");
  let text: string;
  try {
    text = `---\n${yaml().dump(kept, { lineWidth: -1, noRefs: true })}---\n\n${body}`;
  } catch (cause) {
    throw new DocumentError(`Invalid YAML frontmatter: ${reasonOf(cause)}`, { cause });
  }
  if (isPlain(kept) && text.length <= MAX_DOCUMENT_BYTES) return text;
  const back = parseDocument(text);
  if (!text.isWellFormed() || !isDeepStrictEqual(back, { meta: kept, body })) {
    throw new DocumentError("Invalid YAML frontmatter: only strings, numbers, booleans, null, lists and plain mappings can be written");
  }
  return text;
}

const PLAIN_KEY = /^[A-Za-z]\w{0,63}$/;
const PLAIN_TEXT = /^[\x20-\x7e]{0,1000}$/;
const MAX_PLAIN_KEYS = 20;

/**
 * Short lines of plain signs under plain names, as nearly every header is: nothing in it could read back as something else, and reading it
 * costs twice what writing it does.
 */
function isPlain(meta: Record<string, unknown>): boolean {
  const fields = Object.entries(meta);
  const isPlainValue = (value: unknown): boolean =>
    typeof value === "string" ? PLAIN_TEXT.test(value) : Number.isSafeInteger(value) && !Object.is(value, -0);
  return fields.length > 0 && fields.length <= MAX_PLAIN_KEYS && fields.every(([key, value]) => PLAIN_KEY.test(key) && isPlainValue(value));
}

export interface ValidationResult {
  readonly valid: boolean;
  /** One sentence for each fault. */
  readonly errors: readonly string[];
}

export const withoutUndefined = (meta: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(meta).filter(([, value]) => value !== undefined));

// Room behind the largest header for its closing line.
const HEAD_LENGTH = MAX_HEADER_BYTES + 64;
// Blank lines before it, as editors and pasting leave them.
const OPENING = /^\uFEFF?(?:[ \t]*\r?\n)*---[ \t]*\r?\n/;
const CLOSING = /\n---[ \t]*(?:\r?\n|$)/;

/** Where header and body stand. Looks at the first 64 KB only. */
function locateHeader(text: string): { start: number; end: number; bodyStart: number } {
  const head = text.slice(0, HEAD_LENGTH);
  const start = OPENING.exec(head)?.[0].length;
  if (start === undefined) throw new DocumentError("missing YAML frontmatter delimiters: no line --- at the start");
  // From the line break before, so that an empty header is found closed.
  const closing = CLOSING.exec(head.slice(start - 1));
  const end = start + (closing?.index ?? head.length);
  const lineEnd = end - 1 + (closing?.[0].length ?? 0);
  const isCut = lineEnd === head.length && text.length > head.length && !head.endsWith("\n");
  if (!closing || isCut) throw new DocumentError("missing YAML frontmatter delimiters: front matter not closed within 64 KB");
  const emptyLine = /^\r?\n/.exec(text.slice(lineEnd, lineEnd + 2));
  return { start, end, bodyStart: lineEnd + (emptyLine?.[0].length ?? 0) };
}

function readHeader(source: string): Record<string, unknown> {
  if (Buffer.byteLength(source) > MAX_HEADER_BYTES) throw new DocumentError("Invalid YAML frontmatter: larger than 64 KB");
  const { CORE_SCHEMA, constructFromEvents, eventsToAst, parseEvents } = yaml();
  try {
    // js-yaml counts the scalars inside the innermost collection as one level more.
    const events = parseEvents(source, { maxDepth: MAX_HEADER_DEPTH + 1 });
    const documents = eventsToAst(events, { source, schema: CORE_SCHEMA });
    if (documents.length !== 1 || documents[0]?.contents?.kind !== "mapping") throw new DocumentError("must be a mapping");
    if (documents[0].directives.length > 0) throw new DocumentError("directives are not allowed");
    refuseUnsafe(documents);
    return constructFromEvents(events, { source, schema: CORE_SCHEMA, maxAliases: 0 })[0] as Record<string, unknown>;
  } catch (cause) {
    throw new DocumentError(`Invalid YAML frontmatter: ${reasonOf(cause)}`, { cause });
  }
}

/** Plain trees only: what could expand, pick a type, or shadow another value is refused before any value is made. */
function refuseUnsafe(documents: Parameters<typeof visitNodes>[0]): void {
  let keys = 0;
  yaml().visit(documents, (node) => {
    if (node.kind === "alias" || node.anchor !== undefined) throw new DocumentError("anchors and aliases are not allowed");
    if (node.tagged) throw new DocumentError("tags are not allowed");
    if (node.kind !== "mapping") return;
    keys += node.items.length;
    if (keys > MAX_HEADER_KEYS) throw new DocumentError(`more than ${MAX_HEADER_KEYS} keys`);
    refuseUnsafeKeys(node);
  });
}

function refuseUnsafeKeys(mapping: MappingNode): void {
  const seen = new Set<string>();
  for (const { key } of mapping.items) {
    if (key.kind !== "scalar") throw new DocumentError("keys must be text");
    if (key.value === "<<") throw new DocumentError("merge keys are not allowed");
    if (key.value === "__proto__") throw new DocumentError("key __proto__ is not allowed");
    if (seen.has(key.value)) throw new DocumentError(`duplicate key ${JSON.stringify(key.value.slice(0, 80))}`);
    seen.add(key.value);
  }
}

export function reasonOf(error: unknown): string {
  if (error instanceof yaml().YAMLException) return error.mark ? `${error.reason} (line ${error.mark.line + 1})` : error.reason;
  return error instanceof Error ? error.message : String(error);
}

/** TextDecoder doesn't tell where it failed: find the first replacement character that isn't in the bytes themselves. */
function firstInvalidByte(bytes: Uint8Array): number {
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  let offset = 0;
  let from = 0;
  for (let at = text.indexOf("\uFFFD"); at >= 0; at = text.indexOf("\uFFFD", from)) {
    offset += Buffer.byteLength(text.slice(from, at));
    const isGenuine = bytes[offset] === 0xef && bytes[offset + 1] === 0xbf && bytes[offset + 2] === 0xbd;
    if (!isGenuine) return offset;
    offset += 3;
    from = at + 1;
  }
  return bytes.length;
}
