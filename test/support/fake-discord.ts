// A Discord on loopback: REST with strict errors, the gateway over a real WebSocket, sessions that can be resumed until they are
// forgotten, enforced nonces, interactions with their three seconds, files, faults on demand, and a record of what people see in each
// channel and thread. Discord's real client talks to it, from this process or from another one that a test kills.
import { acceptSocket, dispatch, setGuildOut, unconfirmed } from "./fake-discord-gateway.ts";
import { interact } from "./fake-discord-interactions.ts";
import { handleCall } from "./fake-discord-rest.ts";
import {
  channelJson,
  channelOf,
  type DiscordUser,
  type FakeChannel,
  nextId,
  type SeenAttachment,
  type SeenMessage,
  type State,
  toJson,
  type Whisper,
  wake,
} from "./fake-discord-state.ts";
import { createFaults, openFakeServer } from "./fake-platform.ts";
import { waitOn } from "./wait.ts";

export interface FakeDiscordOptions {
  /** Default: any free one. */
  port?: number;
  /** Discord's clock; default the system's. */
  now?(): number;
  heartbeatMs?: number;
  ackMs?: number;
  nonceMs?: number;
}

export interface Said {
  channel: string;
  text?: string;
  /** Default: the person. */
  user?: string;
  replyTo?: string;
  files?: { name: string; type: string; bytes: Buffer }[];
  /** Nobody is told of it, as in an outage that no session spans. */
  isUntold?: boolean;
  /** Further fields, e.g. `{webhook_id: "1"}`. */
  extra?: Record<string, unknown>;
}

export type FakeDiscord = Awaited<ReturnType<typeof createFakeDiscord>>;

const BOT_ID = "1000000000000000001";
export const PERSON = "4200000000000000042";
export const ROOM = "5000000000000000005";
export const DIRECT = "6000000000000000006";

export async function createFakeDiscord(options: FakeDiscordOptions = {}) {
  const state = createState(options);
  const { server, port, close } = await openFakeServer((request, response) => handleCall(state, request, response), options.port);
  server.on("upgrade", (request, stream) => acceptSocket(state, request, stream));
  state.origin = `http://127.0.0.1:${port}`;
  addChannel(state, { id: ROOM, type: 0 });
  addChannel(state, { id: DIRECT, type: 1, recipient: PERSON });
  return {
    apiUrl: `http://127.0.0.1:${port}/api`,
    port,
    botToken: state.token,
    botId: state.botId,
    appId: state.appId,
    calls: state.calls,
    faults: state.faults,
    typing: state.typing,
    ...people(state),
    ...records(state),
    channels: places(state),
    gateway: gateway(state),
    commands: { list: () => state.commands, writes: () => state.commandWrites },
    /** From now on no nonce is known for longer than a moment. */
    forgetNonces: () => void Object.assign(state, { nonceMs: 0 }),
    /** What the portal says the application may do. */
    setFlags: (flags: number) => void Object.assign(state, { applicationFlags: flags }),
    until: <T>(check: () => T, what = "a condition", timeoutMs = 45_000): Promise<NonNullable<T>> =>
      waitOn(state.wakers, what, check, timeoutMs),
    async close() {
      state.closed = true;
      for (const socket of [...state.sockets]) socket.destroy();
      await close();
    },
  };
}

function createState(options: FakeDiscordOptions): State {
  return {
    token: `${Buffer.from(BOT_ID).toString("base64url")}.GfakeX.fake_bot_token_0123456789abcdefghij`,
    botId: BOT_ID,
    appId: "1000000000000000009",
    guild: "3000000000000000003",
    now: options.now ?? Date.now,
    lastId: 0n,
    origin: "",
    heartbeatMs: options.heartbeatMs ?? 100,
    ackMs: options.ackMs ?? 3_000,
    nonceMs: options.nonceMs ?? 5 * 60_000,
    channels: new Map(),
    sessions: new Map(),
    sockets: [],
    nextSession: 1,
    identifies: 0,
    resumes: 0,
    connections: 0,
    beats: 0,
    refusal: null,
    isDown: false,
    isPutOff: false,
    isMute: false,
    isGuildOut: false,
    startsLeft: 1000,
    gatewayUrl: null,
    interactions: new Map(),
    whispers: [],
    commands: [],
    commandWrites: 0,
    applicationFlags: 1 << 19,
    typing: [],
    calls: [],
    faults: createFaults(),
    wakers: new Set(),
    closed: false,
  };
}

function addChannel(state: State, given: Pick<FakeChannel, "id" | "type"> & Partial<FakeChannel>): FakeChannel {
  const channel: FakeChannel = { parent: null, recipient: null, archived: "no", trouble: null, messages: [], nonces: new Map(), ...given };
  state.channels.set(channel.id, channel);
  return channel;
}

function places(state: State) {
  return {
    add: (given: Pick<FakeChannel, "id" | "type"> & Partial<FakeChannel>) => void addChannel(state, given),
    /** Somebody begins a thread below a channel of the server. `isUntold`: in an outage. */
    thread(parent: string, isUntold = false): string {
      const channel = addChannel(state, { id: nextId(state), type: 11, parent });
      if (!isUntold) dispatch(state, "THREAD_CREATE", channelJson(state, channel));
      return channel.id;
    },
    /** What Discord answers there from now on, as `[status, code, message]`. */
    break: (id: string, trouble: FakeChannel["trouble"]) => void Object.assign(channelOf(state, id), { trouble }),
    archive: (id: string, isLocked = false) => void Object.assign(channelOf(state, id), { archived: isLocked ? "locked" : "archived" }),
    remove: (id: string) => void state.channels.delete(id),
  };
}

/** What people do. */
function people(state: State) {
  return {
    /** A person writes. Returns the message's id. */
    say: (said: Said): string => say(state, said),
    mention: (said: Said): string => say(state, { ...said, text: `<@${state.botId}> ${said.text ?? ""}` }),
    /** The gateway tells of a message once more. */
    replay: (channel: string, id: string): void => announce(state, messageIn(state, channel, id)),
    /** A slash command; resolves with whether the app acknowledged it in time. */
    slash: (given: { channel: string; name: string; words?: string; user?: string }): Promise<boolean> =>
      interact(state, {
        channel: given.channel,
        user: given.user ?? PERSON,
        command: { name: given.name, ...(given.words === undefined ? {} : { words: given.words }) },
      }),
    /** A press on a button of the bot's message, by its label; `customId` as a client has it that did not see the last edit. */
    press: (given: Press): Promise<boolean> => press(state, given),
    /** The name of what was last pressed or called. */
    lastInteraction: (): string => [...state.interactions.values()].at(-1)?.id ?? "",
    /** Any event, as it is. */
    inject: (t: string, d: unknown): void => dispatch(state, t, d),
  };
}

interface Press {
  channel: string;
  message: string;
  label?: string;
  customId?: string;
  user?: string;
}

function press(state: State, given: Press): Promise<boolean> {
  const message = messageIn(state, given.channel, given.message);
  const customId = given.customId ?? message.buttons.find(({ label }) => label === given.label)?.customId;
  if (customId === undefined) throw new Error(`no button "${given.label}" on ${given.message}`);
  return interact(state, { channel: given.channel, user: given.user ?? PERSON, press: { message, customId } });
}

function messageIn(state: State, channel: string, id: string): SeenMessage {
  const message = channelOf(state, channel).messages.find((one) => one.id === id);
  if (message === undefined) throw new Error(`there is no message ${id}`);
  return message;
}

function say(state: State, { channel: id, text = "", user = PERSON, replyTo, files = [], isUntold = false, extra = {} }: Said): string {
  const author: DiscordUser = { id: user, username: "person", global_name: "Person" };
  const attachments = files.map(
    ({ name, type, bytes }): SeenAttachment => ({ id: nextId(state), filename: name, size: bytes.length, content_type: type, bytes }),
  );
  const base = { buttons: [], nonce: null, flags: 0, edits: 0, reactions: [], pinged: false };
  const message: SeenMessage = {
    ...{ ...base, id: nextId(state), channel: id, author, content: text, attachments, extra },
    ...{ replyTo: replyTo ?? null, versions: [text], type: replyTo === undefined ? 0 : 19 },
  };
  channelOf(state, id).messages.push(message);
  if (!isUntold) announce(state, message);
  return message.id;
}

function announce(state: State, message: SeenMessage): void {
  const { type } = channelOf(state, message.channel);
  dispatch(state, "MESSAGE_CREATE", { ...toJson(state, message), ...(type === 1 ? {} : { guild_id: state.guild }) });
}

/** What there is to see. */
function records(state: State) {
  const isBots = ({ author }: SeenMessage): boolean => author.id === state.botId;
  return {
    /** What the bot said there, in order. */
    messages: (channel: string): SeenMessage[] => (state.channels.get(channel)?.messages ?? []).filter(isBots),
    /** Everything there, people's messages too. */
    history: (channel: string): SeenMessage[] => state.channels.get(channel)?.messages ?? [],
    allMessages: (): SeenMessage[] => [...state.channels.values()].flatMap(({ messages }) => messages.filter(isBots)),
    /** What only this person saw there. */
    whispers: (channel: string, user = PERSON): Whisper[] => state.whispers.filter((one) => one.channel === channel && one.user === user),
    /** Commands that still show "thinking…". */
    thinking: (): number => [...state.interactions.values()].filter(({ original }) => original === "").length,
    deleteMessage(channel: string, id: string): void {
      const place = channelOf(state, channel);
      place.messages = place.messages.filter((seen) => seen.id !== id);
      wake(state);
    },
    unconfirmed: (): number => unconfirmed(state),
    /** The channel a thread belongs to; null: it is none. */
    parentOf: (channel: string): string | null => state.channels.get(channel)?.parent ?? null,
  };
}

function gateway(state: State) {
  return {
    /** Somebody has a session and is connected. */
    isUp: (): boolean => [...state.sessions.values()].some(({ socket }) => socket?.isOpen === true),
    identifies: (): number => state.identifies,
    resumes: (): number => state.resumes,
    connections: (): number => state.connections,
    /** Heartbeats it was sent: whoever sends the next one has heard the answer to the last. */
    beats: (): number => state.beats,
    /** Hangs up without a word. */
    drop(): void {
      for (const socket of [...state.sockets]) socket.destroy();
    },
    /** Closes with a code, e.g. 4014. */
    close(code: number): void {
      for (const socket of [...state.sockets]) socket.close(code);
    },
    /** A raw frame to each. */
    frame(text: string): void {
      for (const socket of state.sockets) socket.send(text);
    },
    /** Nobody can resume any more. */
    forget: (): void => state.sessions.clear(),
    /** Everybody who says who they are is closed with this code; null: they are let in again. */
    refuse: (code: number | null): void => void Object.assign(state, { refusal: code }),
    /** Nobody gets through to it. */
    setDown: (isDown: boolean): void => void Object.assign(state, { isDown }),
    /** Whoever resumes is told to try it again later. */
    putOff: (isPutOff: boolean): void => void Object.assign(state, { isPutOff }),
    /** Whoever resumes hears nothing but the answers to heartbeats. */
    mute: (isMute: boolean): void => void Object.assign(state, { isMute }),
    setGuildOut: (isOut: boolean): void => setGuildOut(state, isOut),
    /** The gateway is said to be elsewhere. */
    lead: (url: string): void => void Object.assign(state, { gatewayUrl: url }),
    setStartsLeft: (left: number): void => void Object.assign(state, { startsLeft: left }),
  };
}
