// `brief: {fromTurns: n}` (RP3): the requester's last turns, summed up by its own model into a brief within BF1's caps. A call like every
// other: paid from the requester's purse, on its account, stopped with its turn. Made before the transaction of what it is for, because
// nobody may wait behind a model; killed in between, nothing was promised and it is simply made again.
import { askForSummary, END_MARK, windowChars } from "../../agents/compact.ts";
import { lastTurns } from "../../agents/last-turns.ts";
import { abortAfter } from "../../core/clock.ts";
import { FENCE_RULE, fence, newFenceToken } from "../../core/fence.ts";
import type { Run } from "../../core/run.ts";
import type { ToolContext } from "../../core/tool.ts";
import type { Account } from "../../core/usage.ts";
import { cutText } from "../../core/visible-text.ts";
import { PASSING } from "../../stores/database.ts";
import { childFallbacks } from "../child.ts";
import { childAccount } from "../child-steps.ts";
import type { SubagentDeps } from "../deps.ts";
import { messageOf } from "../draft.ts";
import { type BriefParams, type BriefRequest, briefWithin } from "./brief-params.ts";

export interface BriefSummaryDeps
  extends Pick<SubagentDeps, "db" | "agents" | "sessions" | "runs" | "models" | "payments" | "transcripts" | "clock" | "failpoint"> {
  redact(text: string): string;
}

/** Whose turns they are. */
export type SumsUp = Pick<ToolContext, "agentId" | "sessionKey" | "sessionId" | "runId" | "address" | "person" | "turnId"> & {
  /** What pays for it, where that is another message than the turn's own. */
  readonly message?: string | undefined;
  readonly signal?: AbortSignal;
};

export type Briefed = { readonly brief: BriefParams } | { readonly refused: string };

export interface BriefSummary {
  /** What is asked for as a brief: as it is, or summed up. `task`: what it is for. */
  of(requester: SumsUp, request: BriefRequest, task: string): Promise<Briefed>;
}

/** Who is sent out waits for it, and so does the turn that sends. */
const LIMIT_MS = 60_000;
/** More would cost more than it tells in five hundred bytes and twenty lines. */
const MAX_CHARS = 60_000;
const WINDOW_SHARE = 0.5;
const MAX_TASK = 2_000;

const SYSTEM = `[BRIEF] You write the brief of a helper who is sent out of a conversation and knows nothing of it. From the conversation below take what it needs for its task: what is wanted and why, what was decided, names, paths and figures, what it must not do.
First one paragraph of at most 450 bytes. Then at most 15 lines that begin with "- ", each of at most 180 characters. No preamble, no headings; the last line is ${END_MARK}. ${FENCE_RULE}`;

export function createBriefSummary(deps: BriefSummaryDeps): BriefSummary {
  return {
    async of(requester, { fromTurns, mission, ...rest }, task) {
      if (fromTurns === undefined) return { brief: { mission: mission ?? "", ...rest } };
      const run = requester.runId === null ? null : await deps.runs.get(requester.runId);
      const paying = await payingOf(deps, requester, run);
      if (paying === null) return { refused: refusal("there is no chat that it could be paid for by") };
      const ref = { agentId: requester.agentId, sessionId: requester.sessionId };
      const maxChars = Math.min(MAX_CHARS, Math.floor(windowChars(deps.models, paying.model) * WINDOW_SHARE));
      const said = await lastTurns(deps.transcripts, ref, { turns: fromTurns, maxChars });
      if (said.text === "") return { refused: refusal("nothing was said yet") };
      const text = [
        fence({ source: `the end of a conversation${said.isCut ? ", without its beginning" : ""}`, text: said.text }, newFenceToken()),
        fence({ source: "the helper's task", text: cutText(task, MAX_TASK) }, newFenceToken()),
        "Write the brief.",
      ].join("\n\n");
      const limit = new AbortController();
      const endLimit = abortAfter(deps.clock, LIMIT_MS, limit, "over");
      const { signal } = requester;
      const over = signal === undefined ? limit.signal : AbortSignal.any([signal, limit.signal]);
      const summed = await askForSummary(deps, { ref, ...paying, signal: over }, { system: SYSTEM, text }).finally(endLimit);
      deps.failpoint("brief.summed-up");
      const isLate = limit.signal.aborted && signal?.aborted !== true;
      if (!summed.ok) return { refused: refusal(isLate ? `that took longer than ${LIMIT_MS / 1000} seconds` : summed.reason) };
      // Redacted before it is cut: half a secret has no name.
      const brief = briefWithin(deps.redact(summed.text), rest);
      return brief === null ? { refused: refusal("the model said nothing") } : { brief };
    },
  };
}

const refusal = (reason: string): string =>
  `Brief refused: brief.fromTurns: the last turns could not be summed up: ${reason.replace(/\.$/, "")}. Give a mission in your own words instead.`;

interface Paying {
  readonly model: string;
  readonly fallbacks: readonly string[];
  readonly account: Account;
}

/** As the turn that asks is paid for; null: nobody is there who could. */
async function payingOf(deps: BriefSummaryDeps, requester: SumsUp, run: Run | null): Promise<Paying | null> {
  const agent = deps.agents.find(requester.agentId);
  if (agent === null) return null;
  if (run !== null) {
    const account = childAccount(deps, run, await deps.payments.ofRun(run));
    return { model: run.model, fallbacks: childFallbacks(agent, run.model), account };
  }
  const { sessionId, sessionKey, agentId, address, person } = requester;
  const own = (await deps.sessions.get(sessionId))?.model ?? null;
  if (address === null) return null;
  const purse = deps.payments.ofTurn({ message: messageOf(requester), sessionKey, agentId, address, person });
  return {
    model: own ?? agent.model,
    fallbacks: own === null ? agent.fallbacks : [],
    account: {
      ...(purse === undefined ? {} : { purse }),
      settle: (spend, model) =>
        deps.db.transaction([], (tx) => deps.sessions.addSpend(tx, { id: sessionId, agentId, address }, model, spend, person), PASSING),
    },
  };
}
