// The conversations in a chat's threads. Slack doesn't say in which thread a slash command was typed: it arrives as one of
// the chat itself. Whoever typed it there is told where to write instead, never that nothing is at work.
import type { Inbox } from "../stores/inbox.ts";
import type { Runs } from "../stores/runs.ts";
import { type CommandContext, plural } from "./commands.ts";

export interface ThreadDeps {
  readonly inbox: Pick<Inbox, "waitingSessions">;
  readonly runs: Pick<Runs, "rootsAtWork">;
}

/** It is only to say where to look: a busy channel may have thousands, and nobody reads their exact number. */
const MAX_COUNTED = 100;

/** Null when no thread of this chat is at work, or when the command can't have meant one. */
export async function threadHint(deps: ThreadDeps, { sessionKey, inbound }: CommandContext, command: string): Promise<string | null> {
  const { thread, kind, channel } = inbound.address;
  // A Telegram group's topics are named in every update.
  if (thread !== undefined || kind === "group") return null;
  const below = `${sessionKey}:`;
  const limit = MAX_COUNTED + 1;
  const count = new Set([...(await deps.inbox.waitingSessions(below, limit)), ...(await deps.runs.rootsAtWork(below, limit))]).size;
  if (count === 0) return null;
  // On Discord a slash command knows its thread: it can be typed there.
  const sign = /^discord\b/.test(channel) ? "/" : "!";
  const counted = count > MAX_COUNTED ? `more than ${MAX_COUNTED} conversations` : plural(count, "conversation");
  return `At work in threads of this chat: ${counted}. Write \`${sign}${command}\` there.`;
}
