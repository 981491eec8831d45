// A run's briefs as the page shows and changes them (WB5). A person who gives one is one more requester (BF3): kept apart, merged when the
// child reads them, replaced and revoked by people only. Checked and written in one transaction under the lock of the run's tree, where
// its end and the briefs of models are written as well: otherwise a brief could be replaced that nobody has seen.
// web/briefs-api.ts → here → subagents/documents/briefing.ts
import { MEMORY_TIERS } from "../agents/memory.ts";
import { OPERATOR } from "../channels/web/channel.ts";
import type { Logger } from "../core/logger.ts";
import { isUnfinished, type Run } from "../core/run.ts";
import type { Tx } from "../stores/database.ts";
import { BRIEF_CAPS, parseBriefParams } from "../subagents/documents/brief-params.ts";
import type { Briefing } from "../subagents/documents/briefing.ts";
import type { Steering } from "../subagents/steering.ts";
import type { BriefChanged, BriefDesk, BriefsView } from "../web/briefs.ts";
import type { Stores } from "./store-parts.ts";

export interface BriefDeskDeps {
  readonly stores: Pick<Stores, "db" | "runs">;
  readonly briefing: Briefing;
  readonly steering: Pick<Steering, "locks">;
  readonly log: Logger;
}

/** As the child and others read who gave it. */
const PAGE = OPERATOR.name ?? OPERATOR.id;

export function createBriefDesk(deps: BriefDeskDeps): BriefDesk {
  const { runs } = deps.stores;
  return {
    async history(runId) {
      const run = await runs.get(runId);
      const form = { tiers: MEMORY_TIERS, caps: BRIEF_CAPS };
      return run === null ? null : { history: await deps.briefing.history(run), form };
    },
    async give(runId, { version, brief, replaces }) {
      const parsed = parseBriefParams(brief);
      if (!parsed.ok) return { status: "unfit", text: parsed.error };
      return change(deps, runId, version, async (tx, run) => {
        await deps.briefing.apply(tx, run, PAGE, parsed.brief, replaces === PAGE ? null : replaces);
        return "It reads this brief from its next step on. It grants nothing.";
      });
    },
    revoke: (runId, { version, from }) =>
      change(deps, runId, version, async (tx, run) =>
        (await deps.briefing.revoke(tx, run, from, PAGE)) > 0 ? "From its next step on it sees nothing of this brief." : null,
      ),
  };
}

/** `work` returns what is told, or null when there was nothing to change. */
async function change(
  { stores: { db, runs }, briefing, steering, log }: BriefDeskDeps,
  runId: string,
  version: number,
  work: (tx: Tx, run: Run) => Promise<string | null>,
): Promise<BriefChanged | null> {
  const found = await runs.get(runId);
  if (found === null) return null;
  const changed = await db.transaction(steering.locks([found]), async (tx): Promise<BriefChanged> => {
    const run = (await runs.get(runId)) ?? found;
    if (!isUnfinished(run.state)) return { status: "late", text: `It has ended (${run.state}): there is nobody left to read a brief.` };
    if ((await briefing.version(run)) !== version) return { status: "late", text: CHANGED };
    const text = await work(tx, run);
    if (text === null) return { status: "late", text: CHANGED };
    // For whoever has it open in another tab.
    tx.emit({ type: "run.changed", runId, state: run.state });
    return { status: "taken", text };
  });
  if (changed.status !== "taken") return changed;
  log.info({ audit: "brief changed", runId }, "a brief was changed on the page");
  // Whoever changes it is told that it is so: in BRIEF.md as well.
  await briefing.written();
  return changed;
}

const CHANGED = "Its briefs were changed meanwhile. Look at them again.";

/** As the open run shows them. */
export async function briefsOf({ list, version }: Pick<Briefing, "list" | "version">, run: Run): Promise<BriefsView> {
  const known = await version(run);
  const briefs = await list(run);
  return {
    briefs: briefs.map(({ requesterKey, appliedAt, brief }) => ({
      from: requesterKey,
      isOurs: requesterKey === PAGE,
      at: appliedAt,
      ...brief,
    })),
    version: known,
    isOpen: isUnfinished(run.state),
  };
}
