// An answer while it is written, in private chats: Telegram shows a draft that grows, and takes it away by itself when the message comes
// or half a minute has passed. So nothing has to be remembered of it, and after kill -9 nothing is left standing. In groups and their
// topics there are no drafts; edits there would take from the twenty a minute that answers and announcements need, so people see the
// typing sign, as ever.
import type { Api } from "grammy/web";
import type { Address } from "../../core/address.ts";
import { type Clock, callAfter } from "../../core/clock.ts";
import type { DraftRequest, DraftResult, Drafts } from "../../core/message.ts";
import { asGrammySignal, explainFailure } from "./api.ts";
import { MAX_LENGTH, type Redact, renderMessage, type TelegramPart } from "./render.ts";

export interface DraftOptions {
  readonly api: Api;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly redact?: Redact | undefined;
}

export interface TelegramDrafts extends Drafts {
  /** Resolves when no draft for this chat is on its way any more: one that came behind its message would stand there for half a minute. */
  settled(address: Address): Promise<void>;
}

type DraftPayload = Parameters<Api["raw"]["sendMessageDraft"]>[0];

/** A little more than the published pace of messages; nobody has published one of drafts. */
const EVERY_MS = 1_050;
/** Of the thirty calls a second in all, drafts take no more than ten. */
const SHARE_MS = 100;
const RETRY_MS = 5_000;
/** No message waits longer for a draft, which is at worst a moment's oddity. */
const GRACE_MS = 500;
/** Of a longer text only the end is worked out. */
const MAX_TEXT = 3 * MAX_LENGTH;

export function createDrafts({ api, clock, signal, redact }: DraftOptions): TelegramDrafts {
  const underWay = new Map<string, Promise<unknown>>();
  const shownAt = new Map<string, number>();
  return {
    fits: ({ kind }) => kind === "dm",
    async show(request) {
      const { chat } = request.address;
      const call = api.raw.sendMessageDraft(payloadOf(request, redact), asGrammySignal(signal));
      underWay.set(chat, call);
      try {
        await call;
        return { status: "shown", againMs: paceFor(shownAt, chat, clock.now()) };
      } catch (error) {
        return toResult(error);
      } finally {
        if (underWay.get(chat) === call) underWay.delete(chat);
      }
    },
    settled({ chat }) {
      const call = underWay.get(chat);
      if (call === undefined) return Promise.resolve();
      return new Promise((resolve) => {
        const endWait = callAfter(clock, GRACE_MS, resolve);
        const over = (): void => {
          endWait();
          resolve();
        };
        call.then(over, over);
      });
    },
  };
}

/** The end of it: that is what is being written. */
function payloadOf({ address, id, markdown }: DraftRequest, redact: Redact | undefined): DraftPayload {
  const { text, entities } = renderMessage({ markdown: endOf(markdown) }, address, redact).at(-1) as TelegramPart;
  const thread = address.thread === undefined ? {} : { message_thread_id: Number(address.thread) };
  // Pressed, the draft stays until the message comes that says where it was stopped.
  const stop = { can_stop: true, keep_on_stop: true };
  return {
    chat_id: Number(address.chat),
    ...thread,
    draft_id: id,
    text,
    ...(entities && { entities }),
    ...stop,
  } as unknown as DraftPayload;
}

function endOf(markdown: string): string {
  if (markdown.length <= MAX_TEXT) return markdown;
  const cut = markdown.slice(-MAX_TEXT).toWellFormed();
  return cut.slice(Math.max(0, cut.indexOf("\n")));
}

/** So many chats are being written to. */
function paceFor(shownAt: Map<string, number>, chat: string, now: number): number {
  shownAt.set(chat, now);
  for (const [other, at] of shownAt) if (Math.abs(now - at) > RETRY_MS) shownAt.delete(other);
  return Math.max(EVERY_MS, shownAt.size * SHARE_MS);
}

/** A lost answer is as good as a shown draft: the next one replaces it. */
function toResult(error: unknown): DraftResult {
  const failure = explainFailure(error);
  const { kind, reason } = failure;
  if (kind === "flood") return { status: "retry", afterMs: failure.afterMs, reason };
  return kind === "refused" || kind === "auth" ? { status: "refused", reason } : { status: "retry", afterMs: RETRY_MS, reason };
}
