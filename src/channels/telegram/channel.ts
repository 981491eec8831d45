// Telegram as a Channel: polling or webhook in, text + entities out. Translates only: who may speak, what a command
// does and when to try again are decided elsewhere.
// Telegram → receive → inbox → decode → gateway;  outbox → delivery → send → Telegram.
import type { Api } from "grammy/web";
import type { Address } from "../../core/address.ts";
import type { Clock } from "../../core/clock.ts";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { Channel, ChannelState } from "../../core/message.ts";
import { withBytesMs } from "../connecting.ts";
import { asGrammySignal, createApi, explainFailure } from "./api.ts";
import { decodeUpdate, GENERAL_TOPIC } from "./decode.ts";
import { createDrafts } from "./draft.ts";
import { fetchFile } from "./fetch-file.ts";
import { joinParts, TELEGRAM_PACE } from "./join.ts";
import { poll } from "./poll.ts";
import { createPresses } from "./presses.ts";
import { loosely, type Receiver } from "./receive.ts";
import { type Redact, renderMessage, type TelegramPart } from "./render.ts";
import { editPart, sendPart } from "./send.ts";
import { listen } from "./webhook.ts";

export interface TelegramOptions {
  /** `<bot id>:<secret>` from @BotFather. */
  readonly botToken: string;
  readonly apiRoot?: string;
  readonly mode: "polling" | "webhook";
  /** Needed in webhook mode: the public address and the secret Telegram must send. */
  readonly webhook?: {
    readonly url?: string | undefined;
    readonly port: number;
    readonly host?: string;
    readonly secret?: string | undefined;
  };
  readonly announce?: "plain" | "reserved";
  /** Replaces known secrets by their names. */
  readonly redact?: Redact;
  readonly clock: Clock;
  readonly log: Logger;
  /** The bytes of a stored file; null: they are gone. */
  readFile?(id: string): Promise<Buffer | null>;
  /** How long Telegram may hold a poll; default 30. */
  readonly pollSeconds?: number;
  /** When a call other than a poll is given up; default 45 000. */
  readonly timeoutMs?: number;
}

interface State extends Omit<Receiver, "inbox" | "signal"> {
  health: { state: ChannelState; detail?: string };
  stopping: AbortController;
  running: Promise<void>;
  /** Telegram asked for silence: the typing sign waits, messages don't. */
  typingAt: number;
}

/** Of the largest file Telegram hands out. */
const DOWNLOAD_MS = 5 * 60_000;
const API_ROOT = "https://api.telegram.org";

/** Throws AppError("config") when the token or the webhook's settings can't work; reaches for no network yet. */
export function createTelegramChannel(options: TelegramOptions): Channel {
  const account = accountOf(options.botToken);
  const receiving = receiveMode(options);
  const pollSeconds = options.pollSeconds ?? 30;
  const server = { botToken: options.botToken, apiRoot: options.apiRoot ?? API_ROOT };
  const timeoutMs = options.timeoutMs ?? 45_000;
  const api = createApi({ ...server, timeoutMs });
  const sending = new AbortController();
  const state = createState(api, options, sending.signal);
  const drafts = createDrafts({ api, clock: options.clock, signal: sending.signal, redact: options.redact });
  return {
    name: "telegram",
    account,
    isCalled: receiving !== "polling",
    async start(inbox) {
      state.stopping = new AbortController();
      state.show("starting");
      const receiver: Receiver = { ...state, inbox, signal: state.stopping.signal };
      if (receiving === "polling") {
        const pollApi = createApi({ ...server, timeoutMs: (pollSeconds + 15) * 1000 });
        state.running = poll(receiver, { api: pollApi, pollSeconds });
      } else state.running = (await listen(receiver, receiving)).done;
    },
    async stop() {
      state.stopping.abort();
      state.presses.endAll();
      await state.running;
      await Promise.all(state.loose);
      state.show("off");
    },
    hangUp: () => sending.abort(),
    health: () => state.health,
    decode: (raw) => decodeUpdate(raw, account),
    render: (message, address) => renderMessage(message, address, options.redact),
    pace: TELEGRAM_PACE,
    join: joinParts,
    isUncounted: (part) => (part as TelegramPart).isToast === true,
    async send(request) {
      await drafts.settled(request.address);
      const { announce = "plain", readFile = async () => null } = options;
      const bytes = bytesOf(request.part as TelegramPart);
      // A client gives all its calls the same time.
      const patient = bytes === 0 ? api : createApi({ ...server, timeoutMs: withBytesMs(timeoutMs, bytes) });
      return sendPart({ api: patient, announce, signal: sending.signal, presses: state.presses, readFile }, request);
    },
    drafts,
    edit: (request) => editPart({ api, signal: sending.signal }, request),
    fetchFile: async ({ source }, signal) =>
      "remote" in source
        ? fetchFile({ ...server, api, timeoutMs: DOWNLOAD_MS }, source.remote, AbortSignal.any([signal, sending.signal]))
        : { status: "refused", reason: "it is not Telegram's" },
    async status(address, work) {
      if (work === "working") showTyping(state, address);
    },
    async receipt(address, ref) {
      const id = Number(ref);
      if (Number.isSafeInteger(id)) loosely(state, "setMessageReaction", react(state, address, id));
    },
  };
}

/** How much is sent along. */
const bytesOf = ({ file, attachment }: TelegramPart): number => attachment?.size ?? Buffer.byteLength(file?.content ?? "");

function createState(api: Api, { clock, log }: TelegramOptions, sending: AbortSignal): State {
  const state: State = {
    api,
    clock,
    log,
    forums: new Set(),
    presses: createPresses({ api, clock, log, signal: sending }),
    loose: new Set(),
    health: { state: "off" },
    stopping: new AbortController(),
    running: Promise.resolve(),
    typingAt: 0,
    show(next, detail) {
      state.health = { state: next, ...(detail === undefined ? {} : { detail }) };
    },
  };
  return state;
}

/** The bot's id stands in its token: known before the network is. */
function accountOf(botToken: string): string {
  const [, id] = /^(\d{1,20}):[\w-]{10,}$/.exec(botToken) ?? [];
  if (id === undefined) throw new AppError("config", "channels.telegram.botToken is not a bot token (it looks like 123456:ABC-DEF…)");
  return id;
}

function receiveMode({ mode, webhook }: TelegramOptions) {
  if (mode === "polling") return "polling";
  const { url, secret } = webhook ?? {};
  if (webhook === undefined || url === undefined || !URL.canParse(url)) {
    throw new AppError("config", "channels.telegram.webhook.url is needed in webhook mode");
  }
  if (secret === undefined || !/^[\w-]{1,256}$/.test(secret)) {
    throw new AppError("config", "channels.telegram.webhook.secret is needed in webhook mode: up to 256 letters, digits, _ or -");
  }
  return { ...webhook, url, secret };
}

/**
 * Never waits and is never waited for, and takes no place in the pace of messages: the sign must not hold back a message, nor the
 * other way round.
 */
function showTyping(state: State, address: Address): void {
  if (state.clock.now() < state.typingAt) return;
  const general = address.thread === undefined && state.forums.has(address.chat) ? GENERAL_TOPIC : undefined;
  const thread = address.thread === undefined ? general : Number(address.thread);
  const other = thread === undefined ? {} : { message_thread_id: thread };
  const call = state.api.sendChatAction(Number(address.chat), "typing", other, asGrammySignal(state.stopping.signal));
  const heeding = call.catch((error: unknown) => {
    const failure = explainFailure(error);
    if (failure.kind === "flood") state.typingAt = state.clock.now() + failure.afterMs;
    throw error;
  });
  loosely(state, "sendChatAction", heeding);
}

function react(state: State, address: Address, messageId: number): Promise<true> {
  const reaction = [{ type: "emoji" as const, emoji: "👀" as const }];
  return state.api.setMessageReaction(Number(address.chat), messageId, reaction, {}, asGrammySignal(state.stopping.signal));
}
