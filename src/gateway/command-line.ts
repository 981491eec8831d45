// Text → command line. `/name args`, `/name@bot args`, `!name args` (Slack has no slash commands in threads), the bare
// words stop/abort/esc. Anything else is a message for the agent, also when it has "/stop" in the middle.

export interface CommandLine {
  readonly name: string;
  readonly args: string;
}

const BARE_STOP = /^(stop|abort|esc)[.!]?$/i;
const NAME = /^([/!])([a-z][a-z0-9_]{0,31})(?:@[a-z0-9_]{1,64})?$/i;
/** Zero-width, joiners, bidi controls, soft hyphen, BOM: invisible, and enough to slip a command past a reader. */
const INVISIBLE = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g;
const LEADING = /^[\s\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]+/;

/** Null: not a command. `!name` counts only for a known name, so that "!nice" stays text. */
export function parseCommandLine(text: string, isKnown: (name: string) => boolean): CommandLine | null {
  if (BARE_STOP.test(text.replace(INVISIBLE, "").trim())) return { name: "stop", args: "" };
  const [word = "", rest = ""] = splitFirst(text.replace(LEADING, "").trimEnd());
  // Only the command word is made plain: joiners in the arguments hold emoji together.
  const match = NAME.exec(word.replace(INVISIBLE, ""));
  const name = match?.[2]?.toLowerCase();
  if (name === undefined || (match?.[1] === "!" && !isKnown(name))) return null;
  return { name, args: rest.trim() };
}

const splitFirst = (text: string): string[] => {
  const space = text.search(/\s/);
  return space < 0 ? [text] : [text.slice(0, space), text.slice(space + 1)];
};
