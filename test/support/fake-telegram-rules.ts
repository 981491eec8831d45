// What Telegram refuses, in its own words: checks of text, entities, buttons and commands. Where the real server repairs
// silently (overlapping code, too many ranges) this one refuses, so that nothing leans on the repair.
import { Buffer } from "node:buffer";

export interface ApiAnswer {
  status: number;
  body: Record<string, unknown>;
}

export const ok = (result: unknown): ApiAnswer => ({ status: 200, body: { ok: true, result } });
export const refuse = (code: number, description: string, parameters?: Record<string, unknown>): ApiAnswer => ({
  status: code,
  body: { ok: false, error_code: code, description, ...(parameters === undefined ? {} : { parameters }) },
});
export const bad = (description: string, parameters?: Record<string, unknown>): ApiAnswer =>
  refuse(400, `Bad Request: ${description}`, parameters);

export interface Entity {
  type: string;
  offset: number;
  length: number;
  url?: string;
  language?: string;
}

const TYPES = new Set([
  "bold",
  "italic",
  "underline",
  "strikethrough",
  "spoiler",
  "blockquote",
  "expandable_blockquote",
  "code",
  "pre",
  "text_link",
]);
const isLow = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff;
const isCode = (entity: Entity) => entity.type === "code" || entity.type === "pre";
const isQuote = (entity: Entity) => entity.type.endsWith("blockquote");

export function checkText(text: unknown): ApiAnswer | null {
  if (typeof text !== "string" || text.trim() === "") return bad("message text is empty");
  if (!text.isWellFormed()) return bad("text must be encoded in UTF-8");
  if (text.length > 4096) return bad("message is too long");
  return null;
}

export function checkCaption(text: unknown): ApiAnswer | null {
  if (typeof text !== "string" || !text.isWellFormed()) return bad("text must be encoded in UTF-8");
  return text.length > 1024 ? bad("message caption is too long") : null;
}

export function checkEntities(text: string, entities: unknown): ApiAnswer | null {
  if (entities === undefined) return null;
  if (!Array.isArray(entities)) return bad("can't parse entities: expected an array");
  if (entities.length > 100) return bad("can't parse entities: too many");
  for (const entity of entities as Entity[]) {
    const problem = checkEntity(text, entity);
    if (problem !== null) return bad(`can't parse entities: ${problem}`);
  }
  for (const [n, a] of (entities as Entity[]).entries()) {
    for (const b of (entities as Entity[]).slice(n + 1)) {
      const problem = checkPair(a, b);
      if (problem !== null) return bad(`can't parse entities: ${problem}`);
    }
  }
  return null;
}

function checkEntity(text: string, entity: Entity): string | null {
  const { type, offset, length } = entity;
  if (!TYPES.has(type)) return `unsupported type "${type}"`;
  if (!Number.isInteger(offset) || !Number.isInteger(length) || offset < 0 || length < 1) return "bad range";
  if (offset + length > text.length) return `range ${offset}+${length} ends beyond the text`;
  if (isLow(text.charCodeAt(offset)) || isLow(text.charCodeAt(offset + length))) return "range cuts a surrogate pair";
  if (type === "text_link" && !/^(?:https?|tg):\/\/[^\s]+$/.test(entity.url ?? "")) return "bad url";
  return null;
}

function checkPair(a: Entity, b: Entity): string | null {
  const [first, second] = a.offset <= b.offset ? [a, b] : [b, a];
  if (second.offset >= first.offset + first.length) return null;
  const nested = second.offset + second.length <= first.offset + first.length || first.offset === second.offset;
  if (!nested) return "ranges overlap";
  if (isQuote(a) && isQuote(b)) return "nested quotes";
  if ((isCode(a) && !isQuote(b)) || (isCode(b) && !isQuote(a))) return "code can't be combined";
  return null;
}

interface Button {
  text?: unknown;
  callback_data?: unknown;
}

export function checkMarkup(markup: unknown): ApiAnswer | null {
  if (markup === undefined) return null;
  const rows = (markup as { inline_keyboard?: unknown }).inline_keyboard;
  if (!Array.isArray(rows)) return bad("object expected as reply markup");
  for (const button of rows.flat() as Button[]) {
    if (typeof button.text !== "string" || button.text === "") return bad("can't parse inline keyboard button: text must be non-empty");
    const bytes = typeof button.callback_data === "string" ? Buffer.byteLength(button.callback_data) : 0;
    if (bytes < 1 || bytes > 64) return bad("BUTTON_DATA_INVALID");
  }
  return null;
}

export function checkCommands(commands: unknown): ApiAnswer | null {
  if (!Array.isArray(commands) || commands.length > 100) return bad("can't parse BotCommand");
  for (const { command, description } of commands as { command?: unknown; description?: unknown }[]) {
    if (typeof command !== "string" || !/^[a-z0-9_]{1,32}$/.test(command)) return bad("BOT_COMMAND_INVALID");
    if (typeof description !== "string" || description.length < 1 || description.length > 256)
      return bad("BOT_COMMAND_DESCRIPTION_INVALID");
  }
  return null;
}

const isWord = (char: string | undefined): boolean => char !== undefined && /[\p{L}\p{N}_]/u.test(char);
const isLatin = (char: string | undefined): boolean => char !== undefined && /[A-Za-z0-9_]/.test(char);

/**
 * What Telegram makes of a text by itself, beside the ranges it was given: mentions, commands, hashtags, cashtags, its own
 * links. Written after the server's published rules, character by character, and not after the code under test.
 */
export function liveWords(text: string, entities: Entity[]): string[] {
  const chars = [...text];
  const offsets: number[] = [];
  for (let n = 0, at = 0; n <= chars.length; at += chars[n]?.length ?? 0, n++) offsets.push(at);
  const run = (from: number, fits: (char: string | undefined) => boolean): number => {
    let to = from;
    while (to < chars.length && fits(chars[to])) to++;
    return to;
  };
  const found: { from: number; to: number }[] = [];
  chars.forEach((sign, n) => {
    const before = chars[n - 1];
    if (sign === "@" && !isWord(before)) {
      const to = run(n + 1, isLatin);
      if (to - n - 1 >= 2 && to - n - 1 <= 32 && !isWord(chars[to])) found.push({ from: n, to });
    }
    if (sign === "/" && !isWord(before) && !["/", "<", ">"].includes(before ?? "")) {
      let to = run(n + 1, isLatin);
      const size = to - n - 1;
      if (chars[to] === "@") to = run(to + 1, isLatin);
      if (size >= 1 && size <= 64 && !isWord(chars[to]) && !["/", "<", ">"].includes(chars[to] ?? "")) found.push({ from: n, to });
    }
    if (sign === "#" && !isWord(before)) {
      const to = run(n + 1, (char) => isWord(char) || char === "\u200c" || char === "\u00b7");
      if (to - n - 1 <= 256 && chars.slice(n + 1, to).some((char) => /\p{L}/u.test(char)) && chars[to] !== "#") found.push({ from: n, to });
    }
    if (sign === "$" && before !== "$" && !isWord(before)) {
      const to = run(n + 1, (char) => char !== undefined && /[A-Z]/.test(char));
      if (to - n - 1 >= 1 && to - n - 1 <= 8 && !isWord(chars[to]) && chars[to] !== "$") found.push({ from: n, to });
    }
    if (sign.toLowerCase() !== "t") return;
    const scheme = /^(?:tg|ton|tonsite):\/\/[^\s]+/i.exec(chars.slice(n, n + 40).join(""))?.[0];
    if (scheme !== undefined && !isWord(before)) found.push({ from: n, to: n + [...scheme].length });
  });
  const shut = entities.filter((entity) => isCode(entity) || entity.type === "text_link");
  const isShut = (from: number, to: number) => shut.some(({ offset, length }) => offset < to && from < offset + length);
  const called = entities.filter(({ type, url }) => type === "text_link" && /^tg:/i.test(url ?? "")).map(({ url }) => String(url));
  return [
    ...found.filter(({ from, to }) => !isShut(offsets[from] ?? 0, offsets[to] ?? 0)).map(({ from, to }) => chars.slice(from, to).join("")),
    ...called,
  ];
}
