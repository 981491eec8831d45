// The shapes Discord sends, as far as we read them: messages and interactions. Ids are checked to be Discord's own, so that nothing else
// can become a sender, a chat or a thread. Anything else in a payload is ignored.
import { z } from "zod";
import { SNOWFLAKE } from "./snowflake.ts";

const id = z.string().regex(SNOWFLAKE);
const text = z.string().max(100_000);

const user = z.object({
  id,
  bot: z.boolean().nullish(),
  system: z.boolean().nullish(),
  username: text.nullish(),
  global_name: text.nullish(),
});
export type User = z.output<typeof user>;

/** Where a conversation takes place. Messages name only the channel they stand in: that it is a thread, and whose, has to be known. */
export const placeSchema = z.object({
  kind: z.enum(["dm", "channel"]),
  /** Of a thread: the channel it belongs to. */
  parent: id.optional(),
});
export type Place = z.output<typeof placeSchema>;

export const DIRECT: Place = { kind: "dm" };

export const attachmentSchema = z.object({
  id,
  filename: text.nullish(),
  title: text.nullish(),
  size: z.number().nullish(),
  content_type: text.nullish(),
  /** Only a voice message has it. */
  waveform: z.unknown().optional(),
});
export type DiscordFile = z.output<typeof attachmentSchema>;

const attachments = z.array(z.unknown()).max(100).nullish();

export const messageSchema = z.object({
  id,
  channel_id: id,
  type: z.number(),
  author: user,
  webhook_id: z.unknown().optional(),
  content: text.nullish(),
  nonce: z.union([z.string(), z.number()]).nullish(),
  mentions: z.array(user).max(1_000).nullish().catch(null),
  attachments,
  sticker_items: z
    .array(z.object({ name: text }))
    .max(20)
    .nullish()
    .catch(null),
  poll: z
    .object({ question: z.object({ text: text.nullish() }) })
    .nullish()
    .catch(null),
  message_reference: z.object({ type: z.number().nullish(), message_id: id.nullish() }).nullish().catch(null),
  referenced_message: z.object({ id, author: user, content: text.nullish() }).nullish().catch(null),
  /** What was forwarded. */
  message_snapshots: z
    .array(z.object({ message: z.object({ content: text.nullish(), attachments }) }))
    .max(10)
    .nullish()
    .catch(null),
});
export type DiscordMessage = z.output<typeof messageSchema>;

const option = z.object({ value: z.union([text, z.number(), z.boolean()]).optional() });

export const interactionSchema = z.object({
  id,
  application_id: id,
  /** 2: a slash command, 3: a press. */
  type: z.union([z.literal(2), z.literal(3)]),
  token: z
    .string()
    .min(1)
    .max(1_000)
    .regex(/^[\w.~-]+$/),
  channel_id: id.nullish(),
  guild_id: id.nullish(),
  channel: z.object({ id, type: z.number(), parent_id: id.nullish() }).nullish().catch(null),
  member: z.object({ user }).nullish(),
  user: user.nullish(),
  data: z.object({
    name: z
      .string()
      .regex(/^[\w-]{1,32}$/)
      .optional(),
    options: z.array(option).max(25).optional(),
    custom_id: z.string().max(100).optional(),
  }),
});
export type Interaction = z.output<typeof interactionSchema>;

/** What the inbox holds. Only what came as a message is read as one: whoever can steer its fields can't make it another kind. */
export const storedSchema = z.object({
  /** The bot's user id. */
  me: id,
  kind: z.enum(["message", "interaction"]),
  place: placeSchema,
  payload: z.unknown(),
});
export type Stored = z.output<typeof storedSchema>;

/** Discord's numbers for kinds of channels. */
const THREADS: ReadonlySet<number> = new Set([10, 11, 12]);
const ONE_PERSON = 1;

const channelSchema = z.object({ id, type: z.number(), parent_id: id.nullish(), last_message_id: id.nullish().catch(null) });
export type DiscordChannel = z.output<typeof channelSchema>;
export { channelSchema };

/** Null: nothing we talk in (a group of people, which no bot can be in). */
export function placeOf({ type, parent_id: parent }: Pick<DiscordChannel, "type" | "parent_id">): Place | null {
  if (type === ONE_PERSON) return DIRECT;
  if (THREADS.has(type)) return typeof parent === "string" ? { kind: "channel", parent } : null;
  return type === 3 ? null : { kind: "channel" };
}
