// What the receive side shares: the way of an event into the inbox, and where it was said.
// Discord → socket.ts → takeEvent → inbox row and journal (durable) → only then counted as heard.
import type { API } from "@discordjs/core/http-only";
import type { Logger } from "../../core/logger.ts";
import type { ChannelState, InboxSink } from "../../core/message.ts";
import { safeParse } from "../../core/safe-parse.ts";
import { explainFailure } from "./api.ts";
import { decodePayload, isBlank, isSaid } from "./decode.ts";
import type { Echoes } from "./echoes.ts";
import { type Listening, openGap, waitsForReading } from "./gaps.ts";
import type { Interactions } from "./interactions.ts";
import { advance, learnDirect, learnPlace, type Step, textAfter } from "./journal.ts";
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
  /** Calls that read come one by one, so that people's answers have room beside them. */
  inPace<T>(work: () => Promise<T>): Promise<T>;
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
export const WRITE_EVERY_MS = 15_000;

/** `seq` is null when it was read. Throws when the disk refuses, or when Discord can't be asked where that was: then it has to come again. */
export async function takeMessage(receiver: Receiver, payload: unknown, seq: number | null): Promise<void> {
  const parsed = safeParse(messageSchema, payload);
  if (!parsed.success) return;
  const message = parsed.data;
  receiver.echoes.heard(message, receiver.me);
  if (!isSaid(message, receiver.me)) return;
  const isDirect = seq !== null && typeof (payload as { guild_id?: unknown }).guild_id !== "string";
  const known = isDirect ? DIRECT : knownPlace(receiver, message.channel_id);
  // Would the session wait until Discord says where this was said, one thread nobody knows could keep the whole bot from hearing. So it
  // is a gap that begins with this message, and whoever reads it asks.
  const span = { from: idBefore(message.id), until: idBefore(message.id) };
  if (seq !== null && known === null) openGap(receiver, message.channel_id, span);
  if (seq !== null && waitsForReading(receiver, message, { payload, isDirect })) return;
  const place = known ?? (await placeFor(receiver, message.channel_id));
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
  return typeof channel_id === "string" ? placeFor(receiver, channel_id) : null;
}

/** Null: it has to be asked for. */
function knownPlace({ journal, listed }: Receiver, channel: string): Place | null {
  return journal.channels.get(channel)?.place ?? (listed().includes(channel) ? { kind: "channel" } : null);
}

/** Null: it is no place of ours any more. Throws when Discord can't be asked. */
export async function placeFor(receiver: Receiver, channel: string): Promise<Place | null> {
  const { api, journal } = receiver;
  const known = knownPlace(receiver, channel);
  if (known !== null) return known;
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
