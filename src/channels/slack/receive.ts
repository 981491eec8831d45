// What socket mode and http mode share: who the bot is, and the way of a payload into the inbox.
// Slack → socket.ts / http.ts → takePayload → inbox row (durable) → only then acknowledged to Slack.
import type { WebClient } from "@slack/web-api";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/logger.ts";
import type { ChannelState, InboxSink } from "../../core/message.ts";
import { type ApiFailure, explainFailure } from "./api.ts";
import { decodePayload } from "./decode.ts";
import { externalIdOf, type Me, type PayloadKind } from "./payload.ts";

/** The receive side's state, one per start. */
export interface Receiver {
  readonly client: WebClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly inbox: InboxSink;
  /** From the app token; "" where there is none. */
  readonly appId: string;
  /** Ends everything the receive side does. */
  readonly signal: AbortSignal;
  /** Conversations seen to be groups of people: a mention there doesn't say so itself. */
  readonly groups: Set<string>;
  show(state: ChannelState, detail?: string): void;
  /** Called before the first payload is taken. Throws when the disk refuses. */
  adopt(account: string, appId: string): Promise<void>;
}

const BASE_DELAY_MS = 500;
const MAX_DELAY_MS = 30_000;
/** Slack answers `invalid_auth` now and then when nothing is wrong: asked again soon enough for that, too. */
const AUTH_DELAY_MS = 60_000;
const MAX_GROUPS = 10_000;

/** How long to wait after the nth failure in a row; with some jitter, so that two sockets don't come back as one. */
export function delayFor(failure: ApiFailure | null, failures: number): number {
  if (failure?.kind === "auth") return AUTH_DELAY_MS;
  const ownMs = Math.min(BASE_DELAY_MS * 2 ** (failures - 1), MAX_DELAY_MS) * (0.5 + Math.random() / 2);
  return failure?.kind === "limited" && failure.afterMs > 0 ? failure.afterMs : ownMs;
}

/** Asks who the bot is until Slack answers; null when stopped first. */
export async function learnMe(receiver: Receiver): Promise<Me | null> {
  for (let failures = 1; !receiver.signal.aborted; failures++) {
    try {
      return await askWho(receiver);
    } catch (error) {
      if (receiver.signal.aborted) return null;
      const failure = explainFailure(error);
      receiver.show(failure.kind === "auth" ? "failed" : "retrying", failure.reason);
      receiver.log.warn({ reason: failure.reason, failures }, "Slack can't be reached yet");
      await receiver.clock.sleep(delayFor(failure, failures), receiver.signal);
    }
  }
  return null;
}

async function askWho(receiver: Receiver): Promise<Me> {
  const { user_id: userId, bot_id: botId = "", ...place } = await receiver.client.auth.test();
  if (userId === undefined) throw new Error("auth.test named no user");
  const appId = receiver.appId || place.app_id || (await askApp(receiver, botId));
  // An organisation's app hears of many workspaces; what isn't told can't be checked.
  const isOrg = place.is_enterprise_install === true;
  const account = isOrg ? place.enterprise_id : place.team_id;
  // The same in both modes, and another one for another workspace's token: its people and chats are not these.
  if (account !== undefined) await receiver.adopt(account, appId);
  return { userId, botId, teamId: isOrg ? "" : (place.team_id ?? ""), appId };
}

/** In http mode no token names the app. It may stay unknown: then only the workspace of a payload is checked. */
async function askApp({ client, log }: Receiver, botId: string): Promise<string> {
  try {
    return (botId === "" ? undefined : (await client.bots.info({ bot: botId })).bot?.app_id) ?? "";
  } catch (error) {
    log.debug({ reason: explainFailure(error).reason }, "Slack doesn't say which app this is");
    return "";
  }
}

export interface Arrival {
  readonly kind: PayloadKind;
  readonly payload: unknown;
  /** Names a payload that has no id of its own: the same when it comes again. */
  readonly fallbackId: string;
}

/**
 * Records a payload; durable on return, and may be acknowledged then. What is nobody's message (an edit, a bot, another
 * workspace) is not kept at all. One that comes again, by Slack or by somebody who kept a copy of the signed request, finds
 * its id in the inbox and does nothing: rows are kept for days, signatures are good for minutes. Throws when the disk refuses.
 */
export async function takePayload(receiver: Receiver, me: Me, { kind, payload, fallbackId }: Arrival): Promise<void> {
  const raw = { me, kind, payload, ...channelType(receiver, payload) };
  if (decodePayload(raw, "") === null) return;
  await receiver.inbox.put([{ externalId: externalIdOf(payload, fallbackId), raw }]);
}

/** Both events of one mention must lead to the same session, so what a `message` said is remembered for the `app_mention`. */
function channelType({ groups }: Receiver, payload: unknown): { channelType?: "mpim" } {
  const { event } = (payload ?? {}) as { event?: { channel?: unknown; channel_type?: unknown } | null };
  if (typeof event?.channel !== "string") return {};
  if (event.channel_type === "mpim" && groups.size < MAX_GROUPS) groups.add(event.channel);
  return groups.has(event.channel) ? { channelType: "mpim" } : {};
}
