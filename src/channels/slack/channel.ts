// Slack as a Channel: socket mode or http mode in, one markdown block per message out. Translates only: who may speak, what
// a command does and when to try again are decided elsewhere.
// Slack → receive → inbox → decode → gateway;  outbox → delivery → send → Slack.
import type { WebClient } from "@slack/web-api";
import type { Clock } from "../../core/clock.ts";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { Channel, ChannelState, InboxSink } from "../../core/message.ts";
import { createClient, explainFailure } from "./api.ts";
import { decodePayload } from "./decode.ts";
import { fetchFile } from "./fetch-file.ts";
import { createGivenUrls } from "./given-url.ts";
import { listen } from "./http.ts";
import { joinParts, SLACK_PACE } from "./join.ts";
import { learnMe, type Receiver } from "./receive.ts";
import { renderMessage } from "./render.ts";
import { editPart, findPart, type Sender, sendPart } from "./send.ts";
import { runSockets } from "./socket.ts";
import { createStatusLine } from "./status.ts";
import { createStreams, type Streams } from "./stream.ts";

export interface SlackOptions {
  /** `xoxb-…` */
  readonly botToken: string;
  /** `xapp-…`, needed in socket mode. */
  readonly appToken?: string | undefined;
  /** Needed in http mode, with a port. */
  readonly signingSecret?: string | undefined;
  readonly httpPort?: number | undefined;
  /** Default: loopback only. */
  readonly httpHost?: string;
  readonly apiUrl?: string;
  readonly mode: "socket" | "http";
  /** What is remembered of which workspace the token belongs to, over restarts. */
  readonly accounts: {
    last(): Promise<string | null>;
    /** Durable on return; what is recorded under the former names is the account's from then on. Throws when the disk refuses. */
    adopt(account: string, former: readonly string[]): Promise<void>;
  };
  readonly clock: Clock;
  readonly log: Logger;
  /** The bytes of a stored file; null: they are gone. */
  readFile?(id: string): Promise<Buffer | null>;
  /** When a call is given up; default 8 000. */
  readonly timeoutMs?: number;
  /** When a message that isn't there counts as not posted, after its sending began; default: the timeout and 4 s more. */
  readonly settleMs?: number;
  /** Connections at a time in socket mode; default 2. */
  readonly sockets?: number;
}

type Health = { state: ChannelState; detail?: string };

interface State {
  /** The workspace's id, or the organisation's. Until Slack was asked for the first time, a name of earlier versions. */
  account: string;
  /** Slack has said so, here or before. */
  isKnown: boolean;
  formerly: readonly string[];
  receiving: Health;
  /** Why Slack refuses the bot's token, while it does. */
  refused: string | null;
  stopping: AbortController;
  running: Promise<void>;
  /** For signs nobody waits for; its calls end with stop(). */
  side: WebClient;
  readonly loose: Set<Promise<void>>;
}

type Settings = ReturnType<typeof readSettings>;

/** Of the largest file that is taken. */
const DOWNLOAD_MS = 5 * 60_000;
const API_URL = "https://slack.com/api/";
/** What earlier versions called the account where no app token named the app. */
const UNNAMED = "slack";
const RECEIPT = "eyes";

/** Throws AppError("config") when the tokens can't work; reaches for no network yet. */
export async function createSlackChannel(options: SlackOptions): Promise<Channel> {
  const settings = readSettings(options);
  const { log } = settings;
  const state = await createState(settings);
  const sending = new AbortController();
  const sender = createSender(settings, state, sending.signal);
  const statusLine = createStatusLine(options.clock);
  return {
    name: "slack",
    threadSign: "!",
    get account() {
      return state.account;
    },
    get formerly() {
      return state.formerly;
    },
    async learnAccount() {
      if (state.isKnown) return;
      const account = await settings.accounts.last();
      if (account !== null) Object.assign(state, { account, isKnown: true });
    },
    isCalled: options.mode === "http",
    start: (inbox) => start(settings, state, inbox),
    async stop() {
      state.stopping.abort();
      await Promise.all([state.running, ...state.loose]);
      state.receiving = { state: "off" };
    },
    hangUp: () => sending.abort(),
    health: () =>
      state.refused !== null && state.receiving.state !== "off" ? { state: "failed", detail: state.refused } : state.receiving,
    decode: (raw) => decodePayload(raw, state.account),
    render: renderMessage,
    pace: SLACK_PACE,
    join: joinParts,
    send: (request) => sendPart(sender, request),
    edit: (request) => editPart(sender, request),
    drafts: sender.streams,
    reconcile: (request) => findPart(sender, request),
    fetchFile: async ({ source }, signal) =>
      "remote" in source
        ? fetchFile({ ...settings, timeoutMs: DOWNLOAD_MS }, source.remote, AbortSignal.any([signal, sending.signal]))
        : { status: "refused", reason: "it is not Slack's" },
    async status(address, work) {
      loosely(state, log, "setStatus", () => statusLine.show(state.side, address, work));
    },
    async receipt({ chat }, ref) {
      loosely(state, log, "reactions.add", () => state.side.reactions.add({ channel: chat, timestamp: ref, name: RECEIPT }));
    },
  };
}

function readSettings(options: SlackOptions) {
  const { mode, botToken, appToken, signingSecret, httpPort } = options;
  const refuse = (message: string) => new AppError("config", `channels.slack.${message}`);
  if (!/^xox[a-z]-/.test(botToken)) throw refuse("botToken is not a bot token (it looks like xoxb-…)");
  if (mode === "socket" && !/^xapp-/.test(appToken ?? "")) throw refuse("appToken is needed in socket mode (it looks like xapp-…)");
  if (mode === "http" && !signingSecret) throw refuse("signingSecret is needed in http mode");
  if (mode === "http" && httpPort === undefined) throw refuse("port is needed in http mode");
  const appId = /^xapp-\d+-(A[A-Z0-9]+)-/.exec(appToken ?? "")?.[1] ?? "";
  const timeoutMs = options.timeoutMs ?? 8_000;
  return {
    ...options,
    apiUrl: options.apiUrl ?? API_URL,
    appId,
    timeoutMs,
  };
}

async function createState(settings: Settings): Promise<State> {
  const stopping = new AbortController();
  const side = createClient(settings.botToken, { ...settings, signal: stopping.signal });
  const formerly = formerNames(settings.appId);
  const known = await settings.accounts.last();
  const account = known ?? formerly[0] ?? UNNAMED;
  return {
    account,
    isKnown: known !== null,
    formerly,
    receiving: { state: "off" },
    refused: null,
    stopping,
    running: Promise.resolve(),
    side,
    loose: new Set(),
  };
}

/** The app's id over sockets, a fixed word over http: so changing the mode orphaned everything. */
const formerNames = (appId: string): string[] => (appId === "" ? [UNNAMED] : [appId, UNNAMED]);

function createSender(settings: Settings, state: State, signal: AbortSignal): Sender & { readonly streams: Streams } {
  const client = createClient(settings.botToken, { ...settings, signal });
  const { clock } = settings;
  const settleMs = settings.settleMs ?? settings.timeoutMs + 4_000;
  return {
    ...{ client, clock, settleMs },
    givenUrls: createGivenUrls({ ...settings, signal }),
    readFile: settings.readFile ?? (async () => null),
    streams: createStreams({ client, clock, settleMs, account: () => state.account }),
    authTrouble(reason) {
      state.refused = reason;
    },
  };
}

async function start(settings: Settings, state: State, inbox: InboxSink): Promise<void> {
  const { mode, appToken = "", signingSecret = "", httpPort: port = 0, httpHost: host = "127.0.0.1", sockets = 2 } = settings;
  state.stopping = new AbortController();
  state.receiving = { state: "starting" };
  const { signal } = state.stopping;
  state.side = createClient(settings.botToken, { ...settings, signal });
  const { clock, log, accounts, appId } = settings;
  const show = (next: ChannelState, detail?: string): void => {
    state.receiving = { state: next, ...(detail === undefined ? {} : { detail }) };
  };
  const adopt = async (account: string, app: string): Promise<void> => {
    const formerly = formerNames(app);
    const before = { account: state.account, formerly: state.formerly, isKnown: state.isKnown };
    // First: rows under the new name would be nobody's for a moment, and whoever looks just then leaves them until the next start.
    Object.assign(state, { account, formerly, isKnown: true });
    try {
      await accounts.adopt(account, formerly);
    } catch (error) {
      Object.assign(state, before);
      throw error;
    }
  };
  const receiver: Receiver = { client: state.side, clock, log, inbox, adopt, appId, signal, groups: new Set(), show };
  if (mode === "http") state.running = (await listen(receiver, { signingSecret, port, host })).done;
  else
    state.running = learnMe(receiver).then((me) =>
      me === null ? undefined : runSockets(receiver, { ...settings, appToken, me, sockets }),
    );
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
