// Several announcements in one message: Telegram takes a message a second in a chat and twenty a minute in a group, so what has
// to wait for its turn anyway goes out together. Each is whole; nothing is shortened for it.
import type { Pace, Part } from "../../core/message.ts";
import { MAX_ENTITIES, MAX_LENGTH, type TelegramPart } from "./render.ts";

/** As published, with a little to spare: Telegram's clock is not ours. A short burst in a chat is fine. */
export const TELEGRAM_PACE: Pace = {
  chat: { burst: 3, everyMs: 1_010, answersOnTop: 5 },
  group: { max: 20, perMs: 61_000 },
  account: { max: 30, perMs: 1_050 },
  // Edits count in a group's 20 a minute: at 12 there are eight left for what is said.
  editEveryMs: { alone: 3_000, group: 5_100 },
};

const BETWEEN = "\n\n――――――――――\n\n";
/** Anything else (buttons, a file, a reply) belongs to one message and can't be shared. */
const SHARED: ReadonlySet<string> = new Set<keyof TelegramPart>(["text", "entities", "topic", "kind"]);

/** Null when they don't fit into one message. */
export function joinParts(parts: readonly Part[]): Part | null {
  const [first, ...others] = parts as readonly TelegramPart[];
  if (first === undefined || parts.some((part) => Object.keys(part).some((key) => !SHARED.has(key)))) return null;
  let text = first.text;
  const entities = [...(first.entities ?? [])];
  for (const part of others) {
    const at = text.length + BETWEEN.length;
    text += BETWEEN + part.text;
    entities.push(...(part.entities ?? []).map((entity) => ({ ...entity, offset: entity.offset + at })));
  }
  if (text.length > MAX_LENGTH || entities.length > MAX_ENTITIES) return null;
  return { ...first, text, ...(entities.length === 0 ? {} : { entities }) };
}
