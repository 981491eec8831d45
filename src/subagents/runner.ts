// Handler of the lane `subagent`: one run from claim to end. queued → running → the child's turn → announce step →
// ended. A run found `running` at boot is taken up the same way: its transcript says how far it came.
import { transcriptOf } from "../agents/open-session.ts";
import type { TurnEnd } from "../agents/turn.ts";
import { errorText, isStorageError } from "../core/errors.ts";
import type { Bus } from "../core/events.ts";
import { isUnfinished, type Run, SUSPENDED } from "../core/run.ts";
import type { Tool } from "../core/tool.ts";
import type { Slot } from "../lanes/lanes.ts";
import type { Thinking } from "../models/model.ts";
import { type Ending, finishRun } from "./announce.ts";
import { childPrompt, childTools, roleOf } from "./child.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import { PLAN_TOOL } from "./plan-tool.ts";
import { duration } from "./report.ts";

export interface Runner {
  /** For Lane.serve. */
  work(runId: string, slot: Slot): Promise<void>;
  /** Ends all work without settling it: it is taken up at the next start. */
  suspend(): void;
}

const STORAGE_RETRY_MS = 5_000;

export function createRunner(deps: SubagentDeps): Runner {
  const active = new Map<string, AbortController>();
  // Whoever stopped it has settled the row; from the commit on nothing of it may start any more (ST2).
  deps.bus.on((event) => {
    if (event.type !== "run.ended" || event.state !== "stopped") return;
    deps.lane.drop(event.runId);
    active.get(event.runId)?.abort("stop");
  });
  return {
    async work(runId, slot) {
      const abort = new AbortController();
      active.set(runId, abort);
      try {
        const run = claim(deps, runId);
        if (run !== null) await carryOut(deps, run, slot, abort);
      } catch (error) {
        await survive(deps, runId, error, abort.signal);
      } finally {
        active.delete(runId);
      }
    },
    suspend() {
      for (const [id, abort] of active) {
        try {
          deps.runs.setDoing(id, SUSPENDED);
        } catch (error) {
          deps.log.warn({ runId: id, reason: errorText(error) }, "a run is put aside without a note; it counts as a crash");
        }
        abort.abort("suspend");
      }
    },
  };
}

function claim(deps: SubagentDeps, runId: string): Run | null {
  const run = deps.runs.get(runId);
  if (run === null || !isUnfinished(run.state)) return null;
  deps.transcripts.ensure(transcriptOfRun(run));
  if (run.state === "queued" && !deps.runs.start(runId)) return null;
  deps.failpoint("run.started");
  return deps.runs.get(runId);
}

/** Works until it is over: what was sent to it while it announced is read first. */
async function carryOut(deps: SubagentDeps, run: Run, slot: Slot, abort: AbortController): Promise<void> {
  while ((await workOnce(deps, run, slot, abort)) === "mail");
}

async function workOnce(deps: SubagentDeps, run: Run, slot: Slot, abort: AbortController): Promise<"over" | "mail"> {
  const over = new AbortController();
  const watch = run.timeoutMs > 0 ? endAfter(deps, run.timeoutMs, over.signal, abort) : Promise.resolve();
  let end: TurnEnd;
  try {
    end = await childTurn(deps, run, slot, abort.signal);
  } finally {
    over.abort();
    await watch;
  }
  if (abort.signal.aborted && abort.signal.reason !== "timeout") return "over";
  deps.failpoint("run.worked");
  return finishRun(deps, run, { ...endingOf(run, end), words: end.text }, abort.signal);
}

async function endAfter(deps: SubagentDeps, ms: number, over: AbortSignal, abort: AbortController): Promise<void> {
  await deps.clock.sleep(ms, over);
  if (!over.aborted) abort.abort("timeout");
}

function endingOf(run: Run, end: TurnEnd): Ending {
  switch (end.outcome) {
    case "done":
      return { as: "done", reason: null, incomplete: false };
    case "capped":
      return { as: "done", reason: end.reason, incomplete: true };
    case "error":
      return { as: "error", reason: end.reason, incomplete: false };
    case "aborted":
      return { as: "timeout", reason: `runTimeoutSeconds ${duration(run.timeoutMs)}`, incomplete: false };
  }
}

/** A child's shell is never wider than its requester's: below a role that may only read, everybody may only read (TL2). */
function isReadOnly(deps: SubagentDeps, run: Run): boolean {
  if (roleOf(run.params)?.readOnlyShell ?? true) return true;
  if (run.requesterRunId === null) return false;
  const requester = deps.runs.get(run.requesterRunId);
  return requester === null || isReadOnly(deps, requester);
}

async function childTurn(deps: SubagentDeps, run: Run, slot: Slot, signal: AbortSignal): Promise<TurnEnd> {
  const agent = deps.agents.find(run.agentId);
  if (agent === null) return { outcome: "error", text: "", reason: `agent "${run.agentId}" is not configured any more`, error: null };
  const now = () => deps.agents.find(run.agentId) ?? agent;
  const tools = (): readonly Tool[] => childTools(deps.tools(), now(), run);
  const spend = { addSession: deps.sessions.addSpend, addRun: deps.runs.addSpend };
  return deps.turns.run({
    id: `run:${run.id}:${run.generation}`,
    ref: transcriptOf({ agentId: run.agentId, id: run.sessionId }),
    sessionKey: run.childKey,
    runId: run.id,
    address: run.address,
    model: run.model,
    fallbacks: agent.fallbacks,
    thinking: run.thinking as Thinking,
    workspace: agent.workspace,
    readOnly: isReadOnly(deps, run),
    maxIterations: run.maxIterations,
    signal,
    log: deps.log.child({ sessionKey: run.childKey, runId: run.id }),
    system: async () =>
      childPrompt({
        agent: now(),
        run,
        material: await deps.childMaterial(now(), run),
        canSpawn: run.depth < now().subagents.maxSpawnDepth,
        canPlan: tools().some((tool) => tool.name === PLAN_TOOL),
      }),
    tools,
    mail: () => mailFor(deps, run),
    more: () => waitForChildren(deps, run, slot, signal),
    waitOutsideLane: (work) => slot.outside(work, signal),
    onText: () => {},
    onDoing(doing) {
      deps.runs.setDoing(run.id, doing.slice(0, 200));
      deps.bus.emit({ type: "turn.doing", sessionKey: run.childKey, address: null, runId: run.id, doing });
    },
    onSpend: (spent, model) =>
      deps.db.relaxed(() => {
        spend.addSession(run.sessionId, model, spent);
        spend.addRun(run.id, spent);
      }),
  });
}

/** Messages to the run, and results of its own children, in that order. */
function mailFor(deps: SubagentDeps, run: Run): ReturnType<Parameters<SubagentDeps["turns"]["run"]>[0]["mail"]> {
  const messages = deps.mail.listForRun(run.id);
  const notes = deps.mail.listNotes(run.sessionId);
  return {
    entries: [
      ...messages.map((one) => ({ type: "message" as const, role: "user" as const, text: one.text, from: one.from, id: one.entryId })),
      ...notes.map((one) => ({ type: "note" as const, text: one.text, about: one.from, id: one.entryId })),
    ],
    commit: () =>
      deps.db.transaction(() => {
        deps.mail.takeForRun(messages.map((one) => one.id));
        deps.mail.takeNotes(notes.map((one) => one.id));
      }),
  };
}

/** True when there is something to read. A run whose children still work is not done: it waits, without its slot (SP5). */
async function waitForChildren(deps: SubagentDeps, run: Run, slot: Slot, signal: AbortSignal): Promise<boolean> {
  const hasMail = (): boolean => mailFor(deps, run).entries.length > 0;
  const working = (): number => deps.runs.childrenOf(run.id).filter((child) => isUnfinished(child.state)).length;
  if (hasMail()) return true;
  if (working() === 0) return false;
  deps.runs.setDoing(run.id, `waiting for ${working()} sub-agents`);
  await slot.outside(() => until(deps.bus, () => hasMail() || working() === 0, signal), signal);
  return !signal.aborted && hasMail();
}

/** Resolves when `isTrue` after some event, or when the signal aborts. */
export function until(bus: Bus, isTrue: () => boolean, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const check = (): void => {
      if (!isTrue() && !signal.aborted) return;
      off();
      signal.removeEventListener("abort", check);
      resolve();
    };
    const off = bus.on((event) => {
      if (event.type === "run.ended" || event.type === "run.mail") check();
    });
    signal.addEventListener("abort", check, { once: true });
    check();
  });
}

/** The disk refused: the row is as it was, so look again in a while. Anything else ends the run, announced as an error. */
async function survive(deps: SubagentDeps, runId: string, error: unknown, signal: AbortSignal): Promise<void> {
  deps.log.error({ err: error, runId }, "a run broke off");
  if (signal.aborted && signal.reason !== "timeout") return;
  if (isStorageError(error)) return waitForDisk(deps, runId, signal);
  const run = deps.runs.get(runId);
  if (run === null) return;
  try {
    await finishRun(deps, run, { as: "error", reason: errorText(error), incomplete: false }, signal);
  } catch (again) {
    deps.log.error({ err: again, runId }, "the end of a run could not be recorded");
    await waitForDisk(deps, runId, signal);
  }
}

/** Rings again once there is room: before that every model call would be paid for and lost. */
async function waitForDisk(deps: SubagentDeps, runId: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    // A signal that has fired (the time limit) would make this a loop without a pause.
    await deps.clock.sleep(STORAGE_RETRY_MS, signal.aborted ? undefined : signal);
    if (signal.aborted && signal.reason !== "timeout") return;
    try {
      deps.transcripts.probe();
      deps.runs.setDoing(runId, "waiting for the disk");
      const run = deps.runs.get(runId);
      return run === null ? undefined : deps.lane.ring(run.id, run.requesterKey);
    } catch (error) {
      deps.log.warn({ runId, reason: errorText(error) }, "the disk still refuses to write; the run waits");
    }
  }
}
