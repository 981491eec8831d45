// What a command is, how its words are read and how its help is made from that. The table of all of them is in table.ts.
import { parseArgs } from "node:util";
import { didYouMean } from "../config/nearest.ts";
import { errorText } from "../core/errors.ts";
import { type Terminal, wrapped } from "./terminal.ts";

/** Wrong use: said with a reminder how it is used, exit code 2; without a word of its own with the whole help. */
export class UsageError extends Error {}

export interface Option {
  readonly type: "string" | "boolean";
  readonly short?: string;
  /** What stands for the value in the help. */
  readonly value?: string;
  readonly about: string;
}

export interface Call {
  /** The words behind the command that are no flags. */
  readonly words: readonly string[];
  readonly flags: Readonly<Record<string, string | boolean | undefined>>;
  readonly terminal: Terminal;
  readonly version: string;
  /** How it is used, in the words it was called by: `herald pair`, `npm run pair --`. */
  readonly usage: string;
}

export interface Command {
  readonly name: string;
  readonly summary: string;
  /** A line each, what stands behind the command's name and what that does. */
  readonly usage: readonly (readonly [words: string, about: string])[];
  readonly options: Readonly<Record<string, Option>>;
  /** What else is worth knowing. */
  readonly notes?: string;
  /** Everything behind its name goes to it as words, flags too: it reads them itself, because one may be a secret. */
  readonly isRaw?: boolean;
  /** Ctrl-C reaches it as `terminal.ended`, and it ends by itself; others just end. */
  readonly endsItself?: boolean;
  /** What it does is more than what it prints: it goes on where nobody reads that any more. */
  readonly isWork?: boolean;
  /** Resolves with the exit code. */
  run(call: Call): Promise<number>;
}

export const EXIT = { fine: 0, failed: 1, misused: 2 } as const;

/** A flag with a value, when it was given. */
export const textOf = ({ flags }: Pick<Call, "flags">, name: string): string | undefined =>
  typeof flags[name] === "string" ? flags[name] : undefined;
export const isSet = ({ flags }: Pick<Call, "flags">, name: string): boolean => flags[name] === true;

/** Throws UsageError for a flag of the command that this word of it does not take: nobody's flag is passed over in silence. */
export function refuseFlags({ flags }: Pick<Call, "flags">, word: string, taken: readonly string[]): void {
  const wrong = Object.keys(flags).find((name) => !taken.includes(name));
  if (wrong !== undefined) throw new UsageError(`${word} takes no --${wrong}.`);
}

/** Throws UsageError. */
export function readWords({ options, isRaw }: Command, args: readonly string[]): Pick<Call, "words" | "flags"> & { isHelp: boolean } {
  if (isRaw === true) return { words: args, flags: {}, isHelp: args.includes("--help") || args.includes("-h") };
  const known = Object.entries(options).map(([name, { type, short }]) => [name, { type, ...(short === undefined ? {} : { short }) }]);
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: { ...Object.fromEntries(known), help: { type: "boolean", short: "h" } },
      allowPositionals: true,
    });
    const { help, ...flags } = values as Call["flags"];
    return { words: positionals, flags, isHelp: help === true };
  } catch (error) {
    // Node's second sentence explains Node.
    const said = `${errorText(error).split(". ")[0]}.`;
    const unknown = /^Unknown option '--(.+)'/.exec(said)?.[1] ?? "";
    // Names of flags are short: of two letters that differ, the first is none.
    const near = Object.keys(options).filter((name) => name[0] === unknown[0]);
    throw new UsageError(`${said}${didYouMean(unknown, near)}`);
  }
}

const LEFT = 44;
const BESIDE = 40;
/** `width`: of the terminal; 0: there is none. Where there is no room beside the words, what they do stands below. */
function columns(rows: readonly (readonly [string, string])[], indent: string, width: number): string[] {
  const left = Math.min(LEFT, Math.max(...rows.map(([words]) => words.length)));
  const isStacked = width > 0 && width - indent.length - left - 2 < BESIDE;
  const margin = `${indent}${isStacked ? "    " : " ".repeat(left + 2)}`;
  return rows.map(([words, about]) => {
    const lines = wrapped(about, width - margin.length);
    const isBelow = isStacked || (words.length > left && about !== "");
    const head = `${indent}${isBelow ? words : `${words.padEnd(left)}  ${lines.shift() ?? ""}`}`.trimEnd();
    return [head, ...lines.filter((line) => line !== "").map((line) => `${margin}${line}`)].join("\n");
  });
}

/** `npm run` keeps what comes before two dashes for itself. */
const wordsOf = (name: string, words: string): string =>
  words === "" ? name : name.startsWith("npm run") ? `${name} -- ${words}` : `${name} ${words}`;

export const usageOf = ({ usage }: Command, name: string, { indent = "", width = 0 } = {}): string =>
  columns(
    usage.map(([words, about]) => [wordsOf(name, words), about] as const),
    indent,
    width,
  ).join("\n");

export function helpOf(command: Command, name: string, width = 0): string {
  const options = Object.entries(command.options).map(
    ([long, { short, value, about }]) =>
      [`${short === undefined ? "    " : `-${short}, `}--${long}${value === undefined ? "" : ` ${value}`}`, about] as const,
  );
  const listed = columns([...options, ["-h, --help", "print this and exit"]], "  ", width);
  const parts = [
    `${command.summary}.`,
    `Usage:\n${usageOf(command, name, { indent: "  ", width })}`,
    `Options:\n${listed.join("\n")}`,
    wrapped(command.notes ?? "", width).join("\n"),
  ];
  return parts.filter((part) => part !== "").join("\n\n");
}

/** After wrong use: short, because what was wrong stands before it and has to be seen on a small screen. */
export const reminderOf = (command: Command, name: string, width = 0): string =>
  `Usage:\n${usageOf(command, name, { indent: "  ", width })}\n\n${wordsOf(name, "--help")} tells more.`;

export function overallHelp(commands: readonly Command[], width = 0): string {
  const listed = columns(
    commands.map(({ name, summary }) => [name, summary.replace(/^./, (first) => first.toLowerCase())] as const),
    "  ",
    width,
  );
  const paragraph = (text: string): string => wrapped(text, width).join("\n");
  return `${paragraph("Herald, a chat gateway whose agents send out sub-agents that announce their results back into the chat.")}

Usage: herald <command> [options]
       npm start -- <command> [options]   in a checkout

Commands:
${listed.join("\n")}

${paragraph("First time here: herald setup, then herald start. herald <command> --help tells more; herald --version prints the version.")}

Settings   ./config/herald.json5, or the file that HERALD_CONFIG names
Secrets    ./.env, or the environment
State      ~/.herald, or the folder that HERALD_STATE_DIR names`;
}
