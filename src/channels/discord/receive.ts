// What the receive side shares: the way of an event into the inbox, and where it was said.
// Discord → socket.ts → takeEvent → inbox row and journal (durable) → only then counted as heard.
import type { API } from "@discordjs/core/http-only";
import type { Logger } from "../../core/logger.ts";
import type { ChannelState, InboxSink } from "../../core/message.ts";
import { safeParse } from "../../core/safe-parse.ts";
import { explainFailure } from "./api.ts";
import type { Ask } from "./ask.ts";
import { decodePayload, isBlank, isSaid } from "./decode.ts";
import type { Echoes } from "./echoes.ts";
import { type Listening, openGap, waitsForReading } from "./gaps.ts";
import type { Interactions } from "./interactions.ts";
import { advance, learnDirect, learnPlace, type Step, textAfter } from "./journal.ts";
import {
  channelSchema,
  DIRECT,
  type DiscordMessage,
  type Interaction,
  interactionSchema,
  messageSchema,
  type Place,
  placeOf,
  type Stored,
} from "./payload.ts";
import { idBefore } from "./snowflake.ts";

/** The receive side's state, one per start. */
export interface Receiver extends Listening {
  readonly api: API;
  readonly log: Logger;
  readonly inbox: InboxSink;
  /** The bot's user id. */
  readonly me: string;
  /** Ends everything the receive side does. */
  readonly signal: AbortSignal;
  readonly interactions: Interactions;
  readonly echoes: Echoes;
  /** For calls that read. */
  readonly ask: Ask;
  /** Gaps that somebody reads, by their keys. */
  readonly underWay: Map<string, Promise<void>>;
  /** Why one can't be read, while it can't. */
  readonly unread: Map<string, string>;
  /** Servers that have not listed their threads yet in this session; null: it was begun by another process. */
  unlisted: Set<unknown> | null;
  show(state: ChannelState, detail?: string): void;
  /** People's words come without words: said once. */
  sawBlank(): void;
}

/** Whatever else is said around us moves the session on, too; so often that is written without anybody's message. */
const WRITE_EVERY_MS = 15_000;
/** All gaps that are left are written with each row. */
const FEW_GAPS = 20;

/** Throws when the disk refuses: then it has to come again. */
export async function takeTold(receiver: Receiver, payload: unknown, seq: number): Promise<void> {
  const message = readMessage(receiver, payload);
  if (message === null) return;
  const isDirect = typeof (payload as { guild_id?: unknown }).guild_id !== "string";
  const place = isDirect ? DIRECT : knownPlace(receiver, message.channel_id);
  // Would the session wait until Discord says where this was said, one thread nobody knows could keep the whole bot from hearing. So it
  // is a gap that begins with this message, and whoever reads it asks.
  const span = { from: idBefore(message.id), until: idBefore(message.id) };
  if (place === null) openGap(receiver, message.channel_id, span);
  if (waitsForReading(receiver, message, { payload, isDirect }) || place === null) return;
  await record(receiver, message, { place, payload, seq });
}

/** What was read, or was told and waited for that. Throws when the disk refuses. */
export async function takeRead(receiver: Receiver, payload: unknown, place: Place): Promise<void> {
  const message = readMessage(receiver, payload);
  if (message !== null) await record(receiver, message, { place, payload, seq: null });
}

/** Null: nobody's. */
function readMessage({ echoes, me }: Receiver, payload: unknown): DiscordMessage | null {
  const parsed = safeParse(messageSchema, payload);
  if (!parsed.success) return null;
  echoes.heard(parsed.data, me);
  return isSaid(parsed.data, me) ? parsed.data : null;
}

/**
 * Whether the journal is written with what was read. All gaps go along each time: with many of them, only now and then. Whoever is killed
 * meanwhile reads it once more, and knows it by its id.
 */
export function isWriteDue({ journal, clock }: Receiver): boolean {
  const isFew = journal.gaps.size + journal.unopened.size < FEW_GAPS;
  return isFew || clock.now() - journal.writtenAt > WRITE_EVERY_MS;
}

async function record(
  receiver: Receiver,
  message: DiscordMessage,
  { place, payload, seq }: { place: Place; payload: unknown; seq: number | null },
): Promise<void> {
  const { id, channel_id: channel, author } = message;
  if (place.kind === "channel" && isBlank(message)) receiver.sawBlank();
  const raw: Stored = { me: receiver.me, kind: "message", place, payload };
  const inbound = decodePayload(raw, receiver.me);
  if (inbound === null) return;
  const { journal, clock, inbox } = receiver;
  if (place.kind === "dm") learnDirect(journal, author.id, channel);
  const step: Step = { seq, said: { channel, id, place } };
  // Where people talk among themselves all day, not every word is worth a write; said to us, it goes with its row.
  const isToUs = inbound.kind !== "message" || inbound.mentioned;
  const isDue = seq === null ? isWriteDue(receiver) : isToUs || clock.now() - journal.writtenAt > WRITE_EVERY_MS;
  await inbox.put([{ externalId: `msg:${channel}:${id}`, raw }], isDue ? textAfter(journal, step) : undefined);
  if (isDue) journal.writtenAt = clock.now();
  // Behind its row: the next write, whosever it is, says of all that is named here that it is on record.
  advance(journal, step);
}

/** Throws when the disk refuses. */
export async function writeJournal({ journal, inbox, clock }: Receiver): Promise<void> {
  await inbox.put([], textAfter(journal, { seq: null }));
  journal.writtenAt = clock.now();
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
  if (typeof channel_id !== "string") return null;
  try {
    // A person waits for it: it takes no turn among what is read.
    return knownPlace(receiver, channel_id) ?? (await fetchPlace(receiver, channel_id));
  } catch (error) {
    if (explainFailure(error).kind === "refused") return null;
    throw error;
  }
}

/** Null: it has to be asked for. */
export function knownPlace({ journal, listed }: Receiver, channel: string): Place | null {
  return journal.channels.get(channel)?.place ?? (listed().includes(channel) ? { kind: "channel" } : null);
}

/** Null: no place of ours. Throws when Discord refuses, or can't be asked. */
export async function fetchPlace({ api, journal }: Receiver, channel: string): Promise<Place | null> {
  const parsed = safeParse(channelSchema, await api.channels.get(channel));
  const place = parsed.success ? placeOf(parsed.data) : null;
  if (place !== null) learnPlace(journal, channel, place);
  return place;
}

/** What Discord tells of its channels, so that nobody has to ask. */
export function learnChannels({ journal }: Receiver, channels: readonly unknown[]): void {
  for (const one of channels) {
    const parsed = safeParse(channelSchema, one);
    const place = parsed.success ? placeOf(parsed.data) : null;
    if (parsed.success && place !== null) learnPlace(journal, parsed.data.id, place);
  }
}
