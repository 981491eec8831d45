// A run once more (RP1): the same task, brief and parameters as a new run of the asking chat, linked to the first, with another model or
// task where somebody says so. Under today's settings and rights: what the first one might do then gives nobody anything now.
import { fromCap } from "../core/budget.ts";
import type { Run } from "../core/run.ts";
import type { Tx } from "../stores/database.ts";
import { joinMessage, splitMessage } from "./child.ts";
import type { SubagentDeps } from "./deps.ts";
import type { RequesterBrief } from "./documents/brief-params.ts";
import { type Briefing, isPerson } from "./documents/briefing.ts";
import { labelOf } from "./draft.ts";
import { oneLine } from "./quoting.ts";
import type { Spawn } from "./spawn.ts";
import type { Requester, SpawnAnswer } from "./spawn-request.ts";
import { findEntry } from "./transcript-view.ts";

export interface Changes {
  readonly model?: string;
  readonly task?: string;
}

export interface Again {
  /** What it was asked, the whole of it; null: that is on record no more. */
  taskOf(run: Run): Promise<string | null>;
  /** In the caller's transaction, under the locks of a spawn. */
  in(tx: Tx, requester: Requester, run: Run, changes: Changes): Promise<SpawnAnswer>;
}

export interface AgainDeps extends Pick<SubagentDeps, "transcripts" | "runs"> {
  readonly spawn: Spawn;
  readonly briefing: Pick<Briefing, "list" | "apply">;
}

const TASK_GONE = "Its task is on record no more: it was removed some time after it ended.";

export function createAgain(deps: AgainDeps): Again {
  const saidTo = async (run: Run): Promise<ReturnType<typeof splitMessage> | null> => {
    const opening = await openingOf(deps, run);
    return opening === null ? null : splitMessage(opening, run.params.briefing ?? "");
  };
  return {
    taskOf: async (run) => (await saidTo(run))?.task ?? null,
    async in(tx, requester, run, { model = run.model, task }) {
      const said = await saidTo(run);
      if (said === null) return { status: "error", error: TASK_GONE };
      const wanted = task ?? said.task;
      const briefs = await deps.briefing.list(run);
      const brief = briefs.find(({ requesterKey }) => requesterKey === run.requesterKey);
      const { role, systemPrompt, briefing, allowedTools, after, checks, checkRounds, resultSchema } = run.params;
      // A name that was made of its task would tell the wrong one of another.
      const isNamed = run.label !== labelOf(oneLine(said.task));
      const request = {
        ...{
          task: wanted,
          ...(isNamed ? { label: run.label } : {}),
          model,
          thinking: run.thinking,
          cleanup: run.cleanup,
          maxIterations: run.maxIterations,
        },
        runTimeoutSeconds: run.timeoutMs / 1000,
        ...(run.budget === null ? {} : { budget: fromCap(run.budget) }),
        ...(run.agentId === requester.agentId ? {} : { agentId: run.agentId }),
        ...(role === undefined ? {} : { role }),
        ...(systemPrompt === undefined ? {} : { systemPrompt }),
        ...(briefing === undefined ? {} : { briefing }),
        ...(allowedTools === undefined ? {} : { allowedTools }),
        ...(after === undefined ? {} : { after: after.ids, ifFailed: after.ifFailed }),
        ...(checks === undefined ? {} : { checks }),
        ...(checkRounds === undefined ? {} : { checkRounds }),
        ...(resultSchema === undefined ? {} : { resultSchema }),
        ...(brief === undefined ? {} : { brief: brief.brief }),
      };
      const answer = await deps.spawn.in(tx, requester, request, { opening: joinMessage({ ...said, task: wanted }), rerunOf: run.id });
      if (answer.status === "accepted") await bringAlong(deps, tx, answer.runId, briefs);
      return answer;
    },
  };
}

/** What people told the first one is part of what it was given, too. */
async function bringAlong({ runs, briefing }: AgainDeps, tx: Tx, runId: string, briefs: readonly RequesterBrief[]): Promise<void> {
  const repeated = await runs.get(runId);
  if (repeated === null) return;
  for (const { requesterKey, brief } of briefs) if (isPerson(requesterKey)) await briefing.apply(tx, repeated, requesterKey, brief);
}

/** The whole of it: the row keeps a part only. */
async function openingOf({ runs, transcripts }: AgainDeps, run: Run): Promise<string | null> {
  const kept = await runs.openingOf(run.sessionId);
  if (kept !== null) return kept.text;
  const entry = await findEntry(transcripts, run, "task");
  return entry?.type === "message" ? entry.text : null;
}
