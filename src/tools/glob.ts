// Patterns for file names as .gitignore and ripgrep's --glob write them; used by the built-in search only. Pure.
// "*.ts" matches a name in any folder, "src/*.ts" a path from where the pattern stands, "!x" takes a match back.

export interface GlobRule {
  readonly negated: boolean;
  readonly foldersOnly: boolean;
  /** `path` is relative to the folder the rule stands in. */
  matches(path: string): boolean;
}

/** One line → a rule, or null for a blank line, a comment or a pattern that can't be read. */
export function parseGlob(line: string): GlobRule | null {
  const trimmed = line.replace(/\r$/, "").replace(/(?<!\\) +$/, "");
  if (trimmed === "" || trimmed.startsWith("#")) return null;
  const negated = trimmed.startsWith("!");
  const body = negated ? trimmed.slice(1) : trimmed;
  const foldersOnly = body.endsWith("/");
  const pattern = body.replace(/\/$/, "");
  const anchored = pattern.includes("/");
  const regex = toRegex(pattern.replace(/^\//, ""));
  if (regex === null) return null;
  return { negated, foldersOnly, matches: (path) => regex.test(anchored ? path : path.slice(path.lastIndexOf("/") + 1)) };
}

const TOKENS = /\\.|\*\*\/|\/\*\*$|\*+|\?|\[!?[^\]]+\]|\{[^{}]*\}|./gsu;

function toRegex(glob: string): RegExp | null {
  const source = glob.replace(TOKENS, translate);
  try {
    return new RegExp(`^${source}$`, "u");
  } catch {
    return null; // A pattern git could not use either, for example a range that runs backwards.
  }
}

function translate(part: string): string {
  if (part === "**/") return "(?:[^/]+/)*";
  if (part === "/**") return "/.+";
  if (/^\*+$/.test(part)) return part === "**" ? ".*" : "[^/]*";
  if (part === "?") return "[^/]";
  if (part.length > 1 && part.startsWith("[")) return part.replace(/^\[!/, "[^").replaceAll("\\", "\\\\");
  if (part.length > 1 && part.startsWith("{")) {
    const choices = part.slice(1, -1).split(",");
    return `(?:${choices.map((choice) => choice.replace(TOKENS, translate)).join("|")})`;
  }
  return quote(part.length === 2 && part.startsWith("\\") ? part.slice(1) : part);
}

const quote = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

/** Rules of one folder's .gitignore, and where it stands. */
export interface IgnoreFile {
  /** Path of the folder below the workspace, "" for the workspace. */
  readonly base: string;
  readonly rules: readonly GlobRule[];
}

export const parseIgnoreFile = (base: string, text: string): IgnoreFile => ({
  base,
  rules: text.split("\n").flatMap((line) => parseGlob(line) ?? []),
});

/** The last rule that matches decides; files deeper in the tree come later in the list. */
export function isIgnored(path: string, isFolder: boolean, files: readonly IgnoreFile[]): boolean {
  let ignored = false;
  for (const { base, rules } of files) {
    const below = base === "" ? path : path.slice(base.length + 1);
    for (const rule of rules) if ((isFolder || !rule.foldersOnly) && rule.matches(below)) ignored = !rule.negated;
  }
  return ignored;
}
