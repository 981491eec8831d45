// Looking through what stands in a channel: the one way to learn what became of a call whose answer nobody heard, once Discord has
// forgotten its nonce. A message of ours is known by its words and its files, which is all that it still says of itself.
import type { API } from "@discordjs/core/http-only";
import type { Address } from "../../core/address.ts";
import { byAge, snowflakeAt } from "./snowflake.ts";

/** A message as far as it is looked at. */
export interface Standing {
  readonly id: string;
  readonly content: string;
  readonly nonce?: unknown;
  readonly author: { readonly id: string };
  readonly attachments: readonly { readonly size: number }[];
}

/** Discord's clock and ours may differ; but what stood there before must not be taken for what was sent now, if it reads the same. */
const SKEW_MS = 2_000;
const PAGE = 100;
const MAX_PAGES = 20;

/** Where text for it goes: a thread is a channel of its own. */
export const channelOf = ({ chat, thread }: Address): string => thread ?? chat;

export interface Place {
  readonly address: Address;
  /** Not older than this, by our clock. */
  readonly since: number;
}

/** The first message there that fits, oldest first; null: there is none. Throws when it can't be looked to the end. */
export async function findMessage(api: API, { address, since }: Place, fits: (message: Standing) => boolean): Promise<string | null> {
  let after = snowflakeAt(since - SKEW_MS);
  for (let page = 0; page < MAX_PAGES; page++) {
    const messages = [...(await api.channels.getMessages(channelOf(address), { after, limit: PAGE }))].sort(byAge);
    const found = messages.find(fits);
    if (found !== undefined) return found.id;
    if (messages.length < PAGE) return null;
    after = messages.at(-1)?.id ?? after;
  }
  // Not seen to the end, so nothing can be concluded.
  throw new Error("too many messages to look through");
}
