// A server that asks back while one of its tools runs (QA5). The protocol doesn't say for which call it asks: that is known only as long
// as all of its open calls are of one conversation; otherwise one chat's people would be asked for another's, so it is declined. The time
// a person takes is not the server's: the limit of a call stands still meanwhile. mcp-server.ts → here → app → questions/elicitation.ts
import type { ElicitationRequest, ElicitResult } from "@ai-sdk/mcp";
import type { ToolContext } from "../core/tool.ts";

/** What a server wants to know, and of which shape the answer must be (a JSON schema). */
export interface Elicited {
  readonly server: string;
  readonly message: string;
  readonly schema: unknown;
}

export type Elicit = (elicited: Elicited, context: ToolContext) => Promise<ElicitResult>;

export interface OpenCalls {
  /** One call under its time limit; aborted when that is over, or when its turn is. */
  run<T>(context: ToolContext, limitMs: number, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
  answer(server: string, params: ElicitationRequest["params"]): Promise<ElicitResult>;
}

interface OpenCall {
  readonly context: ToolContext;
  readonly over: AbortSignal;
  readonly limit: Limit;
}

const DECLINED: ElicitResult = { action: "decline" };

export function createOpenCalls(elicit: Elicit | undefined): OpenCalls {
  const open = new Set<OpenCall>();
  return {
    async run(context, limitMs, work) {
      const limit = createLimit(limitMs);
      const over = AbortSignal.any([context.signal, limit.signal]);
      const call = { context, limit, over };
      open.add(call);
      try {
        return await work(over);
      } catch (error) {
        throw limit.signal.aborted && !context.signal.aborted ? limit.signal.reason : error;
      } finally {
        limit.end();
        open.delete(call);
      }
    },
    async answer(server, { message, requestedSchema, ...more }) {
      const calls = [...open];
      const [first] = calls;
      const isOneChat = new Set(calls.map(({ context }) => context.sessionId)).size === 1;
      // Only forms: an address to open in a browser is nothing a chat can answer.
      if (elicit === undefined || first === undefined || !isOneChat || (more.mode ?? "form") !== "form") return DECLINED;
      for (const { limit } of calls) limit.pause();
      try {
        return await elicit({ server, message, schema: requestedSchema }, { ...first.context, signal: first.over });
      } finally {
        for (const { limit } of calls) limit.goOn();
      }
    },
  };
}

interface Limit {
  readonly signal: AbortSignal;
  pause(): void;
  goOn(): void;
  end(): void;
}

function createLimit(ms: number): Limit {
  const over = new AbortController();
  let leftMs = ms;
  let startedAt = 0;
  let timer: NodeJS.Timeout | undefined;
  /** Two questions may be open at once. */
  let pauses = 1;
  const goOn = (): void => {
    pauses--;
    if (pauses > 0 || over.signal.aborted) return;
    startedAt = performance.now();
    timer = setTimeout(() => over.abort(new Error(`Request timed out after ${ms}ms`)), leftMs);
  };
  goOn();
  return {
    signal: over.signal,
    goOn,
    pause() {
      pauses++;
      if (pauses > 1) return;
      clearTimeout(timer);
      leftMs = Math.max(0, leftMs - (performance.now() - startedAt));
    },
    end() {
      // Whoever still goes on afterwards must start no timer.
      pauses = Number.POSITIVE_INFINITY;
      clearTimeout(timer);
    },
  };
}
