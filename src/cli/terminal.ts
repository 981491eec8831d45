// The terminal a command talks to, as an argument: its streams, its size, whether colours are wanted. Only cli.ts knows the process.
import { styleText } from "node:util";

type Style = "red" | "green" | "yellow" | "cyan" | "dim" | "bold";

export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** A person sees it grow: what changes may be drawn in place. */
  readonly isLive: boolean;
  /** Aborted when somebody wants it to end (Ctrl-C). */
  readonly ended: AbortSignal;
  readonly stdin: NodeJS.ReadStream;
  size(): { readonly columns: number; readonly rows: number };
  /** A line of the answer. */
  say(line: string): void;
  /** A line about the answer: to stderr, so that whoever reads the answer with a program is not disturbed. */
  remark(line: string): void;
  /** As it is, without a line's end. */
  write(text: string): void;
  /** Sentences, with their lines broken between words where a person reads them; `indent` stands before each line but the first. */
  broken(text: string, indent?: string): string;
  paint(style: Style, text: string): string;
}

export interface Streams {
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
}

/** Narrower than this nothing is gained by breaking lines. */
const NARROWEST = 20;

/** Words over as many lines as they need; `width` 0: over one. */
export function wrapped(text: string, width: number): string[] {
  if (width < NARROWEST) return [text];
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

const PIPED_SIZE = { columns: 200, rows: 50 };

export function createTerminal(streams: Streams, around: Pick<Terminal, "env" | "cwd" | "ended">): Terminal {
  const { stdin, stdout, stderr } = streams;
  const { NO_COLOR = "", TERM } = around.env;
  const isLive = stdout.isTTY === true;
  const hasColours = isLive && NO_COLOR === "" && TERM !== "dumb";
  return {
    ...around,
    stdin,
    isLive,
    size: () => ({ columns: stdout.columns || PIPED_SIZE.columns, rows: stdout.rows || PIPED_SIZE.rows }),
    say: (line) => void stdout.write(`${line}\n`),
    remark: (line) => void stderr.write(`${line}\n`),
    write: (text) => void stdout.write(text),
    broken: (text, indent = "") =>
      text
        .split("\n")
        .flatMap((line) => (isLive ? wrapped(line, stdout.columns - indent.length) : [line]))
        .join(`\n${indent}`),
    paint: (style, text) => (hasColours ? styleText(style, text, { validateStream: false }) : text),
  };
}
