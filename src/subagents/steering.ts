// Steering runs from outside: stop, send, go on, announce again. Used by /subagents, /stop, /new and the model's own control tools.
// Every change is in the stores first, so it survives a crash; the runner hears of it from the bus and ends the work.
import type { Run } from "../core/run.ts";
import { isUnfinished } from "../core/run.ts";
import { visibleText } from "../core/visible-text.ts";
import type { Tx } from "../stores/database.ts";
import type { LockKey } from "../stores/lock-keys.ts";
import { RUNTIME } from "./completion.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import { dropOut, retryDigest } from "./digests.ts";
import { breakOff, locksOf, postLate } from "./ending.ts";
import { retryGroup, takeOutOfGroup } from "./groups.ts";
import { announceDelivery } from "./posting.ts";
import { startedDelivery } from "./start-line.ts";
import { statusId } from "./status-message.ts";

export type SendAnswer = "queued" | "running" | "continued" | { readonly refused: string };

export interface Steering {
  /** For the transaction in which these are steered. */
  locks(runs: readonly Run[]): readonly LockKey[];
  /** Ends these runs and everything below them; returns those that really were unfinished. */
  stop(tx: Tx, runs: readonly Run[], by: string): Promise<Run[]>;
  /** Ends every unfinished run below a session. */
  stopBelow(tx: Tx, sessionKey: string, by: string): Promise<Run[]>;
  /**
   * A message for a run. Unfinished: durable, read at its next step. Finished: the same session goes on as a new
   * generation and announces again.
   */
  send(tx: Tx, run: Run, from: string, text: string): Promise<SendAnswer>;
  /**
   * Somebody stops a run that has ended and whose announcement still waits to be sent: it is left out. False: it has been
   * said, or has begun to be.
   */
  leaveUnsaid(tx: Tx, run: Run): Promise<boolean>;
  /** Its budget is used up and its last word is being asked for, or was: what it kept for that is drawn. */
  isLanding(run: Run): Promise<boolean>;
  /** Sends a blocked announcement again. False: its channel is still off. */
  retry(tx: Tx, run: Run): Promise<boolean>;
}

export function createSteering(deps: SubagentDeps): Steering {
  const stopAll = async (tx: Tx, runs: Iterable<Run>, by: string): Promise<Run[]> => {
    const stopped: Run[] = [];
    // Deepest first: a run that ends takes what is below it along, and those would not be counted here.
    for (const run of [...runs].sort((one, other) => other.depth - one.depth))
      if (isUnfinished(run.state) && (await breakOff(deps, tx, run, { as: "stopped", reason: by, incomplete: false }))) stopped.push(run);
    // The answer to a stop goes ahead of what waits (DL6): a line about their start would come after it. What had ended
    // before a stop of the whole chat is not its concern, and is announced whenever it can be.
    for (const run of stopped) await deps.outbox.withdraw(tx, startedDelivery(run));
    return stopped;
  };
  return {
    locks: (runs) => runs.flatMap(locksOf),
    async stop(tx, runs, by) {
      const all = new Map<string, Run>();
      for (const run of runs) {
        all.set(run.id, run);
        for (const below of await deps.runs.unfinishedBelow(run.childKey)) all.set(below.id, below);
      }
      return stopAll(tx, all.values(), by);
    },
    stopBelow: async (tx, sessionKey, by) => stopAll(tx, await deps.runs.unfinishedBelow(sessionKey), by),
    send: (tx, run, from, text) => send(deps, tx, run, from, text),
    isLanding: async (run) => run.state === "running" && run.steps > 0 && !(await deps.payments.isKept(run)),
    async leaveUnsaid(tx, run) {
      const isDropped = (await dropOut(deps, tx, run)) || (await takeOutOfGroup(deps, tx, run));
      const isUnsaid = (await deps.outbox.withdraw(tx, announceDelivery(run))) || isDropped;
      if (isUnsaid) {
        await deps.runs.setDelivery(tx, run.id, "skipped", "stopped before it was sent");
        await deps.runs.markSettled(tx, run.id);
      }
      return isUnsaid;
    },
    async retry(tx, run) {
      const { delivery = null } = (await deps.digests.find({ runId: run.id, generation: run.generation })) ?? {};
      if (delivery !== null) return retryDigest(deps, tx, delivery);
      const isGroupOnItsWay = await retryGroup(deps, tx, run);
      if (isGroupOnItsWay !== null) return isGroupOnItsWay;
      const isOnItsWay = (await postLate(deps, tx, run)) || (await deps.outbox.requeue(tx, run.id)) > 0;
      if (isOnItsWay) await deps.runs.setDelivery(tx, run.id, "pending");
      return isOnItsWay;
    },
  };
}

const WAS_STOPPED =
  "[The gateway notes: you were stopped before you had finished. Do what the next message says; go on with what you did before only as far as it asks for that.]";

const GONE = "It can't go on: what it said and did was removed some time after it ended. Give its task to a new sub-agent.";

async function send(deps: SubagentDeps, tx: Tx, run: Run, from: string, written: string): Promise<SendAnswer> {
  const text = visibleText(written);
  if (text.trim() === "") return { refused: "There is nothing to read in this message: it holds no character that can be seen." };
  // Looked up again: it may have ended since the caller found it. A run looks for mail at the moment of its end, so what is
  // sent is either read before that end or meets a finished run here; told "it reads this" and then unread is neither.
  const fresh = (await deps.runs.get(run.id)) ?? run;
  // People choose their names: under the runtime's own, what they write would be thrown away with what a check sent back.
  const sender = from === RUNTIME ? JSON.stringify(from) : from;
  if (isUnfinished(fresh.state)) {
    await deps.mail.sendToRun(tx, run.id, sender, text);
    tx.emit({ type: "run.mail", runId: run.id });
    // One that waits reads it when it goes on, which this may be the reason for.
    return fresh.state === "queued" ? "queued" : "running";
  }
  const max = deps.agents.find(fresh.agentId)?.subagents.maxChildren ?? 0;
  if ((await deps.runs.countUnfinished(fresh.requesterKey)) >= max) {
    return {
      refused: `This session has ${max} unfinished sub-agents, the most it may have (maxChildrenPerSession). Wait for one to end, or stop one.`,
    };
  }
  // Back under its own name before the row says so: a crash in between leaves a readable file either way.
  if (!(await deps.transcripts.restore(transcriptOfRun(fresh)))) return { refused: GONE };
  await deps.mail.sendToRun(tx, run.id, sender, text);
  // Its task still stands in its transcript, and nothing there says that somebody ended it.
  if (fresh.state === "stopped") await deps.mail.addNote(tx, run.sessionId, `stopped:${run.id}:${fresh.generation}`, WAS_STOPPED);
  await deps.runs.reopen(tx, run);
  // Its batch's message had shown the end.
  if (fresh.batch !== null) await deps.live.open(tx, statusId(fresh.batch), fresh.address);
  return "continued";
}
