// What the fake Discord knows: servers' channels, threads and direct chats with their messages, gateway sessions with what they have
// been told, interactions that wait for an answer, faults to make.
import type { Faults, PlatformFault } from "./fake-platform.ts";
import type { ServerSocket } from "./websocket-server.ts";

export interface SeenAttachment {
  id: string;
  filename: string;
  size: number;
  content_type: string;
  bytes: Buffer;
}

export interface DiscordUser {
  id: string;
  username: string;
  global_name?: string;
  bot?: boolean;
}

export interface SeenMessage {
  id: string;
  channel: string;
  author: DiscordUser;
  content: string;
  buttons: { label: string; customId: string; style: number }[];
  attachments: SeenAttachment[];
  /** The message it replies to. */
  replyTo: string | null;
  nonce: string | null;
  flags: number;
  edits: number;
  /** All that ever stood there, in order. */
  versions: string[];
  reactions: string[];
  /** It has notified somebody by a mention. */
  pinged: boolean;
  type: number;
  /** Further fields, as Discord names them. */
  extra: Record<string, unknown>;
}

/** What only one person saw. */
export interface Whisper {
  channel: string;
  user: string;
  content: string;
  buttons: SeenMessage["buttons"];
  /** It was written where "thinking…" stood. */
  isOriginal: boolean;
  /** The name of what it answers. */
  answers: string;
}

export interface FakeChannel {
  id: string;
  /** 0: of a server, 1: direct, 11: a thread. */
  type: number;
  parent: string | null;
  /** Who a direct chat is with. */
  recipient: string | null;
  /** A thread that was put away: nothing in it changes until it is opened again, by a message or by hand; locked, by nobody. */
  archived: "no" | "archived" | "locked";
  /** What Discord answers there, as `[status, code, message]`. */
  trouble: [number, number, string] | null;
  messages: SeenMessage[];
  nonces: Map<string, { id: string; at: number }>;
}

export interface Session {
  id: string;
  seq: number;
  events: { s: number; t: string; d: unknown }[];
  /** What the app has said that it heard. */
  confirmed: number;
  socket: ServerSocket | null;
}

export interface FakeInteraction {
  id: string;
  token: string;
  type: 2 | 3;
  channel: string;
  user: string;
  at: number;
  ack: number | null;
  isEphemeral: boolean;
  /** Null: there is none, or no more. `""`: it thinks. */
  original: string | null;
  message: SeenMessage | null;
  settled(acknowledged: boolean): void;
}

/** `429_global`: all calls are limited, not those of one kind. `answeredAfter`: executed at once, answered when the test says so. */
export type Fault = PlatformFault | "429_global" | { status: number; code: number; message: string } | { answeredAfter: Promise<void> };

export interface Call {
  method: string;
  channel: string;
  body: Record<string, unknown>;
  /** When it arrived. */
  at: number;
  /** Whether it did its work (also when the answer was then lost). */
  executed: boolean;
}

export interface State {
  readonly token: string;
  readonly botId: string;
  readonly appId: string;
  readonly guild: string;
  now(): number;
  lastId: bigint;
  origin: string;
  heartbeatMs: number;
  /** How long an interaction may wait. */
  ackMs: number;
  /** How long a nonce is known. */
  nonceMs: number;
  channels: Map<string, FakeChannel>;
  sessions: Map<string, Session>;
  sockets: ServerSocket[];
  nextSession: number;
  identifies: number;
  resumes: number;
  connections: number;
  beats: number;
  /** Nobody is let in: the connection is closed with this code once the app says who it is. */
  refusal: number | null;
  /** Connections to the gateway are cut before a word is said. */
  isDown: boolean;
  /** Resuming is answered with "not now". */
  isPutOff: boolean;
  /** Resuming is not answered at all. */
  isMute: boolean;
  /** The server is not to be had, while everything else is. */
  isGuildOut: boolean;
  startsLeft: number;
  /** Where the gateway is said to be; null: here. */
  gatewayUrl: string | null;
  interactions: Map<string, FakeInteraction>;
  whispers: Whisper[];
  commands: Record<string, unknown>[];
  commandWrites: number;
  applicationFlags: number;
  typing: string[];
  calls: Call[];
  faults: Faults<Fault>;
  wakers: Set<() => void>;
  closed: boolean;
}

const EPOCH_MS = 1_420_070_400_000;

/** Ids grow, whatever the clock does. */
export function nextId(state: State): string {
  const now = BigInt(Math.max(0, Math.floor(state.now()) - EPOCH_MS)) << 22n;
  state.lastId = now > state.lastId ? now : state.lastId + 1n;
  return String(state.lastId);
}

export function channelOf(state: State, id: string): FakeChannel {
  const channel = state.channels.get(id);
  if (channel === undefined) throw new Error(`there is no channel ${id}`);
  return channel;
}

export function wake(state: State): void {
  for (const look of [...state.wakers]) look();
}

/** A message as Discord writes it. The nonce is told when it is made, and never again. */
export function toJson(state: State, message: SeenMessage, isNew = false): Record<string, unknown> {
  const channel = channelOf(state, message.channel);
  const replied = channel.messages.find(({ id }) => id === message.replyTo);
  return {
    id: message.id,
    type: message.type,
    channel_id: message.channel,
    author: message.author,
    content: message.content,
    attachments: message.attachments.map((file) => attachmentJson(state, file)),
    mentions: [...message.content.matchAll(/<@!?(\d+)>/g)].map(([, id = ""]) => ({ id, username: `user${id}` })),
    components: [],
    flags: message.flags,
    ...(isNew && message.nonce !== null ? { nonce: message.nonce } : {}),
    ...(message.replyTo === null ? {} : { message_reference: { type: 0, message_id: message.replyTo, channel_id: message.channel } }),
    ...(replied === undefined ? {} : { referenced_message: { id: replied.id, author: replied.author, content: replied.content } }),
    ...message.extra,
  };
}

const attachmentJson = (state: State, { bytes: _bytes, ...file }: SeenAttachment): Record<string, unknown> => ({
  ...file,
  url: `${state.origin}/cdn/${file.id}?ex=1&hm=2`,
});

export const channelJson = (state: State, { id, type, parent, messages }: FakeChannel): Record<string, unknown> => ({
  id,
  type,
  name: `channel-${id}`,
  ...(type === 1 ? {} : { guild_id: state.guild }),
  parent_id: parent,
  last_message_id: messages.at(-1)?.id ?? null,
});
