// Steering runs from outside: stop, send, go on, announce again. Used by /subagents, /stop, /new and the model's own control tools.
// Every change is in the stores first, so it survives a crash; the runner hears of it from the bus and ends the work.
import type { Run } from "../core/run.ts";
import { isUnfinished } from "../core/run.ts";
import { visibleText } from "../core/visible-text.ts";
import { type SubagentDeps, startedDelivery, transcriptOfRun } from "./deps.ts";
import { breakOff, postLate } from "./ending.ts";
import { announceDelivery } from "./posting.ts";

export type SendAnswer = "queued" | "running" | "continued" | { readonly refused: string };

export interface Steering {
  /** Ends these runs and everything below them; returns those that really were unfinished. Call inside a transaction. */
  stop(runs: readonly Run[], by: string): Run[];
  /** Ends every unfinished run below a session. Call inside a transaction. */
  stopBelow(sessionKey: string, by: string): Run[];
  /**
   * A message for a run. Unfinished: durable, read at its next step. Finished: the same session goes on as a new
   * generation and announces again. Call inside a transaction.
   */
  send(run: Run, from: string, text: string): SendAnswer;
  /**
   * Somebody stops a run that has ended and whose announcement still waits to be sent: it is left out. False: it has been
   * said, or has begun to be. Call inside a transaction.
   */
  leaveUnsaid(run: Run): boolean;
  /** Sends a blocked announcement again. False: its channel is still off. Call inside a transaction. */
  retry(run: Run): boolean;
}

export function createSteering(deps: SubagentDeps): Steering {
  const stopAll = (runs: Iterable<Run>, by: string): Run[] => {
    // Deepest first: a run that ends takes what is below it along, and those would not be counted here.
    const stopped = [...runs]
      .sort((a, b) => b.depth - a.depth)
      .filter((run) => isUnfinished(run.state) && breakOff(deps, run, { as: "stopped", reason: by, incomplete: false }));
    // The answer to a stop goes ahead of what waits (DL6): a line about their start would come after it. What had ended
    // before a stop of the whole chat is not its concern, and is announced whenever it can be.
    for (const run of stopped) deps.outbox.withdraw(startedDelivery(run));
    deps.db.afterCommit(() => deps.failpoint("stop.recorded"));
    return stopped;
  };
  return {
    stop(runs, by) {
      const all = new Map<string, Run>();
      for (const run of runs) {
        all.set(run.id, run);
        for (const below of deps.runs.unfinishedBelow(run.childKey)) all.set(below.id, below);
      }
      return stopAll(all.values(), by);
    },
    stopBelow: (sessionKey, by) => stopAll(deps.runs.unfinishedBelow(sessionKey), by),
    send: (run, from, text) => send(deps, run, from, text),
    leaveUnsaid(run) {
      const isUnsaid = deps.outbox.withdraw(announceDelivery(run));
      if (isUnsaid) {
        deps.runs.setDelivery(run.id, "skipped", "stopped before it was sent");
        deps.runs.markSettled(run.id);
      }
      return isUnsaid;
    },
    retry(run) {
      const isOnItsWay = postLate(deps, run) || deps.outbox.requeue(run.id) > 0;
      if (isOnItsWay) deps.runs.setDelivery(run.id, "pending");
      return isOnItsWay;
    },
  };
}

const WAS_STOPPED =
  "[The gateway notes: you were stopped before you had finished. Do what the next message says; go on with what you did before only as far as it asks for that.]";

const GONE = "It can't go on: what it said and did was removed some time after it ended. Give its task to a new sub-agent.";

function send(deps: SubagentDeps, run: Run, from: string, written: string): SendAnswer {
  const text = visibleText(written);
  if (text.trim() === "") return { refused: "There is nothing to read in this message: it holds no character that can be seen." };
  // Looked up again: it may have ended since the caller found it. A run looks for mail at the moment of its end, so what is
  // sent is either read before that end or meets a finished run here; told "it reads this" and then unread is neither.
  const fresh = deps.runs.get(run.id) ?? run;
  if (isUnfinished(fresh.state)) {
    deps.mail.sendToRun(run.id, from, text);
    deps.db.afterCommit(() => deps.bus.emit({ type: "run.mail", runId: run.id }));
    // One that waits reads it when it goes on, which this may be the reason for.
    return fresh.state === "queued" ? "queued" : "running";
  }
  const max = deps.agents.find(fresh.agentId)?.subagents.maxChildren ?? 0;
  if (deps.runs.countUnfinished(fresh.requesterKey) >= max) {
    return {
      refused: `This session has ${max} unfinished sub-agents, the most it may have (maxChildrenPerSession). Wait for one to end, or stop one.`,
    };
  }
  // Back under its own name before the row says so: a crash in between leaves a readable file either way.
  if (!deps.transcripts.restore(transcriptOfRun(fresh))) return { refused: GONE };
  deps.mail.sendToRun(run.id, from, text);
  // Its task still stands in its transcript, and nothing there says that somebody ended it.
  if (fresh.state === "stopped") deps.mail.addNote(run.sessionId, `stopped:${run.id}:${fresh.generation}`, WAS_STOPPED);
  deps.runs.reopen(run.id);
  deps.db.afterCommit(() => deps.lane.ring(run.id, run.requesterKey));
  return "continued";
}
