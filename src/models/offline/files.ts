// The offline model's work on files: read, list, summarise, count. Every figure comes from a tool result.
// intents.ts → these jobs → read, list, exec.
import { type Ask, callTool, cut, type Desk, failed, type Job, missing, type Outcome, plural, quote, type Result } from "./job.ts";

const LEVELS = 4;
const MAX_READS = 6;
const MAX_NAMES = 30;
const MAX_HEADINGS = 40;
const TEXT_FILE = /\.(?:md|txt|[cm]?[jt]sx?|json5?|ya?ml|toml|py|rs|go|c|h|html|css|sh|sql)$/i;

interface Content {
  readonly lines: readonly string[];
  /** The tool said that there is more than it returned. */
  readonly goesOn: boolean;
}

/** What a read result holds, without the note a tool puts at the end of a page. Null: no text (empty, binary). */
function toContent(text: string): Content | null {
  if (/^"[^\n]*" is (?:empty|a binary file)\b[^\n]*$/.test(text.trim())) return null;
  const note = /\n*\[[^\n]*\boffset \d+[^\n]*\]\s*$/.exec(text);
  const body = note === null ? text : text.slice(0, note.index);
  return { lines: body.replace(/\r?\n$/, "").split(/\r?\n/), goesOn: note !== null };
}

/** Markdown headings outside code blocks, with their level. */
function headings(lines: readonly string[]): string[] {
  const found: string[] = [];
  let fence = "";
  for (const line of lines) {
    const mark = /^\s{0,3}(```+|~~~+)/.exec(line)?.[1] ?? "";
    if (mark !== "") fence = fence === "" ? mark : mark.startsWith(fence) ? "" : fence;
    const heading = fence === "" ? /^(#{1,6})\s+(.+?)\s*#*$/.exec(line) : null;
    if (heading?.[1] && heading[2]) found.push(`${"  ".repeat(heading[1].length - 1)}- ${heading[2]}`);
  }
  return found;
}

export function readFile(desk: Desk, path: string, wish: string): Job {
  return callTool(desk, "read", { path }, (text) => describeFile(path, text, /\bheadings?\b/i.test(wish)));
}

function describeFile(path: string, text: string, onlyHeadings: boolean): string {
  const content = toContent(text);
  if (content === null) return text.trim();
  const outline = headings(content.lines).slice(0, MAX_HEADINGS).join("\n");
  const size = `\`${path}\`: ${plural(content.lines.length, "line")} read${content.goesOn ? ", and it goes on" : ""}.`;
  if (onlyHeadings) return outline === "" ? `${size} I see no Markdown headings.` : `${size} Its headings:\n\n${outline}`;
  const first = `First lines:\n\n${quote(content.lines.slice(0, 12).join("\n"), 1000)}`;
  return outline === "" ? `${size} ${first}` : `${size} Its headings:\n\n${outline}\n\n${first}`;
}

interface FolderEntry {
  readonly path: string;
  readonly isFolder: boolean;
}

/** The entries of a list result: one path per line, folders with a slash; notes, links and special files are left out. */
function parseListing(text: string): FolderEntry[] {
  return text.split(/\r?\n/).flatMap((line) => {
    const entry = /^([^\s["][^\t]*?)(\/?)$/.exec(line.trim());
    return entry?.[1] === undefined || /@$| \((?:FIFO|socket|device)\)$/.test(entry[1])
      ? []
      : [{ path: entry[1], isFolder: entry[2] === "/" }];
  });
}

/** A folder or a file in plain figures; counts lines when asked to. */
export function* summarise(desk: Desk, target: string, wish: string): Job {
  const wantsCount = /\b(?:count|how many|number of|wc)\b/i.test(wish);
  if (!desk.has("list") || TEXT_FILE.test(target))
    return desk.has("read") ? yield* readFile(desk, target, wish) : missing(TEXT_FILE.test(target) ? "read" : "list");
  const [listing] = yield { calls: [desk.call("list", { path: target, depth: LEVELS })] };
  if (listing === undefined || listing.isError) {
    // Not a folder, then: perhaps a file. If that fails too, its error is the one to tell.
    return desk.has("read") ? yield* readFile(desk, target, wish) : failed("list", listing);
  }
  const entries = parseListing(listing.text);
  const files = entries.filter((entry) => !entry.isFolder);
  const counted = wantsCount && desk.has("exec") ? yield* countLines(desk, target) : null;
  const read = yield* readSome(desk, files);
  const parts = [describeFolder(target, entries), ...describeReads(read, files.length)];
  if (counted !== null) parts.push(counted.text);
  if (wantsCount && counted?.blockers?.length !== 0) parts.push(countedByReading(target, read, files.length));
  return { text: parts.join("\n\n"), blockers: counted?.blockers ?? [] };
}

interface ReadFile extends Content {
  readonly path: string;
}

function* readSome(desk: Desk, files: readonly FolderEntry[]): Generator<Ask, ReadFile[], readonly Result[]> {
  const texts = spread(files.filter((file) => TEXT_FILE.test(file.path))).slice(0, MAX_READS);
  if (texts.length === 0 || !desk.has("read")) return [];
  const results = yield { calls: texts.map((file) => desk.call("read", { path: file.path })) };
  return texts.flatMap((file, index) => {
    const result = results[index];
    const content = result === undefined || result.isError ? null : toContent(result.text);
    return content === null ? [] : [{ path: file.path, ...content }];
  });
}

/** The first file of every folder, then the second of each: a few of them show more of the whole. */
function spread(files: readonly FolderEntry[]): FolderEntry[] {
  const seen = new Map<string, number>();
  const ranked = files.map((file) => {
    const folder = file.path.slice(0, file.path.lastIndexOf("/") + 1);
    const rank = seen.get(folder) ?? 0;
    seen.set(folder, rank + 1);
    return { file, rank };
  });
  return ranked.sort((a, b) => a.rank - b.rank).map(({ file }) => file);
}

/** Lines of all files below the target, counted by the shell. */
export function* countLines(desk: Desk, target: string): Job {
  if (!desk.has("exec")) return missing("exec");
  // Empty ones have no lines, and the sandbox itself puts some there, in front of what is closed to it.
  const find = `find ${shellWord(target)} -type f -size +0 -not -path '*/node_modules/*' -not -path '*/.git/*'`;
  const count = `echo "files: $(${find} | wc -l)"; echo "lines: $(${find} -exec cat {} + | wc -l)"`;
  // Nothing is not the same as no lines.
  const command = `if [ -e ${shellWord(target)} ]; then ${count}; else echo "nothing there"; fi`;
  const [result] = yield { calls: [desk.call("exec", { command })] };
  if (result?.text.startsWith("nothing there\n") === true) {
    const text = `There is no ${named(target)} in my workspace.`;
    return { text, blockers: [text] };
  }
  const files = /files:\s*(\d+)/.exec(result?.text ?? "")?.[1];
  const lines = /lines:\s*(\d+)/.exec(result?.text ?? "")?.[1];
  if (result === undefined || result.isError || files === undefined || lines === undefined) return failed("exec", result);
  return { text: `Counted with \`wc\`: ${lines} lines in ${files} files below ${named(target)}.`, blockers: [] };
}

/** A place as people say it. */
export const named = (target: string): string => (target === "." ? "the workspace" : `\`${target}\``);
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** One word for the shell, whatever it holds; a leading dash can't become an option. */
const shellWord = (text: string): string => `'${(text.startsWith("-") ? `./${text}` : text).replaceAll("'", "'\\''")}'`;

function describeFolder(target: string, entries: readonly FolderEntry[]): string {
  const folders = entries.filter((entry) => entry.isFolder).length;
  const depth = Math.min(...entries.map((entry) => entry.path.split("/").length));
  const top = entries.filter((entry) => entry.path.split("/").length === depth);
  const names = top.slice(0, MAX_NAMES).map((entry) => `\`${entry.path}${entry.isFolder ? "/" : ""}\``);
  const rest = top.length > names.length ? ` and ${top.length - names.length} more` : "";
  const figures = `${plural(folders, "folder")} and ${plural(entries.length - folders, "file")}`;
  return `${capital(named(target))}: the listing (${LEVELS} levels at most) shows ${figures}. At the top: ${names.join(", ") || "nothing"}${rest}.`;
}

function describeReads(read: readonly ReadFile[], total: number): string[] {
  if (read.length === 0) return [];
  const lines = read.map(
    (file) =>
      `- \`${file.path}\` (${plural(file.lines.length, "line")}${file.goesOn ? " and more" : ""}): ${cut(firstWords(file.lines), 160)}`,
  );
  return [`Read ${read.length} of ${plural(total, "file")}, with the first words of each:\n\n${lines.join("\n")}`];
}

/** A file's first heading, comment or line: usually what it is for. */
const firstWords = (lines: readonly string[]): string =>
  lines
    .find((line) => /[\p{L}\d]/u.test(line))
    ?.replace(/^[\s#/*<!;-]+/, "")
    .trim() || "(nothing readable)";

function countedByReading(target: string, read: readonly ReadFile[], total: number): string {
  const sum = read.reduce((lines, file) => lines + file.lines.length, 0);
  const rest =
    total > read.length ? ` The other ${plural(total - read.length, "file")} were not counted; \`exec\` could count them all.` : "";
  return `The ${plural(read.length, "file")} I read below ${named(target)} have ${plural(sum, "line")}${read.some((file) => file.goesOn) ? " at least" : ""}.${rest}`;
}

/** What a shell command printed. `target`: run it on each file below. */
export function runCommand(desk: Desk, command: string, target: string | undefined): Job {
  const perFile = /^(?:wc|head|tail|cat|grep|md5sum|sha256sum)\b[\w\s./-]*$/.test(command);
  const whole =
    target === undefined
      ? command
      : perFile
        ? `find ${shellWord(target)} -type f -exec ${command} {} +`
        : `${command} ${shellWord(target)}`;
  return callTool(
    desk,
    "exec",
    { command: whole },
    (text): Outcome => ({ text: `Ran ${inlineCode(whole)}:\n\n${quote(text.trim() || "(no output)")}`, changes: [] }),
  );
}

const inlineCode = (text: string): string => (text.includes("`") ? `\`\` ${text} \`\`` : `\`${text}\``);
