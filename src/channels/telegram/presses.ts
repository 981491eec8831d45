// Presses of buttons that still spin in somebody's app. The app waits for the bot's answer, which takes a few words along (a toast),
// once and only within seconds. Nobody's button spins because a turn runs, a person may not press it, or this process forgot it:
// what nobody has answered in time is ended without a word. An answer that comes too late is refused by Telegram, and no harm is done.
import type { Api } from "grammy/web";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/logger.ts";
import { asGrammySignal, explainFailure } from "./api.ts";

export interface Presses {
  /** It spins from now on; ended without a word when nobody does it in time. */
  expect(id: string): void;
  /** Ends it, with these words where there are some. One attempt, never throws: soon it is over anyway. */
  end(id: string, words?: string): Promise<void>;
  /** Nobody will answer what spins now. Returns at once. */
  endAll(): void;
}

export interface PressDeps {
  readonly api: Api;
  readonly clock: Clock;
  readonly log: Logger;
  /** Gives calls up. */
  readonly signal: AbortSignal;
}

/** What Telegram shows as a toast; anything longer is a message. */
export const MAX_TOAST = 200;
/** A command is answered in a fraction of that; a spinner that turns for longer looks broken. */
const PATIENCE_MS = 4_000;

export function createPresses({ api, clock, log, signal }: PressDeps): Presses {
  const spinning = new Map<string, AbortController>();
  const end: Presses["end"] = async (id, words) => {
    spinning.get(id)?.abort("over");
    spinning.delete(id);
    try {
      await api.answerCallbackQuery(id, words === undefined ? {} : { text: words }, asGrammySignal(signal));
    } catch (error) {
      log.debug({ press: id, reason: explainFailure(error).reason }, "a press could not be answered");
    }
  };
  return {
    expect(id) {
      const answered = new AbortController();
      spinning.set(id, answered);
      void clock.sleep(PATIENCE_MS, AbortSignal.any([answered.signal, signal])).then(async () => {
        if (!answered.signal.aborted && !signal.aborted) await end(id);
      });
    },
    end,
    endAll: () => [...spinning.keys()].forEach((id) => void end(id)),
  };
}
