// Names of things: agent ids, session keys, run ids. Everything that names a session or a file goes
// through here; a malformed name is refused, never repaired (SE1), so two spellings can't share a transcript.
import { randomUUID } from "node:crypto";
import { type Address, isChannelName, platformOf } from "./address.ts";
import { escapeId, isPlatformId, unescapeId } from "./platform-id.ts";
import { isProgramName } from "./program.ts";

const AGENT_ID = /^[a-z0-9][a-z0-9_-]{0,63}$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
/** One segment of a key where ids need no escaping: Telegram's numbers, the page's own, Slack's in small letters. */
const SEGMENT = /^[a-z0-9][a-z0-9._@+-]{0,127}$|^-[0-9]{1,20}$/;
/** Two ids of 255 bytes, escaped to the last, and the words around them. */
const MAX_KEY_LENGTH = 2_048;

export type SessionKey = string;

export type ParsedKey =
  | { kind: "chat"; agentId: string; channel: string; shape: Address["kind"]; chat: string; thread?: string }
  | { kind: "subagent"; agentId: string; uuid: string }
  | { kind: "program"; agentId: string; token: string; name: string };

export const isAgentId = (text: string): boolean => AGENT_ID.test(text);
export const isUuid = (text: string): boolean => UUID.test(text);
export const newId = (): string => randomUUID();

/**
 * A UUID that begins with its time (version 7), for what is made often and never asked for by its beginning, as people ask for runs. Each
 * random one would change another page of every index it stands in; of these the newest lie together.
 */
export function newTimedId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}

export const shortId = (id: string): string => id.slice(0, 8);

/** The key of a fresh sub-agent session: `agent:<id>:subagent:<uuid>`. */
export const subagentKey = (agentId: string, uuid: string): SessionKey => `agent:${agentId}:subagent:${uuid}`;

/** The session of a program's token: `agent:<id>:mcp:<token>:<name>`. */
export const programKey = (agentId: string, token: string, name: string): SessionKey => `agent:${agentId}:mcp:${token}:${name}`;

/** The name of the token whose session this is; null: it is another's. */
export function programNameOf(key: SessionKey): string | null {
  const parsed = parseKey(key);
  return parsed?.kind === "program" ? parsed.name : null;
}

const THREAD_WORD: Record<Address["kind"], string> = { dm: "topic", group: "topic", channel: "thread" };

/** A-Z only: U+212A, the Kelvin sign, has an ordinary "k" as its lower case and would make two chats one. */
const lowerCase = (text: string): string => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
const upperCase = (text: string): string => text.replace(/[a-z]/g, (letter) => letter.toUpperCase());

/** How a platform's ids are written in keys, and read back; null: it is none of its ids. */
interface Spelling {
  write(id: string): string | null;
  read(segment: string): string | null;
}

const asSegment = (text: string): string | null => (SEGMENT.test(text) ? text : null);
const PLAIN: Spelling = { write: asSegment, read: asSegment };
/** Slack's ids are capitals. With a small letter in it, one would share the key of another. */
const SMALL: Spelling = {
  write: (id) => (/[a-z]/.test(id) ? null : asSegment(lowerCase(id))),
  read: (segment) => (SEGMENT.test(segment) ? upperCase(segment) : null),
};
/** In its own case, signs of ours escaped. */
const ESCAPED: Spelling = {
  write: (id) => (isPlatformId(id) ? escapeId(id) : null),
  read(segment) {
    const id = unescapeId(segment);
    return id !== null && isPlatformId(id) ? id : null;
  },
};

/** Those that had keys before ids were escaped: their sessions keep them. Every other platform's are `ESCAPED`. */
const SPELLINGS: ReadonlyMap<string, Spelling> = new Map([
  ["telegram", PLAIN],
  ["web", PLAIN],
  ["slack", SMALL],
]);
const spellingOf = (channel: string): Spelling => SPELLINGS.get(platformOf(channel)) ?? ESCAPED;

/**
 * What the file about the person of a direct chat is called (`peers/`); null: it is with nobody in particular. In small letters, because
 * some file systems tell no case apart; with the channel before it where another channel could have the same id (CH1).
 */
export function peerNameOf(key: SessionKey): string | null {
  const parsed = parseKey(key);
  if (parsed?.kind !== "chat" || parsed.shape !== "dm") return null;
  const segment = key.split(":")[4] ?? "";
  if (SPELLINGS.has(parsed.channel)) return segment;
  const small = segment.replace(/%..|[A-Z]/g, (sign) => (sign.length > 1 ? sign.toLowerCase() : `%${sign.charCodeAt(0).toString(16)}`));
  return `${parsed.channel}+${small}`;
}

/** Whose session a key names; empty, which is no agent's id, for what is no key. */
export const agentIdOf = (key: SessionKey): string => parseKey(key)?.agentId ?? "";

/** The session an address belongs to. Throws RangeError on an id no platform of ours produces. */
export function chatKey(agentId: string, { channel, kind, chat, thread }: Address): SessionKey {
  const { write } = spellingOf(channel);
  const base = `agent:${agentId}:${channel}:${kind}:${write(chat)}`;
  const key = thread === undefined ? base : `${base}:${THREAD_WORD[kind]}:${write(thread)}`;
  const isWhole = write(chat) !== null && (thread === undefined || write(thread) !== null);
  if (!isWhole || parseKey(key) === null) throw new RangeError("address does not make a session key");
  return key;
}

/** Text → parts of a key, or null when it is not exactly one of the forms of SE1. */
export function parseKey(text: string): ParsedKey | null {
  if (text.length > MAX_KEY_LENGTH) return null;
  const parts = text.split(":");
  const [prefix, agentId, third, fourth, fifth, word, thread] = parts;
  if (prefix !== "agent" || agentId === undefined || !isAgentId(agentId)) return null;
  if (third === "subagent") {
    return parts.length === 4 && fourth !== undefined && isUuid(fourth) ? { kind: "subagent", agentId, uuid: fourth } : null;
  }
  if (third === "mcp") {
    const fits = parts.length === 5 && fourth !== undefined && isUuid(fourth) && fifth !== undefined && isProgramName(fifth);
    return fits ? { kind: "program", agentId, token: fourth, name: fifth } : null;
  }
  if (third === undefined || !isChannelName(third)) return null;
  const shape = fourth as Address["kind"];
  if (!Object.hasOwn(THREAD_WORD, shape)) return null;
  const { read } = spellingOf(third);
  const chat = read(fifth ?? "");
  if (chat === null) return null;
  const base = { kind: "chat" as const, agentId, channel: third, shape, chat };
  if (parts.length === 5) return base;
  const topic = read(thread ?? "");
  return parts.length === 7 && word === THREAD_WORD[shape] && topic !== null ? { ...base, thread: topic } : null;
}
