// Holding a text against a pattern, or data against a JSON Schema, that a model wrote: in a thread that is ended when it takes too
// long, so that neither a pattern that never ends nor a schema that grows without end holds up the gateway. subagents/ is handed this by app/.
import { Worker } from "node:worker_threads";
import type { Judge } from "../core/check.ts";
import { ownEntry } from "../core/own-files.ts";

export type Job =
  | { readonly kind: "match"; readonly pattern: string; readonly text: string }
  | { readonly kind: "schema"; readonly schema: Record<string, unknown> }
  | { readonly kind: "data"; readonly schema: Record<string, unknown>; readonly candidates: readonly unknown[] };

/** `index`: which of the candidates fits. `reasons`: why not, or what is wrong with the pattern or the schema itself. */
export interface Verdict {
  readonly ok: boolean;
  readonly index?: number;
  readonly reasons?: string;
}

/** Of the thread's own time: on a busy machine a schema that is simple enough must not be refused for what others do. */
const JOB_MS = 900;
const MOST_MS = 10_000;
const LOOK_EVERY_MS = 50;
/** Until it has loaded what it needs, on a machine that is busy. */
const START_MS = 15_000;
const IDLE_MS = 30_000;
const MEMORY_MEGABYTES = 128;

/** Sent when all is loaded: the time the thread had used by then. */
export interface Begin {
  readonly cpuMs: number;
}

const cpuMsOf = async (worker: Worker): Promise<number> => {
  try {
    const { user, system } = await worker.cpuUsage();
    return (user + system) / 1000;
  } catch {
    return Number.POSITIVE_INFINITY; // It is gone.
  }
};

/** Null: it was ended because it took too long or too much memory. */
type Ask = (job: Job) => Promise<Verdict | null>;

/** One job after the other; the thread begins with the first one and ends when none came for a while. */
function createThread(): Ask {
  let worker: Worker | null = null;
  let settle: ((verdict: Verdict | null) => void) | null = null;
  let begun: ((begin: Begin) => void) | null = null;
  let last: Promise<unknown> = Promise.resolve();
  let idle: NodeJS.Timeout | undefined;

  const drop = (): void => {
    clearTimeout(idle);
    void worker?.terminate();
    worker = null;
  };
  const start = (): Worker => {
    const limits = { maxOldGenerationSizeMb: MEMORY_MEGABYTES };
    const fresh = new Worker(ownEntry("src/tools/judge-worker"), { env: {}, resourceLimits: limits });
    fresh.unref();
    // What one that was given up still says is no answer to the next question: it may have had its own ready all the while, and a
    // machine that slept looks at its timers first.
    const isCurrent = (): boolean => worker === fresh;
    fresh.on("message", (message: Verdict | Begin) => {
      if (!isCurrent()) return;
      if ("cpuMs" in message) begun?.(message);
      else settle?.(message);
    });
    fresh.on("error", () => isCurrent() && settle?.(null));
    fresh.on("exit", () => {
      if (!isCurrent()) return;
      worker = null;
      settle?.(null);
    });
    return fresh;
  };
  const ask: Ask = (job) =>
    new Promise((resolve) => {
      clearTimeout(idle);
      const busy = worker ?? start();
      worker = busy;
      let deadline = setTimeout(() => settle?.(null), START_MS);
      const mine = (verdict: Verdict | null): void => {
        settle = null;
        begun = null;
        clearTimeout(deadline);
        if (verdict === null) drop();
        else idle = setTimeout(drop, IDLE_MS).unref();
        resolve(verdict);
      };
      settle = mine;
      begun = ({ cpuMs }) => {
        const lastAt = performance.now() + MOST_MS;
        const look = async (): Promise<void> => {
          const usedMs = (await cpuMsOf(busy)) - cpuMs;
          // Answered while it was looked.
          if (settle !== mine) return;
          if (usedMs >= JOB_MS || performance.now() >= lastAt) mine(null);
          else deadline = setTimeout(() => void look(), LOOK_EVERY_MS);
        };
        clearTimeout(deadline);
        deadline = setTimeout(() => void look(), JOB_MS);
      };
      busy.postMessage(job);
    });
  return (job) => {
    const mine = last.then(() => ask(job));
    last = mine;
    return mine;
  };
}

const TOO_LONG = "it takes longer than a second, or too much memory";

export function createJudge(): Judge {
  // Two: a spawn must not wait behind the patterns of forty runs that end.
  const [patterns, schemas] = [createThread(), createThread()];
  return {
    async matches(pattern, text) {
      const verdict = await patterns({ kind: "match", pattern, text });
      return verdict === null ? null : verdict.ok;
    },
    async schemaProblem(schema) {
      const verdict = await schemas({ kind: "schema", schema: { ...schema } });
      if (verdict === null) return TOO_LONG;
      return verdict.ok ? null : (verdict.reasons ?? "it can't be used");
    },
    async fit(schema, candidates) {
      const verdict = await schemas({ kind: "data", schema: { ...schema }, candidates });
      if (verdict === null) return { misfit: `holding it against the schema: ${TOO_LONG}` };
      return verdict.ok ? { index: verdict.index ?? 0 } : { misfit: verdict.reasons || "it does not fit" };
    },
  };
}
