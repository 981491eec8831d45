// The slash commands people find in Discord's menu. Each has one option at most, the words behind its name: what they mean is for the
// gateway to say, and reads the same on every platform.

import { isDeepStrictEqual } from "node:util";
import type { API } from "@discordjs/core/http-only";

interface Command {
  readonly name: string;
  readonly description: string;
  /** What is typed behind it; left out: nothing is. */
  readonly words?: string;
}

const COMMANDS: readonly Command[] = [
  { name: "subagents", description: "List and steer sub-agents", words: "list · stop 1 · log 1 · info 1 · send 1 <message>" },
  { name: "stop", description: "Stop the agent and all its sub-agents" },
  { name: "approvals", description: "Tools that are always allowed here; take one back", words: "what to take back" },
  { name: "new", description: "Start a new conversation" },
  { name: "status", description: "Version, model, channels, lanes" },
  { name: "model", description: "Show or choose the model", words: "the model" },
  { name: "usage", description: "Tokens and cost", words: "the period" },
  { name: "help", description: "All commands" },
];

export const COMMAND_NAMES: ReadonlySet<string> = new Set(COMMANDS.map(({ name }) => name));

const TEXT_OPTION = 3;
const SLASH = 1;

const wanted = COMMANDS.map(({ name, description, words }) => ({
  ...{ name, description, type: SLASH },
  options: words === undefined ? [] : [{ type: TEXT_OPTION, name: "words", description: words, required: false }],
}));

type Wanted = (typeof wanted)[number];
type Known = Awaited<ReturnType<API["applicationCommands"]["getGlobalCommands"]>>[number];

/** Only what we set: Discord adds much of its own. */
const asWanted = ({ name, description, type, options = [] }: Known): Wanted => ({
  ...{ name, description, type },
  options: options.map((one) => ({
    ...{ type: one.type, name: one.name, description: one.description },
    required: "required" in one && one.required === true,
  })),
});

const byName = (a: { name: string }, b: { name: string }): number => a.name.localeCompare(b.name);

/** Writes them only when they are others: Discord takes two hundred changes a day, and a gateway may start more often. */
export async function registerCommands({ applicationCommands }: API, appId: string): Promise<void> {
  const known = await applicationCommands.getGlobalCommands(appId, {});
  if (isDeepStrictEqual(known.map(asWanted).sort(byName), [...wanted].sort(byName))) return;
  await applicationCommands.bulkOverwriteGlobalCommands(
    appId,
    wanted as Parameters<typeof applicationCommands.bulkOverwriteGlobalCommands>[1],
  );
}
