// All accounts of all platforms as one list, for whoever starts, shows, checks or asks after them (CH1).
import { channelName } from "../core/address.ts";
import { pathOf } from "./account-record.ts";
import type { Config } from "./schema.ts";

type Channels = Config["channels"];
export type Platform = keyof Channels;

/** One account as everybody else takes it. */
export type Account<P extends Platform = Platform> = {
  [K in P]: {
    readonly platform: K;
    /** As its addresses name it: `telegram`, `telegram@work`. */
    readonly channel: string;
    /** Where its settings stand. */
    readonly at: string;
    readonly settings: Channels[K]["accounts"][string];
  };
}[P];

/** All accounts, also those that are off; not the first one of a platform that has only named ones. */
export function accountsOf(channels: Channels): Account[] {
  return Object.entries(channels).flatMap(([key, { accounts, ...first }]) => {
    const platform = key as Platform;
    const toAccount = (name: string | null, settings: unknown) =>
      ({ platform, channel: channelName(platform, name), at: pathOf(platform, name), settings }) as Account;
    const named = Object.entries(accounts).map(([name, settings]) => toAccount(name, settings));
    const isUnused = !first.enabled && named.length > 0 && !first.off.endsWith(".enabled to true");
    return isUnused ? named : [toAccount(null, first), ...named];
  });
}

export const findAccount = (channels: Channels, channel: string): Account | null =>
  accountsOf(channels).find((account) => account.channel === channel) ?? null;
