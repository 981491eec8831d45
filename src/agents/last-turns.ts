// The last turns of a conversation as plain lines, for who sums them up (RP3): from a message to the agent to the next one, the turn under
// way as the last of them. Read from the transcript's end, so that neither its length nor a compaction in between matters.
import type { Entry } from "../stores/transcript-entry.ts";
import type { TranscriptRef, Transcripts } from "../stores/transcripts.ts";
import { toMessages } from "./context.ts";
import { charsOf } from "./fit.ts";
import { isSummedUp, newestFirst, toLine } from "./older.ts";

export interface LastTurns {
  /** Empty: nothing was said yet. */
  readonly text: string;
  /** The oldest of them did not fit, or not whole. */
  readonly isCut: boolean;
}

export async function lastTurns(
  transcripts: Transcripts,
  ref: TranscriptRef,
  { turns, maxChars }: { readonly turns: number; readonly maxChars: number },
): Promise<LastTurns> {
  const entries: Entry[] = [];
  let [found, chars, isCut] = [0, 0, false];
  for await (const { entry } of newestFirst(transcripts, ref)) {
    if (!isSummedUp(entry)) continue;
    chars += charsOf([entry]);
    isCut = chars > maxChars && entries.length > 0;
    if (isCut) break;
    entries.unshift(entry);
    if (entry.type === "message" && entry.role === "user" && ++found === turns) break;
  }
  const text = toMessages(untilCalls(entries)).map(toLine).join("\n");
  return { text: text.slice(-maxChars), isCut: isCut || text.length > maxChars };
}

/** The calls under way have no result yet, and who asks is one of them. */
function untilCalls(entries: readonly Entry[]): readonly Entry[] {
  const last = entries.findLastIndex((entry) => entry.type === "message");
  const message = entries[last];
  return message?.type === "message" && message.role === "assistant" && message.calls > 0 ? entries.slice(0, last + 1) : entries;
}
