// What is under way in main sessions: a turn, a turn that waits for runs, or a compaction; one at a time for each session. Only
// remembered: a message that is being answered still waits in the inbox, and the calls of a turn that waits stand in its
// transcript, so after a restart it is claimed again and waits again. conversation.ts works with it.
import type { Clock } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import type { AppEvent, Bus } from "../core/events.ts";
import type { Logger } from "../core/logger.ts";
import { untilOf, type Wait } from "../core/run.ts";
import type { Lane } from "../lanes/lanes.ts";
import type { Inbox } from "../stores/inbox.ts";
import type { Questions } from "../stores/questions.ts";
import type { Runs } from "../stores/runs.ts";
import { isOver, lookAgainMs } from "../subagents/waits.ts";
import type { Job, Sitting } from "./main-turn.ts";

/** A turn or a compaction under way; a turn has a message it is for. */
export interface Active {
  readonly abort: AbortController;
  job: Job | null;
  sitting: Sitting | null;
  /** What its calls wait for: then nobody works on it, and it holds no slot. */
  waits: readonly Wait[];
  /** Ends the timer of the present wait. */
  woken: AbortController;
}

export interface Desk {
  get(sessionKey: string): Active | null;
  begin(sessionKey: string): Active;
  /** For whoever works in this session: the turn to go on with, or a new one. Null: there is nothing to do, or not yet. */
  takeUp(sessionKey: string): Promise<Active | null>;
  /** Nobody works on it any more: its calls wait, or it is over. */
  lay(sessionKey: string, own: Active): void;
  /** Its rows are settled. Whoever works on it hears the signal; when nobody does, it is over here: an end never queues for a slot. */
  end(sessionKey: string): Promise<void>;
  /** Looks whether messages wait in this session. */
  ringIfAny(sessionKey: string): Promise<void>;
  /** Ends all of it without settling anything. */
  suspend(): void;
}

export interface DeskDeps {
  readonly inbox: Pick<Inbox, "countWaiting" | "isWaiting">;
  readonly runs: Pick<Runs, "get">;
  readonly questions: Pick<Questions, "get">;
  readonly lane: Lane;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Logger;
}

export function createDesk(deps: DeskDeps): Desk {
  const active = new Map<string, Active>();
  /** Before all that waits: it is work half done. */
  const ringFirst = (sessionKey: string): void => deps.lane.ring(sessionKey, sessionKey, "front");
  const ringIfAny = async (sessionKey: string): Promise<void> => {
    if ((await deps.inbox.countWaiting(sessionKey)) > 0) deps.lane.ring(sessionKey, sessionKey);
  };
  const begin = (sessionKey: string): Active => {
    const own: Active = { abort: new AbortController(), job: null, sitting: null, waits: [], woken: new AbortController() };
    active.set(sessionKey, own);
    return own;
  };
  deps.bus.on((event) => {
    // Its turn waited here, and goes on in another process: it is that one's from now on, and nothing is said about an end.
    if (event.type === "turn.started") letGo(event.sessionKey);
  }, "elsewhere");
  const letGo = (sessionKey: string): void => {
    const own = active.get(sessionKey);
    if (own === undefined || own.waits.length === 0) return;
    active.delete(sessionKey);
    own.waits = [];
    own.woken.abort("over");
    own.sitting?.drop();
  };
  const ringWaiting = async (event: Passed): Promise<void> => {
    // A thousand may wait: only those are looked at that wait for this.
    for (const [sessionKey, { waits }] of active)
      if (waits.some((wait) => isAbout(wait, event)) && (await anyHasCome(deps, waits))) ringFirst(sessionKey);
  };
  deps.bus.on((event) => (event.type === "run.ended" || event.type === "question.changed" ? ringWaiting(event) : undefined));
  const end = async (sessionKey: string): Promise<void> => {
    const own = active.get(sessionKey);
    own?.abort.abort("stop");
    if (own === undefined || own.waits.length === 0) return;
    own.waits = [];
    own.woken.abort("over");
    active.delete(sessionKey);
    void own.sitting?.close("aborted");
    await ringIfAny(sessionKey);
  };
  const endStopped = async (): Promise<void> => {
    try {
      // Stopped by another process whose bell was lost: then the row alone says that nobody waits for this answer any more.
      for (const [sessionKey, own] of active)
        if (own.job !== null && !(await deps.inbox.isWaiting(own.job.row.id)) && active.get(sessionKey) === own) await end(sessionKey);
    } catch (error) {
      deps.log.debug({ reason: errorText(error) }, "whether a turn was stopped can't be looked at");
    }
  };
  deps.bus.on((event) => (event.type === "bells.missed" ? endStopped() : undefined));
  return {
    get: (sessionKey) => active.get(sessionKey) ?? null,
    begin,
    async takeUp(sessionKey) {
      const known = active.get(sessionKey);
      if (known === undefined) return begin(sessionKey);
      // A compaction is under way; it rings again when it is over.
      if (known.waits.length === 0) return null;
      if (!known.abort.signal.aborted && !(await anyHasCome(deps, known.waits))) return null;
      // Ended while it was looked at: whoever ended it rings for what waits behind it.
      if (active.get(sessionKey) !== known) return null;
      known.waits = [];
      known.woken.abort("over");
      return known;
    },
    lay(sessionKey, own) {
      if (own.waits.length === 0) {
        if (active.get(sessionKey) === own) active.delete(sessionKey);
        return;
      }
      own.woken = new AbortController();
      void callAt(deps, own, () => ringFirst(sessionKey));
    },
    end,
    ringIfAny,
    suspend() {
      for (const { abort, sitting, waits } of active.values()) {
        abort.abort("suspend");
        if (waits.length > 0) void sitting?.close("suspended");
      }
    },
  };
}

/** What a call may wait for. */
type Passed = Extract<AppEvent, { type: "run.ended" | "question.changed" }>;

const isAbout = (wait: Wait, event: Passed): boolean =>
  event.type === "run.ended"
    ? wait.for === "runs" && wait.ids.includes(event.runId)
    : wait.for === "answer" && wait.id === event.questionId;

async function anyHasCome(deps: DeskDeps, waits: readonly Wait[]): Promise<boolean> {
  for (const wait of waits) if (!("until" in wait) || (await isOver(deps, wait))) return true;
  return false;
}

/** Rings when what it waits for has come, its time is over, or it is ended, which is for whoever works on it to record. Never rejects. */
async function callAt(deps: DeskDeps, { waits, woken, abort }: Active, ring: () => void): Promise<void> {
  const until = Math.min(...waits.map((wait) => untilOf(wait) ?? Number.POSITIVE_INFINITY));
  const over = AbortSignal.any([woken.signal, abort.signal]);
  const hasCome = async (): Promise<boolean> => {
    try {
      return await anyHasCome(deps, waits);
    } catch (error) {
      deps.log.error({ err: error }, "what a turn waits for could not be looked at; it is looked at again");
      return false;
    }
  };
  while (!over.aborted && !(await hasCome())) await deps.clock.sleep(lookAgainMs(until - deps.clock.now()), over);
  if (!woken.signal.aborted) ring();
}
