// Text → command line. `/name args`, `/name@bot args`, `!name args` (Slack has no slash commands in threads), the bare
// words stop/abort/esc. Anything else is a message for the agent, also when it has "/stop" in the middle.
import { firstWordAt, plainWord } from "../core/visible-text.ts";

export interface CommandLine {
  readonly name: string;
  readonly args: string;
}

const BARE_STOP = /^(stop|abort|esc)[.!]?$/i;
const NAME = /^([/!])([a-z][a-z0-9_]{0,31})(?:@[a-z0-9_]{1,64})?$/i;

/** Null: not a command. `!name` counts only for a known name, so that "!nice" stays text. */
export function parseCommandLine(text: string, isKnown: (name: string) => boolean): CommandLine | null {
  if (BARE_STOP.test(plainWord(text).trim())) return { name: "stop", args: "" };
  const [word = "", rest = ""] = splitFirst(text.slice(firstWordAt(text)).trimEnd());
  // Only the command word is made plain: joiners in the arguments hold emoji together.
  const match = NAME.exec(plainWord(word));
  const name = match?.[2]?.toLowerCase();
  if (name === undefined || (match?.[1] === "!" && !isKnown(name))) return null;
  return { name, args: rest.trim() };
}

const splitFirst = (text: string): string[] => {
  const space = text.search(/\s/);
  return space < 0 ? [text] : [text.slice(0, space), text.slice(space + 1)];
};
