// Runs as the page steers them (WB4), whichever channel they were asked for on: by the same functions as /subagents, each in one
// transaction under the locks of the run's own tree. What comes of it is announced where the run was asked for, as always.
// web/runs-api.ts → here → subagents/steering.ts, again.ts, raising.ts
import type { Agents } from "../agents/agent.ts";
import { ensureSessionIn } from "../agents/open-session.ts";
import { capText } from "../budgets/words.ts";
import { OPERATOR } from "../channels/web/channel.ts";
import { agentIdOf, shortId } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import { isUnfinished, type Run } from "../core/run.ts";
import { plural } from "../gateway/commands.ts";
import type { Tx } from "../stores/database.ts";
import { raise, readAmount } from "../subagents/raising.ts";
import type { Requester } from "../subagents/spawn-request.ts";
import type { RunDesk, Steered } from "../web/runs-api.ts";
import type { Stores } from "./store-parts.ts";
import type { SubagentParts } from "./subagents.ts";

export interface RunDeskDeps {
  readonly stores: Pick<Stores, "db" | "runs" | "sessions" | "transcripts">;
  readonly agents: Pick<Agents, "find">;
  readonly subagents: Pick<SubagentParts, "steering" | "again" | "mainTools">;
  readonly log: Logger;
}

/** As the child and others read who it was. */
const PAGE = OPERATOR.name ?? OPERATOR.id;
const BY = "from the page";

const name = (run: Run): string => `"${run.label}" (${shortId(run.id)})`;
const late = (text: string): Steered => ({ status: "late", text });
const done = (text: string): Steered => ({ status: "done", text });

export function createRunDesk(deps: RunDeskDeps): RunDesk {
  const { runs } = deps.stores;
  const { steering } = deps.subagents;
  return {
    async below(id) {
      const run = await runs.get(id);
      return run === null ? null : (await runs.unfinishedBelow(run.childKey)).length;
    },
    stop: (ids) => stop(deps, ids),
    send: (id, text) =>
      steer(deps, id, "sent", async (tx, run) => {
        const answer = await steering.send(tx, run, PAGE, text);
        if (typeof answer === "object") return late(answer.refused);
        if (answer === "running") return done(`Sent to ${name(run)}; it reads it at its next step.`);
        if (answer === "queued") return done(`Sent to ${name(run)}; it is still queued and reads it when it starts.`);
        return done(`${name(run)} had ended; it goes on with your message in the same session and will announce again.`);
      }),
    again: (id, { key, ...changes }) =>
      steer(deps, id, "run again", async (tx, run) => {
        const { model, task } = changes;
        const wanted = { ...(model === undefined ? {} : { model }), ...(task === undefined ? {} : { task }) };
        const answer = await deps.subagents.again.in(tx, await requesterOf(deps, tx, run, key), run, wanted);
        if (answer.status !== "accepted") return late(answer.error);
        const warning = answer.warning === undefined ? "" : ` ${answer.warning}`;
        return { ...done(`Sent out "${answer.label}" once more (${shortId(answer.runId)}).${warning}`), runId: answer.runId };
      }),
    async raise(id, { amount: written, generation }) {
      const amount = readAmount(written);
      if (amount === null) return late('By how much? "+0.50" (USD), "+20k" (tokens) or "x2".');
      return steer(deps, id, "budget raised", async (tx, run) => {
        const raised = await raise({ runs, steering }, tx, run, { by: PAGE, amount, generation: generation ?? null });
        if ("refused" in raised) return late(raised.refused);
        return done(`${name(run)} may spend ${capText(raised.budget)} now${raised.goesOn ? "; it goes on and will announce again" : ""}.`);
      });
    },
  };
}

/** `work` with the run as it is under its locks. */
async function steer(deps: RunDeskDeps, id: string, audit: string, work: (tx: Tx, run: Run) => Promise<Steered>): Promise<Steered | null> {
  const { db, runs } = deps.stores;
  const found = await runs.get(id);
  if (found === null) return null;
  const steered = await db.transaction(deps.subagents.steering.locks([found]), async (tx) => work(tx, (await runs.get(id)) ?? found));
  if (steered.status === "done") deps.log.info({ audit, runId: id }, "a run was steered from the page");
  return steered;
}

async function stop({ stores: { db, runs }, subagents: { steering }, log }: RunDeskDeps, ids: readonly string[]): Promise<Steered | null> {
  const known = async (): Promise<Run[]> => (await Promise.all([...new Set(ids)].map((id) => runs.get(id)))).filter((run) => run !== null);
  const found = await known();
  if (found.length === 0) return null;
  return db.transaction(steering.locks(found), async (tx) => {
    const open = (await known()).filter((run) => isUnfinished(run.state));
    const [ended] = found;
    if (open.length === 0)
      return late(found.length === 1 && ended !== undefined ? await leaveOut(steering, tx, ended) : "All of them have ended.");
    const stopped = await steering.stop(tx, open, BY);
    log.info({ audit: "stopped", runIds: stopped.map((run) => run.id) }, "runs were stopped from the page");
    return done(
      `Stopped ${plural(stopped.length, "sub-agent")}: ${stopped.slice(0, 3).map(name).join(", ")}${stopped.length > 3 ? " …" : ""}.`,
    );
  });
}

async function leaveOut(steering: SubagentParts["steering"], tx: Tx, run: Run): Promise<string> {
  const isUnsaid = await steering.leaveUnsaid(tx, run);
  return `${name(run)} has already ended${isUnsaid ? "; its announcement had not been sent yet and is left out" : ""}.`;
}

/** The chat at the top of its tree, which the new run announces to. A press that comes twice (`key`) is the same spawn (SP2). */
async function requesterOf({ stores, agents, subagents }: RunDeskDeps, tx: Tx, run: Run, key: string): Promise<Requester> {
  const agentId = agentIdOf(run.rootKey);
  const session = await ensureSessionIn(stores, tx, { key: run.rootKey, agentId, address: run.address, parentKey: null });
  const agent = agents.find(agentId);
  return {
    ...{ sessionKey: run.rootKey, sessionId: session.id, agentId, runId: null, address: run.address },
    // Theirs is the message that it goes back to; the page has no chat with anybody there.
    person: run.person ?? OPERATOR,
    ...{ turnId: `page:${key}`, spawnKey: `page:${key}` },
    tools: agent === null ? [] : subagents.mainTools(agent).map((tool) => tool.name),
  };
}
