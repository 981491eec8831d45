// Which workspace a Slack channel found itself to be, in memory: for tests of a channel without the rest.
import type { SlackOptions } from "../../src/channels/slack/channel.ts";

export interface MemoryAccounts {
  last(): Promise<string | null>;
  adopt(account: string, former: readonly string[]): Promise<void>;
  /** The names it had before, as told last. */
  readonly former: readonly string[];
}

export function createMemoryAccounts(known: string | null = null): MemoryAccounts & SlackOptions["accounts"] {
  let account = known;
  let former: readonly string[] = [];
  return {
    last: async () => account,
    async adopt(next, names) {
      account = next;
      former = names;
    },
    get former() {
      return former;
    },
  };
}
