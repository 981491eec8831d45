// Command lines: whatever a person types is one command or no command, and reading it changes nothing.
import fc from "fast-check";
import { expect, it } from "vitest";
import { parseCommandLine } from "../../src/gateway/command-line.ts";
import { cases, checkPrototype, damagedText, hostileText } from "./cases.ts";

const KNOWN = new Set(["stop", "subagents", "help", "new", "status", "model"]);
const parse = (text: string) => parseCommandLine(text, (name) => KNOWN.has(name));

const line = damagedText(
  fc.oneof(
    fc.constantFrom("stop", "Stop!", "ABORT.", "esc", "please do not /stop now", "//stop", "/etc/passwd", "! stop"),
    fc
      .tuple(
        fc.constantFrom("/", "!", " /", "\u200b/", "/\u2060", "> /"),
        fc.constantFrom("stop", "SUBAGENTS", "help", "model", "nonsense", "constructor", "__proto__", "a".repeat(33)),
        fc.constantFrom("", "@our_bot", "@", "@Our Bot"),
        fc.constantFrom("", " ", "\n", "\u00a0", " list", " send 1  two  words", ' log "a label" 20 tools', " stop 👨‍👩‍👧"),
      )
      .map((parts) => parts.join("")),
  ),
);

it("[CM1] any text is null or a plain lower-case name with arguments that stand in the text, and reads back the same", () => {
  fc.assert(
    fc.property(fc.oneof({ arbitrary: line, weight: 4 }, { arbitrary: hostileText, weight: 1 }), (text) => {
      const command = parse(text);
      checkPrototype();
      if (command === null) return;
      expect(Object.keys(command)).toEqual(["name", "args"]);
      expect(command.name).toMatch(/^[a-z][a-z0-9_]{0,31}$/);
      expect(text.includes(command.args) && command.args === command.args.trim()).toBe(true);
      expect(parse(`/${command.name} ${command.args}`)).toEqual(command);
    }),
    cases(),
  );
});

it("[CM1] a command stands at the very start, and `!` starts only a known one", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z0-9>*"(][a-z0-9 >]{0,6}$/), line, (before, text) => {
      const isBare = /^\W*(stop|abort|esc)\W*$/i.test((before + text).replace(/[^\x20-\x7e]/g, ""));
      if (!isBare) expect(parse(before + text)).toBeNull();
      const [sign] = text.replace(/[^\x21-\x7e]/g, "");
      const command = parse(text);
      if (sign === "!" && command !== null) expect(KNOWN.has(command.name)).toBe(true);
    }),
    cases(),
  );
});
