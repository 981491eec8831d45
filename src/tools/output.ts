// What a tool's answer may carry: bounded text, and names no file can use to forge lines or hide itself.
// file bytes, process output → window / cap / escape → ToolResult.text
import { StringDecoder } from "node:string_decoder";
import type { CutSecrets } from "../core/secrets.ts";
import { replaceUnseen } from "../core/visible-text.ts";

/** Longest text of one tool result; what lies beyond is named in a note, so that the model can ask for it. */
export const MAX_TEXT_BYTES = 48 * 1024;

/** Would break the line; the backslash too, or escapes could be forged. */
const BREAKING = /[\n\t\\]/g;

const SHORT_ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };

/** A file name as one visible line; bytes that are no UTF-8 appear as `\xNN`. */
export function escapeName(name: Buffer | string): string {
  if (typeof name !== "string") {
    const text = name.toString("utf8");
    if (!Buffer.from(text, "utf8").equals(name)) return escapeBytes(name);
    return escapeName(text);
  }
  return replaceUnseen(name.replace(BREAKING, escapeChar), escapeChar);
}

const escapeChar = (char: string): string => SHORT_ESCAPES[char] ?? `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`;

const escapeBytes = (name: Buffer): string =>
  [...name]
    .map((byte) => (byte < 0x20 || byte > 0x7e || byte === 0x5c ? `\\x${byte.toString(16).padStart(2, "0")}` : String.fromCharCode(byte)))
    .join("");

/** Keeps whole lines up to the cap; the note says that there is more, and by `rest` how to get it. */
export function capLines(lines: readonly string[], rest: string): { readonly text: string; readonly note: string } {
  let bytes = 0;
  const kept: string[] = [];
  for (const line of lines) {
    bytes += Buffer.byteLength(line) + 1;
    if (bytes > MAX_TEXT_BYTES) return { text: kept.join("\n"), note: `[${lines.length - kept.length} more lines left out: ${rest}]` };
    kept.push(line);
  }
  return { text: kept.join("\n"), note: "" };
}

export const formatBytes = (bytes: number): string => {
  if (bytes < 1024) return `${bytes} bytes`;
  if (bytes < 1024 ** 2) return `${(bytes / 1024).toFixed(1)} KB`;
  return bytes < 1024 ** 3 ? `${(bytes / 1024 ** 2).toFixed(1)} MB` : `${(bytes / 1024 ** 3).toFixed(1)} GB`;
};

/** The beginning and the end of what a command prints, of any length, in constant memory. Secrets are names in it. */
export interface OutputWindow {
  push(chunk: Buffer, from: Stream): void;
  /** When no more comes. `isCut`: the command would have gone on, so what may be the beginning of a secret is left away. */
  text(isCut: boolean): string;
  lastLine(): string;
}

type Stream = "stdout" | "stderr";

export function createOutputWindow(maxBytes: number, secrets: CutSecrets): OutputWindow {
  const window = createWindow(maxBytes);
  // Redacted before anything is cut, and each stream by itself: a secret comes in pieces, with the other's between them.
  const streams = { stdout: createRedactor(secrets), stderr: createRedactor(secrets) };
  return {
    push: (chunk, from) => window.push(Buffer.from(streams[from].push(chunk))),
    text(isCut) {
      if (!isCut) for (const stream of Object.values(streams)) window.push(Buffer.from(stream.rest()));
      return window.text();
    },
    lastLine: window.lastLine,
  };
}

/** Bytes in, text without secrets out; the end that may be the beginning of one waits for what follows. */
function createRedactor({ redact, heldBack }: CutSecrets): { push(chunk: Buffer): string; rest(): string } {
  const decoder = new StringDecoder("utf8");
  let waiting = "";
  return {
    push(chunk) {
      const text = waiting + decoder.write(chunk);
      const end = text.length - heldBack(text);
      waiting = text.slice(end);
      return redact(text.slice(0, end));
    },
    rest: () => redact(waiting + decoder.end()),
  };
}

function createWindow(maxBytes: number): { push(chunk: Buffer): void; text(): string; lastLine(): string } {
  const half = Math.floor(maxBytes / 2);
  let head = Buffer.alloc(0);
  let tail = Buffer.alloc(0);
  let dropped = 0;
  return {
    push(chunk) {
      const room = half - head.length;
      if (room > 0) head = Buffer.concat([head, chunk.subarray(0, room)]);
      const later = chunk.subarray(Math.max(0, room));
      // Only the end of a big chunk can survive; cutting it first keeps a flood from being copied.
      const fresh = later.subarray(Math.max(0, later.length - half));
      const joined = Buffer.concat([tail, fresh]);
      tail = Buffer.from(joined.subarray(Math.max(0, joined.length - half)));
      dropped += later.length - fresh.length + joined.length - tail.length;
    },
    text() {
      if (dropped === 0) return Buffer.concat([head, tail]).toString("utf8");
      return `${head.toString("utf8")}\n[… ${formatBytes(dropped)} left out here …]\n${tail.toString("utf8")}`;
    },
    lastLine: () =>
      (tail.length > 0 ? tail : head)
        .subarray(-2000)
        .toString("utf8")
        .trimEnd()
        .split(/[\r\n]/)
        .at(-1) ?? "",
  };
}
