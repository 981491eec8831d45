// Waiting for a run on behalf of a program: until it has ended, asks something, or the time is over. It holds no slot and no row, only
// this request; the rows are looked at when the bus says so and once a second besides, and the token with them, so that one that is
// taken back by another process ends what it waits for.
import type { Clock } from "../core/clock.ts";
import type { AppEvent, Bus } from "../core/events.ts";
import type { Program } from "../core/program.ts";
import type { ProgramDesk, ProgramRun } from "./program-desk.ts";

export interface WaitDeps {
  readonly desk: Pick<ProgramDesk, "find">;
  readonly bus: Bus;
  readonly clock: Clock;
  /** Is the token still good? */
  isValid(id: string): Promise<boolean>;
}

export interface Waiting {
  readonly runId: string;
  readonly ms: number;
  /** The client is gone. */
  readonly signal: AbortSignal;
  /** Something else than before can be seen of it. */
  onNews(run: ProgramRun): Promise<void>;
}

const LOOK_EVERY_MS = 1000;
/** A run that works quickly must not keep the database busy for whoever watches. */
const AT_MOST_EVERY_MS = 200;

/** `null`: there is no such run. `revoked`: the token was taken back meanwhile. */
export async function waitForRun(deps: WaitDeps, program: Program, wanted: Waiting): Promise<ProgramRun | null | "revoked"> {
  const { clock } = deps;
  const until = clock.now() + wanted.ms;
  const bell = createBell(deps, wanted.runId);
  try {
    for (;;) {
      const run = await deps.desk.find(program, wanted.runId);
      const left = until - clock.now();
      if (run === null || run.isOver || run.questions.length > 0 || left <= 0 || wanted.signal.aborted) return run;
      await wanted.onNews(run);
      await clock.sleep(Math.min(left, AT_MOST_EVERY_MS), wanted.signal);
      await bell.rung(Math.min(left, LOOK_EVERY_MS), wanted.signal);
      if (!(await deps.isValid(program.id))) return "revoked";
    }
  } finally {
    bell.close();
  }
}

const concerns = (event: AppEvent, runId: string): boolean => event.type === "bells.missed" || ("runId" in event && event.runId === runId);

/** Rung between two looks, it is heard at the next. */
function createBell({ bus, clock }: WaitDeps, runId: string) {
  let ring = new AbortController();
  const close = bus.on((event) => {
    if (concerns(event, runId)) ring.abort("rung");
  });
  return {
    async rung(ms: number, signal: AbortSignal): Promise<void> {
      await clock.sleep(ms, AbortSignal.any([ring.signal, signal]));
      if (ring.signal.aborted) ring = new AbortController();
    },
    close,
  };
}
