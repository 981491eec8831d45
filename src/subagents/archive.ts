// Archiving child sessions: `archiveAfterMinutes` after the run ended and its announcement was settled, or at once with
// cleanup "delete". The transcript is renamed, not removed (that is purge.ts); run record, usage and cost stay. Due times
// are derived from a stored time, so a changed setting applies to those that wait; one ticker looks for what is due.
import { fileStamp } from "../core/clock.ts";
import { isStorageError } from "../core/errors.ts";
import type { Run } from "../core/run.ts";
import type { Tx } from "../stores/database.ts";
import { lock } from "../stores/lock-keys.ts";
import { MAX_DEATHS } from "../stores/tries.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import { type PurgeDeps, purgeOld } from "./purge.ts";

export interface Archiver {
  /** Looks at once and then regularly until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
  /** Null: never, or not settled yet. */
  dueAt(run: Run): number | null;
}

type Deps = PurgeDeps & Pick<SubagentDeps, "sessions" | "bus" | "tries" | "failpoint">;

const LOOK_EVERY_MS = 15_000;
const BATCH = 100;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 3_600_000;

export function createArchiver(deps: Deps): Archiver {
  return {
    async run(signal) {
      let wake = new AbortController();
      const off = deps.bus.on((event) => {
        if (event.type === "run.settled" && event.cleanup === "delete") wake.abort();
      });
      let purgedAt = 0;
      // Begun before a crash: finished whatever the settings say now, or the row would miss its file.
      await attempt(deps, () => archiveLeft(deps));
      while (!signal.aborted) {
        await attempt(deps, () => archiveDue(deps));
        if (deps.clock.now() - purgedAt > DAY_MS) {
          await attempt(deps, () => purgeOld(deps));
          purgedAt = deps.clock.now();
        }
        await deps.clock.sleep(LOOK_EVERY_MS, AbortSignal.any([signal, wake.signal]));
        if (wake.signal.aborted) wake = new AbortController();
      }
      off();
    },
    dueAt(run) {
      const { archiveAfterMinutes } = deps.settings();
      if (run.settledAt === null || (run.cleanup === "keep" && archiveAfterMinutes === 0)) return null;
      return run.cleanup === "delete" ? run.settledAt : run.settledAt + archiveAfterMinutes * MINUTE_MS;
    },
  };
}

/** The next look makes good what this one could not do. */
async function attempt({ log }: Deps, chore: () => Promise<void>): Promise<void> {
  try {
    await chore();
  } catch (error) {
    log.error({ err: error }, "archiving was put off");
  }
}

/** What a process before this one began; the file may be what ended it. */
async function archiveLeft(deps: Deps): Promise<void> {
  for (const run of await deps.runs.listHalfArchived()) {
    const work = `archive:${run.id}`;
    const deaths = await deps.tries.begin(work);
    if (deaths < MAX_DEATHS) await archiveAll(deps, [run]);
    else {
      const path = deps.transcripts.path(transcriptOfRun(run));
      deps.log.error({ runId: run.id, path, deaths }, "archiving this transcript ends the gateway; the file is left as it is");
      await deps.db.transaction([lock.tree(run.rootKey)], async (tx) => {
        if (await isStill(deps, run)) await recordArchived(deps, tx, run);
      });
    }
    await deps.tries.end(work);
  }
}

async function archiveDue(deps: Deps): Promise<void> {
  const { archiveAfterMinutes } = deps.settings();
  const before = archiveAfterMinutes === 0 ? null : deps.clock.now() - archiveAfterMinutes * MINUTE_MS;
  for (let due = await deps.runs.listArchiveDue(before, BATCH); due.length > 0; due = await deps.runs.listArchiveDue(before, BATCH)) {
    if (!(await archiveAll(deps, due))) return;
  }
}

/** False: something is left and tried again later. One bad file doesn't hold up the others, a disk that refuses does. */
async function archiveAll(deps: Deps, runs: readonly Run[]): Promise<boolean> {
  let isComplete = true;
  for (const run of runs) {
    try {
      await archive(deps, run);
    } catch (error) {
      deps.log.error({ err: error, runId: run.id }, "a transcript could not be archived; trying again later");
      isComplete = false;
      if (isStorageError(error)) break;
    }
  }
  return isComplete;
}

/**
 * The name is stored before the rename, so that doing it again after a crash makes the same one. Each step looks first whether the run
 * has gone on since: its file would be taken from under it.
 */
async function archive(deps: Deps, run: Run): Promise<void> {
  const name = run.archiveName ?? `${run.sessionId}.jsonl.deleted.${fileStamp(deps.clock.now())}`;
  const isNamed = await deps.db.transaction([lock.tree(run.rootKey)], async (tx) => {
    if (!(await isStill(deps, run))) return false;
    await deps.runs.setArchiveName(tx, run.id, name);
    return true;
  });
  if (!isNamed) return;
  deps.failpoint("archive.named");
  await deps.db.transaction([lock.tree(run.rootKey)], async (tx) => {
    if (!(await isStill(deps, { ...run, archiveName: name }))) return;
    if (!(await deps.transcripts.archive({ agentId: run.agentId, sessionId: run.sessionId }, name))) {
      deps.log.error(
        { runId: run.id, path: deps.transcripts.path(transcriptOfRun(run)) },
        "there is no transcript to archive: somebody removed it",
      );
    }
    deps.failpoint("archive.renamed");
    await recordArchived(deps, tx, run);
  });
  deps.failpoint("archive.recorded");
}

/** It has not gone on since it was looked up, and nobody has named or archived it meanwhile. */
async function isStill({ runs }: Deps, { id, generation, archiveName }: Run): Promise<boolean> {
  const fresh = await runs.get(id);
  return fresh !== null && fresh.generation === generation && fresh.archiveName === archiveName && fresh.archivedAt === null;
}

async function recordArchived(deps: Deps, tx: Tx, run: Run): Promise<void> {
  await deps.runs.setArchived(tx, run.id);
  await deps.sessions.end(tx, run.sessionId);
}
