// What the runtime adds to the notes of an announcement: how the run ended, and what can be done about it. Pure.
import { shortId } from "../core/ids.ts";
import type { Run } from "../core/run.ts";
import type { ModelError } from "../models/model.ts";
import { checksNote } from "./checks.ts";
import type { Ending } from "./outcome.ts";
import { oneLine } from "./quoting.ts";

/** What can be done about a model that failed: by anybody in the chat, and by whoever runs the gateway where they read it. */
function adviceOn({ kind, remedy }: ModelError, run: Run, isOperator: boolean): string[] {
  const own = isOperator && remedy !== undefined ? [`- ${remedy}`] : [];
  if (kind === "context") return ["- What it read is more than its model can hold: ask for it in smaller parts."];
  if (!["rate", "overload", "network", "timeout"].includes(kind)) return own;
  return [`- \`/subagents send ${shortId(run.id)} go on\` lets it try again.`, ...own];
}

interface Answered {
  /** Those that answered for it. */
  readonly models: readonly string[];
  readonly result: string;
}

/** What the runtime adds to the notes: people must not take half a result for a whole one. */
export function remarksOf(run: Run, ending: Ending, { models, result }: Answered, isOperator: boolean): string[] {
  const checked = checksNote(run.params, ending.checks ?? run.checks);
  const remarks: string[] = checked === null ? [] : [checked];
  const had = result.trim() === "" ? "." : "; this is what it had until then.";
  const others = models.filter((model) => model !== run.model);
  if (others.length > 0) remarks.push(`- ${others.map(oneLine).join(", ")} answered instead of ${oneLine(run.model)}, which failed.`);
  // Of one that was given up in the end it would say the opposite of what became of it.
  if (run.resumes > 0 && ending.as !== "interrupted")
    remarks.push("- The gateway restarted while this ran; the work was resumed from its transcript.");
  if (ending.incomplete) remarks.push(`- Incomplete: ${ending.reason}. The result may miss parts.`);
  else if (ending.as === "done" && ending.reason !== null) remarks.push(`- ${ending.reason}`);
  if (ending.notice != null) remarks.push(`- ${ending.notice}`);
  if (ending.as === "error") remarks.push(`- It failed: ${ending.reason ?? "no reason is known"}`);
  if (ending.error != null) remarks.push(...adviceOn(ending.error, run, isOperator));
  if (ending.as === "timeout") remarks.push(`- It was ended by its time limit (${ending.reason ?? "runTimeoutSeconds"})${had}`);
  if (ending.unread !== undefined && ending.unread > 0) remarks.push(`- ${unreadText(ending.unread)}`);
  if (ending.as === "interrupted") remarks.push(`- It was interrupted (${ending.reason ?? "the gateway restarted"})${had}`);
  return remarks;
}

export const unreadText = (count: number): string =>
  `${count === 1 ? "A message to it was" : `${count} messages to it were`} not read before it ended; it reads ${count === 1 ? "it" : "them"} when it goes on.`;
