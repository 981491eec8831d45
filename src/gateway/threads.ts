// The conversations in a chat's threads. Slack doesn't say in which thread a slash command was typed: it arrives as one of
// the chat itself. Whoever typed it there is told where to write instead, never that nothing is at work.
import type { Inbox } from "../stores/inbox.ts";
import type { Runs } from "../stores/runs.ts";
import { type CommandContext, plural } from "./commands.ts";

export interface ThreadDeps {
  readonly inbox: Pick<Inbox, "waitingSessions">;
  readonly runs: Pick<Runs, "rootsAtWork">;
}

/** Null when no thread of this chat is at work, or when the command can't have meant one. */
export function threadHint(deps: ThreadDeps, { sessionKey, inbound }: CommandContext, command: string): string | null {
  const { thread, kind } = inbound.address;
  // A Telegram group's topics are named in every update.
  if (thread !== undefined || kind === "group") return null;
  const below = `${sessionKey}:`;
  const count = new Set([...deps.inbox.waitingSessions(below), ...deps.runs.rootsAtWork(below)]).size;
  return count === 0 ? null : `At work in threads of this chat: ${plural(count, "conversation")}. Write \`!${command}\` there.`;
}
