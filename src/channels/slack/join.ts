// Several announcements in one message: Slack takes about a message a second in a channel, so what has to wait for its turn
// anyway goes out together. Each is whole; nothing is shortened for it but the text for notifications, which is cut as ever.
import type { Pace, Part } from "../../core/message.ts";
import { shortText } from "../../core/visible-text.ts";
import { splitMarkdown } from "../split.ts";
import { MAX_ELEMENTS, MAX_MARKDOWN, MAX_TEXT, type SlackPart } from "./render.ts";

/** As published, with a little to spare: Slack's clock is not ours. A short burst is fine. */
export const SLACK_PACE: Pace = {
  chat: { burst: 3, everyMs: 1_010, answersOnTop: 5 },
  editEveryMs: { alone: 3_000, group: 3_000 },
};

/** Anything else (buttons, somebody's ears only) belongs to one message and can't be shared. */
const SHARED: ReadonlySet<string> = new Set<keyof SlackPart>(["text", "blocks", "thread"]);
const SHARED_BLOCKS: ReadonlySet<string> = new Set(["markdown", "context"]);

/** Null when they don't fit into one message. */
export function joinParts(parts: readonly Part[]): Part | null {
  const [first, ...others] = parts as readonly SlackPart[];
  if (first === undefined || parts.some((part) => Object.keys(part).some((key) => !SHARED.has(key)))) return null;
  const blocks = [...first.blocks, ...others.flatMap((part) => [{ type: "divider" as const }, ...part.blocks])];
  if (!blocks.every(({ type }) => type === "divider" || SHARED_BLOCKS.has(type))) return null;
  const markdown = blocks.flatMap((block) => (block.type === "markdown" ? [block.text] : [])).join("\n\n");
  const maxBlocks = MAX_ELEMENTS - blocks.filter(({ type }) => type !== "markdown").length;
  if (maxBlocks < 2 || splitMarkdown(markdown, { maxLength: MAX_MARKDOWN, maxBlocks }).length !== 1) return null;
  const text = shortText([first, ...others].map((part) => part.text).join("\n\n"), MAX_TEXT);
  return { ...first, text, blocks };
}
