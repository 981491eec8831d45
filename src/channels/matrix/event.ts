// The shapes Matrix sends, as far as we read them. Ids are checked to be of their kind, so that nothing else can become a sender, a room
// or a thread; everything else in an event is somebody's words, and of any shape at all.
import { z } from "zod";
import { safeParse } from "../../core/safe-parse.ts";

const MAX_ID_BYTES = 255;
const fits = (id: string): boolean => Buffer.byteLength(id) <= MAX_ID_BYTES && id.isWellFormed() && !/\p{Cc}/u.test(id);

const USER_ID = /^@[^:\s]*:[A-Za-z0-9.:[\]-]{1,230}$/;
const ROOM_ID = /^!.+$/u;
export const userId = z.string().regex(USER_ID).refine(fits);
export const roomId = z.string().regex(ROOM_ID).refine(fits);
export const eventId = z
  .string()
  .regex(/^\$.+$/u)
  .refine(fits);

const text = z.string().max(200_000);
const short = z.string().max(4_096);

/** The one field of our messages that is for us: nobody is shown it. */
export const OWN_FIELD = "io.herald";

/** What a sign or a number below a message stands for. A number never changes its meaning, whatever the message shows by now. */
export const numberedSchema = z.object({
  n: z.number().int().min(1).max(99),
  command: z.string().max(2_000),
  isOver: z.boolean().optional(),
});
export type Numbered = z.output<typeof numberedSchema>;

export const ownSchema = z.object({
  /** Of what is whole: the name of its outbox row. */
  key: short.optional().catch(undefined),
  /** Of an answer that is being written: the name of the row it will be. */
  draft: short.optional().catch(undefined),
  buttons: z.array(numberedSchema).max(99).optional().catch(undefined),
});
export type Own = z.output<typeof ownSchema>;

export const relation = z.object({
  rel_type: short.optional(),
  event_id: eventId.optional().catch(undefined),
  key: short.optional(),
  is_falling_back: z.boolean().optional().catch(undefined),
  "m.in_reply_to": z.object({ event_id: eventId }).optional().catch(undefined),
});

export const eventSchema = z.object({
  type: short,
  event_id: eventId,
  sender: userId,
  origin_server_ts: z.number().optional().catch(undefined),
  state_key: z.string().optional().catch(undefined),
  content: z.record(z.string(), z.unknown()),
});
export type MatrixEvent = z.output<typeof eventSchema>;

export const VOICE = "org.matrix.msc3245.voice";
export const STICKER = "m.sticker";
/** Stands in the place of an address: the file at it is encrypted. */
export const SEALED = "encrypted";

const messageContent = z.object({
  msgtype: short,
  body: text,
  filename: short.optional().catch(undefined),
  url: short.optional().catch(undefined),
  /** It is encrypted, and this is its key: only that it is there is kept. */
  file: z.object({}).optional().catch({}),
  info: z
    .object({ size: z.number().optional().catch(undefined) })
    .optional()
    .catch(undefined),
  "m.mentions": z
    .object({ user_ids: z.array(userId.catch("")).max(1_000).optional().catch(undefined) })
    .optional()
    .catch(undefined),
  /** It was spoken: that it is there says so, whatever it holds. */
  [VOICE]: z.object({}).optional().catch({}),
  "m.relates_to": relation.nullish().transform((related) => related ?? undefined),
});
export type MessageContent = z.output<typeof messageContent>;

/** What somebody said; a sticker is a type of its own, which has no `msgtype`. */
export const readMessage = ({ type, content }: Pick<MatrixEvent, "type" | "content">) =>
  safeParse(messageContent, type === STICKER ? { ...content, msgtype: STICKER } : content);
export const isMessage = ({ type }: Pick<MatrixEvent, "type">): boolean => type === "m.room.message" || type === STICKER;

const reactionContent = z.object({ "m.relates_to": relation });

/** With what is read of its content and nothing else: lists may stand in it inside lists, deeper than anybody can write them down again. */
export function toKept(event: MatrixEvent): MatrixEvent {
  const { data } = event.type === "m.reaction" ? safeParse(reactionContent, event.content) : readMessage(event);
  return { ...event, content: data ?? {} };
}

/** What another event said: one that is answered, reacted to, or the first of a thread. */
export const otherSchema = z.object({
  sender: userId,
  body: text,
  /** The thread it stands in. */
  thread: eventId.optional(),
  buttons: z.array(numberedSchema).max(99),
});
export type Other = z.output<typeof otherSchema>;

/** Stored with each event, so that it is understood after a restart without the network. */
export const storedSchema = z.object({
  me: z.object({ userId, name: short }),
  room: roomId,
  isDirect: z.boolean(),
  /** The room is encrypted, or this very event is: nothing of it can be read. */
  isEncrypted: z.boolean().optional(),
  event: eventSchema,
  /** The message it answers or reacts to, and the first one of its thread. */
  about: otherSchema.optional(),
  root: otherSchema.optional(),
});
export type Stored = z.output<typeof storedSchema>;
