// The budget is used up: one last call, without tools, from what the run kept since its start (BG4), so that there is a result. It is
// shown its task and the end of its work, not the whole conversation: that is what it can't pay for any more.
import { lastAssistantText } from "../agents/context.ts";
import type { TurnEnd } from "../agents/turn.ts";
import { FENCE_RULE, fence, newFenceToken, withoutFences } from "../core/fence.ts";
import type { Run } from "../core/run.ts";
import { cutText, visibleText } from "../core/visible-text.ts";
import type { ModelReply } from "../models/model.ts";
import type { Entry } from "../stores/transcript-entry.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import type { Ending } from "./outcome.ts";

type Deps = Pick<SubagentDeps, "transcripts" | "models" | "payments" | "sessions" | "runs" | "db" | "log">;

const LOOK_BACK = 60;
/** In characters. In most languages all of them fit what is kept; where they don't they are made shorter until they do. */
const MAX_TASK = 600;
const MAX_WORDS = 1_200;
const MAX_SEEN = 1_200;

const SHARES = [1, 1 / 2, 1 / 4, 1 / 8];

const SYSTEM = `You are a sub-agent whose budget is used up. This is your last message: no tools, a few sentences. ${FENCE_RULE}`;
const QUESTION = "Your budget is used up. From what stands above, write the result as far as you have it, and say plainly what is missing.";

export async function land(deps: Deps, run: Run, end: TurnEnd, signal: AbortSignal): Promise<Ending> {
  const reason = (end.reason ?? "its budget is used up").replace(/\.$/, "");
  const ending = { as: "done", reason, incomplete: true, isUnpaid: true, notice: end.notice } as const;
  const ref = transcriptOfRun(run);
  const id = `landing:${run.generation}`;
  const entries = await deps.transcripts.tail(ref, LOOK_BACK);
  const known = entries.find((entry) => entry.id === id);
  // Killed behind it: the call is paid for and said.
  if (known?.type === "message") return { ...ending, words: known.text };
  const reply = await lastCall(deps, run, entries, signal);
  const { usage, costUsd, model } = reply;
  await deps.db.transaction([], async (tx) => {
    await deps.sessions.addSpend(tx, run.sessionId, model, { usage, costUsd }, run.person);
    await deps.runs.addSpend(tx, run.id, { usage, costUsd });
  });
  const text = visibleText(reply.text).trim();
  if (reply.outcome !== "ok" || text === "") {
    deps.log.info({ runId: run.id, reason: reply.error?.message }, "a run whose budget is used up ends with its last words");
    return { ...ending, words: end.text };
  }
  await deps.transcripts.append(ref, [{ type: "message", role: "assistant", text, model, usage, calls: 0, id }]);
  return { ...ending, words: text };
}

/** Refused is a call that was not made: with less to read it may be paid for. A letter counts for as many bytes as it has. */
async function lastCall(deps: Deps, run: Run, entries: readonly Entry[], signal: AbortSignal): Promise<ModelReply> {
  const ask = (share: number): Promise<ModelReply> =>
    deps.models.call(
      {
        ...({ model: run.model, fallbacks: [], thinking: "off", system: SYSTEM, tools: [], agentId: run.agentId, signal } as const),
        messages: [{ role: "user", text: materialOf(run, entries, share) }],
        purse: deps.payments.landing(run),
      },
      () => {},
    );
  const [whole = 1, ...shorter] = SHARES;
  let reply = await ask(whole);
  for (const share of shorter) if (reply.error?.kind === "refused") reply = await ask(share);
  return reply;
}

function materialOf(run: Run, entries: readonly Entry[], share: number): string {
  const seen = entries.flatMap((entry) => (entry.type === "tool_result" ? [`${entry.name}: ${withoutFences(entry.text)}`] : []));
  const parts = [
    `Your task: ${cutText(run.task, MAX_TASK * share)}`,
    `What you wrote last: ${cutText(lastAssistantText(entries), MAX_WORDS * share) || "(nothing yet)"}`,
    ...(seen.length === 0
      ? []
      : [fence({ source: "your tools, last", text: cutText(seen.slice(-3).join("\n"), MAX_SEEN * share) }, newFenceToken())]),
    QUESTION,
  ];
  return parts.join("\n\n");
}
