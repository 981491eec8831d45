// The run record: one sub-agent's execution from spawn to archive, and the pure state machine that moves it.
// Every change in the stores is a compare-and-set on a transition this file allows, so races have one winner.
import type { Address } from "./address.ts";
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
    };

export const DELIVERY_STATES = ["none", "pending", "sending", "delivered", "skipped", "blocked"] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** What `sessions_spawn` was given, as stored; parsed once, never changed. */
export interface SpawnParams {
  readonly role?: string;
  readonly briefing?: string;
  readonly systemPrompt?: string;
  readonly allowedTools?: readonly string[];
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
  readonly label: string;
  /** First part of the task; the whole stands in the child's transcript. */
  readonly task: string;
  readonly model: string;
  readonly thinking: Thinking;
  readonly timeoutMs: number;
  readonly maxIterations: number;
  readonly cleanup: "keep" | "delete";
  readonly announce: "post" | "silent";
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

export const isUnfinished = (state: RunState): state is UnfinishedState => state === "queued" || state === "running" || state === "waiting";

export type RunEvent =
  | { type: "start" }
  /** Its job in the lane ends; `wake` begins another. */
  | { type: "wait" }
  | { type: "wake" }
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
