// Whether PostgreSQL can be worked with just now, and in words what keeps it from it. A server that is away, full or out of places
// is to everybody else what a disk that refuses is (AppError "storage"): nothing is half done, what waits goes on when it is back.
// While it is, one try a second is made for the whole process: a hundred sessions that each try would keep it down.
import { AppError, errorText } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";

export interface Reach {
  /** Null: the last try went through. */
  problem(): string | null;
  /** Throws AppError("storage") when the server is the reason; at once, without a try, when one failed within the last second. */
  attempt<T>(work: () => Promise<T>): Promise<T>;
}

export interface ReachOptions {
  readonly log: Logger;
  /** Milliseconds that never go back. */
  steady(): number;
  /** It is away, or back. */
  onChange?(): void;
}

const TRY_EVERY_MS = 1_000;

export function createReach({ log, steady, onChange }: ReachOptions): Reach {
  let known: string | null = null;
  let triedAt = 0;
  const set = (problem: string | null): void => {
    if (problem === known) return;
    const wasAway = known !== null;
    known = problem;
    // Once for each trouble, not for each try.
    if (problem !== null) log.error({}, problem);
    else log.info({}, "PostgreSQL answers again; work goes on");
    if (wasAway !== (problem !== null)) onChange?.();
  };
  return {
    problem: () => known,
    async attempt(work) {
      if (known !== null) {
        if (steady() - triedAt < TRY_EVERY_MS) throw new AppError("storage", known);
        triedAt = steady();
      }
      try {
        const result = await work();
        set(null);
        return result;
      } catch (error) {
        const { trouble, isOurs } = explain(error);
        if (trouble === null) {
          // It answered: whatever this is, the server is there.
          if (!isOurs) set(null);
          throw error;
        }
        triedAt = steady();
        set(trouble);
        throw new AppError("storage", trouble);
      }
    },
  };
}

interface Explained {
  /** What keeps PostgreSQL from being used; null: nothing, the error is about this one statement. */
  readonly trouble: string | null;
  /** Not an answer of the server at all. */
  readonly isOurs: boolean;
}

const AWAY = new Set(["ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EPIPE", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);
/** What the library says without a code. */
const CUT =
  /connection terminated|connection error|timeout exceeded when trying to connect|query read timeout|timeout expired|server closed/i;

const STATES: Readonly<Record<string, string>> = {
  "53100": "its disk is full",
  "53200": "it is out of memory for locks (max_locks_per_transaction)",
  "53300": "it takes no more connections (max_connections)",
  "57P01": "it is being shut down",
  "57P02": "it crashed and starts again",
  "57P03": "it is starting up",
  "25006": "it only reads (a replica, or default_transaction_read_only)",
  "28P01": "it refuses the password",
  "28000": "it refuses this user",
  "3D000": "there is no such database",
};

function explain(error: unknown): Explained {
  const { code = "" } = error as { code?: string };
  const text = errorText(error);
  const isState = /^[0-9A-Z]{5}$/.test(code);
  const known = STATES[code] ?? (isState && /^(?:08|53|58)/.test(code) ? text : null);
  if (known !== null) return { trouble: `PostgreSQL can't be used: ${known}. What waits goes on when it can.`, isOurs: false };
  if (AWAY.has(code) || (!isState && CUT.test(text)))
    return { trouble: "PostgreSQL can't be reached. What waits goes on when it is back.", isOurs: true };
  return { trouble: null, isOurs: !isState };
}

/** It may be there in a while: it starts, stops, is full, or the line to it was cut. No name that nobody knows, no wrong password. */
export const isAway = (error: unknown): boolean =>
  explain(error).trouble !== null && !/^(?:28|3D|25|ENOTFOUND)/.test((error as { code?: string }).code ?? "");

/** Nothing was done, and the same may go through when it is tried again: somebody else was in the way, or a plan had aged. */
export function isPassing(error: unknown): boolean {
  const { code = "" } = error as { code?: string };
  return code === "40P01" || code === "40001" || isAgedPlan(error);
}

/** A column was added by a newer version beside us: the statement was prepared for the table as it was before. */
export const isAgedPlan = (error: unknown): boolean =>
  (error as { code?: string }).code === "0A000" && /cached plan/.test(errorText(error));

/** It ran into statement_timeout. */
export const isTooSlow = (error: unknown): boolean => (error as { code?: string }).code === "57014";
