// What the fake workspace knows: channels and their messages, sockets, events not yet acknowledged, faults to make.
import type { Faults, PlatformFault } from "./fake-platform.ts";
import type { Block, MessageArgs, SlackButton } from "./fake-slack-rules.ts";
import type { ServerSocket } from "./websocket-server.ts";

export interface SeenMessage {
  ts: string;
  channel: string;
  /** The thread's root; null: it stands in the channel itself. */
  thread: string | null;
  /** What a person reads. */
  text: string;
  /** The plain text beside the blocks. */
  fallback: string;
  blocks: Block[];
  buttons: SlackButton[];
  metadata: MessageArgs["metadata"];
  user: string;
  fromBot: boolean;
  edits: number;
  reactions: string[];
  files: SlackFile[];
  /** It would have notified people by a mention. */
  calls: boolean;
  /** Null: it was posted whole. */
  streaming: "in_progress" | "completed" | "errored" | null;
  /** All that ever stood there, in order. */
  versions: string[];
}

export interface SlackFile {
  id: string;
  name: string;
  title: string;
  content: string;
}

/** What only one person saw, until their client is closed. */
export interface Whisper {
  channel: string;
  user: string;
  /** The thread it was shown in; null: in the channel itself. */
  thread: string | null;
  text: string;
  blocks: Block[];
  /** It came by the response_url of their command. */
  byUrl: boolean;
}

/** The address a slash command may be answered at. */
export interface ResponseUrl {
  channel: string;
  user: string;
  usesLeft: number;
  expiresAt: number;
}

export type Fault = PlatformFault | "429_bare" | "html_200" | "cut_json_after" | { error: string; [field: string]: unknown };

export interface Call {
  method: string;
  args: Record<string, string>;
  /** When it arrived. */
  at: number;
  /** Whether the method did its work (also when the answer was then lost). */
  executed: boolean;
}

export interface Channel {
  id: string;
  type: "channel" | "group" | "im" | "mpim";
  trouble: "not_in_channel" | "is_archived" | "channel_not_found" | null;
  messages: SeenMessage[];
}

/** Something the app must hear; events are repeated until acknowledged, commands and presses are not. */
export interface Delivery {
  type: "events_api" | "slash_commands" | "interactive";
  payload: Record<string, unknown>;
  attempt: number;
  /** The envelope under way, and by which socket. */
  envelope: string | null;
  socket: ServerSocket | null;
  timer: NodeJS.Timeout | null;
  settled(acknowledged: boolean): void;
}

export interface State {
  botToken: string;
  appToken: string;
  signingSecret: string;
  appId: string;
  teamId: string;
  botUser: string;
  botId: string;
  ackTimeoutMs: number;
  now(): number;
  lastTs: number;
  nextId: number;
  wsUrl: string;
  channels: Map<string, Channel>;
  /** Why the app may not write to a person, by their id. */
  closedTo: Map<string, "cannot_dm_bot" | "user_not_found" | "user_disabled">;
  sockets: ServerSocket[];
  /** Connections ever made. */
  connections: number;
  nextSocket: number;
  pending: Set<Delivery>;
  /** Http mode: where payloads are posted instead. */
  requestUrl: string | null;
  /** Envelopes acknowledged, in order. */
  acks: string[];
  whispers: Whisper[];
  /** Uploaded, or about to be; nobody sees them until they are shared. */
  files: Map<string, { name: string; length: number; content: string | null }>;
  /** What people attached, by id. */
  uploads: Map<string, Buffer>;
  responseUrls: Map<string, ResponseUrl>;
  /** Where this server is reached. */
  origin: string;
  statuses: { channel: string; thread: string; status: string; way: "agent" | "assistant" }[];
  /** Methods this app doesn't have. */
  missing: Set<string>;
  /** Fields a method's good answers have besides. */
  extras: Map<string, Record<string, unknown>>;
  calls: Call[];
  faults: Faults<Fault>;
  wakers: Set<() => void>;
  closed: boolean;
}

/** Message names grow, whatever the clock does. */
export function nextTs(state: State): string {
  state.lastTs = Math.max(state.lastTs + 1, Math.floor(state.now() * 1_000));
  return `${Math.floor(state.lastTs / 1e6)}.${String(state.lastTs % 1e6).padStart(6, "0")}`;
}

export const nextId = (state: State, prefix: string): string => `${prefix}${String(state.nextId++).padStart(8, "0")}`;

export function channelOf(state: State, id: string, type?: Channel["type"]): Channel {
  const known = state.channels.get(id);
  if (known !== undefined) return known;
  const made: Channel = { id, type: type ?? (id.startsWith("D") ? "im" : "channel"), trouble: null, messages: [] };
  state.channels.set(id, made);
  return made;
}

export function wake(state: State): void {
  for (const look of [...state.wakers]) look();
}
