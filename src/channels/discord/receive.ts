// What the receive side shares: the way of an event into the inbox, and where it was said.
// Discord → socket.ts → takeEvent → inbox row and journal (durable) → only then counted as heard.
import type { API } from "@discordjs/core/http-only";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/logger.ts";
import type { ChannelState, InboxSink } from "../../core/message.ts";
import { safeParse } from "../../core/safe-parse.ts";
import { explainFailure } from "./api.ts";
import { decodePayload, isBlank, isSaid } from "./decode.ts";
import type { Echoes } from "./echoes.ts";
import type { Interactions } from "./interactions.ts";
import { advance, type Journal, learnDirect, learnPlace, type Step, textAfter } from "./journal.ts";
import {
  channelSchema,
  type DiscordMessage,
  type Interaction,
  interactionSchema,
  messageSchema,
  type Place,
  placeOf,
  type Stored,
} from "./payload.ts";

/** The receive side's state, one per start. */
export interface Receiver {
  readonly api: API;
  readonly clock: Clock;
  readonly log: Logger;
  readonly inbox: InboxSink;
  /** The bot's user id. */
  readonly me: string;
  /** Ends everything the receive side does. */
  readonly signal: AbortSignal;
  readonly journal: Journal;
  readonly interactions: Interactions;
  readonly echoes: Echoes;
  /** Servers that have not listed their threads yet in this session; null: it was begun by another process. */
  unlisted: Set<unknown> | null;
  /** Channels of servers that people may talk in. */
  listed(): readonly string[];
  /** Who may write to us directly, by their ids, as far as the settings say. */
  people(): readonly string[];
  show(state: ChannelState, detail?: string): void;
  /** People's words come without words: said once. */
  sawBlank(): void;
}

/** Whatever else is said around us moves the session on, too; so often that is written without anybody's message. */
const WRITE_EVERY_MS = 15_000;

/** Throws when the disk refuses, or when Discord can't be asked where it was said: then it is not heard, and has to come again. */
export async function takeMessage(receiver: Receiver, payload: unknown, seq: number | null): Promise<void> {
  const parsed = safeParse(messageSchema, payload);
  if (!parsed.success) return;
  const message = parsed.data;
  receiver.echoes.heard(message, receiver.me);
  if (!isSaid(message, receiver.me)) return;
  const isServers = seq === null ? null : typeof (payload as { guild_id?: unknown }).guild_id === "string";
  const place = isServers === false ? DIRECT : await placeFor(receiver, message.channel_id);
  if (place === null) return;
  if (place.kind === "channel" && isBlank(message)) receiver.sawBlank();
  await record(receiver, message, { place, payload, seq });
}

const DIRECT: Place = { kind: "dm" };

async function record(
  receiver: Receiver,
  { id, channel_id: channel, author }: DiscordMessage,
  { place, payload, seq }: { place: Place; payload: unknown; seq: number | null },
): Promise<void> {
  const raw: Stored = { me: receiver.me, kind: "message", place, payload };
  const inbound = decodePayload(raw, receiver.me);
  if (inbound === null) return;
  const { journal, clock, inbox } = receiver;
  if (place.kind === "dm") learnDirect(journal, author.id, channel);
  const step: Step = { seq, said: { channel, id, place } };
  // Where people talk among themselves all day, not every word is worth a write; said to us, it goes with its row.
  const isToUs = inbound.kind !== "message" || inbound.mentioned || seq === null;
  const isDue = isToUs || clock.now() - journal.writtenAt > WRITE_EVERY_MS;
  await inbox.put([{ externalId: `msg:${channel}:${id}`, raw }], isDue ? textAfter(journal, step) : undefined);
  if (isDue) journal.writtenAt = clock.now();
  advance(journal, step);
}

/**
 * Recorded at once, whatever else waits to be: Discord wants to hear within three seconds that it was taken, and it is told only what is
 * on record. Throws when the disk refuses.
 */
export async function takeInteraction(receiver: Receiver, payload: unknown): Promise<void> {
  const parsed = safeParse(interactionSchema, payload);
  if (!parsed.success) return;
  const interaction = parsed.data;
  const place = await placeOfInteraction(receiver, interaction);
  if (place === null) return;
  const raw: Stored = { me: receiver.me, kind: "interaction", place, payload };
  if (decodePayload(raw, receiver.me) === null) return;
  await receiver.inbox.put([{ externalId: `interaction:${interaction.id}`, raw }]);
  receiver.interactions.acknowledge(interaction, place);
}

async function placeOfInteraction(receiver: Receiver, { channel, channel_id, guild_id }: Interaction): Promise<Place | null> {
  if (channel !== null && channel !== undefined) return placeOf(channel);
  if (typeof guild_id !== "string") return DIRECT;
  return typeof channel_id === "string" ? placeFor(receiver, channel_id) : null;
}

/** Null: it is no place of ours any more. Throws when Discord can't be asked. */
export async function placeFor({ api, journal, listed }: Receiver, channel: string): Promise<Place | null> {
  const known = journal.channels.get(channel);
  if (known !== undefined) return known.place;
  if (listed().includes(channel)) return { kind: "channel" };
  try {
    const parsed = safeParse(channelSchema, await api.channels.get(channel));
    const place = parsed.success ? placeOf(parsed.data) : null;
    if (place !== null) learnPlace(journal, channel, place);
    return place;
  } catch (error) {
    if (explainFailure(error).kind === "refused") return null;
    throw error;
  }
}

/** What Discord tells of its channels, so that nobody has to ask. */
export function learnChannels({ journal }: Receiver, channels: readonly unknown[]): void {
  for (const one of channels) {
    const parsed = safeParse(channelSchema, one);
    const place = parsed.success ? placeOf(parsed.data) : null;
    if (parsed.success && place !== null) learnPlace(journal, parsed.data.id, place);
  }
}
