// Slash commands and presses that Discord waits for: within three seconds it wants to hear that one was taken, or the person is told
// that the app did not respond. A command shows "thinking…" from then on, until its answer is written there; a press shows nothing.
// What nobody answers (a stranger is not answered) is taken away after a while, so that nothing thinks for ever. An answer that comes
// later than that is a message of its own.
import type { API } from "@discordjs/core/http-only";
import { type Clock, callAfter } from "../../core/clock.ts";
import type { Logger } from "../../core/logger.ts";
import { explainFailure } from "./api.ts";
import type { Interaction, Place } from "./payload.ts";

export interface Interactions {
  /** It is on record. Returns at once. */
  acknowledge(interaction: Interaction, place: Place): void;
  /** Its answer is about to be sent: resolves once Discord knows that it was taken, without which it takes no answer, and nothing else is said of it. */
  settled(id: string): Promise<void>;
}

export interface InteractionDeps {
  readonly api: API;
  readonly clock: Clock;
  readonly log: Logger;
  /** Gives calls up. */
  readonly signal: AbortSignal;
}

interface Open {
  /** What an answer has to wait for. */
  readonly settled: Promise<unknown>;
  endWait(): void;
}

/** A command is answered in a fraction of that. */
const PATIENCE_MS = 6_000;
/** Only the person who typed it sees it. */
export const EPHEMERAL = 64;

export function createInteractions({ api, clock, log, signal }: InteractionDeps): Interactions {
  const open = new Map<string, Open>();
  /** False: Discord refused. */
  const loosely = async (what: string, call: () => Promise<unknown>): Promise<boolean> => {
    try {
      await call();
      return true;
    } catch (error) {
      const { kind, reason } = explainFailure(error);
      log.debug({ what, reason }, "a call without consequence failed");
      return kind !== "refused";
    }
  };
  const takeAway = async ({ application_id: app, token }: Interaction, told: Promise<boolean>): Promise<void> => {
    // Told of it once more (after a kill, say) we are refused: it was acknowledged then, and what stands there is its answer.
    if ((await told) && !signal.aborted)
      await loosely("an unanswered command", () => api.interactions.deleteReply(app, token, "@original"));
  };
  return {
    acknowledge(interaction, place) {
      const { id, token, type } = interaction;
      const isCommand = type === 2;
      const body = place.kind === "dm" ? {} : { flags: EPHEMERAL };
      const told = loosely("acknowledging", () =>
        isCommand ? api.interactions.defer(id, token, body) : api.interactions.deferMessageUpdate(id, token, {}),
      );
      const endWait = callAfter(clock, PATIENCE_MS, () => {
        const settled = isCommand ? takeAway(interaction, told) : told;
        // An answer that comes in this moment waits for it, or it would be taken away as well.
        open.set(id, { settled, endWait: () => undefined });
        void settled.finally(() => open.delete(id));
      });
      open.set(id, { settled: told, endWait });
    },
    async settled(id) {
      const waiting = open.get(id);
      if (waiting === undefined) return;
      waiting.endWait();
      open.delete(id);
      await waiting.settled;
    },
  };
}
