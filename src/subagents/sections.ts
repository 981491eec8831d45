// The five sections a sub-agent ends with: what it is told to write, and how its answer is read back (RO3).
// OUTPUT_CONTRACT → child's system prompt … child's last text → recordSections → run record

import { type RunSections, SECTION_NAMES, type SectionName } from "../core/run.ts";
import { cutText } from "../core/visible-text.ts";

export const OUTPUT_CONTRACT = `End your last message with these five sections, in this order, each heading on a line of its own:

SUMMARY:
What you did and what came of it, in a few plain sentences.

CHANGES:
Every file or thing you changed, one per line with what changed. "None." if you changed nothing.

EVIDENCE:
What shows that it is so: file and line, command and output, address. Only what you saw yourself.

RISKS:
What may be wrong, untested or surprising. "None." if nothing is.

BLOCKERS:
What kept you from finishing and what would remove it. "None." if you finished.`;

// A heading or number, then emphasis, then the name; whatever follows is looked at by inlineText.
const HEADING = new RegExp(`^ {0,3}(#{1,6})?[ \\t]*(?:\\d{1,2}[.)][ \\t]+)?(\\*\\*|__)?(${SECTION_NAMES.join("|")})(.*)$`, "is");
const ANY_NAME = new RegExp(SECTION_NAMES.join("|"), "i");
const OTHER_HEADING = /^ {0,3}(#{1,6})[ \t]/;
const FENCE = /^[ \t]*(`{3,}|~{3,})([^`]*)$/;
const WRAPPER = /^(`{3,}|~{3,})[ \t]*(?:markdown|md|text)?[ \t]*$/;

/** Finds the sections in any order, case and heading style; a name inside a code block is text. The last one of a name counts. Never throws. */
export function parseSections(text: string): RunSections {
  // Most long texts have none, and looking at each of their lines takes longest.
  if (!ANY_NAME.test(text)) return eachSection(() => null);
  const lines = text.trim().split(/\r?\n/);
  const found = readSections(lines);
  // Some models put the whole answer into one code block.
  const isWrapped = WRAPPER.test(lines[0] ?? "") && WRAPPER.test(lines.at(-1) ?? "");
  const unwrapped = isWrapped ? readSections(lines.slice(1, -1)) : found;
  const sections = unwrapped.size > found.size ? unwrapped : found;
  return eachSection((name) => sections.get(name) ?? null);
}

const eachSection = (textOf: (name: SectionName) => string | null): RunSections =>
  Object.fromEntries(SECTION_NAMES.map((name) => [name, textOf(name)])) as RunSections;

const MAX_RECORDED = 2_000;

/** The sections for the run record, each cut to fit there; null when there is no text to find any in. */
export function recordSections(text: string): RunSections | null {
  if (text.trim() === "") return null;
  const sections = parseSections(text);
  return eachSection((name) => {
    const value = sections[name];
    return value === null || value.length <= MAX_RECORDED ? value : `${cutText(value, MAX_RECORDED)}… (cut)`;
  });
}

interface OpenSection {
  readonly name: SectionName;
  /** Number of `#`, 0 for any other style: a heading as high or higher ends the section. */
  readonly level: number;
  readonly lines: string[];
}

function readSections(lines: readonly string[]): Map<SectionName, string> {
  const isCode = markCode(lines);
  const sections = new Map<SectionName, string>();
  let open: OpenSection | null = null;
  const close = (): void => {
    const content =
      open?.lines
        .join("\n")
        .replace(/^\s*\n/, "")
        .trimEnd() ?? "";
    if (open && content.trim() !== "") sections.set(open.name, content);
    open = null;
  };
  for (const [index, line] of lines.entries()) {
    const heading = isCode[index] ? null : readHeading(line);
    if (heading) {
      close();
      open = heading;
    } else if (open && !isCode[index] && endsSection(line, open)) close();
    else open?.lines.push(line);
  }
  close();
  return sections;
}

function readHeading(line: string): OpenSection | null {
  const [, hashes = "", emphasis = "", name, rest = ""] = HEADING.exec(line) ?? [];
  if (name === undefined) return null;
  const inline = inlineText(hashes === "" ? rest : rest.replace(/[ \t]#+[ \t]*$/, ""), emphasis);
  if (inline === null) return null;
  return { name: name.toLowerCase() as SectionName, level: hashes.length, lines: inline === "" ? [] : [inline] };
}

/** The text after `SUMMARY` on its line: empty for a bare heading, null when the line is a sentence that only begins with the word. */
function inlineText(rest: string, emphasis: string): string | null {
  const before = /^[ \t]*[:：]?/.exec(rest)?.[0] ?? "";
  let after = rest.slice(before.length).trim();
  let hasColon = before.trim() !== "";
  if (emphasis !== "" && after.startsWith(emphasis)) {
    after = after.slice(emphasis.length).trim();
    if (/^[:：]/.test(after)) {
      hasColon = true;
      after = after.slice(1).trim();
    }
  } else if (emphasis !== "") {
    // **SUMMARY: all of it bold**
    if (!after.endsWith(emphasis)) return null;
    after = after.slice(0, -emphasis.length).trim();
  }
  return after === "" || hasColon ? after : null;
}

function endsSection(line: string, section: OpenSection): boolean {
  const level = OTHER_HEADING.exec(line)?.[1]?.length;
  return level !== undefined && section.level > 0 && level <= section.level;
}

/** Which lines stand in code blocks. A fence that is never closed (an answer cut short) opens none. */
function markCode(lines: readonly string[]): boolean[] {
  const fences = lines.map((line) => {
    const [, mark = "", info = ""] = FENCE.exec(line) ?? [];
    return { mark, isBare: mark !== "" && info.trim() === "" };
  });
  const isClosed = findClosed(fences);
  let open = "";
  return fences.map(({ mark, isBare }, index) => {
    if (open === "") {
      if (isClosed[index]) open = mark;
      return open !== "";
    }
    if (isBare && mark.startsWith(open)) open = "";
    return true;
  });
}

/** For each line: is it a fence that a later one closes? From the end, so that many unclosed ones cost no more than one. */
function findClosed(fences: readonly { mark: string; isBare: boolean }[]): boolean[] {
  const longestAfter = new Map<string, number>();
  return fences
    .toReversed()
    .map(({ mark, isBare }) => {
      const longest = longestAfter.get(mark.charAt(0)) ?? 0;
      if (isBare && mark.length > longest) longestAfter.set(mark.charAt(0), mark.length);
      return mark !== "" && longest >= mark.length;
    })
    .reverse();
}
