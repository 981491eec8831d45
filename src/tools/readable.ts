// HTML → the text a person would read. web-fetch.ts → toReadable → readable-process.ts (defuddle) → Markdown; when that fails,
// hangs or finds nothing, a plain scan that only drops the markup.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { ownEntry } from "../core/own-files.ts";

export interface Page {
  readonly html: string;
  readonly url: string;
}

export interface Readable {
  readonly title: string;
  readonly text: string;
}

export interface ReadableOptions {
  readonly deadlineMs?: number;
  readonly maxChars?: number;
}

const DEADLINE_MS = 10_000;
/** Building the tree costs some twenty times the page's size. */
const MAX_CHARS = 2_000_000;
const MEMORY_MB = 256;

/** Always answers: the article as Markdown, else the page's plain text. */
export async function toReadable(page: Page, signal: AbortSignal, options: ReadableOptions = {}): Promise<Readable> {
  const input = { ...page, html: page.html.slice(0, options.maxChars ?? MAX_CHARS) };
  const article = await extract(input, AbortSignal.any([signal, AbortSignal.timeout(options.deadlineMs ?? DEADLINE_MS)]));
  return article !== null && article.text.trim() !== "" ? article : { title: article?.title ?? "", text: plainText(input.html) };
}

/** Null when the process fails, runs out of memory or is ended by the signal. */
async function extract(page: Page, signal: AbortSignal): Promise<Readable | null> {
  // Neither files to write nor processes to start: should the page ever get the parser to run something.
  const flags = [`--max-old-space-size=${MEMORY_MB}`, "--permission", "--allow-fs-read=*"];
  const child = spawn(process.execPath, [...flags, fileURLToPath(ownEntry("src/tools/readable-process"))], {
    stdio: ["pipe", "pipe", "ignore"],
    env: {},
    signal,
    killSignal: "SIGKILL",
  });
  // A process that ended early can't take the rest of the page; that it ended is seen below.
  child.stdin.on("error", () => undefined).end(JSON.stringify(page));
  try {
    // "error" (no such program, the signal) rejects, "close" comes after the last output.
    const [output] = await Promise.all([text(child.stdout), once(child, "close")]);
    return JSON.parse(output) as Readable;
  } catch {
    return null;
  }
}

const UNREAD = new Set(["script", "style", "noscript", "template", "svg", "head"]);
const BREAKS = /^(?:address|article|blockquote|br|div|dd|dl|dt|footer|h[1-6]|header|hr|li|main|nav|ol|p|pre|section|table|td|th|tr|ul)$/;
const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };

/** Drops the markup in one pass: a backtracking pattern would take minutes on a page made of half tags. */
export function plainText(html: string): string {
  const parts: string[] = [];
  let at = 0;
  while (at < html.length) {
    const open = html.indexOf("<", at);
    parts.push(html.slice(at, open === -1 ? html.length : open));
    if (open === -1) break;
    const comment = html.startsWith("<!--", open);
    const close = html.indexOf(comment ? "-->" : ">", open);
    if (close === -1) break;
    const name = comment ? "" : (/^<\/?([a-z][a-z0-9]*)/i.exec(html.slice(open, open + 32))?.[1]?.toLowerCase() ?? "");
    if (BREAKS.test(name)) parts.push("\n");
    const end = UNREAD.has(name) && html[open + 1] !== "/" ? findClosing(html, name, close) : close;
    if (end === -1) break;
    at = end === close ? close + (comment ? 3 : 1) : end;
  }
  return decodeEntities(parts.join(""))
    .replace(/[^\S\n]+/g, " ")
    .replace(/ ?\n[ \n]*/g, "\n")
    .trim();
}

function findClosing(html: string, name: string, from: number): number {
  const pattern = new RegExp(`</${name}`, "gi");
  pattern.lastIndex = from;
  return pattern.exec(html)?.index ?? -1;
}

function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,6}));/gi, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return ENTITIES[name.toLowerCase()] ?? whole;
    const code = decimal === undefined ? Number.parseInt(hex ?? "", 16) : Number(decimal);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
