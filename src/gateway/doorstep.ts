// In front of the inbox: what the gate would refuse without a word is not even recorded. Otherwise every message of every
// stranger, and of a group that talks among itself all day, would cost a durable row and a place in line before those who may
// speak. The gate itself decides (access.ts), without changing anything; whatever it might answer goes on into the inbox.

import type { Clock } from "../core/clock.ts";
import { createInTurn } from "../core/in-turn.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel, InboxSink } from "../core/message.ts";
import { createRateLimit } from "../core/rate-limit.ts";
import type { Access } from "./access.ts";

export interface DoorstepDeps {
  readonly access: Pick<Access, "refusal">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Refusals written down one by one; of more than these a minute only how many there were. */
const LOGGED = { burst: 20, refillMs: 60_000 };

/** The inbox of a channel, as its receive side sees it. */
export type Doorstep = (channel: Pick<Channel, "name" | "decode">, inbox: InboxSink) => InboxSink;

export function createDoorstep({ access, clock, log }: DoorstepDeps): Doorstep {
  const logged = createRateLimit({ ...LOGGED, clock });
  let unlogged = 0;

  const isRefused = async (channel: Pick<Channel, "name" | "decode">, raw: unknown): Promise<boolean> => {
    try {
      const inbound = channel.decode(raw);
      if (inbound === null) return true;
      const reason = await access.refusal(inbound);
      if (reason === null) return false;
      if (!logged.take(channel.name)) unlogged++;
      else {
        const { sender, address } = inbound;
        log.info({ audit: "denied", channel: channel.name, sender: sender.id, chat: address.chat, reason, unlogged }, "denied");
        unlogged = 0;
      }
      return true;
    } catch {
      // Nobody knows what it is: it is recorded, and whoever works on it says what is wrong.
      return false;
    }
  };

  return (channel, inbox) => {
    // A look at who it is takes one sender longer than another: their words would change places.
    const inTurn = createInTurn();
    const put: InboxSink["put"] = async (updates, cursor) => {
      const kept: (typeof updates)[number][] = [];
      for (const update of updates) if (!(await isRefused(channel, update.raw))) kept.push(update);
      if (kept.length > 0 || cursor !== undefined) await inbox.put(kept, cursor);
    };
    return { put: (...updates) => inTurn(() => put(...updates)), cursor: () => inbox.cursor() };
  };
}
