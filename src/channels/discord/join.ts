// Several announcements in one message: Discord takes five messages in five seconds in a channel, so what has to wait for its turn
// anyway goes out together. Each is whole; nothing is shortened for it.
import type { Pace, Part } from "../../core/message.ts";
import { type DiscordPart, MAX_LENGTH } from "./render.ts";

/**
 * Within five in five seconds, whenever they begin; and fifty calls a second in all, of which some are no messages.
 * A thread is a channel with a count of its own.
 */
export const DISCORD_PACE: Pace = {
  chat: { burst: 2, everyMs: 1_300, answersOnTop: 1 },
  threadsApart: true,
  account: { max: 30, perMs: 1_050 },
  editEveryMs: { alone: 3_000, group: 3_000 },
};

const BETWEEN = "\n\n――――――――――\n\n";
/** Anything else (buttons, a file, a reply) belongs to one message and can't be shared. */
const SHARED: ReadonlySet<string> = new Set<keyof DiscordPart>(["content", "thread"]);

/** Null when they don't fit into one message. */
export function joinParts(parts: readonly Part[]): Part | null {
  const [first, ...others] = parts as readonly DiscordPart[];
  if (first === undefined || parts.some((part) => Object.keys(part).some((key) => !SHARED.has(key)))) return null;
  const content = [first, ...others].map((part) => part.content).join(BETWEEN);
  return content.length > MAX_LENGTH ? null : { ...first, content };
}
