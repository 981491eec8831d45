// The run record: one sub-agent's execution from spawn to archive, and the pure state machine that moves it.
// Every change in the stores is a compare-and-set on a transition this file allows, so races have one winner.
import type { Address } from "./address.ts";
import type { Cap } from "./budget.ts";
import type { Check, CheckResult } from "./check.ts";
import type { Person } from "./question.ts";
import type { Thinking } from "./thinking.ts";
import type { Spend } from "./usage.ts";

export const RUN_STATES = ["queued", "running", "waiting", "done", "error", "timeout", "stopped", "interrupted"] as const;
export type RunState = (typeof RUN_STATES)[number];
export type UnfinishedState = "queued" | "running" | "waiting";
export type EndState = Exclude<RunState, UnfinishedState>;

/**
 * What a waiting run waits for. It holds no slot and no memory: whoever makes it true rings the lane, and the run goes on from
 * its transcript, after a restart as before it.
 */
export type Wait =
  /** Something to read, or the end of its last child. */
  | { readonly for: "children" }
  /** The end of all or any of these, at the latest at `until`; `since` shows a clock that was set back meanwhile. */
  | {
      readonly for: "runs";
      readonly ids: readonly string[];
      readonly mode: "all" | "any";
      readonly since: number;
      readonly until: number;
    }
  /** It may not begin before these have ended (GR2). */
  | { readonly for: "after"; readonly ids: readonly string[] }
  /** Somebody's answer to this question (core/question.ts), at the latest at `until`. */
  | { readonly for: "answer"; readonly id: string; readonly since: number; readonly until: number };

/** Until when it is waited for at the most; null: as long as it takes. */
export const untilOf = (wait: Wait): number | null => ("until" in wait ? wait.until : null);

export const DELIVERY_STATES = ["none", "pending", "sending", "delivered", "skipped", "blocked"] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

export interface RunBudget extends Cap {
  /** Who raised it last, and which generation goes on with that: a second press finds it raised. */
  readonly raised?: { readonly by: string; readonly generation: number };
}

/** AP1, for runs that announce at all. */
export interface Announcing {
  /** `digest`: successes are held back and posted together; failures never are. */
  readonly when: "always" | "failures" | "digest";
  /** Of `digest`. */
  readonly everyMinutes: number | null;
  /** Null: the address it was pinned to. `nobody`: the direct chat of the person who asked, and no person did. */
  readonly to: Address | "nobody" | null;
}

export const ALWAYS: Announcing = { when: "always", everyMinutes: null, to: null };

/** Where its announcement is posted. */
export const announceAddress = ({ address, announcing: { to } }: Pick<Run, "address" | "announcing">): Address =>
  to === null || to === "nobody" ? address : to;

/** What `sessions_spawn` was given, as stored; parsed once, never changed. */
export interface SpawnParams {
  readonly role?: string;
  readonly briefing?: string;
  readonly systemPrompt?: string;
  readonly allowedTools?: readonly string[];
  /** Ids of the runs that have to end before it begins, and whether it begins also when one of them failed (GR2). */
  readonly after?: { readonly ids: readonly string[]; readonly ifFailed: "end" | "run" };
  /** What must hold before it counts as done (EV1). */
  readonly checks?: readonly Check[];
  /** How often failing ones go back to it; left out: CHECK_ROUNDS. */
  readonly checkRounds?: number;
  /** JSON Schema of the data it has to end with (TR1). */
  readonly resultSchema?: Readonly<Record<string, unknown>>;
}

/** A call of `finish` that did not fit, or an end without one. */
export interface Misfit {
  /** When its model step was made: several calls of one step are one try. */
  readonly step: number;
  readonly why: string;
}

export const SECTION_NAMES = ["summary", "changes", "evidence", "risks", "blockers"] as const;
export type SectionName = (typeof SECTION_NAMES)[number];
/** What the child's last text said under each heading of the output contract; null: it left that one out (RO3). */
export type RunSections = Readonly<Record<SectionName, string | null>>;

export const STEP_STATUSES = ["pending", "doing", "done"] as const;
/** One step of the child's own plan (NV4). */
export interface PlanStep {
  readonly title: string;
  readonly status: (typeof STEP_STATUSES)[number];
}

export interface Run {
  readonly id: string;
  /** What it and all below it may spend; null: no limit of its own (BG1). */
  readonly budget: RunBudget | null;
  /** The message that set it off, with all others that it did (`budgets.message`). */
  readonly message: string;
  /** The run this one repeats (RP1); null: none. */
  readonly rerunOf: string | null;
  /** Those it was sent out with, where they are a group (GR1). */
  readonly groupId: string | null;
  /** Requester's turn and tool call: a resumed turn that spawns again finds this row instead (SP2). */
  readonly spawnKey: string;
  readonly childKey: string;
  readonly sessionId: string;
  readonly agentId: string;
  readonly requesterKey: string;
  /** The main session at the top of its tree. */
  readonly rootKey: string;
  readonly requesterSessionId: string;
  /** The run the requester itself is, when a sub-agent spawned this one: the result goes there, not to a chat. */
  readonly requesterRunId: string | null;
  readonly depth: number;
  /** Pinned at spawn (SP7). */
  readonly address: Address;
  /** Whose message it goes back to; null: nobody's in particular. */
  readonly person: Person | null;
  /** The runs accepted in one turn share a status message (LV1); null: none is shown, or a sub-agent sent it out. */
  readonly batch: string | null;
  readonly label: string;
  /** First part of the task; the whole stands in the child's transcript. */
  readonly task: string;
  readonly model: string;
  readonly thinking: Thinking;
  readonly timeoutMs: number;
  readonly maxIterations: number;
  readonly cleanup: "keep" | "delete";
  readonly announce: "post" | "silent";
  /** When and where its announcement is posted, as the settings said at spawn (AP1). */
  readonly announcing: Announcing;
  readonly params: SpawnParams;
  /** Tools the requester had at spawn: the child's ceiling, also after a restart with another config. */
  readonly toolCeiling: readonly string[];

  readonly state: RunState;
  readonly delivery: DeliveryState;
  readonly deliveryReason: string | null;
  /** Counts up when a finished run is sent a message and goes on in the same session. */
  readonly generation: number;
  /** Times the work was taken up again after a restart, in this generation. */
  readonly resumes: number;
  /** Those of them where the process had died; after the second the run is given up (RC2). */
  readonly crashes: number;
  readonly bootId: string;
  readonly createdAt: number;
  /** When it last entered the queue: new at each generation. */
  readonly queuedAt: number;
  readonly startedAt: number | null;
  /** When the time it has is over, whatever restarts come in between; null: never, or not started yet (SP10). */
  readonly deadlineAt: number | null;
  /** Model steps begun, in all processes together, since its limits began to count. */
  readonly steps: number;
  readonly endedAt: number | null;
  readonly spend: Spend;
  /** Why it ended as it did, in plain words, when that is not simply success. */
  readonly reason: string | null;
  /** The work stopped short (iteration cap): `done`, but marked (SP9). */
  readonly incomplete: boolean;
  /** What it does now: the current tool or step, or what it waits for. */
  readonly doing: string | null;
  /** In the state `waiting`: any of these coming true wakes it. Empty otherwise. */
  readonly waits: readonly Wait[];
  /** The child's plan as it noted it last; null without one. */
  readonly plan: readonly PlanStep[] | null;
  /** Set at the end, each cut to a few lines; the whole stands in the transcript. */
  readonly sections: RunSections | null;
  /** What its checks found last, in this generation; null: they were not run, or there are none (EV2). */
  readonly checks: readonly CheckResult[] | null;
  /** How often failing checks went back to it, in this generation. */
  readonly checkRounds: number;
  /** Its typed result as JSON text, from the moment `finish` took it (TR1). */
  readonly data: string | null;
  /** What of it didn't fit so far, in this generation. */
  readonly misfits: readonly Misfit[];
  /** Ended and its announcement delivered, skipped or blocked for good: from here the archive time counts. */
  readonly settledAt: number | null;
  readonly archivedAt: number | null;
  /** File name of the archived transcript, fixed before the rename so that a retry makes the same one. */
  readonly archiveName: string | null;
}

/** The step a run is at, as people read it: `2/5 Read the sources`. Null without a plan. */
export function stepOf(plan: readonly PlanStep[] | null): string | null {
  if (plan === null || plan.length === 0) return null;
  const doing = plan.findIndex((step) => step.status === "doing");
  const at = doing >= 0 ? doing : plan.findIndex((step) => step.status === "pending");
  return at < 0 ? `${plan.length}/${plan.length} all steps done` : `${at + 1}/${plan.length} ${plan[at]?.title}`;
}

/** Its turn in the lane has not come yet. */
export const isUnbegun = ({ state, startedAt }: Pick<Run, "state" | "startedAt">): boolean =>
  state === "queued" || (state === "waiting" && startedAt === null);

export const isUnfinished = (state: RunState): state is UnfinishedState => state === "queued" || state === "running" || state === "waiting";

export type RunEvent =
  | { type: "start" }
  /** Its job in the lane ends; `wake` begins another. */
  | { type: "wait" }
  | { type: "wake" }
  /** Its turn came, and what it is to begin after has gone on meanwhile. */
  | { type: "putOff" }
  | { type: "end"; as: EndState }
  /** Back to the queue: a message to a finished run, or resume. */
  | { type: "reopen" };

/** The next state, or null when the event can't happen in this state (it lost a race). */
export function advance(state: RunState, event: RunEvent): RunState | null {
  switch (event.type) {
    case "start":
      return state === "queued" ? "running" : null;
    case "wait":
      return state === "running" ? "waiting" : null;
    case "putOff":
      return state === "queued" ? "waiting" : null;
    case "wake":
      return state === "waiting" ? "running" : null;
    case "end":
      if (state === "running") return event.as;
      // Nobody works on it: it can only be stopped, or given up after a restart.
      return isUnfinished(state) && (event.as === "stopped" || event.as === "interrupted" || event.as === "error") ? event.as : null;
    case "reopen":
      return isUnfinished(state) ? null : "queued";
  }
}

/** Which states an event may come from: the WHERE clause of the compare-and-set. */
export const sourcesOf = (event: RunEvent): RunState[] => RUN_STATES.filter((state) => advance(state, event) !== null);

/** In `doing` of a run that a graceful stop put aside or nobody has taken up since: another restart is no crash of it. */
export const SUSPENDED = "put aside until it is taken up again";

/** The word people read (AN2). Stopped runs don't announce. */
export const STATUS_WORD: Record<EndState, "success" | "error" | "timeout" | "unknown"> = {
  done: "success",
  error: "error",
  timeout: "timeout",
  stopped: "unknown",
  interrupted: "unknown",
};
