// pino behind one small interface: JSON lines, pretty on a terminal, secrets replaced by their names on the way
// out. A part gets a child logger with its ids; nobody logs through a global.
import { pino } from "pino";
import type { Secrets } from "./secrets.ts";
import { replaceUnseen } from "./visible-text.ts";

export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
}

export interface LoggerOptions {
  level: "debug" | "info" | "warn" | "error" | "silent";
  pretty: boolean;
  secrets: Secrets;
  /** Where finished lines go. Must not throw: a full log disk never stops the gateway. */
  write(line: string): void;
}

const MAX_LINE = 8 * 1024;

/** `write` receives one redacted line at a time, control characters escaped by JSON, cut at 8 KB. */
export async function createLogger(options: LoggerOptions): Promise<Logger> {
  // Loaded only on a terminal: it costs start-up time that a service never needs.
  const prettify = options.pretty
    ? (await import("pino-pretty")).prettyFactory({ colorize: true, ignore: "pid,hostname", translateTime: "HH:MM:ss" })
    : null;
  const stream = {
    write(line: string) {
      const clean = options.secrets.redact(line);
      const short = clean.length > MAX_LINE ? cutLine(clean) : clean;
      options.write(prettify === null ? short : prettify(printable(JSON.parse(short))));
    },
  };
  const logger: Logger = pino(
    {
      level: options.level,
      base: undefined,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: pino.stdSerializers.err },
    },
    stream,
  );
  return logger;
}

/**
 * JSON spells out what a terminal would obey (colours, titles, a cleared screen) and what would forge a line; made readable
 * again it must not be that once more. Only a stack keeps its lines.
 */
function printable(value: unknown, key = ""): unknown {
  if (typeof value === "string") {
    const text = key === "stack" ? value : value.replace(/[\n\r]/g, (sign) => (sign === "\n" ? "\\n" : "\\r"));
    return replaceUnseen(text, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`);
  }
  if (Array.isArray(value)) return value.map((item) => printable(item));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [printable(name), printable(item, name)]));
}

/** A too long line stays one valid JSON object. */
function cutLine(line: string): string {
  const { level, time, msg } = JSON.parse(line) as Record<string, unknown>;
  return `${JSON.stringify({ level, time, msg: String(msg).slice(0, 1000), cut: line.slice(0, MAX_LINE - 2000) })}\n`;
}

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => silentLogger };
