// Runs as lines of the board (WB4): what was found, with what is known of each besides, and those that sent them out.
// stores/run-search.ts, app/board.ts → here → web/runs.ts
import { parseKey } from "../core/ids.ts";
import { isUnfinished, type Run } from "../core/run.ts";
import { visibleLine } from "../core/visible-text.ts";
import type { FoundRun, RunFilter } from "../stores/run-search.ts";
import type { RunView } from "../web/board.ts";
import type { RunLine, RunLines } from "../web/runs.ts";
import { originOf } from "./board.ts";
import type { Stores } from "./store-parts.ts";

export interface RunLinesDeps {
  readonly stores: Pick<Stores, "runSearch">;
  /** As the page knows runs, in the same order. */
  viewsOf(runs: readonly Run[]): Promise<RunView[]>;
}

const MAX_OUTCOME = 200;
/** Deeper trees than agents may grow; a row that names itself leads nowhere. */
const MAX_DEPTH = 12;

export function createRunLines({ stores: { runSearch }, viewsOf }: RunLinesDeps): RunLines {
  const toLines = async (found: readonly FoundRun[]): Promise<RunLine[]> => {
    const views = await viewsOf(found.map(({ run }) => run));
    return found.flatMap(({ run, rank, seq }, n) => {
      const view = views[n];
      return view === undefined ? [] : [{ ...view, rank, seq, ...ofRecord(run) }];
    });
  };
  const aboveOf = async (rows: readonly FoundRun[]): Promise<FoundRun[]> => {
    const known = new Set(rows.map(({ run }) => run.id));
    const above: FoundRun[] = [];
    let next = rows;
    for (let depth = 0; depth < MAX_DEPTH; depth++) {
      const wanted = [...new Set(next.flatMap(({ run }) => run.requesterRunId ?? []))].filter((id) => !known.has(id));
      if (wanted.length === 0) break;
      next = await runSearch.among({}, wanted);
      for (const { run } of next) known.add(run.id);
      above.push(...next);
    }
    return above;
  };
  return {
    async page(filter, after, limit) {
      const { found, next } = await runSearch.page(filter, after, limit);
      return { rows: await toLines(found), above: await toLines(await aboveOf(found)), next };
    },
    among: async (filter, ids) => toLines(await runSearch.among(filter, ids)),
    totals: (filter) => totalsOf(runSearch, filter),
  };
}

async function totalsOf(runSearch: Stores["runSearch"], filter: RunFilter): ReturnType<RunLines["totals"]> {
  const totals = await runSearch.totals(filter);
  const { rootKeys, ...facets } = await runSearch.facets();
  const chats = rootKeys.flatMap((key) => {
    const parsed = parseKey(key);
    return parsed?.kind === "chat" ? [{ key, parsed }] : [];
  });
  return {
    ...totals,
    ...facets,
    channels: [...new Set(chats.map(({ parsed }) => parsed.channel))].sort(),
    chats: chats.map(({ key, parsed }) => ({ key, origin: originOf(parsed), chat: parsed.channel === "web" ? parsed.chat : null })),
  };
}

const ofRecord = (run: Run): Pick<RunLine, "agentId" | "model" | "sessionKey" | "outcome" | "hasBudget"> => ({
  ...{ agentId: run.agentId, model: run.model, sessionKey: run.rootKey, hasBudget: run.budget !== null },
  outcome: outcomeOf(run),
});

function outcomeOf(run: Run): string | null {
  const said = run.delivery === "blocked" ? run.deliveryReason : (run.reason ?? run.sections?.summary ?? null);
  if (said === null || isUnfinished(run.state)) return null;
  return visibleLine(said, MAX_OUTCOME);
}
