// Hold → call → settle (BG2): before each call to a provider its worst case is held at every level that applies, and afterwards it
// becomes what was reported. Who finds only others' holds in the way waits for one of them to settle: in memory, because that is never
// longer than a call takes, and a run that lost its process meanwhile simply asks again.
import type { Address } from "../core/address.ts";
import { type Asked, LEAST_OUTPUT, type Level, microUsd, NOTHING, shareOf, type Taken, WARN_AT } from "../core/budget.ts";
import type { Clock } from "../core/clock.ts";
import { isStorageError } from "../core/errors.ts";
import type { Bus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import { newId } from "../core/ids.ts";
import type { Outlay, Permit, Purse, Took } from "../core/usage.ts";
import type { Budgets } from "../stores/budgets.ts";
import type { Database, Tx } from "../stores/database.ts";
import { lock } from "../stores/lock-keys.ts";
import { overText, unpricedText, warningText } from "./words.ts";

export interface PurseDeps {
  readonly db: Database;
  readonly budgets: Budgets;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly failpoint: HitFailpoint;
}

export interface PurseOptions {
  /** Asked anew for each call: a limit may have been raised, and a day may have begun. */
  levels(): Promise<readonly Level[]>;
  readonly unpriced: "refuse" | "allow";
  /** The chat that pays. */
  readonly chat: Address;
  isReachable(): boolean;
  /** Says something there, in the caller's transaction. */
  tell(tx: Tx, about: { readonly levelId: string; readonly text: string }): Promise<void>;
}

/** An honest answer: with a model's own maximum held, few calls would block everybody else's. */
const DEFAULT_OUTPUT = 8_192;
const LOOK_AGAIN_MS = 1_000;

export function createPurse(deps: PurseDeps, options: PurseOptions): Purse {
  return {
    async open(outlay, signal) {
      const id = newId();
      let asked: Priced | null = null;
      const opened = await untilSettled(deps, signal, async () => {
        // Anew for each look: while it waits a limit may be raised, and a day may begin.
        const levels = await options.levels();
        if (levels.length === 0) return { maxOutput: null, async settle() {} };
        asked ??= askedOf(outlay);
        if (!asked.isPriced && options.unpriced === "refuse" && levels.some(({ cap }) => cap.usd !== null))
          return { refused: unpricedText(outlay.model) };
        const decision = await deps.budgets.hold({ id, levels, asked });
        if (decision.kind === "over") return { refused: overText(decision.level, decision.needs) };
        if (decision.kind === "wait") return null;
        deps.failpoint("budget.held");
        return permitOf(deps, options, { id, levels, maxOutput: decision.maxOutput });
      });
      return opened ?? { refused: "It was stopped while it waited for its budget." };
    },
  };
}

/** Looks, and again whenever a call has settled, until there is something; null: it was stopped before. */
export async function untilSettled<T>(
  { bus, clock }: Pick<PurseDeps, "bus" | "clock">,
  signal: AbortSignal,
  look: () => Promise<T | null>,
): Promise<T | null> {
  while (!signal.aborted) {
    // Listened for before the look: what is settled in between would otherwise be missed for a whole wait.
    const settled = new AbortController();
    const off = bus.on((event) => event.type === "budget.settled" && settled.abort());
    try {
      const found = await look();
      if (found !== null) return found;
      await clock.sleep(LOOK_AGAIN_MS, AbortSignal.any([settled.signal, signal]));
    } finally {
      off();
    }
  }
  return null;
}

interface Priced extends Asked {
  readonly isPriced: boolean;
}

function askedOf({ inputTokens, costUsd, maxOutput }: Outlay): Priced {
  const input = inputTokens();
  const wanted = Math.max(LEAST_OUTPUT, maxOutput ?? DEFAULT_OUTPUT);
  const none = { input, output: 0, cacheRead: 0, cacheWrite: 0 };
  const plain = costUsd(none);
  const whole = costUsd({ ...none, output: wanted });
  const tokens = { inputTokens: input, maxOutput: wanted };
  if (plain === null || whole === null) return { ...tokens, inputUsd: 0, outputUsd: 0, isPriced: false };
  // What goes into a provider's cache may cost more than what doesn't.
  const dearest = Math.max(plain, costUsd({ ...none, cacheWrite: input }) ?? 0);
  return { ...tokens, inputUsd: microUsd(dearest), outputUsd: ((whole - plain) * 1_000_000) / wanted, isPriced: true };
}

/** One call from what a run kept back: its answer is as long as that pays for. What it takes is settled with the reserve itself. */
export function createLandingPurse({ budgets, failpoint }: Pick<PurseDeps, "budgets" | "failpoint">, id: string): Purse {
  return {
    async open(outlay) {
      const reserved = await budgets.reserved(id);
      if (reserved === null) return { refused: NOTHING_KEPT };
      const asked = askedOf(outlay);
      const byTokens = reserved.tokens - asked.inputTokens;
      const byUsd = asked.outputUsd === 0 ? byTokens : Math.floor((reserved.usd - asked.inputUsd) / asked.outputUsd);
      const maxOutput = Math.min(asked.maxOutput, byTokens, byUsd);
      if (maxOutput < LEAST_LANDING) return { refused: "What was kept for a last word does not pay for one." };
      // On record before the call: killed at it, the reserve is spent, and nobody makes a second last call from it.
      if (!(await budgets.draw(id))) return { refused: NOTHING_KEPT };
      failpoint("budget.held");
      return {
        maxOutput,
        async settle(took) {
          failpoint("budget.answered");
          if (took === "nothing") await budgets.putBack(id);
          else await budgets.settle(id, amountOf(took));
          failpoint("budget.settled");
        },
      };
    },
  };
}

const NOTHING_KEPT = "Nothing was kept for a last word.";
/** A few sentences. */
const LEAST_LANDING = 128;

interface Held {
  readonly id: string;
  readonly levels: readonly Level[];
  readonly maxOutput: number;
}

function permitOf(deps: PurseDeps, options: PurseOptions, { id, levels, maxOutput }: Held): Permit {
  return {
    maxOutput,
    async settle(took) {
      deps.failpoint("budget.answered");
      try {
        await deps.budgets.settle(id, amountOf(took));
        await warn(deps, options, levels);
      } catch (error) {
        // The answer is there and paid for: a disk that refuses must not cost it too. What it took is recorded before the next hold.
        if (!isStorageError(error)) throw error;
      }
      deps.failpoint("budget.settled");
    },
  };
}

/**
 * In a transaction of its own, under the lock of the chat that is told: killed before it, the next settle tells. So it does where nobody can
 * be told here: marked all the same, a month would be used up by programs without a word to anybody.
 */
async function warn({ db, budgets }: PurseDeps, { chat, isReachable, tell }: PurseOptions, levels: readonly Level[]): Promise<void> {
  if (!isReachable()) return;
  const high = (await budgets.levels(levels)).filter((level) => shareOf(level) >= WARN_AT);
  if (high.length === 0) return;
  await db.transaction([lock.chat(chat)], async (tx) => {
    for (const level of high) if (await budgets.warn(tx, level.id)) await tell(tx, { levelId: level.id, text: warningText(level) });
  });
}

const amountOf = (took: Took): Taken | null => {
  if (took === null) return null;
  if (took === "nothing") return NOTHING;
  const { usage, costUsd } = took;
  // A model without a price holds no money. One with a price may report figures that contradict each other: what it cost nobody knows then.
  return usage === null ? null : { usd: costUsd === null ? null : microUsd(costUsd), tokens: usage.input + usage.output };
};
