// The budget is used up: one last call, without tools, from what the run kept since its start (BG4), so that there is a result. It is
// shown its task and the end of its work, not the whole conversation: that is what it can't pay for any more.
import { lastAssistantText } from "../agents/context.ts";
import type { TurnEnd } from "../agents/turn.ts";
import { FENCE_RULE, fence, newFenceToken, withoutFences } from "../core/fence.ts";
import { newId } from "../core/ids.ts";
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
  const reason = (end.reason ?? UNKNOWN_LIMIT).replace(/\.$/, "");
  const ending = { ...UNPAID, reason, notice: end.notice };
  const ref = transcriptOfRun(run);
  const entries = await deps.transcripts.tail(ref, LOOK_BACK);
  const reply = await lastCall(deps, run, entries, signal);
  const { usage, costUsd, model } = reply;
  await deps.db.transaction([], async (tx) => {
    await deps.sessions.addSpend(tx, { ...run, id: run.sessionId }, model, { usage, costUsd }, run.person);
    await deps.runs.addSpend(tx, run.id, { usage, costUsd });
  });
  const text = visibleText(reply.text).trim();
  if (reply.outcome !== "ok" || text === "") {
    deps.log.info({ runId: run.id, reason: reply.error?.message }, "a run whose budget is used up ends with its last words");
    return { ...ending, words: end.text };
  }
  await deps.transcripts.append(ref, [
    { type: "note", text: reason },
    { type: "message", role: "assistant", text, model, usage, calls: 0, id: `${idsOf(run)}${newId()}` },
  ]);
  return { ...ending, words: text };
}

/**
 * Of a run that is taken up with its last word said: null, or how it was ending when its process died or the disk refused. Its transcript
 * stands like that of one that has finished, and half a result would be announced as a whole one.
 */
export async function landedBefore(deps: Pick<Deps, "transcripts">, run: Run): Promise<Ending | null> {
  const entries = await deps.transcripts.tail(transcriptOfRun(run), LOOK_BACK);
  const index = entries.findLastIndex((entry) => entry.type === "message" && entry.phase !== "announce");
  const last = entries[index];
  if (last?.type !== "message" || !last.id.startsWith(idsOf(run))) return null;
  const why = entries[index - 1];
  return { ...UNPAID, reason: why?.type === "note" ? why.text : UNKNOWN_LIMIT, notice: null, words: last.text };
}

const UNPAID = { as: "done", incomplete: true, isUnpaid: true } as const;
const UNKNOWN_LIMIT = "its budget is used up";
/** What the ids of its last words begin with: raised meanwhile, one generation may have several. */
const idsOf = ({ generation }: Run): string => `landing:${generation}:`;

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
