// Text → command line. `/name args`, `/name@bot args`, `!name args` (Slack has no slash commands in threads), the bare
// words stop/abort/esc. Anything else is a message for the agent, also when it has "/stop" in the middle.

export interface CommandLine {
  readonly name: string;
  readonly args: string;
}

const BARE_STOP = /^(stop|abort|esc)[.!]?$/i;
const SLASH = /^\/([a-z][a-z0-9_]{0,31})(?:@[a-z0-9_]{1,64})?(?:\s+([\s\S]*))?$/i;
const BANG = /^!([a-z][a-z0-9_]{0,31})(?:\s+([\s\S]*))?$/i;
/** Zero-width, joiners, bidi controls, soft hyphen, BOM: invisible, and enough to slip a command past a reader. */
const INVISIBLE = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g;

/** Null: not a command. `!name` counts only for a known name, so that "!nice" stays text. */
export function parseCommandLine(text: string, isKnown: (name: string) => boolean): CommandLine | null {
  const plain = text.replace(INVISIBLE, "").trim();
  if (BARE_STOP.test(plain)) return { name: "stop", args: "" };
  const slash = SLASH.exec(plain);
  if (slash !== null) return { name: (slash[1] as string).toLowerCase(), args: (slash[2] ?? "").trim() };
  const bang = BANG.exec(plain);
  if (bang === null || !isKnown((bang[1] as string).toLowerCase())) return null;
  return { name: (bang[1] as string).toLowerCase(), args: (bang[2] ?? "").trim() };
}
