// What polling and webhook share: who the bot is, and the way of an update into the inbox.
// Telegram → poll.ts / webhook.ts → takeUpdates → inbox row (durable) → only then confirmed to Telegram.

import type { Update } from "grammy/types";
import type { Api } from "grammy/web";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/logger.ts";
import type { ChannelState, InboxSink } from "../../core/message.ts";
import { type ApiFailure, asGrammySignal, explainFailure } from "./api.ts";
import { decodeUpdate } from "./decode.ts";
import type { Presses } from "./presses.ts";

export interface Me {
  readonly id: number;
  readonly username: string;
}

/** The receive side's state, one per channel object. */
export interface Receiver {
  readonly api: Api;
  readonly clock: Clock;
  readonly log: Logger;
  readonly inbox: InboxSink;
  /** Ends everything the receive side does. */
  readonly signal: AbortSignal;
  /** Chats seen to have topics: there the typing sign of "General" needs its id. */
  readonly forums: Set<string>;
  /** Buttons that spin. */
  readonly presses: Presses;
  /** Calls under way that nobody waits for; stop() does. */
  readonly loose: Set<Promise<void>>;
  show(state: ChannelState, detail?: string): void;
}

/** Only what decode understands is asked for: an edit never runs anything, so it isn't even fetched. */
export const ALLOWED_UPDATES = ["message", "callback_query", "stopped_message_generation"] as const;

const COMMANDS = [
  { command: "subagents", description: "List and steer sub-agents: list, stop, log, info, send" },
  { command: "stop", description: "Stop the agent and all its sub-agents" },
  { command: "approvals", description: "Tools that are always allowed here; take one back" },
  { command: "new", description: "Start a new conversation" },
  { command: "status", description: "Version, model, channels, lanes" },
  { command: "model", description: "Show or choose the model" },
  { command: "usage", description: "Tokens and cost" },
  { command: "help", description: "All commands" },
];

const BASE_DELAY_MS = 1_000;
const MAX_DELAY_MS = 30_000;
const AUTH_DELAY_MS = 5 * 60_000;
const CONFLICTS_TO_REPORT = 5;

/** Waits that grow from 1 s to 30 s with some jitter, and what /status says meanwhile. A success starts over. */
export function createBackoff(receiver: Receiver): { wait(failure: ApiFailure): Promise<void>; reset(): void } {
  let failures = 0;
  return {
    reset() {
      failures = 0;
    },
    async wait(failure) {
      failures++;
      const delayMs = delayFor(failure, failures);
      receiver.show(failure.kind === "auth" ? "failed" : "retrying", detailFor(failure, failures));
      receiver.log.warn({ reason: failure.reason, failures, delayMs }, "receiving from Telegram is interrupted");
      await receiver.clock.sleep(delayMs, receiver.signal);
    },
  };
}

function delayFor(failure: ApiFailure, failures: number): number {
  if (failure.kind === "auth") return AUTH_DELAY_MS;
  // Two gateways that took turns without jitter would meet for ever.
  const ownMs = Math.min(BASE_DELAY_MS * 2 ** (failures - 1), MAX_DELAY_MS) * (0.5 + Math.random() / 2);
  return failure.kind === "flood" && failure.afterMs > 0 ? failure.afterMs : ownMs;
}

function detailFor(failure: ApiFailure, failures: number): string {
  if (failure.kind !== "conflict") return failure.reason;
  // One or two are normal after a restart: Telegram still holds the poll of the process before.
  return failures >= CONFLICTS_TO_REPORT ? "another instance polls with this bot token" : "waiting for an earlier poll to end";
}

/** Asks who the bot is until Telegram answers; null when stopped first. */
export async function learnMe(receiver: Receiver): Promise<Me | null> {
  const backoff = createBackoff(receiver);
  while (!receiver.signal.aborted) {
    try {
      const { id, username } = await receiver.api.getMe(asGrammySignal(receiver.signal));
      loosely(receiver, "setMyCommands", receiver.api.setMyCommands(COMMANDS, {}, asGrammySignal(receiver.signal)));
      return { id, username };
    } catch (error) {
      if (!receiver.signal.aborted) await backoff.wait(explainFailure(error));
    }
  }
  return null;
}

/** Whatever else is odd about an update is for decode to refuse; without its id it can't be recorded. */
export const isUpdate = (value: unknown): value is Update =>
  typeof value === "object" && value !== null && "update_id" in value && Number.isSafeInteger(value.update_id);

/** Records updates; durable on return. Throws when the disk refuses: then nothing may be confirmed. */
export async function takeUpdates(receiver: Receiver, me: Me, updates: readonly Update[], cursor?: string): Promise<void> {
  const rows = mergeAlbums(updates).map(({ id, update, album }) => ({
    externalId: String(id),
    raw: { me, update, ...(album.length === 0 ? {} : { album }) },
  }));
  // The pictures that another one carries: none of them may start anew when it is delivered again.
  const carried = updates
    .filter((update) => albumOf(update) !== null)
    .map(({ update_id }) => ({ externalId: String(update_id), raw: null }));
  await receiver.inbox.put([...rows, ...carried], cursor);
  for (const update of updates) {
    const { message } = update;
    if (message?.chat?.is_forum === true && typeof message.chat.id === "number") receiver.forums.add(String(message.chat.id));
    if (message?.migrate_to_chat_id !== undefined) reportMove(receiver, message.chat?.id, message.migrate_to_chat_id);
    takePress(receiver, me, update);
  }
}

/** What still has to go to the old id follows by itself (send.ts); who may speak in the new one is the operator's to say. */
function reportMove({ log }: Receiver, from: number | undefined, to: number): void {
  log.warn({ from, to }, "a group became a supergroup: list its new id under channels.telegram.groups");
}

/** One that decode refuses nobody will answer. */
function takePress({ presses }: Receiver, me: Me, update: Update): void {
  const { callback_query: press } = update;
  if (typeof press?.id !== "string") return;
  if (decodeUpdate({ me, update }, String(me.id)) !== null) return presses.expect(press.id);
  void presses.end(press.id, press.message?.date === 0 ? "This button is too old." : undefined);
}

/** Best effort: a failure is noted and nothing else. */
export function loosely(receiver: Pick<Receiver, "loose" | "log">, method: string, call: Promise<unknown>): void {
  const done = call.then(
    () => undefined,
    (error: unknown) => receiver.log.debug({ method, reason: explainFailure(error).reason }, "a call without consequence failed"),
  );
  const tracked = done.finally(() => receiver.loose.delete(tracked));
  receiver.loose.add(tracked);
}

interface Entry {
  /** An album's newest: what comes late must be recorded even if a known one comes again with it. */
  id: number;
  update: Update;
  readonly album: unknown[];
}

/** Pictures sent together arrive as one update each; the one with words carries the others, so a batch makes one turn of them. */
function mergeAlbums(updates: readonly Update[]): Entry[] {
  const merged: Entry[] = [];
  const albums = new Map<string, Entry>();
  for (const update of updates) {
    const group = albumOf(update);
    const known = group === null ? undefined : albums.get(group);
    if (known === undefined) {
      const entry: Entry = { id: update.update_id, update, album: [] };
      merged.push(entry);
      if (group !== null) albums.set(group, entry);
      continue;
    }
    known.id = Math.max(known.id, update.update_id);
    if (known.update.message?.caption === undefined && update.message?.caption !== undefined) {
      known.album.push(known.update.message);
      known.update = update;
    } else known.album.push(update.message);
  }
  return merged;
}

/** Null: part of no album. Types are checked: an update that throws here would be polled for ever. */
export const albumOf = ({ message }: Update): string | null =>
  typeof message?.media_group_id === "string" && typeof message.chat?.id === "number"
    ? `${message.chat.id}/${message.media_group_id}`
    : null;
