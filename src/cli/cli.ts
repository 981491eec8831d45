// The command line: words → a command of the table → an exit code. The only file of this folder that knows the process.
import { readFileSync } from "node:fs";
import { didYouMean } from "../config/nearest.ts";
import { errorText } from "../core/errors.ts";
import { ownFile } from "../core/own-files.ts";
import { visibleLine } from "../core/visible-text.ts";
import { type Command, EXIT, helpOf, overallHelp, readWords, reminderOf, UsageError, usageOf } from "./command.ts";
import { COMMANDS } from "./table.ts";
import { createTerminal, type Terminal } from "./terminal.ts";

const version = (): string => (JSON.parse(readFileSync(ownFile("package.json"), "utf8")) as { version: string }).version;

/** Of a terminal; 0: what is printed is read by a program or kept in a file. */
const widthOf = (stream: NodeJS.WriteStream): number => (stream.isTTY ? stream.columns : 0);

/** What `npm start` puts before its own words: it starts where nothing follows. */
const BY_NPM = "npm-start";

/** Sets the exit code and never rejects. */
export async function runHerald(args: readonly string[]): Promise<void> {
  const [first = "--help", ...rest] = args[0] === BY_NPM ? (args.length === 1 ? ["start"] : args.slice(1)) : args;
  const say = (text: string): void => void process.stdout.write(`${text}\n`);
  if (first === "--version") return say(version());
  if (first === "--help" || first === "-h" || (first === "help" && rest.length === 0))
    return say(overallHelp(COMMANDS, widthOf(process.stdout)));
  if (first === "help") return runHerald([...rest.slice(0, 1), "--help"]);
  const isNamed = !first.startsWith("-");
  const name = isNamed ? first : "start";
  const command = COMMANDS.find((one) => one.name === name);
  if (command === undefined) {
    const names = COMMANDS.map((one) => one.name);
    process.stderr.write(`There is no command "${visibleLine(first, 60)}".${didYouMean(first, names)} herald --help lists them.\n`);
    process.exitCode = EXIT.misused;
    return;
  }
  const help = (width: number) => (isNamed ? helpOf(command, `herald ${name}`, width) : overallHelp(COMMANDS, width));
  await run(command, { args: isNamed ? rest : [first, ...rest], name: `herald ${name}`, help, misused: EXIT.misused });
}

/** `npm run pair` and the like: a command by the name it had before there was `herald`, with its exit codes. */
export async function runScript(name: string, args: readonly string[], misused: number = EXIT.failed): Promise<void> {
  const command = COMMANDS.find((one) => one.name === name);
  if (command === undefined) throw new Error(`there is no command ${name}`);
  const words = `npm run ${name}`;
  // Who calls it by this name knows what it is; flags are worth a list.
  const usage = `${usageOf(command, words)}${command.notes === undefined ? "" : `\n\n${command.notes}`}`;
  const help = (width: number): string => (Object.keys(command.options).length === 0 ? usage : helpOf(command, words, width));
  await run(command, { args, name: words, help, misused });
}

interface Running {
  readonly args: readonly string[];
  readonly name: string;
  help(width: number): string;
  readonly misused: number;
}

async function run(command: Command, { args, name, help, misused }: Running): Promise<void> {
  const ended = new AbortController();
  try {
    const { words, flags, isHelp } = readWords(command, args);
    if (isHelp) return void process.stdout.write(`${help(widthOf(process.stdout))}\n`);
    const terminal = terminalFor(command, ended);
    process.exitCode = await command.run({ words, flags, terminal, version: version(), usage: usageOf(command, name) });
  } catch (error) {
    // Whoever broke it off knows why.
    const isMisused = error instanceof UsageError;
    const width = widthOf(process.stderr);
    const how = isMisused && error.message === "" ? help(width) : isMisused ? `\n\n${reminderOf(command, name, width)}` : "";
    if (!ended.signal.aborted) process.stderr.write(`${isMisused ? error.message : errorText(error)}${how}\n`);
    process.exitCode = isMisused ? misused : EXIT.failed;
  }
}

function terminalFor({ name, endsItself, isWork }: Command, ended: AbortController): Terminal {
  const terminal = createTerminal(process, { env: process.env, cwd: process.cwd(), ended: ended.signal });
  // The gateway sees to its signals and streams itself.
  if (name === "start") return terminal;
  // `herald runs log -f ID | head -1`: whoever read has what he wanted. But a move that ended there would be half of one, with a 0.
  process.stdout.on("error", ({ code }: NodeJS.ErrnoException) => {
    if (isWork !== true) process.exit(code === "EPIPE" ? EXIT.fine : EXIT.failed);
  });
  process.stderr.on("error", () => {});
  if (endsItself === true) for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => ended.abort());
  return terminal;
}
