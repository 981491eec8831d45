// The shapes Slack sends, as far as we read them: events, slash commands, presses. Ids are checked to be Slack's own, so
// that nothing else can become a sender, a chat or a thread. Anything else in a payload is ignored.
import { z } from "zod";
import { safeParse } from "../../core/safe-parse.ts";

const user = z.string().regex(/^[UW][A-Z0-9]{1,30}$/);
const channel = z.string().regex(/^[CDG][A-Z0-9]{1,30}$/);
const timestamp = z.string().regex(/^\d{1,12}\.\d{1,9}$/);
const id = z.string().max(200);
const text = z.string().max(1_000_000);
const team = id.nullish();

/** Who the bot is, stored with each payload, so that a mention is understood after a restart without the network. "" = unknown. */
const meSchema = z.object({ userId: user, botId: id, teamId: id, appId: id });
export type Me = z.output<typeof meSchema>;

/** How a payload came. Only what came as a command is read as one: whoever can steer an event's fields can't make it another kind. */
const kindSchema = z.enum(["event", "command", "press"]);
export type PayloadKind = z.output<typeof kindSchema>;

export const storedSchema = z.object({
  me: meSchema,
  /** Missing in rows of earlier versions, which took a payload for whatever it looked like. */
  kind: kindSchema.optional(),
  payload: z.unknown(),
  /** Slack's word for the kind of conversation, where an earlier event told and this one doesn't. */
  channelType: id.optional(),
});

export const fileSchema = z.object({
  name: text.nullish(),
  title: text.nullish(),
  mimetype: text.nullish(),
  subtype: z.string().max(100).nullish(),
  size: z.number().nullish(),
  url_private: z.string().max(4_000).nullish(),
  url_private_download: z.string().max(4_000).nullish(),
});
export type SlackFile = z.output<typeof fileSchema>;

export const messageEvent = z.object({
  type: z.enum(["message", "app_mention"]),
  subtype: z.string().nullish(),
  channel,
  channel_type: z.string().nullish(),
  user,
  text: text.nullish(),
  ts: timestamp,
  thread_ts: timestamp.nullish(),
  parent_user_id: z.string().nullish(),
  bot_id: z.unknown().optional(),
  bot_profile: z.unknown().optional(),
  hidden: z.unknown().optional(),
  edited: z.unknown().optional(),
  files: z.array(z.unknown()).max(1_000).nullish(),
});
export type MessageEvent = z.output<typeof messageEvent>;

export const stopEvent = z.object({ type: z.literal("agent_session_stopped"), channel, thread_ts: timestamp.nullish(), user });

export const eventCallback = z.object({
  type: z.literal("event_callback"),
  event_id: id.nullish(),
  team_id: team,
  context_team_id: team,
  api_app_id: id.nullish(),
  authorizations: z
    .array(z.object({ team_id: team }))
    .nullish()
    .catch(null),
  event: z.unknown(),
});

export const slashCommand = z.object({
  command: z.string().regex(/^\/[\w-]{1,32}$/),
  text: text.nullish(),
  user_id: user,
  user_name: text.nullish(),
  channel_id: channel,
  channel_name: text.nullish(),
  team_id: team,
  api_app_id: id.nullish(),
  response_url: z.string().max(2_000).nullish(),
});

export const blockActions = z.object({
  type: z.literal("block_actions"),
  user: z.object({ id: user, username: text.nullish(), name: text.nullish(), team_id: team }),
  team: z.object({ id }).nullish(),
  api_app_id: id.nullish(),
  container: z.object({ channel_id: channel.nullish(), thread_ts: timestamp.nullish() }).nullish(),
  channel: z.object({ id: channel, name: text.nullish() }).nullish(),
  message: z.object({ thread_ts: timestamp.nullish() }).nullish(),
  actions: z
    .array(z.object({ value: text.nullish() }))
    .min(1)
    .max(100),
  response_url: z.string().max(2_000).nullish(),
});
export type BlockActions = z.output<typeof blockActions>;

const anyId = z.string().min(1).max(200).optional().catch(undefined);
const named = z.object({
  event_id: anyId,
  trigger_id: anyId,
  event: z.object({ type: anyId, subtype: z.unknown().optional(), channel: anyId, ts: anyId }).optional().catch(undefined),
});

/** Only these carry something a person says; every other subtype tells of a change. */
export const isSaid = (subtype: unknown): boolean =>
  subtype === undefined || subtype === null || subtype === "file_share" || subtype === "thread_broadcast";

/**
 * The inbox's name for a payload. A mention arrives twice, as `app_mention` and as `message`, with different event ids: both
 * get the name of the message itself. Otherwise the event's id, which Slack keeps over its retries.
 */
export function externalIdOf(payload: unknown, fallback: string): string {
  const parsed = safeParse(named, payload);
  if (!parsed.success) return fallback;
  const { event, event_id: eventId, trigger_id: triggerId } = parsed.data;
  const said = (event?.type === "message" || event?.type === "app_mention") && isSaid(event.subtype);
  if (said && event.channel !== undefined && event.ts !== undefined) return `msg:${event.channel}:${event.ts}`;
  return eventId ?? triggerId ?? fallback;
}
