// The web page as a channel like any other, except that the platform is our own table.
// page → HTTP → accept → one transaction {inbox row, the person's message} → decode → gateway
// gateway → render → outbox → send → web_messages row ⇒ web.posted → every open tab
import type { Address } from "../../core/address.ts";
import { errorText } from "../../core/errors.ts";
import type { Bus } from "../../core/events.ts";
import { isUuid } from "../../core/ids.ts";
import { type Channel, type Inbound, type InboxSink, type OutMessage, type Part, statsLine } from "../../core/message.ts";

/** What the channel needs of the message table (stores/web-messages.ts). */
interface WebMessageLog {
  post(message: { chat: string; key: string; author: "user" | "agent"; text: string; extra?: Readonly<Record<string, unknown>> | null }): {
    seq: number;
    status: "inserted" | "known" | "other";
  };
  findByKey(key: string): { seq: number } | null;
}

export interface WebChannelOptions {
  messages: WebMessageLog;
  /** All or nothing, durable on return. */
  transaction<T>(work: () => T): T;
  /** A transaction that is not waited for on its way to the disk. */
  relaxed<T>(work: () => T): T;
  bus: Bus;
  /** Cuts Markdown at a length without breaking code fences. */
  split(markdown: string, options: { maxLength: number }): string[];
}

/** What a tab posts. `id` is made by the tab and kept over its retries. */
interface WebPost {
  readonly id: string;
  readonly chat: string;
  readonly text: string;
  /** `button`: a command line somebody pressed instead of typing it; not shown as their words. */
  readonly kind: "message" | "button";
}

export interface WebChannel extends Channel {
  /**
   * Takes one post; durable on return. `known`: this id came before, nothing was added. `conflict`: this id came
   * before with other words. `off`: the channel is not started. Throws when the disk refuses.
   */
  accept(post: WebPost): "accepted" | "known" | "conflict" | "off";
  /** Chats of the page are `main`, or a uuid the page made. */
  isChat(text: string): boolean;
}

const MAX_PART_LENGTH = 12_000;
const ACCOUNT = "local";

const isChat = (text: string): boolean => text === "main" || isUuid(text);

export function createWebChannel(options: WebChannelOptions): WebChannel {
  let sink: InboxSink | null = null;
  const posted = (chat: string, seq: number) => options.bus.emit({ type: "web.posted", chat, seq });

  return {
    name: "web",
    account: ACCOUNT,
    showsRuns: true,
    isOperators: true,
    isIdempotent: true,
    async start(inbox) {
      sink = inbox;
    },
    async stop() {
      sink = null;
    },
    health: () => ({ state: sink === null ? "off" : "on" }),
    accept(post) {
      if (sink === null) return "off";
      const outcome = record(options, sink, post);
      if (outcome.seq !== null) posted(post.chat, outcome.seq);
      return outcome.status;
    },
    isChat,
    decode,
    render: (message) => renderParts(message, options.split),
    async send({ address, part, key }) {
      try {
        const { text, ...extra } = part as { text: string };
        // Not waited for on its way to the disk: its row in the outbox is there, and is sent again after a power cut.
        const { seq, status } = options.relaxed(() => options.messages.post({ chat: address.chat, key, author: "agent", text, extra }));
        if (status === "inserted") posted(address.chat, seq);
        return { status: "sent", ref: String(seq) };
      } catch (error) {
        // A refused write is rolled back as a whole, so the row is surely not there.
        return { status: "retry", reason: errorText(error) };
      }
    },
    async reconcile({ key }) {
      try {
        const found = options.messages.findByKey(key);
        return found === null ? { status: "absent" } : { status: "found", ref: String(found.seq) };
      } catch (error) {
        return { status: "unknown", reason: errorText(error) };
      }
    },
  };
}

type Recorded = { status: "accepted" | "known" | "conflict"; seq: number | null };

/** The inbox row and the person's own message stand or fall together: no tab shows words that nobody will answer. */
function record(options: WebChannelOptions, sink: InboxSink, post: WebPost): Recorded {
  return options.transaction((): Recorded => {
    let seq: number | null = null;
    if (post.kind === "message") {
      const key = `in:${post.id}`;
      const row = options.messages.post({ chat: post.chat, key, author: "user", text: post.text });
      if (row.status !== "inserted") return { status: row.status === "known" ? "known" : "conflict", seq: null };
      seq = row.seq;
    }
    sink.put([{ externalId: post.id, raw: post }]);
    return { status: "accepted", seq };
  });
}

function decode(raw: unknown): Inbound | null {
  if (typeof raw !== "object" || raw === null) return null;
  const { id, chat, text, kind } = raw as Partial<Record<keyof WebPost, unknown>>;
  if (typeof chat !== "string" || !isChat(chat) || typeof text !== "string" || typeof id !== "string") return null;
  const address: Address = { channel: "web", account: ACCOUNT, chat, kind: "dm" };
  return { kind: kind === "button" ? "button" : "message", address, sender: { id: "local" }, text, mentioned: true, ref: id };
}

function renderParts(message: OutMessage, split: WebChannelOptions["split"]): Part[] {
  const markdown = message.stats === undefined ? message.markdown : `${message.markdown}\n\n${statsLine(message.stats)}`;
  const pieces = markdown.length <= MAX_PART_LENGTH ? [markdown] : split(markdown, { maxLength: MAX_PART_LENGTH });
  const texts = pieces.length > 0 ? pieces : [markdown];
  return texts.map((text, n): Part => {
    const isLast = n === texts.length - 1;
    return {
      text,
      ...(isLast && message.buttons !== undefined && message.buttons.length > 0 ? { buttons: message.buttons } : {}),
      // Beside the line in the text: what the page folds (AN9).
      ...(isLast && message.stats !== undefined ? { stats: message.stats } : {}),
      ...(message.quiet === true ? { quiet: true } : {}),
      // The page shows an announcement as a card.
      ...(message.kind === undefined ? {} : { kind: message.kind }),
    };
  });
}
