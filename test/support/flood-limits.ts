// Telegram's own limits, counted when a call arrives and not by the code under test: a message a second in a chat with a short
// burst, twenty in any minute of a group, thirty in any second in all.

export interface FloodLimits {
  /** Seconds to wait when it is too much; null: it is taken. */
  check(chat: number): number | null;
  /** How often it was too much. */
  refused(): number;
}

const BURST = 3;
const EVERY_MS = 1_000;
const GROUP = { max: 20, perMs: 60_000 };
const ALL = { max: 30, perMs: 1_000 };

export function createFloodLimits(now: () => number): FloodLimits {
  const fullAt = new Map<number, number>();
  const taken: { chat: number; at: number }[] = [];
  let refused = 0;
  const waitFor = (chat: number, at: number): number => {
    const bucket = Math.max(0, (fullAt.get(chat) ?? 0) - at) + EVERY_MS - BURST * EVERY_MS;
    const window = (limit: typeof GROUP, of: (one: { chat: number }) => boolean): number => {
      const recent = taken.filter((one) => of(one) && one.at > at - limit.perMs);
      return recent.length < limit.max ? 0 : (recent[recent.length - limit.max]?.at ?? 0) + limit.perMs - at;
    };
    return Math.max(
      bucket,
      chat < 0 ? window(GROUP, (one) => one.chat === chat) : 0,
      window(ALL, () => true),
    );
  };
  return {
    check(chat) {
      const at = now();
      const waitMs = waitFor(chat, at);
      if (waitMs > 0) {
        refused++;
        return Math.ceil(waitMs / 1_000);
      }
      fullAt.set(chat, Math.max(fullAt.get(chat) ?? 0, at) + EVERY_MS);
      taken.push({ chat, at });
      return null;
    },
    refused: () => refused,
  };
}
