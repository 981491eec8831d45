// One run on record: limits, session row, run row with the child's first message, all in the caller's transaction (SP2). The row
// reserves the place, so twenty concurrent calls can't pass a cap of five.
import { addressKey } from "../core/address.ts";
import { isUnfinished, type Run } from "../core/run.ts";
import { visibleText } from "../core/visible-text.ts";
import type { Attachments } from "../stores/attachments.ts";
import type { Tx } from "../stores/database.ts";
import { firstMessage, taskEntries, toolsOutOfReach } from "./child.ts";
import { type Before, waitsToBegin } from "./dependencies.ts";
import type { SubagentDeps } from "./deps.ts";
import { type BriefParams, parseBriefParams } from "./documents/brief-params.ts";
import type { BriefSummary } from "./documents/brief-summary.ts";
import type { Briefing } from "./documents/briefing.ts";
import { type DraftDeps, draft, messageOf } from "./draft.ts";
import { type Admission, admit } from "./limits.ts";
import { parseRole } from "./roles.ts";
import type { Accepted, Requester, SpawnAnswer, SpawnRequest } from "./spawn-request.ts";
import { type Progress, showing, startedDelivery, startedParts } from "./start-line.ts";
import { batchOf, statusId } from "./status-message.ts";

/** Of a run that is made once more. */
export interface Repeated {
  /** The child's first message, instead of one made from the request. */
  readonly opening: string;
  readonly rerunOf: string;
}

export interface SpawnDeps
  extends DraftDeps,
    Pick<
      SubagentDeps,
      | "db"
      | "groups"
      | "runs"
      | "sessions"
      | "transcripts"
      | "outbox"
      | "live"
      | "agents"
      | "log"
      | "failpoint"
      | "bootId"
      | "isShared"
      | "channel"
      | "tools"
      | "payments"
    > {
  readonly briefing: Pick<Briefing, "check" | "apply">;
  readonly attachments: Pick<Attachments, "picturesNamed">;
  readonly briefSummary: BriefSummary;
  /** The message of a main session's turn is settled. */
  isTurnOver(turnId: string): Promise<boolean>;
  /** The requester's section `context_transfer` of its scratchpad (NV2). */
  contextTransfer(sessionKey: string): Promise<string>;
  /** How a channel without a list of runs shows them (LV5). */
  progress(channel: string): Progress;
}

/** Longer first messages don't belong into a row. */
const MAX_KEPT = 16 * 1024;

/** Most requests are a model's: what it hid from people is hidden from the child too (IN4). */
function visibleRequest(request: SpawnRequest): SpawnRequest {
  const { label, briefing, systemPrompt } = request;
  return {
    ...request,
    task: visibleText(request.task),
    ...(label === undefined ? {} : { label: visibleText(label) }),
    ...(briefing === undefined ? {} : { briefing: visibleText(briefing) }),
    ...(systemPrompt === undefined ? {} : { systemPrompt: visibleText(systemPrompt) }),
  };
}

export interface Wanted {
  readonly request: SpawnRequest;
  readonly repeated: Repeated | undefined;
  readonly id: string;
  /** What it comes after. */
  readonly before: readonly Before[];
  readonly groupId: string | null;
}

export async function spawnOne(deps: SpawnDeps, tx: Tx, requester: Requester, wanted: Wanted): Promise<SpawnAnswer> {
  const { repeated, id, before, groupId } = wanted;
  const request = visibleRequest(wanted.request);
  if (request.task.trim() === "")
    return { status: "error", error: "task holds no character that can be seen: say what the sub-agent should do." };
  const admitted = await admission(deps, requester, request);
  if (!admitted.ok) return { status: admitted.status, error: admitted.error };
  const role = parseRole(request.role, request.allowedTools);
  if (!role.ok) return { status: "error", error: role.error };
  const brief = await briefOf(deps, requester, request);
  if ("refused" in brief) return { status: "error", error: brief.refused };
  const { run: drafted, warning, agent } = await draft(deps, requester, request, admitted.agentId);
  const shown = showing(deps, drafted);
  const own = { id, groupId, batch: shown?.as === "live" ? batchOf(requester) : null, rerunOf: repeated?.rerunOf ?? null };
  const after = { ids: before.map((one) => one.id), ifFailed: request.ifFailed ?? "end" };
  const params = before.length === 0 ? drafted.params : { ...drafted.params, after };
  const run = { ...drafted, ...own, params };
  const outOfReach = toolsOutOfReach(deps.tools(), agent, run);
  if (outOfReach !== null) return { status: "error", error: outOfReach };
  const { sessionId, agentId, childKey: key } = run;
  const text = repeated?.opening ?? firstMessage(request.task, run.params, visibleText(await deps.contextTransfer(requester.sessionKey)));
  // A short first message is durable with the row; making the file as well would cost the caller more than the row itself.
  const kept = Buffer.byteLength(text) <= MAX_KEPT ? text : null;
  if (kept === null) {
    // Before the rows: a row without its file would be a child without its task. A file without its row is in nobody's way.
    const pictures = await deps.attachments.picturesNamed(addressKey(requester.address), text);
    const opening = { key, parent: requester.sessionKey, entries: taskEntries(requester.sessionKey, text, pictures) };
    await deps.transcripts.create({ agentId, sessionId }, opening);
  }
  deps.failpoint("spawn.admitted");

  // Where it announces stands in the row of the run: here it would be most of what is written.
  await deps.sessions.insert(tx, { id: sessionId, key, agentId, address: null, parentKey: requester.sessionKey });
  await deps.runs.insert(tx, run, { firstMessage: kept, ...waitsToBegin(before) });
  if (brief.params !== null) await deps.briefing.apply(tx, run, requester.sessionKey, brief.params);
  if (run.batch !== null) await deps.live.open(tx, statusId(run.batch), run.address);
  if (shown?.as === "lines")
    await deps.outbox.add(tx, { delivery: startedDelivery(run), address: run.address, parts: startedParts(shown.channel, run) });
  return { ...accepted(run), ...(warning === null ? {} : { warning }) };
}

/** A refused brief refuses the spawn: nothing is written, nothing runs (BF1). */
async function briefOf(
  deps: SpawnDeps,
  requester: Requester,
  request: SpawnRequest,
): Promise<{ params: BriefParams | null } | { refused: string }> {
  if (request.brief === undefined) return { params: null };
  const parsed = parseBriefParams(request.brief);
  const refused = parsed.ok ? await deps.briefing.check(requester.sessionKey, parsed.brief) : parsed.error;
  if (!parsed.ok || refused !== null) return { refused: refused ?? "" };
  return { params: parsed.brief };
}

export async function admission(deps: SpawnDeps, requester: Requester, request: SpawnRequest): Promise<Admission> {
  const agent = deps.agents.find(requester.agentId);
  if (agent === null) return { ok: false, status: "error", error: `Agent "${requester.agentId}" is not configured any more.` };
  const parent = requester.runId === null ? null : await deps.runs.get(requester.runId);
  // Stopped since it made the call: its end took everybody below it along, and nobody would hear of or stop this one.
  const isRunOver = parent !== null && !isUnfinished(parent.state);
  // The same of a turn: where another process carried the stop out, the signal comes after this call, which then nobody would stop.
  const isTurnOver = requester.signal?.aborted === true || (requester.runId === null && (await deps.isTurnOver(requester.turnId)));
  if (isRunOver || isTurnOver)
    return { ok: false, status: "error", error: `This ${isRunOver ? "run" : "turn"} has ended; it sends nobody out any more.` };
  const full = await deps.payments.whyFull({ ...requester, message: messageOf(requester) }, parent);
  if (full !== null) return { ok: false, status: "forbidden", error: `${full} Nobody is sent out on it.` };
  return admit({
    requester: agent,
    requesterDepth: requester.runId === null ? 0 : (parent?.depth ?? Number.POSITIVE_INFINITY),
    unfinishedChildren: await deps.runs.countUnfinished(requester.sessionKey),
    agentId: request.agentId,
    knownAgents: deps.agents.list().map((one) => one.id),
  });
}

export const accepted = (run: Pick<Run, "id" | "childKey" | "label" | "model">): Accepted => ({
  status: "accepted",
  runId: run.id,
  childSessionKey: run.childKey,
  label: run.label,
  model: run.model,
});
