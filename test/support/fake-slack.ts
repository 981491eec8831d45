// A Slack workspace on loopback: the Web API with strict errors, Socket Mode over a real WebSocket, signed HTTP requests,
// repeated delivery of what was not acknowledged, faults on demand, and a record of what people see in each channel and
// thread. Slack's real clients talk to it, from this process or from another one that a test kills.
import { createFaults, openFakeServer } from "./fake-platform.ts";
import { acceptSocket, deliver, signatureOf } from "./fake-slack-delivery.ts";
import { type Channel, channelOf, nextId, nextTs, type SeenMessage, type State, type Whisper, wake } from "./fake-slack-state.ts";
import { handleCall } from "./fake-slack-web.ts";
import { waitOn } from "./wait.ts";

export type { Fault } from "./fake-slack-state.ts";

export interface FakeSlackOptions {
  /** Default: any free one. */
  port?: number;
  /** After this without an acknowledgement an event is sent again; Slack waits 3 s, here the default is 1 s. */
  ackTimeoutMs?: number;
  /** The workspace's clock; default the system's. */
  now?(): number;
  /** Another workspace, with an app and tokens of its own; people and channels have the same ids as in any. Default HOME. */
  team?: string;
}

interface SayOptions {
  channel: string;
  text?: string;
  /** Default U0PERSON. */
  user?: string;
  /** The thread's root ts. */
  thread?: string;
  /** Further fields of the event, e.g. `{subtype: "file_share", files: […]}`. */
  extra?: Record<string, unknown>;
}

interface PressOptions {
  channel: string;
  message: string;
  /** Null: `extra` says what was pressed, as a client does that has not seen the last edit. */
  label: string | null;
  user?: string;
  extra?: Record<string, unknown>;
}

export type FakeSlack = Awaited<ReturnType<typeof createFakeSlack>>;

export async function createFakeSlack(options: FakeSlackOptions = {}) {
  const state = createState(options);
  const { server, port, close } = await openFakeServer((request, response) => handleCall(state, request, response), options.port);
  server.on("upgrade", (request, stream) => acceptSocket(state, request, stream));
  state.wsUrl = `ws://127.0.0.1:${port}/socket`;
  state.origin = `http://127.0.0.1:${port}`;
  return {
    apiUrl: `http://127.0.0.1:${port}/api/`,
    port,
    botToken: state.botToken,
    appToken: state.appToken,
    signingSecret: state.signingSecret,
    appId: state.appId,
    teamId: state.teamId,
    botUser: state.botUser,
    calls: state.calls,
    /** Something a person attaches, as an event names it. */
    attach(name: string, mimetype: string, bytes: Buffer): Record<string, unknown> {
      const id = `F0UP${state.uploads.size + 1}`;
      state.uploads.set(id, bytes);
      return { id, name, mimetype, size: bytes.length, url_private: `${state.origin}/files-pri/${id}` };
    },
    acks: state.acks,
    /** Signs of work the app showed. */
    statuses: state.statuses,
    ...people(state),
    ...records(state),
    faults: state.faults,
    channels: {
      add: (id: string, type?: Channel["type"]) => void channelOf(state, id, type),
      /** What Slack answers there from now on, e.g. "not_in_channel". */
      break: (id: string, trouble: Channel["trouble"]) => void Object.assign(channelOf(state, id), { trouble }),
    },
    /** Who takes no direct messages of the app, and in which of Slack's words. */
    closedTo: state.closedTo,
    /** Methods this app doesn't have (any more). */
    missing: state.missing,
    /** A method's good answers get these fields from now on. */
    answerWith: (method: string, fields: Record<string, unknown>) => void state.extras.set(method, fields),
    sockets: sockets(state),
    /** Http mode: payloads are posted here, signed, instead of going over a socket. */
    sendTo: (url: string | null) => void Object.assign(state, { requestUrl: url }),
    /** The headers of a request by Slack with this body. */
    sign: (body: string, atSeconds?: number) => signatureOf(state, body, atSeconds),
    until: <T>(check: () => T, what = "a condition", timeoutMs = 45_000): Promise<NonNullable<T>> =>
      waitOn(state.wakers, what, check, timeoutMs),
    async close() {
      state.closed = true;
      for (const delivery of state.pending) if (delivery.timer !== null) clearTimeout(delivery.timer);
      for (const socket of [...state.sockets]) socket.destroy();
      await close();
    },
  };
}

function createState(options: FakeSlackOptions): State {
  const { team } = options;
  const [app, own] = team === undefined ? ["HERALD", ""] : [team, `-${team}`];
  return {
    botToken: `xoxb-1000000001-fake-bot-token${own}`,
    appToken: `xapp-1-A0${app}-1000000002-fake-app-token${own}`,
    signingSecret: `fake-signing-secret-0123456789${own}`,
    appId: `A0${app}`,
    teamId: `T0${team ?? "HOME"}`,
    botUser: "U0HERALD",
    botId: "B0HERALD",
    ackTimeoutMs: options.ackTimeoutMs ?? 1_000,
    now: options.now ?? Date.now,
    lastTs: 0,
    nextId: 1,
    wsUrl: "",
    channels: new Map(),
    closedTo: new Map(),
    sockets: [],
    connections: 0,
    nextSocket: 0,
    pending: new Set(),
    requestUrl: null,
    acks: [],
    whispers: [],
    files: new Map(),
    uploads: new Map(),
    responseUrls: new Map(),
    origin: "",
    statuses: [],
    missing: new Set(["agents.sessions.setStatus"]),
    extras: new Map(),
    calls: [],
    faults: createFaults(),
    wakers: new Set(),
    closed: false,
  };
}

/** What people and Slack do. Events resolve when acknowledged; nobody has to wait for that. */
function people(state: State) {
  const event = (inner: Record<string, unknown>, outer: Record<string, unknown> = {}) =>
    deliver(state, "events_api", eventBody(state, inner, outer));
  return {
    /** A person writes. Returns the message's ts. A mention of the bot is told twice, as Slack does. */
    say: (message: SayOptions): string => say(state, message),
    mention: (message: SayOptions): string => say(state, { ...message, text: `<@${state.botUser}> ${message.text ?? ""}` }),
    /** A person edits: an event about the message, with the message inside. */
    edit(message: SayOptions & { ts: string }): void {
      const inner = {
        type: "message",
        user: message.user ?? PERSON,
        text: message.text ?? "",
        ts: message.ts,
        edited: { user: PERSON, ts: message.ts },
      };
      const channel = channelOf(state, message.channel);
      void event({
        type: "message",
        subtype: "message_changed",
        hidden: true,
        channel: channel.id,
        channel_type: typeOf(channel),
        ts: nextTs(state),
        message: inner,
      });
    },
    /** A slash command; resolves with whether the app acknowledged it in time. Slack offers none inside threads. */
    slash: (given: { channel: string; command: string; text?: string; user?: string; extra?: Record<string, unknown> }): Promise<boolean> =>
      deliver(state, "slash_commands", slashBody(state, given)),
    /** A press on a button of a bot's message, by its label; resolves with whether it was acknowledged. */
    press: (given: PressOptions): Promise<boolean> => deliver(state, "interactive", pressBody(state, given)),
    /** Any event, as it is. */
    inject: (inner: Record<string, unknown>, outer: Record<string, unknown> = {}): Promise<boolean> => event(inner, outer),
    /** Any payload, as it is, once more or for the first time. */
    redeliver: (payload: Record<string, unknown>): Promise<boolean> => deliver(state, "events_api", payload),
  };
}

const PERSON = "U0PERSON";
const typeOf = ({ type }: Channel): string => type;

function say(state: State, { channel: id, text = "", user = PERSON, thread, extra = {} }: SayOptions): string {
  const channel = channelOf(state, id);
  const ts = nextTs(state);
  channel.messages.push({
    ts,
    channel: id,
    thread: thread ?? null,
    text,
    fallback: text,
    blocks: [],
    buttons: [],
    metadata: null,
    user,
    fromBot: false,
    edits: 0,
    reactions: [],
    files: [],
    calls: false,
    streaming: null,
    versions: [text],
  });
  const base = { user, text, ts, event_ts: ts, channel: id, team: state.teamId, ...(thread === undefined ? {} : { thread_ts: thread }) };
  void deliver(state, "events_api", eventBody(state, { type: "message", channel_type: typeOf(channel), ...base, ...extra }));
  if (text.includes(`<@${state.botUser}>`) && channel.type !== "im") {
    void deliver(state, "events_api", eventBody(state, { type: "app_mention", ...base, ...extra, subtype: undefined }));
  }
  return ts;
}

function eventBody(state: State, event: Record<string, unknown>, outer: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    type: "event_callback",
    token: "legacy-verification-token",
    team_id: state.teamId,
    api_app_id: state.appId,
    event_id: nextId(state, "Ev"),
    event_time: Math.floor(state.now() / 1000),
    authorizations: [{ enterprise_id: null, team_id: state.teamId, user_id: state.botUser, is_bot: true }],
    event,
    ...outer,
  };
}

function slashBody(
  state: State,
  given: { channel: string; command: string; text?: string; user?: string; extra?: Record<string, unknown> },
) {
  return {
    command: given.command,
    text: given.text ?? "",
    user_id: given.user ?? PERSON,
    user_name: "person",
    channel_id: given.channel,
    channel_name: given.channel.startsWith("D") ? "directmessage" : "general",
    team_id: state.teamId,
    api_app_id: state.appId,
    trigger_id: nextId(state, "1.2."),
    response_url: responseUrl(state, given.channel, given.user ?? PERSON),
    ...given.extra,
  };
}

function responseUrl(state: State, channel: string, user: string): string {
  const id = nextId(state, "response-");
  state.responseUrls.set(id, { channel, user, usesLeft: 5, expiresAt: state.now() + 30 * 60_000 });
  return `${state.origin}/commands/${id}`;
}

function pressBody(state: State, given: PressOptions) {
  const message = channelOf(state, given.channel).messages.find((one) => one.ts === given.message);
  const button = message?.buttons.find((one) => one.label === given.label);
  if (message === undefined || (button === undefined && given.label !== null))
    throw new Error(`no button "${given.label}" on ${given.message}`);
  const thread = message.thread === null ? {} : { thread_ts: message.thread };
  return {
    type: "block_actions",
    user: { id: given.user ?? PERSON, username: "person", team_id: state.teamId },
    team: { id: state.teamId, domain: "example" },
    api_app_id: state.appId,
    trigger_id: nextId(state, "1.2."),
    container: { type: "message", message_ts: message.ts, channel_id: message.channel, ...thread },
    channel: { id: message.channel, name: "general" },
    message: { type: "message", bot_id: state.botId, ts: message.ts, text: message.fallback, ...thread },
    response_url: responseUrl(state, message.channel, given.user ?? PERSON),
    actions: [{ type: "button", action_id: button?.actionId, value: button?.value, action_ts: nextTs(state) }],
    ...given.extra,
  };
}

/** What there is to see. */
function records(state: State) {
  const all = (): SeenMessage[] => [...state.channels.values()].flatMap((channel) => channel.messages);
  return {
    /** What the bot said, in order. `thread` null: only in the channel itself; left out: everywhere in the channel. */
    messages: (channel: string, thread?: string | null): SeenMessage[] =>
      (state.channels.get(channel)?.messages ?? []).filter((seen) => seen.fromBot && (thread === undefined || seen.thread === thread)),
    /** What only this person saw there. */
    whispers: (channel: string, user = PERSON): Whisper[] => state.whispers.filter((one) => one.channel === channel && one.user === user),
    /** Everything in the channel, people's messages too. */
    history: (channel: string): SeenMessage[] => state.channels.get(channel)?.messages ?? [],
    /** Every message of the bot in every channel. */
    allMessages: (): SeenMessage[] => all().filter((seen) => seen.fromBot),
    /** A person deletes a message; a thread whose root is gone takes no replies. */
    deleteMessage(channel: string, ts: string): void {
      const place = channelOf(state, channel);
      place.messages = place.messages.filter((seen) => seen.ts !== ts);
      wake(state);
    },
    /** Slack ends the streams that are open, as it does after some minutes. */
    expireStreams(): void {
      for (const message of all()) if (message.streaming === "in_progress") message.streaming = "errored";
    },
    /** Payloads the app has not acknowledged. */
    pending: (): Record<string, unknown>[] => [...state.pending].map((delivery) => delivery.payload),
  };
}

function sockets(state: State) {
  return {
    open: (): number => state.sockets.length,
    /** Connections ever made. */
    made: (): number => state.connections,
    /** Slack moves a connection: it announces that and closes. */
    refresh(): void {
      for (const socket of [...state.sockets]) socket.send(JSON.stringify({ type: "disconnect", reason: "refresh_requested" }));
    },
    /** Hangs up without a word, all or the first n. */
    drop(count = Number.POSITIVE_INFINITY): void {
      for (const socket of [...state.sockets].slice(0, count)) socket.destroy();
    },
    /** They stay open and say nothing any more, not even to a goodbye. */
    mute(): void {
      for (const socket of state.sockets) socket.mute();
    },
    /** A raw frame to each. */
    frame(text: string): void {
      for (const socket of state.sockets) socket.send(text);
    },
    /** Bytes that are no whole or no right frame, to each. */
    raw(bytes: Buffer): void {
      for (const socket of state.sockets) socket.raw(bytes);
    },
  };
}
