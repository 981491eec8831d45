// A child's transcript for reading: the last messages as text (CM5). Works the same on a live, ended and archived run.
import type { Run } from "../core/run.ts";
import { argsText } from "../core/tool.ts";
import { capText } from "../core/visible-text.ts";
import type { Entry } from "../stores/transcript-entry.ts";
import type { Transcripts } from "../stores/transcripts.ts";
import { transcriptOfRun } from "./deps.ts";
import { quotable } from "./report.ts";

export const DEFAULT_LOG = 20;
export const MAX_LOG = 200;
const MAX_ENTRY = 1_500;
/** Tool entries outnumber messages; look this much further back for the messages asked for. */
const LOOK_BACK = 20;

/** The last `limit` messages, tool calls only with `tools`. */
export function logText(transcripts: Transcripts, run: Run, options: { limit: number; tools: boolean }): string {
  const limit = Math.min(Math.max(Math.trunc(options.limit), 1), MAX_LOG);
  const entries = transcripts.tail(transcriptOfRun(run), options.tools ? limit : limit * LOOK_BACK);
  const lines = entries
    // The announce step is the runtime talking to the child; its prompt is nobody's business (AN5).
    .filter((entry) => entry.phase !== "announce" && (options.tools || isMessage(entry)))
    .slice(-limit)
    .map(line);
  return lines.length === 0 ? "(nothing on record yet)" : lines.join("\n\n");
}

const isMessage = (entry: Entry): boolean =>
  entry.type === "note" || entry.type === "compaction" || (entry.type === "message" && entry.text.trim() !== "");

function line(entry: Entry): string {
  const time = entry.timestamp.slice(11, 19);
  const short = (text: string): string => capText(quotable(text), MAX_ENTRY, "the transcript has it all");
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
  }
}
