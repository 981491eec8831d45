// Text → command line: what is a command, what is a message that only looks like one, and what hides in between.
import { expect, it } from "vitest";
import { parseCommandLine } from "../../../src/gateway/command-line.ts";
import { cpuTime } from "../../support/cpu-time.ts";

const known = (name: string): boolean => ["stop", "subagents", "help"].includes(name);
const parse = (text: string) => parseCommandLine(text, known);

it.each([
  ["/stop", "stop", ""],
  ["/STOP", "stop", ""],
  ["  /stop  ", "stop", ""],
  ["/stop@OurBot", "stop", ""],
  ["/subagents@our_bot list", "subagents", "list"],
  ["/subagents   send 1  two  words ", "subagents", "send 1  two  words"],
  ["/subagents send 1 line\nline", "subagents", "send 1 line\nline"],
  ["/subagents\nlist", "subagents", "list"],
  ["/nonsense x", "nonsense", "x"],
  ["!subagents list", "subagents", "list"],
  ["!HELP", "help", ""],
  ["stop", "stop", ""],
  ["Stop!", "stop", ""],
  ["ABORT.", "stop", ""],
  ["esc", "stop", ""],
  ["/stop\u200b", "stop", ""],
  ["/\u200dstop", "stop", ""],
  ["\u202e/stop", "stop", ""],
  ["\ufeff/st\u00adop", "stop", ""],
  ["s\u2060top", "stop", ""],
])("[CM1] %j is /%s", (text, name, args) => {
  expect(parse(text)).toEqual({ name, args });
});

it.each([
  ["please do not /stop now"],
  ["stop it please"],
  ["don't stop"],
  ["non-stop"],
  ["!nice"],
  ["! stop"],
  ["/ stop"],
  ["//stop"],
  ["/"],
  [""],
  ["   "],
  ["/1stop"],
  ["/etc/passwd is a file"],
  ["/stop@"],
  ["/stop@Our Bot/"],
  ["/st\u043ep"],
  [`/${"a".repeat(33)}`],
  ["> /stop"],
])("[CM1] %j is a message for the agent", (text) => {
  const line = parse(text);
  // "/stop@Our Bot/" names the bot "Our" and has an argument; all others are no command at all.
  if (text === "/stop@Our Bot/") expect(line).toEqual({ name: "stop", args: "Bot/" });
  else expect(line).toBeNull();
});

it("[CM9] a text of 60 000 characters is looked at in no time", () => {
  const worked = cpuTime();
  for (const text of [`/stop${" ".repeat(60_000)}x`, `/${"a".repeat(60_000)}`, "\u200b".repeat(60_000), `!${"stop ".repeat(12_000)}`])
    parse(text);
  expect(worked()).toBeLessThan(500);
});
