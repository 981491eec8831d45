// A child says it is done: does that count? (EV2, TR1) Typed data must be there, every check must pass; what is missing goes back to it
// as mail, in ONE transaction with the count of it, so that a kill at any moment tells it once and counts it once. `success` is said only
// of what passed every check in one round. What stopped early (steps, budget) is checked too, but nothing goes back to it: it can't go on.
import type { CheckResult } from "../core/check.ts";
import type { Run } from "../core/run.ts";
import { EXEC_TOOL } from "../core/tool-names.ts";
import { lock } from "../stores/lock-keys.ts";
import { lastWords } from "./announce.ts";
import { failureReason, returnText, roundsOf } from "./checks.ts";
import { childTools } from "./child.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import type { Ending } from "./outcome.ts";
import { isTyped, MAX_RETURNS, misfitReason } from "./typed-result.ts";

type Deps = Pick<
  SubagentDeps,
  "db" | "runs" | "mail" | "transcripts" | "agents" | "tools" | "runCheck" | "needsYes" | "bus" | "log" | "failpoint"
>;

/** Who sends what goes back: no person, so it is no new work and renews no limit. */
export const RUNTIME = "runtime";

const LOOK_BACK = 200;
const NO_FINISH = "it ended without calling finish";

/** How it ends, or `returned`: it has something to put right. Aborted meanwhile, what it returns means nothing. */
export async function complete(deps: Deps, run: Run, ending: Ending, signal: AbortSignal): Promise<Ending | "returned"> {
  const { checks } = run.params;
  if (ending.as !== "done" || (checks === undefined && !isTyped(run.params))) return ending;
  // Rounds, tries and data as they are now: the turn has changed them.
  const fresh = (await deps.runs.get(run.id)) ?? run;
  if (isTyped(run.params) && fresh.data === null) return withoutData(deps, fresh, ending);
  if (checks === undefined) return ending;
  const found = await runChecks(deps, fresh, ending, signal);
  if (signal.aborted) return ending;
  if (found.every(({ passed }) => passed)) return { ...ending, checks: found };
  deps.failpoint("check.failed");
  // What could not be run at all is nothing a child can put right.
  const mayReturn = !ending.incomplete && fresh.checkRounds < roundsOf(run.params) && !found.some(({ isUnrunnable }) => isUnrunnable);
  if (mayReturn && (await giveBack(deps, fresh, found))) return "returned";
  return { ...failed(ending, failureReason(found)), checks: found };
}

const failed = (ending: Ending, why: string): Ending => ({
  ...ending,
  as: "error",
  reason: ending.reason === null ? why : `${ending.reason}; ${why}`,
  incomplete: false,
});

/** Its last word was no call of finish, or none that fits. */
async function withoutData(deps: Deps, run: Run, ending: Ending): Promise<Ending | "returned"> {
  // Out of steps or budget it was not asked once more.
  if (ending.incomplete) return failed(ending, run.misfits.length === 0 ? NO_FINISH : misfitReason(run));
  if (run.misfits.length > MAX_RETURNS) return failed(ending, misfitReason(run));
  const misfit = { step: -1 - run.misfits.length, why: NO_FINISH };
  const left = MAX_RETURNS - run.misfits.length;
  if (left === 0) return failed(ending, misfitReason({ misfits: [...run.misfits, misfit] }));
  const text = `[The gateway notes: you ended without calling finish, so there is no result. Call finish with data that fits your schema; ${left} ${left === 1 ? "try" : "tries"} left.]`;
  await deps.db.transaction([lock.tree(run.rootKey)], async (tx) => {
    const { state, generation } = (await deps.runs.get(run.id)) ?? run;
    // Stopped meanwhile: a later generation would read what means nothing to it.
    if (state !== "running" || generation !== run.generation) return;
    await deps.runs.addMisfit(tx, run.id, misfit);
    await deps.mail.sendToRun(tx, run.id, RUNTIME, text);
  });
  return "returned";
}

/** False: it was ended meanwhile, or another process is further. */
async function giveBack(deps: Deps, run: Run, found: readonly CheckResult[]): Promise<boolean> {
  const isCounted = await deps.db.transaction([lock.tree(run.rootKey)], async (tx) => {
    if (!(await deps.runs.countRound(tx, run, found))) return false;
    await deps.mail.sendToRun(tx, run.id, RUNTIME, returnText(found, run.checkRounds + 1, roundsOf(run.params)));
    return true;
  });
  if (isCounted) deps.failpoint("check.returned");
  return isCounted;
}

/** One after the other, all of them: what fails is told together. */
async function runChecks(deps: Deps, run: Run, ending: Ending, signal: AbortSignal): Promise<CheckResult[]> {
  const { checks = [] } = run.params;
  const agent = deps.agents.find(run.agentId);
  const result = run.data ?? (lastWords(await deps.transcripts.tail(transcriptOfRun(run), LOOK_BACK), run) || (ending.words ?? ""));
  const whyNoCommand = await noCommandReason(deps, run);
  const found: CheckResult[] = [];
  deps.failpoint("check.begun");
  for (const [n, check] of checks.entries()) {
    if (signal.aborted) break;
    const doing = `checking ${n + 1} of ${checks.length}`;
    await say(deps, run, doing);
    const subject = {
      agentId: run.agentId,
      sessionKey: run.childKey,
      runId: run.id,
      workspace: agent?.workspace ?? "",
      result,
      whyNoCommand,
    };
    const one = await unlessAborted(signal, deps.runCheck(check, { ...subject, signal, progress: () => {} }));
    if (one !== null) found.push(one);
  }
  return found;
}

/** One that stands in a line, or is being killed, must not hold up the end of its run (SP8). */
async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T | null> {
  const { promise, resolve } = Promise.withResolvers<null>();
  const stop = (): void => resolve(null);
  signal.addEventListener("abort", stop, { once: true });
  // Left behind, nobody hears how it ends.
  work.catch(() => undefined);
  return Promise.race([work, promise]).finally(() => signal.removeEventListener("abort", stop));
}

async function say({ runs, bus }: Deps, run: Run, doing: string): Promise<void> {
  await runs.setDoing(run.id, doing);
  bus.emit({ type: "turn.doing", sessionKey: run.childKey, address: null, runId: run.id, doing });
}

/** Under the child's own policy: a check is no way around what it may not do. */
async function noCommandReason(deps: Deps, run: Run): Promise<string | null> {
  const all = deps.tools();
  const agent = deps.agents.find(run.agentId);
  // Then there is no sandbox here, and whoever runs it says so.
  if (agent === null || !all.some(({ name }) => name === EXEC_TOOL)) return null;
  if (!childTools(all, agent, run).some(({ name }) => name === EXEC_TOOL)) return "the sub-agent may not use exec";
  const asks = await deps.needsYes(EXEC_TOOL, { agentId: run.agentId, runId: run.id });
  return asks ? "exec needs a person's yes here, and nobody is asked for a check" : null;
}
