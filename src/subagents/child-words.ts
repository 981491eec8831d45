// What a child writes and thinks, while it does, for whoever looks at its run; for nobody nothing is told. Kept in memory only: what is
// written in the end stands in the transcript.
// child-turn.ts → here → bus (run.text) → the page, in this process or another;  the page → run.watched → here
import type { Clock } from "../core/clock.ts";
import type { AppEvent, Bus } from "../core/events.ts";
import type { Logger } from "../core/logger.ts";
import { createThrottle } from "../core/throttle.ts";

export interface ChildWords {
  /** A turn of this run begins. */
  begin(runId: string, signal: AbortSignal): WrittenWords;
}

export interface WrittenWords {
  /** All of it so far. */
  say(what: Kind, text: string): void;
  /** It stands in the transcript by now, or was given up. */
  clear(): void;
  end(): void;
}

type Kind = Extract<AppEvent, { type: "run.text" }>["what"];
const KINDS: readonly Kind[] = ["thoughts", "text"];

const TELL_EVERY_MS = 100;
/** Who looks says so again several times in this. */
const WATCHED_MS = 45_000;

interface Writing extends Record<Kind, string> {
  /** What was told of each: nobody needs to hear the same again. Null: not everybody has heard it. */
  readonly told: Record<Kind, string | null>;
  ring(): void;
}

export function createChildWords({ bus, clock, log }: { bus: Bus; clock: Clock; log: Logger }): ChildWords {
  const watched = new Map<string, number>();
  const writing = new Map<string, Writing>();
  const onError = (error: unknown): void => log.error({ err: error }, "what a run writes could not be told");
  const isWatched = (runId: string): boolean => (watched.get(runId) ?? 0) > clock.now();
  const tell = (runId: string, what: Kind, one: Writing): void => {
    if (one.told[what] === one[what]) return;
    one.told[what] = one[what];
    bus.emit({ type: "run.text", runId, turnId: `${runId}:${what}`, what, text: one[what] });
  };
  bus.on((event) => {
    if (event.type !== "run.watched") return;
    for (const [id, until] of watched) if (until <= clock.now()) watched.delete(id);
    const one = writing.get(event.runId);
    // Somebody may have just come, who has not heard what was told before.
    if (one !== undefined) for (const what of KINDS) one.told[what] = one.told[what] === "" ? "" : null;
    watched.set(event.runId, clock.now() + WATCHED_MS);
    one?.ring();
  });
  return {
    begin(runId, signal) {
      const work = (): undefined => {
        if (writing.get(runId) === one && isWatched(runId)) for (const what of KINDS) tell(runId, what, one);
      };
      const { ring } = createThrottle({ clock, signal, onError, everyMs: TELL_EVERY_MS, work });
      const one: Writing = { ...NOTHING, told: { ...NOTHING }, ring };
      writing.set(runId, one);
      const clear = (): void => {
        Object.assign(one, NOTHING);
        for (const what of KINDS) tell(runId, what, one);
      };
      return {
        say(what, text) {
          one[what] = text;
          if (isWatched(runId)) ring();
        },
        clear,
        end() {
          clear();
          if (writing.get(runId) === one) writing.delete(runId);
        },
      };
    },
  };
}

const NOTHING: Record<Kind, string> = { text: "", thoughts: "" };
