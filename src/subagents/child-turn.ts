// One turn of a child, as the loop of turns wants it: its mail, its news, what it does now, and who may end it.
import type { TurnEnd } from "../agents/turn.ts";
import type { Run } from "../core/run.ts";
import { roleOf } from "./child.ts";
import { childSteps } from "./child-steps.ts";
import type { SubagentDeps } from "./deps.ts";
import { noteEntries } from "./notes.ts";
import { isFinished, isTyped } from "./typed-result.ts";
import { newsOf } from "./waits.ts";

const THINKING = "thinking";

/** A child's shell is never wider than its requester's: below a role that may only read, everybody may only read (TL2). */
async function isReadOnly(deps: SubagentDeps, run: Run): Promise<boolean> {
  if (roleOf(run.params)?.readOnlyShell ?? true) return true;
  if (run.requesterRunId === null) return false;
  const requester = await deps.runs.get(run.requesterRunId);
  return requester === null || (await isReadOnly(deps, requester));
}

/** Goes on from its transcript. Throws only when the disk, or the server, refuses. */
export async function childTurn(deps: SubagentDeps, run: Run, signal: AbortSignal): Promise<TurnEnd> {
  const agent = deps.agents.find(run.agentId);
  if (agent === null)
    return {
      outcome: "error",
      steps: run.steps,
      text: "",
      reason: `agent "${run.agentId}" is not configured any more`,
      error: null,
      notice: null,
    };
  const words = deps.words.begin(run.id, signal);
  /** What its row says it does: saying it again would be a transaction for nothing. */
  let known: string | null = null;
  const ended = deps.turns.run({
    ...childSteps(deps, run, agent, { signal, purse: await deps.payments.ofRun(run) }),
    id: `run:${run.id}:${run.generation}`,
    sessionKey: run.childKey,
    runId: run.id,
    address: run.address,
    person: run.person,
    workspace: agent.workspace,
    readOnly: await isReadOnly(deps, run),
    maxIterations: run.maxIterations,
    stepsUsed: run.steps,
    get log() {
      return deps.log.child({ sessionKey: run.childKey, runId: run.id });
    },
    mail: () => mailFor(deps, run),
    // A run whose children still work is not done (SP5).
    news: () => newsOf(deps, run),
    onText: (text) => words.say("text", text),
    onThoughts: (text) => words.say("thoughts", text),
    ...(isTyped(run.params) ? { isFinished: async () => isFinished((await deps.runs.get(run.id)) ?? run) } : {}),
    ...(deps.gate === undefined ? {} : { gate: deps.gate }),
    ...(deps.isShared === true ? { isOver: async () => !(await deps.runs.isOwn(run.id)) } : {}),
    async onStep(step) {
      // Put aside since its last look: its row says so, and must go on saying so.
      if (signal.aborted) return false;
      known = THINKING;
      return deps.runs.beginStep(run.id, step, THINKING);
    },
    onDoing(doing) {
      // It thinks anew, or does what it has just decided: what it wrote is on record, or it writes it again.
      words.clear();
      // What a tool still says while it is ended is no news, and would hide that the run was put aside.
      if (signal.aborted) return;
      // Nobody waits for it: writes come one after the other, so that the last one said is the one that stays.
      if (doing !== known)
        deps.runs
          .setDoing(run.id, doing.slice(0, 200))
          .catch((error: unknown) => deps.log.warn({ err: error, runId: run.id }, "what a run does could not be noted"));
      known = doing;
      deps.bus.emit({ type: "turn.doing", sessionKey: run.childKey, address: null, runId: run.id, doing });
    },
  });
  return ended.finally(words.end);
}

/** Messages to the run, and results of its own children, in that order. */
async function mailFor(deps: SubagentDeps, run: Run): ReturnType<Parameters<SubagentDeps["turns"]["run"]>[0]["mail"]> {
  const messages = await deps.mail.listForRun(run.id);
  const notes = await deps.mail.listNotes(run.sessionId);
  return {
    entries: [
      ...messages.map((one) => ({ type: "message" as const, role: "user" as const, text: one.text, from: one.from, id: one.entryId })),
      ...(await noteEntries(deps.runs, notes)),
    ],
    commit: () =>
      deps.db.transaction([], async (tx) => {
        await deps.mail.takeForRun(
          tx,
          messages.map((one) => one.id),
        );
        await deps.mail.takeNotes(
          tx,
          notes.map((one) => one.id),
        );
      }),
  };
}
