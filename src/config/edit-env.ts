// One variable of a .env set or removed, every other line as it was. The loader's reader (Node's parseEnv) has its own ideas of quotes,
// so each way of writing a value is read back with it, and the first that comes back as it was typed is taken.
import { parseEnv } from "node:util";
import { AppError } from "../core/errors.ts";

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

export const ENV_HEADER = "# Secrets of Herald, one NAME=value a line. Only its own user may read this file.\n";

/** Null removes it. Throws AppError("invalid") in words when no way of writing comes back as it was typed. */
export function setVariable(text: string, name: string, value: string | null): string {
  if (!NAME.test(name)) throw new AppError("invalid", `${JSON.stringify(name.slice(0, 80))} is no name of a variable.`);
  if (value !== null && /[\n\r\0]/.test(value)) throw new AppError("invalid", "A secret is one line: line breaks can't be kept.");
  const wanted = parseEnv(text) as Record<string, string>;
  if (value === null) delete wanted[name];
  else wanted[name] = value;
  for (const written of value === null ? [null] : waysOf(value)) {
    const next = withLine(text, name, written);
    if (isSame(parseEnv(next) as Record<string, string>, wanted)) return next;
  }
  throw new AppError(
    "invalid",
    `${name} can't be written to .env so that it is read as typed: it holds all three kinds of quotes, or the file is damaged.`,
  );
}

const isSame = (a: Record<string, string>, b: Record<string, string>): boolean => {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && a[name] === b[name]);
};

/** Bare only where nobody could read it otherwise: other programs read such files, too. */
function waysOf(value: string): string[] {
  const quoted = ["'", '"', "`"].filter((quote) => !value.includes(quote)).map((quote) => `${quote}${value}${quote}`);
  return /^[\w.:/+@-]+$/.test(value) ? [value, ...quoted] : [...quoted, value];
}

function withLine(text: string, name: string, written: string | null): string {
  const newline = text.includes("\r\n") ? "\r\n" : "\n";
  const found = assignmentsOf(text).filter((one) => one.name === name);
  const last = found.at(-1);
  if (written === null) return found.reduceRight((rest, { start, end }) => rest.slice(0, start) + rest.slice(end), text);
  if (last === undefined) {
    const gap = text === "" || /[\n\r]$/.test(text) ? "" : newline;
    return `${text}${gap}${name}=${written}${newline}`;
  }
  const old = text.slice(last.start, last.end);
  return `${text.slice(0, last.start)}${last.prefix}${name}=${written}${/\r?\n$/.exec(old)?.[0] ?? ""}${text.slice(last.end)}`;
}

interface Assignment {
  readonly name: string;
  /** `export `, where it stands. */
  readonly prefix: string;
  readonly start: number;
  /** Behind its line break. */
  readonly end: number;
}

/** A quoted value may go over several lines, and what looks like an assignment inside is none. */
function assignmentsOf(text: string): Assignment[] {
  const found: Assignment[] = [];
  for (let at = 0; at < text.length; ) {
    const lineEnd = endOfLine(text, at);
    const [whole = "", prefix = "", name = "", quote = ""] =
      /^([^\S\n]*(?:export[^\S\n]+)?)([A-Za-z_]\w*)[^\S\n]*=[^\S\n]*(["'`]?)/.exec(text.slice(at, lineEnd)) ?? [];
    if (name === "") {
      at = lineEnd;
      continue;
    }
    const close = quote === "" ? -1 : text.indexOf(quote, at + whole.length);
    const end = close < 0 ? lineEnd : endOfLine(text, close);
    found.push({ name, prefix, start: at, end });
    at = end;
  }
  return found;
}

function endOfLine(text: string, from: number): number {
  const at = text.indexOf("\n", from);
  return at < 0 ? text.length : at + 1;
}
