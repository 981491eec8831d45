// Steering runs from outside: stop, send, go on, announce again. Used by /subagents, /stop, /new and the model's own control tools.
// Every change is in the stores first, so it survives a crash; the runner hears of it from the bus and ends the work.
import type { Run } from "../core/run.ts";
import { isUnfinished } from "../core/run.ts";
import { visibleText } from "../core/visible-text.ts";
import type { Tx } from "../stores/database.ts";
import { type LockKey, lock } from "../stores/locks.ts";
import { type SubagentDeps, startedDelivery, transcriptOfRun } from "./deps.ts";
import { breakOff, postLate } from "./ending.ts";
import { announceDelivery } from "./posting.ts";

export type SendAnswer = "queued" | "running" | "continued" | { readonly refused: string };

export interface Steering {
  /** For the transaction in which these are steered. */
  locks(runs: readonly Run[]): readonly LockKey[];
  /** Ends these runs and everything below them; returns those that really were unfinished. */
  stop(tx: Tx, runs: readonly Run[], by: string): Run[];
  /** Ends every unfinished run below a session. */
  stopBelow(tx: Tx, sessionKey: string, by: string): Run[];
  /**
   * A message for a run. Unfinished: durable, read at its next step. Finished: the same session goes on as a new
   * generation and announces again.
   */
  send(tx: Tx, run: Run, from: string, text: string): SendAnswer;
  /**
   * Somebody stops a run that has ended and whose announcement still waits to be sent: it is left out. False: it has been
   * said, or has begun to be.
   */
  leaveUnsaid(tx: Tx, run: Run): boolean;
  /** Sends a blocked announcement again. False: its channel is still off. */
  retry(tx: Tx, run: Run): boolean;
}

export function createSteering(deps: SubagentDeps): Steering {
  const stopAll = (tx: Tx, runs: Iterable<Run>, by: string): Run[] => {
    // Deepest first: a run that ends takes what is below it along, and those would not be counted here.
    const stopped = [...runs]
      .sort((a, b) => b.depth - a.depth)
      .filter((run) => isUnfinished(run.state) && breakOff(deps, tx, run, { as: "stopped", reason: by, incomplete: false }));
    // The answer to a stop goes ahead of what waits (DL6): a line about their start would come after it. What had ended
    // before a stop of the whole chat is not its concern, and is announced whenever it can be.
    for (const run of stopped) deps.outbox.withdraw(tx, startedDelivery(run));
    return stopped;
  };
  return {
    locks: (runs) => runs.flatMap((run) => [lock.tree(run.rootKey), lock.chat(run.address)]),
    stop(tx, runs, by) {
      const all = new Map<string, Run>();
      for (const run of runs) {
        all.set(run.id, run);
        for (const below of deps.runs.unfinishedBelow(run.childKey)) all.set(below.id, below);
      }
      return stopAll(tx, all.values(), by);
    },
    stopBelow: (tx, sessionKey, by) => stopAll(tx, deps.runs.unfinishedBelow(sessionKey), by),
    send: (tx, run, from, text) => send(deps, tx, run, from, text),
    leaveUnsaid(tx, run) {
      const isUnsaid = deps.outbox.withdraw(tx, announceDelivery(run));
      if (isUnsaid) {
        deps.runs.setDelivery(tx, run.id, "skipped", "stopped before it was sent");
        deps.runs.markSettled(tx, run.id);
      }
      return isUnsaid;
    },
    retry(tx, run) {
      const isOnItsWay = postLate(deps, tx, run) || deps.outbox.requeue(tx, run.id) > 0;
      if (isOnItsWay) deps.runs.setDelivery(tx, run.id, "pending");
      return isOnItsWay;
    },
  };
}

const WAS_STOPPED =
  "[The gateway notes: you were stopped before you had finished. Do what the next message says; go on with what you did before only as far as it asks for that.]";

const GONE = "It can't go on: what it said and did was removed some time after it ended. Give its task to a new sub-agent.";

function send(deps: SubagentDeps, tx: Tx, run: Run, from: string, written: string): SendAnswer {
  const text = visibleText(written);
  if (text.trim() === "") return { refused: "There is nothing to read in this message: it holds no character that can be seen." };
  // Looked up again: it may have ended since the caller found it. A run looks for mail at the moment of its end, so what is
  // sent is either read before that end or meets a finished run here; told "it reads this" and then unread is neither.
  const fresh = deps.runs.get(run.id) ?? run;
  if (isUnfinished(fresh.state)) {
    deps.mail.sendToRun(tx, run.id, from, text);
    tx.emit({ type: "run.mail", runId: run.id });
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
  deps.mail.sendToRun(tx, run.id, from, text);
  // Its task still stands in its transcript, and nothing there says that somebody ended it.
  if (fresh.state === "stopped") deps.mail.addNote(tx, run.sessionId, `stopped:${run.id}:${fresh.generation}`, WAS_STOPPED);
  deps.runs.reopen(tx, run);
  return "continued";
}
