// Runs as the page shows them: one line each for the board, everything on record for the one that is open.
// stores, lane → RunView, RunDetail → web/board.ts
import { Trace } from "../brief/trace.ts";
import type { Payments } from "../budgets/payments.ts";
import { spentWords } from "../budgets/words.ts";
import type { Address } from "../core/address.ts";
import { type LevelNow, shareOf } from "../core/budget.ts";
import type { Clock } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import { programNameOf, shortId } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import { programLabel } from "../core/program.ts";
import { isUnfinished, type Run, stepOf } from "../core/run.ts";
import { totalTokens } from "../core/usage.ts";
import { visibleLine } from "../core/visible-text.ts";
import type { Lane } from "../lanes/lanes.ts";
import type { Again } from "../subagents/again.ts";
import { raiseButton } from "../subagents/announcement.ts";
import type { Archiver } from "../subagents/archive.ts";
import { transcriptOfRun } from "../subagents/deps.ts";
import type { Briefing } from "../subagents/documents/briefing.ts";
import { ownEntries } from "../subagents/documents/run-documents.ts";
import { readTraceEnd, TRACE_FILE } from "../subagents/documents/trace-file.ts";
import { TASK_PREVIEW } from "../subagents/draft.ts";
import { dataMarkdown } from "../subagents/typed-result.ts";
import type { Board, RunDetail, RunDetails, RunLink, RunView, SpentView } from "../web/board.ts";
import { briefsOf } from "./brief-desk.ts";
import { isShown, missing } from "./run-record.ts";
import type { Stores } from "./store-parts.ts";

export interface RunBoardDeps {
  readonly stores: Pick<Stores, "runs" | "transcripts" | "sessionDocuments" | "questions" | "groups" | "digests" | "mail">;
  readonly lane: Pick<Lane, "positions" | "stranded">;
  readonly archiver: Pick<Archiver, "dueAt">;
  readonly payments: Pick<Payments, "ownLevels">;
  readonly again: Pick<Again, "taskOf">;
  readonly briefing: Pick<Briefing, "list" | "version">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A trace has no end; the page shows its newest entries. */
const MAX_DOCUMENT_BYTES = 32 * 1024;

export interface RunBoard {
  readonly board: Board;
  readonly details: RunDetails;
  /** As the page knows these, in the same order. */
  viewsOf(runs: readonly Run[]): Promise<RunView[]>;
}

export function createRunBoard(deps: RunBoardDeps): RunBoard {
  const { runs, transcripts } = deps.stores;
  const views = async (list: readonly Run[]): Promise<RunView[]> => {
    const waiting = list.filter((run) => isUnfinished(run.state)).map((run) => run.id);
    const places = await deps.lane.positions(waiting);
    const stranded = await deps.lane.stranded?.(waiting);
    const levels = await deps.payments.ownLevels(list);
    const names = await groupNames(deps, list);
    const digestTimes = await deps.stores.digests.dueTimes(list.filter(({ delivery }) => delivery === "pending").map(({ id }) => id));
    return list.map((run) => ({
      ...toView({ ...run, doing: stranded?.get(run.id) ?? run.doing }),
      position: places.get(run.id) ?? null,
      limit: toSpent(levels.get(run.id)),
      group: names.get(run.groupId ?? "") ?? null,
      digestAt: digestTimes.get(run.id) ?? null,
    }));
  };
  return {
    viewsOf: views,
    board: { listRuns: async ({ limit }) => views(await listRuns(deps, limit)) },
    details: {
      async find(id) {
        const run = await runs.get(id);
        const [view] = run === null ? [] : await views([run]);
        if (run === null || view === undefined) return null;
        return { run: view, ...recordOf(deps, run), ...(await besidesOf(deps, run)) };
      },
      ...createComparing(deps),
      async transcript(id, range) {
        const run = await runs.get(id);
        if (run === null) return null;
        try {
          return await transcripts.page(transcriptOfRun(run), { ...range, fits: isShown });
        } catch (error) {
          return missing(error, null);
        }
      },
    },
  };
}

async function groupNames({ stores: { groups } }: RunBoardDeps, runs: readonly Run[]): Promise<ReadonlyMap<string, string>> {
  const ids = new Set(runs.flatMap(({ groupId }) => groupId ?? []));
  const found = await Promise.all([...ids].map((id) => groups.get(id)));
  return new Map(found.flatMap((group) => (group === null ? [] : [[group.id, group.name]])));
}

type Beside = Pick<RunDetail, "repeats" | "repeatedBy" | "children" | "unread" | "briefing" | "trace">;

/** What is not in the row itself. */
const besidesOf = async (deps: RunBoardDeps, run: Run): Promise<Beside> => ({
  ...(await repetitionsOf(deps, run)),
  children: (await deps.stores.runs.listOf(run.childKey, MAX_CHILDREN)).map(toLink),
  unread: (await deps.stores.mail.listForRun(run.id)).map(({ entryId, from, text }) => ({ id: entryId, from, text })),
  briefing: await briefsOf(deps.briefing, run),
  ...(await traceOf(deps, run)),
});

const MAX_RELATED = 20;
const MAX_CHILDREN = 100;
/** Of an id as it is shown; a platform's may be 255 bytes long. */
const MAX_ID = 120;

const toLink = ({ id, label, state, createdAt }: Run): RunLink => ({ id, shortId: shortId(id), label, state, createdAt });

async function repetitionsOf({ stores: { runs } }: RunBoardDeps, run: Run): Promise<Pick<RunDetail, "repeats" | "repeatedBy">> {
  const first = run.rerunOf === null ? null : await runs.get(run.rerunOf);
  return { repeats: first === null ? null : toLink(first), repeatedBy: (await runs.listRerunsOf(run.id, MAX_RELATED)).map(toLink) };
}

/** A run once more, and two side by side (RP), as the page asks for them. */
function createComparing(deps: RunBoardDeps): Pick<RunDetails, "task" | "related" | "compare"> {
  const { runs, transcripts } = deps.stores;
  return {
    async task(id) {
      const run = await runs.get(id);
      return run === null ? null : { task: await deps.again.taskOf(run), model: run.model };
    },
    async related(id) {
      const run = await runs.get(id);
      if (run === null) return null;
      const repetitions = await repetitionsOf(deps, run);
      const known = new Set([id, run.rerunOf, ...repetitions.repeatedBy.map((one) => one.id)]);
      // Its own requester's first, then the chat's at the top of its tree.
      const requesters = [...new Set([run.requesterKey, run.rootKey])];
      const others = (await Promise.all(requesters.map((key) => runs.listOf(key, MAX_RELATED * 2)))).flat();
      return {
        ...repetitions,
        others: others
          .filter((one) => !known.has(one.id))
          .slice(0, MAX_RELATED)
          .map(toLink),
      };
    },
    async compare(id, otherId) {
      const [one, other] = [await runs.get(id), await runs.get(otherId)];
      if (one === null || other === null) return null;
      const { CUT_NOTE, compare, gather } = await import("../subagents/compare.ts");
      const { fields, link, results } = compare(await gather(transcripts, one), await gather(transcripts, other), deps.clock.now());
      const about = "said" in results ? { patch: null, note: results.said } : { patch: results.patch, note: results.isCut ? CUT_NOTE : "" };
      return { one: toLink(one), other: toLink(other), fields, link, ...about };
    },
  };
}

/** All that need a person, all unfinished ones, and the newest others. */
async function listRuns(deps: RunBoardDeps, limit: number): Promise<Run[]> {
  const { runs } = deps.stores;
  const waiting = (await runs.listBlocked(limit)).filter((run) => !isUnfinished(run.state));
  const rest = (await runs.listRecent(limit)).filter((run) => !isUnfinished(run.state) && run.delivery !== "blocked");
  const unfinished = await runs.listUnfinished(limit);
  return [...waiting, ...(await listAsking(deps, limit, unfinished)), ...unfinished, ...rest].slice(0, limit);
}

/** Those that ask and are not among these: a newer one would have no place on a board that is full of older ones. */
async function listAsking({ stores: { runs, questions } }: RunBoardDeps, limit: number, shown: readonly Run[]): Promise<Run[]> {
  if (shown.length < limit) return [];
  const known = new Set(shown.map((run) => run.id));
  const asked = new Set((await questions.listAllOpen(limit)).flatMap(({ runId }) => (runId === null || known.has(runId) ? [] : [runId])));
  const asking = await Promise.all([...asked].map((id) => runs.get(id)));
  return asking.filter((run) => run !== null && isUnfinished(run.state)) as Run[];
}

const toSpent = (level: LevelNow | undefined): SpentView | null =>
  level === undefined ? null : { ...spentWords(level), share: shareOf(level) };

/** The row alone; what else is known of it others add. */
function toView(run: Run): Omit<RunView, "position" | "limit" | "group" | "digestAt"> {
  const { id, label, state, delivery, requesterKey, depth, createdAt, startedAt, endedAt, doing, spend } = run;
  return {
    id,
    shortId: shortId(id),
    label,
    state,
    delivery,
    requesterKey,
    parentId: run.requesterRunId,
    origin: originOfRun(run),
    chat: run.address.channel === "web" ? run.address.chat : null,
    depth,
    generation: run.generation,
    createdAt,
    startedAt,
    endedAt,
    doing,
    step: isUnfinished(state) ? stepOf(run.plan) : null,
    tokens: spend.usage === null ? null : totalTokens(spend.usage),
    costUsd: spend.costUsd,
    isAsking: state === "waiting" && run.waits.some((wait) => wait.for === "answer"),
    goOn: isUnfinished(state) ? null : raiseButton(run, run.reason),
    rerunOf: run.rerunOf,
  };
}

/** A program's are its own, whatever chat they are announced in (PR3). */
function originOfRun({ rootKey, address }: Pick<Run, "rootKey" | "address">): string {
  const name = programNameOf(rootKey);
  return name === null ? originOf(address) : programLabel({ name });
}

/** Ids are what others chose. */
export const originOf = ({ channel, chat, thread }: Pick<Address, "channel" | "chat" | "thread">): string =>
  `${channel} ${visibleLine(chat, MAX_ID)}${thread === undefined ? "" : `, thread ${visibleLine(thread, MAX_ID)}`}`;

function recordOf(
  { stores, archiver }: RunBoardDeps,
  run: Run,
): Omit<RunDetail, "run" | "repeats" | "repeatedBy" | "children" | "unread" | "briefing"> {
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
    ...(run.checks === null ? {} : { checks: run.checks }),
    ...(run.data === null ? {} : { data: dataMarkdown(run.data) }),
  };
}

/** From beside the child's transcript. One that nobody could read is left out: the record is shown all the same. */
async function traceOf({ stores, log }: RunBoardDeps, run: Run): Promise<Pick<RunDetail, "trace">> {
  try {
    const trace = (await readTraceEnd(stores.sessionDocuments, run, MAX_DOCUMENT_BYTES)) ?? "";
    const entries = ownEntries(run, Trace.parse(trace).getEntries());
    return entries.length === 0 ? {} : { trace: entries };
  } catch (error) {
    log.warn({ runId: run.id, name: TRACE_FILE, reason: errorText(error) }, "a document of a run can't be read");
    return {};
  }
}
