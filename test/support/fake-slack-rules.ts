// What Slack refuses in a message, in its own error codes; where the documents and the field reports differ, the stricter
// of the two. The count of what a markdown block expands to is made with a real parser, not with the code under test.
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";

export interface Block {
  type: string;
  text?: unknown;
  elements?: unknown;
}

export interface SlackButton {
  label: string;
  value: string;
  actionId: string;
  style: string | null;
}

export interface MessageArgs {
  text: string;
  blocks: Block[];
  metadata: { event_type: string; event_payload: Record<string, unknown> } | null;
}

const MAX_TEXT = 4_000;
const MAX_BLOCKS = 50;
const MAX_MARKDOWN = 12_000;
const MAX_SECTION = 3_000;

type Checked = { error: string } | { message: MessageArgs };

/** The arguments of chat.postMessage or chat.update, or the error Slack answers with. */
export function checkMessage(args: Record<string, string>): Checked {
  const text = args.text ?? "";
  const blocks = parseJson(args.blocks ?? "[]");
  if (!Array.isArray(blocks)) return { error: "invalid_blocks_format" };
  if (text === "" && blocks.length === 0) return { error: "no_text" };
  if (text.length > MAX_TEXT) return { error: "msg_too_long" };
  const error = checkBlocks(blocks as Block[]);
  if (error !== null) return { error };
  const metadata = args.metadata === undefined ? null : parseJson(args.metadata);
  if (metadata !== null && !isMetadata(metadata)) return { error: "invalid_metadata_format" };
  return { message: { text, blocks: blocks as Block[], metadata } };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isMetadata = (value: unknown): value is NonNullable<MessageArgs["metadata"]> => {
  const { event_type, event_payload } = (value ?? {}) as Record<string, unknown>;
  return typeof event_type === "string" && event_type !== "" && typeof event_payload === "object" && event_payload !== null;
};

function checkBlocks(blocks: Block[]): string | null {
  if (blocks.length > MAX_BLOCKS) return "invalid_blocks";
  if (blocks.some((block) => !isBlock(block))) return "invalid_blocks";
  const markdowns = blocks.filter((block) => block.type === "markdown").map((block) => String(block.text));
  if (markdowns.reduce((sum, text) => sum + text.length, 0) > MAX_MARKDOWN) return "msg_blocks_too_long";
  const expanded = markdowns.reduce((sum, text) => sum + parse(text).children.length, 0) + blocks.length - markdowns.length;
  return expanded > MAX_BLOCKS ? "msg_blocks_too_long" : null;
}

function isBlock({ type, text, elements }: Block): boolean {
  switch (type) {
    case "markdown":
      return typeof text === "string" && text.length > 0;
    case "section": {
      const inner = text as { type?: unknown; text?: unknown } | undefined;
      return isText(inner?.text, MAX_SECTION) && (inner?.type === "plain_text" || inner?.type === "mrkdwn");
    }
    case "context":
      return Array.isArray(elements) && elements.length > 0 && elements.length <= 10 && elements.every(isContextText);
    case "actions":
      return Array.isArray(elements) && elements.length > 0 && elements.length <= 25 && elements.every(isButton) && hasUniqueIds(elements);
    default:
      return type === "divider";
  }
}

const isText = (value: unknown, max: number): boolean => typeof value === "string" && value.length > 0 && value.length <= max;

function isContextText(element: unknown): boolean {
  const { type, text } = (element ?? {}) as Record<string, unknown>;
  return (type === "plain_text" || type === "mrkdwn") && isText(text, MAX_SECTION);
}

function isButton(element: unknown): boolean {
  const { type, text, action_id, value, style } = (element ?? {}) as Record<string, unknown>;
  const label = text as { type?: unknown; text?: unknown } | undefined;
  if (type !== "button" || label?.type !== "plain_text" || !isText(label.text, 75)) return false;
  return isText(action_id, 255) && isText(value, 2_000) && [undefined, "primary", "danger"].includes(style as undefined);
}

const hasUniqueIds = (elements: unknown[]): boolean =>
  new Set(elements.map((element) => (element as { action_id: string }).action_id)).size === elements.length;

export function buttonsOf(blocks: Block[]): SlackButton[] {
  return blocks
    .flatMap((block) => (block.type === "actions" ? (block.elements as Record<string, unknown>[]) : []))
    .map((element) => ({
      label: (element.text as { text: string }).text,
      value: String(element.value),
      actionId: String(element.action_id),
      style: (element.style as string | undefined) ?? null,
    }));
}

/** What a person reads: the blocks, or the text where there are none. */
export function shownText(text: string, blocks: Block[]): string {
  const pieces = blocks.flatMap((block) => {
    if (block.type === "markdown") return [String(block.text)];
    if (block.type === "context") return (block.elements as { text: string }[]).map(({ text }) => text);
    return block.type === "section" ? [(block.text as { text: string }).text] : [];
  });
  return pieces.length === 0 ? text : pieces.join("\n");
}

/** Would anybody be called by this message? Mentions count everywhere but in code. */
export function callsSomebody(text: string, blocks: Block[]): boolean {
  if (/<[!@#]/.test(text)) return true;
  return blocks.some((block) => block.type === "markdown" && hasMention(parse(String(block.text))));
}

type Root = ReturnType<typeof fromMarkdown>;
type Node = Root | Root["children"][number];

const parse = (markdown: string): Root => fromMarkdown(markdown, { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] });

function hasMention(node: Node): boolean {
  if (node.type === "code" || node.type === "inlineCode") return false;
  // `&lt;` in the source is `<` in the tree: only what stands there unescaped is markup, which the parser calls html.
  if (node.type === "html") return /<[!@#]/.test(node.value);
  return "children" in node && node.children.some((child) => hasMention(child));
}

/** Kinds of top-level elements of a message's markdown, e.g. to see that no table is left. */
export const elementsOf = (markdown: string): string[] => parse(markdown).children.map((child) => child.type);
