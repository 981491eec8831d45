// Matrix as a Channel: /sync in, one event per message out. Translates only: who may speak, what a command does and when to try again are
// decided elsewhere. No end-to-end encryption: what can't be read is refused in a sentence.
// homeserver → sync → receive → inbox → decode → gateway;  outbox → delivery → send → homeserver.
import type { Address } from "../../core/address.ts";
import type { Clock } from "../../core/clock.ts";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { Channel, ChannelState, InboxSink } from "../../core/message.ts";
import { type Api, createApi, explainFailure, v3 } from "./api.ts";
import { decodeEvent } from "./decode.ts";
import { createDrafts } from "./draft.ts";
import { fetchFile } from "./fetch-file.ts";
import { createInvites } from "./invites.ts";
import { joinParts, MATRIX_PACE } from "./join.ts";
import { createStanding, type Standing } from "./looking.ts";
import { type Redact, renderMessage } from "./render.ts";
import { createRooms } from "./rooms.ts";
import { editPart, findPart, type Sender, sendPart } from "./send.ts";
import { createSigns } from "./signs.ts";
import { syncRooms } from "./sync.ts";

export interface MatrixOptions {
  /** `https://matrix.example.org` */
  readonly homeserver: string;
  readonly accessToken: string;
  /** What is remembered of whose token it is, over restarts. */
  readonly accounts: {
    last(): Promise<string | null>;
    /** Durable on return. Throws when the disk refuses; AppError("config") when another account is the same user. */
    adopt(account: string, former: readonly string[]): Promise<void>;
  };
  /** May this person have the bot come to that room? */
  mayInvite(account: string, person: string, room: string): Promise<boolean>;
  /** The settings name it. */
  isListed(room: string): boolean;
  readonly clock: Clock;
  readonly log: Logger;
  /** Replaces known secrets by their names. */
  readonly redact?: Redact;
  /** The bytes of a stored file; null: they are gone. */
  readFile?(id: string): Promise<Buffer | null>;
  /** How long a server may hold a sync; default 30. */
  readonly syncSeconds?: number;
  /** When any other call is given up; default 8 000. */
  readonly timeoutMs?: number;
  /** When a message that isn't there counts as not sent, after its sending began; default: the timeout and 4 s more. */
  readonly settleMs?: number;
}

interface State {
  account: string;
  receiving: { state: ChannelState; detail?: string };
  /** Why the server refuses the token, while it does. */
  refused: string | null;
  stopping: AbortController;
  running: Promise<void>;
  /** For signs nobody waits for; its calls end with stop(). */
  side: Api;
  readonly loose: Set<Promise<void>>;
}

/** Of the largest file that is taken. */
const DOWNLOAD_MS = 5 * 60_000;
/** A server takes the typing sign away by itself; the gateway shows it again before. */
const TYPING_MS = 20_000;
/** Until a server was asked for the first time. */
const UNNAMED = "matrix";

type Settings = ReturnType<typeof readSettings>;

/** Throws AppError("config") when the settings can't work; reaches for no network yet. */
export async function createMatrixChannel(options: MatrixOptions): Promise<Channel> {
  const settings = readSettings(options);
  const sending = new AbortController();
  const api = createApi({ ...settings, signal: sending.signal });
  const standing = createStanding(api);
  const state = await createState(settings);
  const sender = createSender(settings, state, { api, standing, signal: sending.signal });
  return {
    name: "matrix",
    get account() {
      return state.account;
    },
    // What was addressed before a server was ever asked.
    formerly: [UNNAMED],
    async learnAccount() {
      state.account = (await settings.accounts.last()) ?? state.account;
    },
    start: async (inbox) => start(settings, state, standing, inbox),
    async stop() {
      state.stopping.abort();
      await Promise.all([state.running, ...state.loose]);
      state.receiving = { state: "off" };
    },
    hangUp: () => sending.abort(),
    health: () =>
      state.refused !== null && state.receiving.state !== "off" ? { state: "failed", detail: state.refused } : state.receiving,
    decode: (raw) => decodeEvent(raw, state.account),
    render: (message, address) => renderMessage(message, address, settings.redact),
    pace: MATRIX_PACE,
    join: joinParts,
    send: (request) => sendPart(sender, request),
    edit: (request) => editPart(sender, request),
    reconcile: (request) => findPart(sender, request),
    drafts: sender.drafts,
    fetchFile: async ({ source }, signal) =>
      "remote" in source
        ? fetchFile({ ...settings, timeoutMs: DOWNLOAD_MS }, source.remote, AbortSignal.any([signal, sending.signal]))
        : { status: "refused", reason: "it is not on a homeserver" },
    async status({ chat }, work) {
      const body = work === "working" ? { typing: true, timeout: TYPING_MS } : { typing: false };
      loosely(state, settings.log, "typing", () => state.side.call("PUT", v3("rooms", chat, "typing", state.account), { body }));
    },
    async receipt(address, ref) {
      loosely(state, settings.log, "receipt", () => markRead(state.side, address, ref));
    },
  };
}

function readSettings(options: MatrixOptions) {
  const { homeserver, accessToken, redact = (text: string) => text } = options;
  if (!URL.canParse(homeserver))
    throw new AppError("config", "channels.matrix.homeserver is not an address like https://matrix.example.org");
  if (!/^[\x21-\x7e]+$/.test(accessToken)) throw new AppError("config", "channels.matrix.accessToken is not an access token");
  const timeoutMs = options.timeoutMs ?? 8_000;
  return {
    ...options,
    ...{ homeserver: homeserver.replace(/\/+$/, ""), redact, timeoutMs, settleMs: options.settleMs ?? timeoutMs + 4_000 },
  };
}

async function createState(settings: Settings): Promise<State> {
  const stopping = new AbortController();
  return {
    account: (await settings.accounts.last()) ?? UNNAMED,
    receiving: { state: "off" },
    refused: null,
    stopping,
    running: Promise.resolve(),
    side: createApi({ ...settings, signal: stopping.signal }),
    loose: new Set(),
  };
}

interface Shared {
  readonly api: Api;
  readonly standing: Standing;
  readonly signal: AbortSignal;
}

function createSender(
  settings: Settings,
  state: State,
  { api, standing, signal }: Shared,
): Sender & { drafts: ReturnType<typeof createDrafts> } {
  const { clock, log, settleMs, redact } = settings;
  const me = (): string => state.account;
  return {
    ...{ api, clock, settleMs, standing, me },
    signs: createSigns({ api, clock, log, signal }),
    drafts: createDrafts({ api, clock, settleMs, redact, me }),
    readFile: settings.readFile ?? (async () => null),
    authTrouble(reason) {
      state.refused = reason;
    },
  };
}

function start(settings: Settings, state: State, standing: Standing, inbox: InboxSink): void {
  state.stopping = new AbortController();
  state.receiving = { state: "starting" };
  const { signal } = state.stopping;
  const { clock, log, accounts, isListed, timeoutMs, syncSeconds = 30 } = settings;
  const api = createApi({ ...settings, signal });
  state.side = api;
  const me = (): string => state.account;
  const mayInvite = (person: string, room: string): Promise<boolean> => settings.mayInvite(state.account, person, room);
  const invites = createInvites({ api, clock, log, signal, me, mayInvite });
  const rooms = createRooms({ api, me, isListed });
  const troubles = new Map<string, number>();
  const receiver = { api, clock, log, inbox, signal, standing, rooms, invites, troubles, isListed, syncSeconds, graceMs: 2 * timeoutMs };
  state.running = syncRooms({
    ...receiver,
    show(next, detail) {
      state.receiving = { state: next, ...(detail === undefined ? {} : { detail }) };
      if (next === "on") state.refused = null;
    },
    async adopt(account) {
      await accounts.adopt(account, []);
      state.account = account;
    },
  }).then(() => invites.idle());
}

/** For all to see that it was read: in a thread of the thread alone. */
async function markRead(api: Api, { chat, thread }: Address, ref: string): Promise<void> {
  if (thread === undefined) await api.call("POST", v3("rooms", chat, "read_markers"), { body: { "m.fully_read": ref, "m.read": ref } });
  else await api.call("POST", v3("rooms", chat, "receipt", "m.read", ref), { body: { thread_id: thread } });
}

/** Best effort: a failure is noted and nothing else. */
function loosely(state: State, log: Logger, method: string, call: () => Promise<unknown>): void {
  if (state.stopping.signal.aborted) return;
  const done = call().then(
    () => undefined,
    (error: unknown) => log.debug({ method, reason: explainFailure(error).reason }, "a call without consequence failed"),
  );
  const tracked = done.finally(() => state.loose.delete(tracked));
  state.loose.add(tracked);
}
