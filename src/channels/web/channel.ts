// The web page as a channel like any other, except that the platform is our own table.
// page → HTTP → accept → one transaction {inbox row, the person's message} → decode → gateway
// gateway → render → outbox → send → web_messages row ⇒ web.posted → every open tab
// painter → render → edit → the same row ⇒ web.edited → every open tab
import { type Address, addressKey } from "../../core/address.ts";
import type { SentFile } from "../../core/attachment.ts";
import { errorText } from "../../core/errors.ts";
import type { Bus } from "../../core/events.ts";
import { isUuid } from "../../core/ids.ts";
import { type Channel, type Inbound, type OutMessage, type Part, type SendRequest, statsLine } from "../../core/message.ts";
import type { Person } from "../../core/question.ts";

interface Posted {
  readonly seq: number;
  readonly status: "inserted" | "known" | "other";
}

interface Said {
  readonly chat: string;
  readonly key: string;
  readonly text: string;
  readonly extra: Readonly<Record<string, unknown>>;
}

/** What the channel needs of its table and of the inbox (stores/web-posts.ts). */
interface Posts {
  say(message: Said): Promise<Posted>;
  sayIn(tx: unknown, message: Said): Promise<Posted>;
  edit(message: { chat: string; seq: number; text: string; extra: Readonly<Record<string, unknown>> }): Promise<boolean>;
  take(
    update: { externalId: string; raw: unknown },
    message: { chat: string; key: string; text: string; files?: { ids: readonly string[]; chat: string } } | null,
  ): Promise<Posted | "no-file" | null>;
}

export interface WebChannelOptions {
  posts: Posts;
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
  /** Ids of files uploaded for it before. */
  readonly files?: readonly string[];
}

export interface WebChannel extends Channel {
  /**
   * Takes one post; durable on return. `known`: this id came before, nothing was added. `conflict`: this id came
   * before with other words. `off`: the channel is not started. `no-file`: one of its files is not there. Throws when the disk refuses.
   */
  accept(post: WebPost): Promise<"accepted" | "known" | "conflict" | "off" | "no-file">;
  /** Chats of the page are `main`, or a uuid the page made. */
  isChat(text: string): boolean;
}

const MAX_PART_LENGTH = 12_000;
/** Whoever has the page; as others read who answered or allowed something. */
export const OPERATOR: Person = { id: "local", name: "the page" };
export const WEB = { channel: "web", account: "local" } as const;

const addressOf = (chat: string): Address => ({ ...WEB, chat, kind: "dm" });
/** Whose the files of a chat of the page are. */
export const fileChat = (chat: string): string => addressKey(addressOf(chat));

const isChat = (text: string): boolean => text === "main" || isUuid(text);

export function createWebChannel(options: WebChannelOptions): WebChannel {
  let isOn = false;
  const posted = (chat: string, seq: number) => options.bus.emit({ type: "web.posted", chat, seq });

  return {
    name: WEB.channel,
    account: WEB.account,
    showsRuns: true,
    isOperators: true,
    isCalled: true,
    async start() {
      isOn = true;
    },
    async stop() {
      isOn = false;
    },
    health: () => ({ state: isOn ? "on" : "off" }),
    async accept(post) {
      if (!isOn) return "off";
      const { id, chat, text, kind, files = [] } = post;
      const attached = files.length === 0 ? {} : { files: { ids: [...new Set(files)], chat: fileChat(chat) } };
      const message = kind === "message" ? { chat, key: `in:${id}`, text, ...attached } : null;
      const taken = await options.posts.take({ externalId: id, raw: post }, message);
      if (taken === "no-file") return taken;
      if (taken?.status === "inserted") posted(chat, taken.seq);
      return taken === null || taken.status === "inserted" ? "accepted" : taken.status === "known" ? "known" : "conflict";
    },
    isChat,
    decode,
    render: (message) => renderParts(message, options.split),
    async send(request) {
      try {
        return { status: "sent", ref: String((await options.posts.say(saidOf(request))).seq) };
      } catch (error) {
        // A refused write is rolled back as a whole, so the row is surely not there.
        return { status: "retry", reason: errorText(error) };
      }
    },
    postIn: async (tx, request) => String((await options.posts.sayIn(tx, saidOf(request))).seq),
    async edit({ address: { chat }, ref, part }) {
      try {
        const { text, ...extra } = part as { text: string };
        const seq = Number(ref);
        if (!(await options.posts.edit({ chat, seq, text, extra }))) return { status: "gone", reason: "there is no such message" };
        options.bus.emit({ type: "web.edited", chat, seq });
        return { status: "shown" };
      } catch (error) {
        return { status: "retry", reason: errorText(error) };
      }
    },
  };
}

function saidOf({ address: { chat }, part, key }: Pick<SendRequest, "address" | "part" | "key">): Said {
  const { text, ...extra } = part as { text: string };
  return { chat, key, text, extra };
}

function decode(raw: unknown): Inbound | null {
  if (typeof raw !== "object" || raw === null) return null;
  const { id, chat, text, kind, files, replaces } = raw as Partial<Record<keyof WebPost | "replaces", unknown>>;
  if (typeof chat !== "string" || !isChat(chat) || typeof text !== "string" || typeof id !== "string") return null;
  const sent = sentFiles(files);
  const about = sent.length === 0 ? {} : { files: sent, ...(text.trim() === "" ? { isWordless: true as const } : {}) };
  const base = { address: addressOf(chat), sender: OPERATOR, text, mentioned: true, ref: id };
  const instead = typeof replaces === "number" ? { replaces } : {};
  return { kind: kind === "button" ? "button" : "message", ...base, ...about, ...instead };
}

const sentFiles = (ids: unknown): SentFile[] =>
  Array.isArray(ids)
    ? [...new Set(ids)].filter((id) => typeof id === "string").map((stored) => ({ source: { stored }, kind: "file", name: "file" }))
    : [];

function renderParts(message: OutMessage, split: WebChannelOptions["split"]): Part[] {
  const markdown = message.stats === undefined ? message.markdown : `${message.markdown}\n\n${statsLine(message.stats)}`;
  const pieces = markdown.length <= MAX_PART_LENGTH ? [markdown] : split(markdown, { maxLength: MAX_PART_LENGTH });
  const texts = pieces.length > 0 ? pieces : [markdown];
  return texts.map((text, n): Part => {
    const isLast = n === texts.length - 1;
    return {
      text,
      ...(isLast && message.file !== undefined ? { files: [message.file] } : {}),
      ...(isLast && message.buttons !== undefined && message.buttons.length > 0 ? { buttons: message.buttons } : {}),
      // Beside the line in the text: what the page folds (AN9).
      ...(isLast && message.stats !== undefined ? { stats: message.stats } : {}),
      ...cardOf(message, { isFirst: n === 0, isLast }),
      ...(message.quiet === true ? { quiet: true } : {}),
      // What was posted under this id: whoever pressed a button knows its answer by it.
      ...(n === 0 && message.replyTo !== undefined ? { answers: message.replyTo } : {}),
      // The page shows an announcement as a card.
      ...(message.kind === undefined ? {} : { kind: message.kind }),
    };
  });
}

/** What the first part begins with, what the last one ends with. */
function cardOf({ card }: OutMessage, { isFirst, isLast }: { isFirst: boolean; isLast: boolean }): Part {
  if (card === undefined || !(isFirst || isLast)) return {};
  const { notes, ...head } = card;
  return { card: { ...(isFirst ? head : {}), ...(isLast ? { notes } : {}) } };
}
