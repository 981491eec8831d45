// One chat as a file: Markdown to read, JSON to work with. What people and models wrote stays text in both: in the Markdown no HTML and
// no link that runs something comes to life in whatever opens it.
import { setImmediate } from "node:timers/promises";
import { visibleLine } from "../core/visible-text.ts";
import type { WebMessage, WebMessages } from "../stores/web-messages.ts";

export interface ExportSource {
  readonly messages: Pick<WebMessages, "list" | "chats">;
  now(): number;
}

export interface Exported {
  readonly name: string;
  readonly type: string;
  readonly text: string;
}

const PAGE_SIZE = 200;
/** What a browser takes without a thought, and nobody has read through. Of more the newest. */
const MAX_CHARS = 20_000_000;
const CHATS_LOOKED_AT = 1_000;
const MAX_TITLE = 200;

export async function exportChat(source: ExportSource, chat: string, as: "markdown" | "json"): Promise<Exported> {
  const { messages, isCut } = await readAll(source, chat);
  const known = (await source.messages.chats(CHATS_LOOKED_AT)).find(({ id }) => id === chat);
  const title = visibleLine(known?.title ?? "", MAX_TITLE) || (chat === "main" ? "Main chat" : "Chat");
  const about = { title, exportedAt: new Date(source.now()).toISOString(), isCut };
  const text = as === "json" ? toJson(chat, about, messages) : await toMarkdown(about, messages);
  const type = as === "json" ? "application/json; charset=utf-8" : "text/markdown; charset=utf-8";
  return { name: `${fileName(title)}.${as === "json" ? "json" : "md"}`, type, text };
}

interface About {
  readonly title: string;
  readonly exportedAt: string;
  /** The beginning is left out. */
  readonly isCut: boolean;
}

async function readAll({ messages }: ExportSource, chat: string): Promise<{ messages: WebMessage[]; isCut: boolean }> {
  const pages: WebMessage[][] = [];
  let chars = 0;
  for (let beforeSeq = Number.MAX_SAFE_INTEGER; ; ) {
    const page = await messages.list(chat, { beforeSeq, limit: PAGE_SIZE });
    const [first] = page;
    if (first === undefined) return { messages: pages.reverse().flat(), isCut: false };
    chars += page.reduce((sum, { text }) => sum + text.length, 0);
    if (chars > MAX_CHARS) return { messages: pages.reverse().flat(), isCut: true };
    pages.push(page);
    beforeSeq = first.seq;
    // A long chat is many pages, and others are at work meanwhile.
    await setImmediate();
  }
}

const WHO = { user: "You", agent: "Herald" } as const;
const isAnnouncement = ({ extra }: WebMessage): boolean => extra?.kind === "announcement";
const whoOf = (message: WebMessage): string => (isAnnouncement(message) ? "Sub-agent result" : WHO[message.author]);

function toJson(chat: string, { title, exportedAt, isCut }: About, messages: readonly WebMessage[]): string {
  const list = messages.map((message) => ({
    at: new Date(message.at).toISOString(),
    author: message.author,
    kind: isAnnouncement(message) ? "announcement" : "plain",
    text: message.text,
    ...(message.replacedBy === null ? {} : { isEarlierVersion: true }),
  }));
  return JSON.stringify({ chat, title, exportedAt, ...(isCut ? { isCut } : {}), messages: list }, null, 2);
}

async function toMarkdown({ title, exportedAt, isCut }: About, messages: readonly WebMessage[]): Promise<string> {
  const parts = [
    `# ${plainLine(title)}`,
    `Exported from Herald on ${exportedAt}.${isCut ? " The beginning is left out: it is too long." : ""}`,
  ];
  for (const [n, message] of messages.entries()) {
    const version = message.replacedBy === null ? "" : " (earlier version)";
    parts.push(`## ${whoOf(message)}, ${new Date(message.at).toISOString()}${version}`, inert(message.text));
    if (n % PAGE_SIZE === 0) await setImmediate();
  }
  return `${parts.join("\n\n")}\n`;
}

/** Nothing in it is markup. */
const plainLine = (text: string): string => text.replace(/[\\`*_{}[\]<>()#|!]/g, (sign) => `\\${sign}`);

const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/;
/** A link or picture to something that is run where it is opened. */
const RUNS = /\](?=\s*[(:]\s*<?\s*(?:javascript|vbscript|data)\s*:)/gi;

/**
 * Markdown without HTML and without links that run something; blocks of code stay as they are. Code within a line does not: where such
 * code begins and ends depends on lines before it, and a mistake would bring HTML to life. Leaves no fence open.
 */
function inert(markdown: string): string {
  let fence: string | null = null;
  const lines = markdown.split("\n").map((line) => {
    const mark = FENCE.exec(line)?.[1];
    if (fence === null && mark !== undefined) {
      fence = mark;
      return line;
    }
    if (fence !== null) {
      if (mark?.startsWith(fence) === true && line.trim() === mark) fence = null;
      return line;
    }
    return line.replace(/<(?=[a-z/!?])/gi, "\\<").replace(RUNS, "\\]");
  });
  return fence === null ? lines.join("\n") : `${lines.join("\n")}\n${fence}`;
}

/** Letters and digits of any script, so that no system takes the name for something else. */
function fileName(title: string): string {
  const words = title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  return [...words].slice(0, 60).join("") || "chat";
}
