// Names of things: agent ids, session keys, run ids. Everything that names a session or a file goes
// through here; a malformed name is refused, never repaired (SE1), so two spellings can't share a transcript.
import { randomUUID } from "node:crypto";
import type { Address } from "./address.ts";

const AGENT_ID = /^[a-z0-9][a-z0-9_-]{0,63}$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
/** One segment of a key: what platforms use as chat, peer and thread ids, lower-cased. */
const SEGMENT = /^[a-z0-9][a-z0-9._@+-]{0,127}$|^-[0-9]{1,20}$/;
const MAX_KEY_LENGTH = 512;

export type SessionKey = string;

export type ParsedKey =
  | { kind: "chat"; agentId: string; channel: string; shape: Address["kind"]; chat: string; thread?: string }
  | { kind: "subagent"; agentId: string; uuid: string };

export const isAgentId = (text: string): boolean => AGENT_ID.test(text);
export const isUuid = (text: string): boolean => UUID.test(text);
export const newId = (): string => randomUUID();
export const shortId = (id: string): string => id.slice(0, 8);

/** The key of a fresh sub-agent session: `agent:<id>:subagent:<uuid>`. */
export const subagentKey = (agentId: string, uuid: string): SessionKey => `agent:${agentId}:subagent:${uuid}`;

const THREAD_WORD: Record<Address["kind"], string> = { dm: "topic", group: "topic", channel: "thread" };

/** A-Z only: U+212A, the Kelvin sign, has an ordinary "k" as its lower case and would make two chats one. */
const lowerCase = (text: string): string => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/** Whose session a key names; empty, which is no agent's id, for what is no key. */
export const agentIdOf = (key: SessionKey): string => parseKey(key)?.agentId ?? "";

/** The session an address belongs to. Throws RangeError on an id no platform of ours produces. */
export function chatKey(agentId: string, address: Address): SessionKey {
  const chat = lowerCase(address.chat);
  const base = `agent:${agentId}:${address.channel}:${address.kind}:${chat}`;
  const key = address.thread === undefined ? base : `${base}:${THREAD_WORD[address.kind]}:${lowerCase(address.thread)}`;
  if (parseKey(key) === null) throw new RangeError("address does not make a session key");
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
  if (third === undefined || !/^[a-z]{1,32}$/.test(third)) return null;
  const shape = fourth as Address["kind"];
  if (!Object.hasOwn(THREAD_WORD, shape)) return null;
  if (fifth === undefined || !SEGMENT.test(fifth)) return null;
  const base = { kind: "chat" as const, agentId, channel: third, shape, chat: fifth };
  if (parts.length === 5) return base;
  if (parts.length !== 7 || word !== THREAD_WORD[shape] || thread === undefined || !SEGMENT.test(thread)) return null;
  return { ...base, thread };
}
