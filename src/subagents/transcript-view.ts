// A child's transcript for reading: the last messages as text (CM5). Works the same on a live, ended and archived run.
import { withoutFences } from "../core/fence.ts";
import type { Run } from "../core/run.ts";
import { argsText } from "../core/tool.ts";
import { capText } from "../core/visible-text.ts";
import { type Entry, isTopicNote } from "../stores/transcript-entry.ts";
import type { Transcripts } from "../stores/transcripts.ts";
import { transcriptOfRun } from "./deps.ts";
import { quotable } from "./quoting.ts";

export const DEFAULT_LOG = 20;
export const MAX_LOG = 200;
const MAX_ENTRY = 1_500;
/** A page ends after so many bytes read; a stretch of tool results that long and longer may lie before the messages. */
const MAX_PAGES = 10;
/** For what may stand at the very beginning. */
const MAX_SEARCHED = 500;
const MAX_CALLS = 10_000;

/** The last `limit` messages, tool calls only with `tools`. */
export async function logText(transcripts: Transcripts, run: Run, options: { limit: number; tools: boolean }): Promise<string> {
  const limit = Math.min(Math.max(Math.trunc(options.limit), 1), MAX_LOG);
  try {
    const entries = await lastEntries(transcripts, run, limit, (entry) => isShown(entry, options.tools));
    return entries.length === 0 ? "(nothing on record yet)" : entries.map(line).join("\n\n");
  } catch (error) {
    return `(its transcript ${unreadable(error)})`;
  }
}

/** Why there is nothing to read, for the chat. What passes by itself, a disk that refuses, is thrown on and tried again. */
function unreadable(error: unknown): string {
  const words = UNREADABLE[(error as NodeJS.ErrnoException).code ?? ""];
  if (words === undefined) throw error;
  return words;
}

const UNREADABLE: Readonly<Record<string, string>> = {
  ENOENT: "is gone",
  EISDIR: "can't be read: a folder is in its place",
  ENOTDIR: "can't be read: a file is in the place of its folder",
  EACCES: "can't be read: Herald has no right to open the file",
};

/** Far more steps than any run makes. */
const MAX_ANSWERS = 1_000;

/** The models that really answered, in the order they first did: where one failed another stood in for it (CM6). */
export async function answeredBy(transcripts: Transcripts, run: Run): Promise<string[]> {
  const answers = await lastEntries(transcripts, run, MAX_ANSWERS, (entry) => entry.type === "message" && entry.role === "assistant");
  return [...new Set(answers.flatMap((entry) => (entry.type === "message" && entry.role === "assistant" ? [entry.model] : [])))];
}

/** The entry with this id, wherever it stands; null: it is not there, or the transcript is gone. */
export async function findEntry(transcripts: Transcripts, run: Run, id: string): Promise<Entry | null> {
  try {
    return (await lastEntries(transcripts, run, 1, (entry) => entry.id === id, MAX_SEARCHED))[0] ?? null;
  } catch (error) {
    unreadable(error);
    return null;
  }
}

/** How often it called each tool, as far back as such a look reaches; null: its transcript is gone. */
export async function toolCounts(transcripts: Transcripts, run: Run): Promise<ReadonlyMap<string, number> | null> {
  const counts = new Map<string, number>();
  try {
    for (const entry of await lastEntries(transcripts, run, MAX_CALLS, ({ type }) => type === "tool_call", MAX_SEARCHED))
      if (entry.type === "tool_call") counts.set(entry.name, (counts.get(entry.name) ?? 0) + 1);
    return counts;
  } catch (error) {
    unreadable(error);
    return null;
  }
}

/** The same as one of many facts about a run, which are told without it when there is nothing to read. */
export async function answeredByIfReadable(transcripts: Transcripts, run: Run): Promise<string[]> {
  try {
    return await answeredBy(transcripts, run);
  } catch (error) {
    unreadable(error);
    return [];
  }
}

/** What is hidden doesn't count: an ended run closes with the announce step, which would use up a small limit. */
async function lastEntries(
  transcripts: Transcripts,
  run: Run,
  limit: number,
  fits: (entry: Entry) => boolean,
  maxPages = MAX_PAGES,
): Promise<Entry[]> {
  const found: Entry[] = [];
  let before: number | null = null;
  for (let pages = 0; pages < maxPages && found.length < limit; pages++) {
    const page = await transcripts.page(transcriptOfRun(run), { before, limit: limit - found.length, fits });
    found.unshift(...page.entries.map(({ entry }) => entry));
    before = page.before;
    if (before === null) break;
  }
  return found;
}

/** The announce step is the runtime talking to the child; its prompt is nobody's business (AN5). */
function isShown(entry: Entry, tools: boolean): boolean {
  if (entry.phase === "announce" || entry.type === "rewound" || isTopicNote(entry)) return false;
  if (entry.type === "tool_call" || entry.type === "tool_result") return tools;
  return entry.type !== "message" || entry.text.trim() !== "";
}

function line(entry: Entry): string {
  const time = entry.timestamp.slice(11, 19);
  const short = (text: string): string => capText(quotable(withoutFences(text)), MAX_ENTRY, "the transcript has it all");
  switch (entry.type) {
    case "message":
      return `\`${time}\` **${entry.role === "user" ? entry.from : "sub-agent"}:** ${short(entry.text)}`;
    case "note":
      return `\`${time}\` _note:_ ${short(entry.text)}`;
    case "compaction":
      return `\`${time}\` _summary of what came before:_ ${short(entry.summary)}`;
    case "tool_call":
      return `\`${time}\` → ${entry.name} ${short(argsText(entry.args))}`;
    case "tool_result":
      return `\`${time}\` ← ${entry.name}${entry.isError ? " (error)" : ""}: ${short(entry.text)}`;
    case "rewound":
      return "";
  }
}
