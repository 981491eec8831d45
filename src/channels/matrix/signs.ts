// The signs below a message that can be pressed: reactions of our own, one for each choice, so that a tap is enough. Best effort, one
// after the other: without them people reply with the number, or put the sign there themselves.
import { hash } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/logger.ts";
import { type Api, explainFailure, v3 } from "./api.ts";
import { type Choice, signOf } from "./buttons.ts";

export interface Signs {
  /** Returns at once; those that stand there already are left out. */
  put(room: string, message: string, choices: readonly Choice[]): void;
  /** Resolves when nothing is under way. */
  idle(): Promise<void>;
}

export interface SignDeps {
  readonly api: Api;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** Servers count them like messages, and messages go first. */
const BETWEEN_MS = 250;
const MAX_WAIT_MS = 60_000;
const MAX_TRIES = 4;
const MAX_KEPT = 2_000;
/** Of more than these people put a sign there themselves, or say its number. */
const MAX_PUT = 6;

export function createSigns(deps: SignDeps): Signs {
  const there = new Set<string>();
  let last = Promise.resolve();
  return {
    put(room, message, choices) {
      for (const { n } of choices) {
        const name = `${room} ${message} ${n}`;
        if (n > MAX_PUT || there.has(name)) continue;
        if (there.size >= MAX_KEPT) there.clear();
        there.add(name);
        last = last.then(() => react(deps, { room, message, n }));
      }
    },
    idle: () => last,
  };
}

async function react({ api, clock, log, signal }: SignDeps, { room, message, n }: { room: string; message: string; n: number }) {
  // The same for the same sign: after a restart it is put there once more at most, and most servers know better.
  const transaction = `herald.sign.${hash("sha256", `${message} ${n}`, "base64url")}`;
  const body = { "m.relates_to": { rel_type: "m.annotation", event_id: message, key: signOf(n) } };
  for (let tries = 1; !signal.aborted; tries++) {
    try {
      await api.call("PUT", v3("rooms", room, "send", "m.reaction", transaction), { body });
      return await clock.sleep(BETWEEN_MS, signal);
    } catch (error) {
      const failure = explainFailure(error);
      if (failure.kind !== "limited" || tries === MAX_TRIES || failure.afterMs > MAX_WAIT_MS)
        return log.debug({ reason: failure.reason }, "a sign could not be put below a message");
      // Longer than asked for: what is said there needs the same places.
      await clock.sleep(2 * failure.afterMs, signal);
    }
  }
}
