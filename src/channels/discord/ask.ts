// Calls that read after an outage. Each channel waiting by itself, a hundred of them would go on asking a Discord that refuses or is down
// until it shuts out the address (10 000 refused calls in ten minutes). So all have one pace, and one pause that grows while nobody is
// answered. Whoever fails alone, while others are answered or nobody else asks, waits by itself (catch-up.ts) and holds up nobody.
import type { Clock } from "../../core/clock.ts";
import { createInTurn } from "../../core/in-turn.ts";
import { type ApiFailure, explainFailure } from "./api.ts";

/**
 * `of` is the channel or the person it is about. Null: Discord refuses it, which it would do the next time, too. Throws Unanswered when it
 * can't be asked.
 */
export type Ask = <T>(of: string, call: () => Promise<T>) => Promise<T | null>;

/** Discord can't be asked now. */
export class Unanswered extends Error {
  readonly failure: ApiFailure;
  constructor(failure: ApiFailure) {
    super(failure.reason);
    this.failure = failure;
  }
}

/** Discord takes fifty calls a second in all: however many channels are to be read, most of them are for answers. */
const SPACING_MS = 50;
/** So many at once have the same trouble: it is Discord's. */
const MANY = 2;
const MIN_WAIT_MS = 500;
const BASE_DELAY_MS = 1_000;
const MAX_DELAY_MS = 30_000;
/** Reading page by page one is limited now and then: so short a limit, so many in a row and in so few channels, are part of the call. */
const MAX_SAT_OUT_MS = 10_000;
const MAX_SAT_OUT = 3;
const MAX_LIMITED = 5;

/** In milliseconds; longer with each in a row, and never the same for two. */
export const backOff = (failures: number): number =>
  Math.min(BASE_DELAY_MS * 2 ** (failures - 1), MAX_DELAY_MS) * (0.5 + Math.random() / 2);

interface Life {
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export function createAsk({ clock, signal }: Life): Ask {
  const { inPace, failingNow } = createPace({ clock, signal });
  return async (of, call) => {
    for (let satOut = 0; ; satOut++) {
      try {
        return await inPace(of, call);
      } catch (error) {
        const afterMs = error instanceof Unanswered && error.failure.kind === "limited" ? error.failure.afterMs : 0;
        const isOrdinary = afterMs > 0 && afterMs <= MAX_SAT_OUT_MS && failingNow() <= MAX_LIMITED;
        if (!isOrdinary || satOut === MAX_SAT_OUT) throw error;
        await clock.sleep(afterMs, signal);
      }
    }
  };
}

function createPace({ clock, signal }: Life): { readonly inPace: Ask; failingNow(): number } {
  const inTurn = createInTurn();
  /** Who failed since anybody was answered, each once: one that fails again and again says nothing of the others. */
  const failing = new Set<string>();
  /** Until it is over nobody asks. */
  let pause = Promise.resolve();

  const noteFailure = (of: string, failure: ApiFailure, before: number): void => {
    // Calls that were under way together and failed together are one failure, or a moment's trouble would be a long pause.
    if (failing.size < MANY || failing.size === before) failing.add(of);
    const ownMs = failing.size < MANY ? 0 : backOff(failing.size - MANY + 1);
    const askedMs = failure.kind === "limited" && failure.isGlobal === true ? Math.max(failure.afterMs, MIN_WAIT_MS) : 0;
    const ms = Math.max(ownMs, askedMs);
    if (ms > 0) pause = Promise.all([pause, clock.sleep(ms, signal)]).then(() => undefined);
  };

  const attempt = async <T>(of: string, call: () => Promise<T>): Promise<T | null> => {
    const before = failing.size;
    try {
      const answer = await call();
      failing.clear();
      return answer;
    } catch (error) {
      const failure = explainFailure(error);
      if (failure.kind !== "refused") {
        noteFailure(of, failure, before);
        throw new Unanswered(failure);
      }
      failing.clear();
      return null;
    }
  };

  const inPace: Ask = async (of, call) => {
    const { answer } = await inTurn(async () => {
      await clock.sleep(SPACING_MS, signal);
      let over: typeof pause;
      // It may have grown while it was waited for.
      do {
        over = pause;
        await over;
      } while (over !== pause);
      signal.throwIfAborted();
      const answer = attempt(of, call);
      const ended = answer.catch(() => undefined);
      // One that hangs must not hold up the others; but where many fail, each waits for what becomes of the one before.
      if (failing.size >= MANY) await ended;
      return { answer };
    });
    return answer;
  };
  return { inPace, failingNow: () => failing.size };
}
