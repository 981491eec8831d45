// Commands: a table of name, usage and what to do, filled by gateway-commands.ts and subagent-commands.ts. A command never waits
// behind a turn (CM9). Its effect and its answer are one transaction: act() runs inside it, signals fire after it.
import type { Inbound } from "../core/message.ts";
import type { Tx } from "../stores/database.ts";
import type { CommandLine } from "./command-line.ts";

export interface CommandContext {
  readonly agentId: string;
  readonly sessionKey: string;
  readonly args: string;
  /** Unique and stable over a replay: the inbox row that carried the command. */
  readonly inboxId: number;
  readonly inbound: Inbound;
}

/** The words; or what is to be done, in the transaction that also records its words, so that both stand or fall together. */
export type Answer =
  | { readonly text: string }
  /** Null: it is done, and nothing is said. */
  | { readonly act: (tx: Tx) => Promise<string | null> };

export interface Command {
  readonly name: string;
  readonly usage: string;
  readonly summary: string;
  /** What can follow its name, each with what it does. */
  readonly actions?: readonly { readonly name: string; readonly usage: string; readonly summary: string }[];
  /** It waits for a model: nobody else's command waits for it. All others are answered before the next row is looked at. */
  readonly isSlow?: true;
  run(context: CommandContext): Answer | Promise<Answer>;
}

export interface Commands {
  isKnown(name: string): boolean;
  list(): readonly Command[];
  isSlow(name: string): boolean;
  run(line: CommandLine, context: Omit<CommandContext, "args">): Promise<Answer>;
}

/** `1 sub-agent`, `2 sub-agents`. */
export const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

export function createCommands(commands: readonly Command[]): Commands {
  const byName = new Map(commands.map((command) => [command.name, command]));
  const help: Command = {
    name: "help",
    usage: "/help",
    summary: "this list",
    run: () => ({ text: helpText([help, ...commands]) }),
  };
  byName.set("help", help);
  // What Telegram sends for a person who opens the bot for the first time.
  byName.set("start", { ...help, name: "start", usage: "" });
  return {
    isKnown: (name) => byName.has(name),
    isSlow: (name) => byName.get(name)?.isSlow === true,
    list: () => [...byName.values()],
    async run(line, context) {
      const command = byName.get(line.name);
      if (command === undefined) return { text: `There is no command /${line.name}. /help lists them.` };
      return command.run({ ...context, args: line.args });
    },
  };
}

const helpText = (commands: readonly Command[]): string =>
  [
    "**Commands**",
    ...commands.filter((command) => command.usage !== "").map((command) => `- \`${command.usage}\` ${command.summary}`),
  ].join("\n");
