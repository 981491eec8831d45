// Discord as a Channel: the gateway in, REST out. Translates only: who may speak, what a command does and when to try again are decided
// elsewhere.
// Discord → receive → inbox → decode → gateway;  outbox → delivery → send → Discord.

import type { API } from "@discordjs/core/http-only";
import type { Address } from "../../core/address.ts";
import type { Clock } from "../../core/clock.ts";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { Channel, ChannelState } from "../../core/message.ts";
import { API_URL, type ApiFailure, createApi, explainFailure } from "./api.ts";
import { createAsk } from "./ask.ts";
import { readGaps } from "./catch-up.ts";
import { registerCommands } from "./commands.ts";
import { decodePayload } from "./decode.ts";
import { createDrafts, type Drafting } from "./draft.ts";
import { createEchoes, type Echoes } from "./echoes.ts";
import { editPart } from "./edit.ts";
import { fetchFile } from "./fetch-file.ts";
import { channelOf } from "./history.ts";
import { createInteractions, type Interactions } from "./interactions.ts";
import { DISCORD_PACE, joinParts } from "./join.ts";
import { type Journal, openJournal, textAfter } from "./journal.ts";
import type { Receiver } from "./receive.ts";
import { type DiscordPart, renderMessage } from "./render.ts";
import { findPart, type Sender, sendPart } from "./send.ts";
import { SNOWFLAKE } from "./snowflake.ts";
import { NO_INTENT, runGateway } from "./socket.ts";

export interface DiscordOptions {
  readonly botToken: string;
  /** Without the version. */
  readonly apiUrl?: string;
  /** Channels of servers that people may talk in: they are read after an outage, also when nothing of theirs is on record yet. */
  listed?(): readonly string[];
  /** The same for their direct chats: ids of people who may write to the bot, as far as the settings say. */
  people?(): readonly string[];
  readonly clock: Clock;
  readonly log: Logger;
  /** The bytes of a stored file; null: they are gone. */
  readFile?(id: string): Promise<Buffer | null>;
  /** When a call is given up; default 15 000. */
  readonly timeoutMs?: number;
}

interface State {
  /** For receiving, and for signs nobody waits for; its calls end with stop(). */
  side: API;
  receiving: { state: ChannelState; detail?: string };
  /** Why Discord refuses the bot's token, while it does. */
  refused: string | null;
  /** Messages came without their words. */
  isBlind: boolean;
  /** Channels that can't be read after an outage, and why. */
  unread: Map<string, string>;
  /** Discord has our slash commands. */
  hasCommands: boolean;
  stopping: AbortController;
  running: Promise<void>;
  /** Discord asked for silence: the typing sign waits, messages don't. */
  typingAt: number;
  readonly typedAt: Map<string, number>;
  /** Calls under way that nobody waits for; stop() does. */
  readonly loose: Set<Promise<void>>;
}

type Settings = ReturnType<typeof readSettings>;

/** Of the largest file that is taken. */
const DOWNLOAD_MS = 5 * 60_000;
/** The sign stands for ten seconds. */
const TYPING_MS = 8_000;
const MAX_TYPED = 1_000;
const RECEIPT = "👀";
const JOURNAL_RETRY_MS = 2_000;

/** Throws AppError("config") when the token can't work; reaches for no network yet. */
export function createDiscordChannel(options: DiscordOptions): Channel {
  const settings = readSettings(options);
  const { account, clock, apiUrl } = settings;
  const sending = new AbortController();
  const api = createApi({ ...settings, signal: sending.signal });
  const state = createState(api);
  const echoes = createEchoes();
  const interactions = createInteractions({ api, clock, log: settings.log, signal: sending.signal });
  const sender = createSender(settings, state, { api, echoes, interactions });
  return {
    name: "discord",
    account,
    start: (inbox) => start(settings, state, { inbox, echoes, interactions }),
    async stop() {
      state.stopping.abort();
      await Promise.all([state.running, ...state.loose]);
      state.receiving = { state: "off" };
    },
    hangUp: () => sending.abort(),
    health: () => healthOf(state),
    decode: (raw) => decodePayload(raw, account),
    render: renderMessage,
    pace: DISCORD_PACE,
    join: joinParts,
    isUncounted: (part) => (part as DiscordPart).onlyTo !== undefined,
    send: (request) => sendPart(sender, request),
    edit: (request) => editPart(sender, request),
    drafts: sender.drafts,
    reconcile: (request) => findPart(sender, request),
    fetchFile: async ({ source }, signal) =>
      "remote" in source
        ? fetchFile({ api, apiUrl, timeoutMs: DOWNLOAD_MS }, source.remote, AbortSignal.any([signal, sending.signal]))
        : { status: "refused", reason: "it is not Discord's" },
    async status(address, work) {
      if (work === "working") showTyping(settings, state, address);
    },
    async receipt(address, ref) {
      if (SNOWFLAKE.test(ref))
        loosely(settings, state, "reaction", (api) => api.channels.addMessageReaction(channelOf(address), ref, RECEIPT));
    },
  };
}

function readSettings(options: DiscordOptions) {
  const { listed = () => [], people = () => [], readFile = async () => null, timeoutMs = 15_000, apiUrl = API_URL } = options;
  const account = accountOf(options.botToken);
  return { ...options, account, listed, people, readFile, timeoutMs, apiUrl: apiUrl.replace(/\/+$/, "") };
}

/** The bot's id is the first part of its token: known before the network is. Null: it is no token. */
export function botIdOf(botToken: string): string | null {
  const [, first = ""] = /^([\w-]{20,40}={0,2})\.[\w-]{4,20}\.[\w-]{20,100}$/.exec(botToken) ?? [];
  const id = Buffer.from(first, "base64url").toString("latin1");
  return SNOWFLAKE.test(id) ? id : null;
}

function accountOf(botToken: string): string {
  const id = botIdOf(botToken);
  if (id === null)
    throw new AppError("config", "channels.discord.botToken is not a bot token (three parts with dots between, from Bot → Reset Token)");
  return id;
}

const createState = (side: API): State => ({
  side,
  receiving: { state: "off" },
  refused: null,
  isBlind: false,
  unread: new Map(),
  hasCommands: false,
  stopping: new AbortController(),
  running: Promise.resolve(),
  typingAt: 0,
  typedAt: new Map(),
  loose: new Set(),
});

function healthOf({ receiving, refused, isBlind, unread }: State): { state: ChannelState; detail?: string } {
  if (receiving.state === "off") return receiving;
  if (refused !== null) return { state: "failed", detail: refused };
  const detail = isBlind ? NO_INTENT : unreadText(unread);
  return receiving.state === "on" && detail !== null ? { state: "on", detail } : receiving;
}

function unreadText(unread: ReadonlyMap<string, string>): string | null {
  const [reason] = unread.values();
  if (reason === undefined) return null;
  const which = unread.size === 1 ? "one channel" : `${unread.size} channels`;
  return `${which} can't be read yet, and what is said there waits: ${reason}`;
}

function createSender(
  settings: Settings,
  state: State,
  parts: Pick<Sender, "api" | "echoes" | "interactions">,
): Sender & { drafts: Drafting } {
  const { clock, account: me, readFile, timeoutMs } = settings;
  const settleMs = timeoutMs + 4_000;
  const authTrouble = (reason: string | null): void => {
    state.refused = reason;
  };
  const { api } = parts;
  return { ...parts, clock, me, settleMs, readFile, authTrouble, drafts: createDrafts({ api, clock, me, settleMs, authTrouble }) };
}

type Doors = Pick<Receiver, "inbox"> & { readonly echoes: Echoes; readonly interactions: Interactions };

async function start(settings: Settings, state: State, doors: Doors): Promise<void> {
  state.stopping = new AbortController();
  state.receiving = { state: "starting" };
  Object.assign(state, { isBlind: false, unread: new Map(), hasCommands: false });
  const { signal } = state.stopping;
  state.side = createApi({ ...settings, signal });
  state.running = receive(settings, state, doors, signal);
}

async function receive(settings: Settings, state: State, doors: Doors, stopped: AbortSignal): Promise<void> {
  const { clock, log, account: me, listed, people } = settings;
  const over = new AbortController();
  const signal = AbortSignal.any([stopped, over.signal]);
  const show: Receiver["show"] = (next, detail) => {
    state.receiving = { state: next, ...(detail === undefined ? {} : { detail }) };
    if (next === "on" && !state.hasCommands) loosely(settings, state, "commands", (api) => makeKnown(state, api));
  };
  const journal = await readJournal(settings, doors, show, signal);
  if (journal === null) return;
  const receiver: Receiver = {
    ...doors,
    ...{ api: state.side, clock, log, me, signal, listed, people, journal, show, unlisted: null },
    ...{ ask: createAsk({ clock, signal }), underWay: new Map(), unread: state.unread, gapOpened: () => readGaps(receiver) },
    sawBlank() {
      if (!state.isBlind) log.warn({ reason: NO_INTENT }, "messages from Discord come without their words");
      state.isBlind = true;
    },
  };
  // What another process did not come to.
  receiver.gapOpened();
  await runGateway(receiver, settings);
  over.abort();
  await Promise.all(receiver.underWay.values());
  await putAway(receiver);
}

/** With each connection until it has gone well once. */
async function makeKnown(state: State, api: API): Promise<void> {
  const { id } = await api.applications.getCurrent();
  await registerCommands(api, id);
  state.hasCommands = true;
}

/** Tries until the disk, or the database, answers; null when stopped first. */
async function readJournal(
  { clock, log }: Settings,
  { inbox }: Doors,
  show: Receiver["show"],
  signal: AbortSignal,
): Promise<Journal | null> {
  while (!signal.aborted) {
    try {
      return openJournal(await inbox.cursor(), clock.now());
    } catch (error) {
      show("retrying", "it can't be read how far Discord was heard");
      log.warn({ err: error }, "it can't be read how far Discord was heard; trying again");
      await clock.sleep(JOURNAL_RETRY_MS, signal);
    }
  }
  return null;
}

/** So that whoever connects next has little to hear again; without it everything comes right, too. */
async function putAway({ journal, inbox, log }: Receiver): Promise<void> {
  if (journal.session === null) return;
  try {
    await inbox.put([], textAfter(journal, { seq: null }));
  } catch (error) {
    log.debug({ err: error }, "how far Discord was heard could not be recorded");
  }
}

/** Never waits and is never waited for, and takes no place in the pace of messages. */
function showTyping(settings: Settings, state: State, address: Address): void {
  const now = settings.clock.now();
  const channel = channelOf(address);
  if (now < state.typingAt || now - (state.typedAt.get(channel) ?? 0) < TYPING_MS) return;
  if (state.typedAt.size >= MAX_TYPED) state.typedAt.clear();
  state.typedAt.set(channel, now);
  const heed = (failure: ApiFailure): void => {
    if (failure.kind === "limited") state.typingAt = settings.clock.now() + failure.afterMs;
  };
  loosely(settings, state, "typing", (api) => api.channels.showTyping(channel), heed);
}

/** Best effort: a failure is noted and nothing else. */
function loosely(
  settings: Settings,
  state: State,
  what: string,
  call: (api: API) => Promise<unknown>,
  onFailure: (failure: ApiFailure) => void = () => undefined,
): void {
  if (state.stopping.signal.aborted) return;
  const done = call(state.side).then(
    () => undefined,
    (error: unknown) => {
      const failure = explainFailure(error);
      onFailure(failure);
      settings.log.debug({ what, reason: failure.reason }, "a call without consequence failed");
    },
  );
  const tracked = done.finally(() => state.loose.delete(tracked));
  state.loose.add(tracked);
}
