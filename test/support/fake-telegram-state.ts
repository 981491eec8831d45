// What the fake bot API knows: chats and their messages, updates not yet confirmed, faults to make.
import type { Faults, PlatformFault } from "./fake-platform.ts";
import type { ApiAnswer, Entity } from "./fake-telegram-rules.ts";
import type { FloodLimits } from "./flood-limits.ts";

export interface SeenMessage {
  id: number;
  chat: number;
  /** null: the chat itself (or its General topic). */
  thread: number | null;
  /** Of a file: what stands under it. */
  text: string;
  file: { name: string; content: string; kind?: "photo" } | null;
  entities: Entity[];
  buttons: { text: string; data: string }[];
  replyTo: number | null;
  quiet: boolean;
  /** How often it was edited. */
  edits: number;
  /** Emoji the bot put on it (on people's messages). */
  reactions: string[];
  fromBot: boolean;
  /** Words of the bot that people's apps made live: mentions, commands, hashtags. */
  live: string[];
}

/** A message that is being written, as people saw it at one moment. */
export interface SeenDraft {
  chat: number;
  thread: number | null;
  id: number;
  text: string;
  canStop: boolean;
  at: number;
  /** Taken away, because the message came. */
  isOver: boolean;
}

export type Fault = PlatformFault | "401" | "409" | { code: number; description: string; parameters?: Record<string, unknown> };

export interface Call {
  method: string;
  payload: Record<string, unknown>;
  /** When it arrived. */
  at: number;
  /** Whether the method did its work (also when the answer was then lost). */
  executed: boolean;
}

export interface Chat {
  id: number;
  type: "private" | "group" | "supergroup";
  forum: boolean;
  topics: Map<number, "open" | "closed">;
  trouble: "blocked" | "kicked" | "unopened" | null;
  migratedTo: number | null;
  messages: SeenMessage[];
}

export interface State {
  token: string;
  username: string;
  botId: number;
  revoked: boolean;
  nextUpdate: number;
  nextMessage: number;
  nextQuery: number;
  updates: Record<string, unknown>[];
  chats: Map<number, Chat>;
  queries: Map<string, boolean>;
  webhook: { url: string; secret: string } | null;
  webhookRetryMs: number;
  poll: { end(answer: ApiAnswer): void } | null;
  wakers: Set<() => void>;
  commands: unknown[];
  actions: { chat: number; thread: number | null }[];
  /** Drafts shown, in order. */
  drafts: SeenDraft[];
  calls: Call[];
  /** What people attached, by file_id. */
  uploads: Map<string, Buffer>;
  faults: Faults<Fault>;
  /** Null: it takes as much as it gets. */
  limits: FloodLimits | null;
  chooser: ((method: string, payload: Record<string, unknown>) => Fault | null) | null;
  closed: boolean;
}

export function chatOf(state: State, id: number): Chat {
  const known = state.chats.get(id);
  if (known !== undefined) return known;
  const type = id > 0 ? "private" : String(id).startsWith("-100") ? "supergroup" : "group";
  const chat: Chat = { id, type, forum: false, topics: new Map(), trouble: null, migratedTo: null, messages: [] };
  state.chats.set(id, chat);
  return chat;
}

export const wake = (state: State) => {
  for (const waker of [...state.wakers]) waker();
};

export const chatJson = (chat: Chat) => ({
  id: chat.id,
  type: chat.type,
  ...(chat.forum ? { is_forum: true } : {}),
  ...(chat.id > 0 ? {} : { title: "Group" }),
});

export function messageJson(state: State, chat: Chat, seen: SeenMessage): Record<string, unknown> {
  const from = seen.fromBot
    ? { id: state.botId, is_bot: true, first_name: "Herald", username: state.username }
    : { id: 1, is_bot: false, first_name: "User 1" };
  const topic = seen.thread === null ? {} : { message_thread_id: seen.thread, is_topic_message: true };
  return { message_id: seen.id, date: Math.floor(Date.now() / 1000), chat: chatJson(chat), from, text: seen.text, ...topic };
}
