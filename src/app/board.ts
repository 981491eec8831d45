// Runs as the page shows them: one line each for the board, everything on record for the one that is open.
// stores, lane → RunView, RunDetail → web/board.ts
import { Trace } from "../brief/trace.ts";
import type { Address } from "../core/address.ts";
import { errorText } from "../core/errors.ts";
import { shortId } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import { isUnfinished, type Run, stepOf } from "../core/run.ts";
import { totalTokens } from "../core/usage.ts";
import type { Lane } from "../lanes/lanes.ts";
import { isTopicNote } from "../stores/transcript-entry.ts";
import type { readTranscriptPage } from "../stores/transcript-page.ts";
import type { Archiver } from "../subagents/archive.ts";
import { transcriptOfRun } from "../subagents/deps.ts";
import { BRIEF_FILE } from "../subagents/documents/briefing.ts";
import { ownEntries } from "../subagents/documents/run-documents.ts";
import { readTraceEnd, TRACE_FILE } from "../subagents/documents/trace-file.ts";
import { TASK_PREVIEW } from "../subagents/spawn.ts";
import type { Board, RunDetail, RunDetails, RunView } from "../web/board.ts";
import type { Stores } from "./store-parts.ts";

export interface RunBoardDeps {
  readonly stores: Pick<Stores, "runs" | "transcripts" | "sessionDocuments">;
  readonly lane: Pick<Lane, "positions" | "stranded">;
  readonly archiver: Pick<Archiver, "dueAt">;
  readonly log: Logger;
}

/** A trace has no end; the page shows its newest entries. */
const MAX_DOCUMENT_BYTES = 32 * 1024;

export function createRunBoard(deps: RunBoardDeps): { board: Board; details: RunDetails } {
  const { runs, transcripts } = deps.stores;
  const views = async (list: readonly Run[]): Promise<RunView[]> => {
    const waiting = list.filter((run) => isUnfinished(run.state)).map((run) => run.id);
    const places = await deps.lane.positions(waiting);
    const stranded = await deps.lane.stranded?.(waiting);
    return list.map((run) => toView({ ...run, doing: stranded?.get(run.id) ?? run.doing }, places.get(run.id) ?? null));
  };
  return {
    board: { listRuns: async ({ limit }) => views(await listRuns(deps, limit)) },
    details: {
      async find(id) {
        const run = await runs.get(id);
        const [view] = run === null ? [] : await views([run]);
        return run === null || view === undefined ? null : { run: view, ...recordOf(deps, run), ...(await documentsOf(deps, run)) };
      },
      async transcript(id, range) {
        const run = await runs.get(id);
        if (run === null) return null;
        try {
          return await transcripts.page(transcriptOfRun(run), { ...range, fits: isShown });
        } catch (error) {
          // Gone, or something else in its place: there is none to show.
          if (/^(?:ENOENT|EISDIR|ENOTDIR)$/.test((error as NodeJS.ErrnoException).code ?? "")) return null;
          throw error;
        }
      },
    },
  };
}

/** The announce step is the runtime talking to the child (AN5); a message that only calls tools has no words. */
const isShown: Parameters<typeof readTranscriptPage>[1]["fits"] = (entry) =>
  entry.phase !== "announce" && !isTopicNote(entry) && (entry.type !== "message" || entry.text.trim() !== "");

/** All that need a person, all unfinished ones, and the newest others. */
async function listRuns({ stores: { runs } }: RunBoardDeps, limit: number): Promise<Run[]> {
  const waiting = (await runs.listBlocked(limit)).filter((run) => !isUnfinished(run.state));
  const rest = (await runs.listRecent(limit)).filter((run) => !isUnfinished(run.state) && run.delivery !== "blocked");
  return [...waiting, ...(await runs.listUnfinished(limit)), ...rest].slice(0, limit);
}

function toView(run: Run, position: number | null): RunView {
  const { id, label, state, delivery, requesterKey, depth, createdAt, startedAt, endedAt, doing, spend } = run;
  return {
    id,
    shortId: shortId(id),
    label,
    state,
    delivery,
    requesterKey,
    parentId: run.requesterRunId,
    origin: originOf(run.address),
    chat: run.address.channel === "web" ? run.address.chat : null,
    depth,
    createdAt,
    startedAt,
    endedAt,
    doing,
    step: isUnfinished(state) ? stepOf(run.plan) : null,
    tokens: spend.usage === null ? null : totalTokens(spend.usage),
    costUsd: spend.costUsd,
    position,
  };
}

const originOf = ({ channel, chat, thread }: Address): string => `${channel} ${chat}${thread === undefined ? "" : `, thread ${thread}`}`;

function recordOf({ stores, archiver }: RunBoardDeps, run: Run): Omit<RunDetail, "run"> {
  const { childKey, sessionId, agentId, model, thinking, cleanup, archivedAt, deliveryReason, generation, resumes } = run;
  const transcript = stores.transcripts.path(transcriptOfRun(run));
  const about = { childKey, sessionId, agentId, role: run.params.role ?? null, transcript, model, thinking, usage: run.spend.usage };
  const state = { cleanup, archivedAt, archiveDueAt: archiver.dueAt(run), deliveryReason, generation, resumes };
  return {
    task: run.task.length < TASK_PREVIEW ? run.task : `${run.task}… (the transcript has it all)`,
    reason: run.reason,
    incomplete: run.incomplete,
    facts: { ...about, ...state },
    ...(run.plan === null ? {} : { plan: run.plan }),
    ...(run.sections === null ? {} : { sections: run.sections }),
  };
}

/** What stands beside the child's transcript. A document nobody could read is left out: the record is shown all the same. */
async function documentsOf({ stores, log }: RunBoardDeps, run: Run): Promise<Pick<RunDetail, "brief" | "trace">> {
  const { sessionDocuments } = stores;
  const attempt = async <T>(name: string, read: () => Promise<T>): Promise<T | null> => {
    try {
      return await read();
    } catch (error) {
      log.warn({ runId: run.id, name, reason: errorText(error) }, "a document of a run can't be read");
      return null;
    }
  };
  const brief = await attempt(BRIEF_FILE, () => sessionDocuments.read(run, BRIEF_FILE, MAX_DOCUMENT_BYTES));
  const trace = (await attempt(TRACE_FILE, () => readTraceEnd(sessionDocuments, run, MAX_DOCUMENT_BYTES))) ?? "";
  const entries = ownEntries(run, Trace.parse(trace).getEntries());
  return { ...(brief === null ? {} : { brief }), ...(entries.length === 0 ? {} : { trace: entries }) };
}
