// The posture of a sub-agent: which tools its role may have (data for the policy), what it is told, and how its answer is read back.
// sessions_spawn.role → parseRole → Role (policy, sandbox, system prompt) … child's last text → parseSections → run record
import { type RunSections, SECTION_NAMES, type SectionName } from "../core/run.ts";
import type { Capability } from "../core/tool.ts";

export const ROLE_NAMES = ["general", "explore", "plan", "review", "implementer", "verifier", "custom"] as const;
export type RoleName = (typeof ROLE_NAMES)[number];

/** What a role may do at most. The policy intersects it with everything else, so it only ever takes away. */
export interface Role {
  readonly name: RoleName;
  readonly aliases: readonly string[];
  readonly capabilities: readonly Capability[];
  /** Tools refused by name: `remember` writes into the workspace's memory although its capability isn't "write". */
  readonly deniedTools: readonly string[];
  /** The shell sees the workspace read-only; build output goes to its own /scratch. */
  readonly readOnlyShell: boolean;
  /** The child has exactly the spawn's `allowedTools`, so the spawn must name them. */
  readonly needsAllowedTools: boolean;
  /** The role's part of the child's system prompt. */
  readonly text: string;
}

const ALL: readonly Capability[] = ["read", "write", "exec", "net", "memory", "session"];
const without = (...taken: Capability[]): readonly Capability[] => ALL.filter((capability) => !taken.includes(capability));

const FULL = { capabilities: ALL, deniedTools: [], readOnlyShell: false, needsAllowedTools: false } as const;
const READ_ONLY = { ...FULL, capabilities: without("write"), deniedTools: ["remember"], readOnlyShell: true } as const;

const ROLES: Readonly<Record<RoleName, Role>> = {
  general: {
    ...FULL,
    name: "general",
    aliases: ["worker", "default", "general-purpose"],
    text: "You are a general worker. Carry the task through from start to finish, and check your own result before you report it.",
  },
  explore: {
    ...READ_ONLY,
    name: "explore",
    aliases: ["explorer", "exploration"],
    text: `You are an explorer. Find out what the task asks and report it; change nothing.
Search broadly first, then read what matters. Give the file and line for every finding, and say what you looked for and did not find.`,
  },
  plan: {
    ...FULL,
    capabilities: without("exec"),
    name: "plan",
    aliases: ["planning", "awaiter"],
    text: `You are a planner. Work out how the task should be done; do not do it. You have no shell.
Give ordered steps that someone else can carry out, each with the files it touches and how to tell that it is done. Name open decisions and the choice you recommend. Write a file only if the task asks for the plan as one.`,
  },
  review: {
    ...READ_ONLY,
    capabilities: without("write", "exec"),
    name: "review",
    aliases: ["reviewer", "code-review"],
    text: `You are a reviewer. Judge the work you are given; change nothing. You have no shell.
Report what is wrong or risky, the most serious first, each with file, line, what would happen, and how to fix it. Leave out matters of taste. If you find nothing wrong, say so and say what you read.`,
  },
  implementer: {
    ...FULL,
    name: "implementer",
    aliases: ["implement", "implementation", "builder"],
    text: `You are an implementer. Make the change the task asks for: the smallest one that is complete, in the style of what is already there.
Read before you edit. Run the checks that exist. List every file you changed.`,
  },
  verifier: {
    ...READ_ONLY,
    name: "verifier",
    aliases: ["verify", "verification", "validator", "tester"],
    text: `You are a verifier. Find out whether a claim or a piece of work holds; do not repair it.
Run it: tests, builds, the program itself. The workspace is read-only; build output goes to the scratch folder. Report each check with its command and what it printed, and a clear verdict: holds, fails, or could not be checked and why.`,
  },
  custom: {
    ...FULL,
    needsAllowedTools: true,
    name: "custom",
    aliases: [],
    text: "You have exactly the tools that were chosen for this task. If it can't be done with them, say so instead of working around it.",
  },
};

const BY_NAME: ReadonlyMap<string, Role> = new Map(
  Object.values(ROLES).flatMap((role) => [role.name, ...role.aliases].map((name) => [name, role] as const)),
);

/** Every name `parseRole` accepts, as shown to a model: `explore (explorer, exploration)`. */
export const ACCEPTED_ROLES: readonly string[] = Object.values(ROLES).map((role) =>
  role.aliases.length > 0 ? `${role.name} (${role.aliases.join(", ")})` : `${role.name} (needs allowedTools)`,
);

export type RoleResult = { readonly ok: true; readonly role: Role } | { readonly ok: false; readonly error: string };

/** The role by name or alias in any case; `general` when none is named. Never throws. */
export function parseRole(name: string | undefined, allowedTools?: readonly string[]): RoleResult {
  const role = BY_NAME.get(name?.trim().toLowerCase() ?? "general");
  if (!role) return { ok: false, error: `Unknown role ${JSON.stringify(name?.slice(0, 60))}. Accepted: ${ACCEPTED_ROLES.join("; ")}.` };
  if (role.needsAllowedTools && !allowedTools?.length) {
    return { ok: false, error: `Role "${role.name}" needs allowedTools: the list of tools the sub-agent may use.` };
  }
  return { ok: true, role };
}

/** Each section's text, null when it is missing or empty; `missing` lists those in the contract's order. */
export type Sections = RunSections & { readonly missing: readonly SectionName[] };

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
const OTHER_HEADING = /^ {0,3}(#{1,6})[ \t]/;
const FENCE = /^[ \t]*(`{3,}|~{3,})([^`]*)$/;
const WRAPPER = /^(`{3,}|~{3,})[ \t]*(?:markdown|md|text)?[ \t]*$/;

/** Finds the sections in any order, case and heading style; a name inside a code block is text. The last one of a name counts. Never throws. */
export function parseSections(text: string): Sections {
  const lines = text.trim().split(/\r?\n/);
  const found = readSections(lines);
  // Some models put the whole answer into one code block.
  const isWrapped = WRAPPER.test(lines[0] ?? "") && WRAPPER.test(lines.at(-1) ?? "");
  const unwrapped = isWrapped ? readSections(lines.slice(1, -1)) : found;
  const sections = unwrapped.size > found.size ? unwrapped : found;
  const value = (name: SectionName) => sections.get(name) ?? null;
  return {
    summary: value("summary"),
    changes: value("changes"),
    evidence: value("evidence"),
    risks: value("risks"),
    blockers: value("blockers"),
    missing: SECTION_NAMES.filter((name) => !sections.has(name)),
  };
}

const MAX_RECORDED = 2_000;

/** The sections for the run record, each cut to fit there; null when there is no text to find any in. */
export function recordSections(text: string): RunSections | null {
  if (text.trim() === "") return null;
  const sections = parseSections(text);
  const cut = (value: string | null): string | null =>
    value === null || value.length <= MAX_RECORDED ? value : `${value.slice(0, MAX_RECORDED).toWellFormed()}… (cut)`;
  return {
    summary: cut(sections.summary),
    changes: cut(sections.changes),
    evidence: cut(sections.evidence),
    risks: cut(sections.risks),
    blockers: cut(sections.blockers),
  };
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
