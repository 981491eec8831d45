// Looking through what stands in a place: the one way to learn what became of a call whose answer nobody heard. What we post carries its
// outbox key as metadata, from its first moment on; a stream gets it only with its end.
import type { WebClient } from "@slack/web-api";
import type { Address } from "../../core/address.ts";

/** A message as far as it is looked at. */
export interface Standing {
  readonly ts?: string;
  readonly user?: string;
  readonly bot_id?: string;
  readonly files?: readonly { readonly id?: unknown }[];
  /** It is, or was, streamed. */
  readonly streaming_state?: unknown;
  readonly metadata?: { readonly event_type?: unknown; readonly event_payload?: { readonly key?: unknown } };
}

const EVENT_TYPE = "herald_part";
/** Slack's clock and ours may differ. */
const SKEW_MS = 60_000;
const PAGE = 200;
const MAX_PAGES = 20;

export const metadataOf = (key: string) => ({ event_type: EVENT_TYPE, event_payload: { key } });

export const keyOf = ({ metadata }: Standing): unknown => (metadata?.event_type === EVENT_TYPE ? metadata.event_payload?.key : undefined);

export interface Place {
  readonly address: Address;
  /** Not older than this, by our clock. */
  readonly since: number;
}

/** The first message there that fits; null: there is none. Throws when it can't be looked to the end. */
export async function findMessage(client: WebClient, place: Place, fits: (message: Standing) => boolean): Promise<string | null> {
  const { chat, thread } = place.address;
  const oldest = String(Math.max(0, place.since - SKEW_MS) / 1000);
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const query = { channel: chat, oldest, limit: PAGE, include_all_metadata: true, ...(cursor === undefined ? {} : { cursor }) };
    const answer =
      thread === undefined ? await client.conversations.history(query) : await client.conversations.replies({ ...query, ts: thread });
    const found = ((answer.messages ?? []) as Standing[]).find(fits);
    if (found?.ts !== undefined) return found.ts;
    cursor = answer.response_metadata?.next_cursor || undefined;
    if (cursor === undefined) return null;
  }
  // Not seen to the end, so nothing can be concluded.
  throw new Error("too many messages to look through");
}
