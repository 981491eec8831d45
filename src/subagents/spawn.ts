// Spawning: one transaction {limits, session row, run row with the child's first message} → accepted → the lane. The row
// reserves the place, so twenty concurrent calls can't pass a cap of five; its spawn key makes a repeated call of a
// resumed turn find the same run instead of a second one (SP2).
import type { Agent } from "../agents/agent.ts";
import type { Address } from "../core/address.ts";
import { isStorageError, publicErrorText } from "../core/errors.ts";
import { newId, shortId, subagentKey } from "../core/ids.ts";
import type { Part } from "../core/message.ts";
import { isUnfinished, type Run } from "../core/run.ts";
import type { Thinking } from "../core/thinking.ts";
import { visibleText } from "../core/visible-text.ts";
import { pickSubagentModel } from "../models/resolve.ts";
import type { Tx } from "../stores/database.ts";
import { type LockKey, lock } from "../stores/lock-keys.ts";
import { firstMessage, taskEntries, toolsOutOfReach } from "./child.ts";
import { type SubagentDeps, startedDelivery } from "./deps.ts";
import { type BriefParams, parseBriefParams } from "./documents/brief-params.ts";
import type { Briefing } from "./documents/briefing.ts";
import { type Admission, admit } from "./limits.ts";
import { oneLine } from "./quoting.ts";
import { parseRole } from "./roles.ts";

export interface Requester {
  readonly sessionKey: string;
  readonly sessionId: string;
  readonly agentId: string;
  /** The run the requester is, when it is a child itself. */
  readonly runId: string | null;
  readonly address: Address;
  /** The requester's turn and tool call. */
  readonly spawnKey: string;
  /** Aborts when its turn is ended. */
  readonly signal?: AbortSignal;
  /** Names of the tools it has now: the child's ceiling. */
  readonly tools: readonly string[];
}

export interface SpawnRequest {
  readonly task: string;
  readonly label?: string;
  readonly agentId?: string;
  readonly role?: string;
  readonly model?: string;
  readonly thinking?: Thinking;
  readonly runTimeoutSeconds?: number;
  readonly cleanup?: "keep" | "delete";
  readonly maxIterations?: number;
  readonly briefing?: string;
  readonly systemPrompt?: string;
  readonly allowedTools?: readonly string[];
  readonly brief?: unknown;
}

export type SpawnAnswer =
  | {
      readonly status: "accepted";
      readonly runId: string;
      readonly childSessionKey: string;
      readonly label: string;
      readonly model: string;
      readonly warning?: string;
    }
  | { readonly status: "forbidden" | "error"; readonly error: string };

export interface Spawn {
  /** What a spawn needs to lock, so that what it checks stays so until it is on record. */
  locks(requester: Requester): Promise<readonly LockKey[]>;
  /** In the caller's transaction, under those locks. */
  in(tx: Tx, requester: Requester, request: SpawnRequest): Promise<SpawnAnswer>;
  /** As a transaction of its own; says so when the disk refuses. */
  now(requester: Requester, request: SpawnRequest): Promise<SpawnAnswer>;
}

export interface SpawnDeps
  extends Pick<
    SubagentDeps,
    "db" | "runs" | "sessions" | "transcripts" | "outbox" | "agents" | "log" | "failpoint" | "bootId" | "isShared" | "channel" | "tools"
  > {
  readonly briefing: Pick<Briefing, "check" | "apply">;
  /** The requester's section `context_transfer` of its scratchpad (NV2). */
  contextTransfer(sessionKey: string): Promise<string>;
  redact(text: string): string;
  /** Null when the name can be used, else why not. */
  checkModelName(model: string): string | null;
}

const MAX_LABEL = 80;
/** Longer first messages don't belong into a row. */
const MAX_KEPT = 16 * 1024;
export const TASK_PREVIEW = 500;

export function createSpawn(deps: SpawnDeps): Spawn {
  // All of it in one: counted outside, twenty calls at once would each see four of five children and all be accepted.
  const spawnIn: Spawn["in"] = async (tx, requester, request) => {
    // A turn that lost its process repeats the calls it has no result of: without the key each would be a second run.
    const known = await deps.runs.findBySpawnKey(requester.spawnKey);
    return known === null ? await spawn(deps, tx, requester, visibleRequest(request)) : accepted(known);
  };
  const locks: Spawn["locks"] = async (requester) => [lock.tree(await rootOf(deps, requester)), lock.chat(requester.address)];
  return {
    locks,
    in: spawnIn,
    async now(requester, request) {
      try {
        return await deps.db.transaction(await locks(requester), (tx) => spawnIn(tx, requester, request));
      } catch (error) {
        deps.log.error({ err: error, sessionKey: requester.sessionKey }, "a run could not be recorded");
        // It may have been: the answer to its commit can be lost. Asked again it is found.
        if (deps.isShared === true && isStorageError(error)) throw error;
        return { status: "error", error: `The run could not be recorded, so it was not started: ${publicErrorText(error)}` };
      }
    },
  };
}

/** The main session at the top; of a requester whose run is gone, its own. */
const rootOf = async ({ runs }: SpawnDeps, { runId, sessionKey }: Requester): Promise<string> =>
  (runId === null ? null : (await runs.get(runId))?.rootKey) ?? sessionKey;

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

async function spawn(deps: SpawnDeps, tx: Tx, requester: Requester, request: SpawnRequest): Promise<SpawnAnswer> {
  if (request.task.trim() === "")
    return { status: "error", error: "task holds no character that can be seen: say what the sub-agent should do." };
  const admitted = await admission(deps, requester, request);
  if (!admitted.ok) return { status: admitted.status, error: admitted.error };
  const role = parseRole(request.role, request.allowedTools);
  if (!role.ok) return { status: "error", error: role.error };
  const brief = await briefOf(deps, requester, request);
  if ("refused" in brief) return { status: "error", error: brief.refused };
  const { run, warning, agent } = await draft(deps, requester, request, admitted.agentId);
  const outOfReach = toolsOutOfReach(deps.tools(), agent, run);
  if (outOfReach !== null) return { status: "error", error: outOfReach };
  const { sessionId, agentId, childKey: key } = run;
  const text = firstMessage(request.task, run.params, visibleText(await deps.contextTransfer(requester.sessionKey)));
  // A short first message is durable with the row; making the file as well would cost the caller more than the row itself.
  const kept = Buffer.byteLength(text) <= MAX_KEPT ? text : null;
  if (kept === null) {
    // Before the rows: a row without its file would be a child without its task. A file without its row is in nobody's way.
    const opening = { key, parent: requester.sessionKey, entries: taskEntries(requester.sessionKey, text) };
    await deps.transcripts.create({ agentId, sessionId }, opening);
  }
  deps.failpoint("spawn.admitted");

  const started = startedParts(deps, run);
  await deps.sessions.insert(tx, { id: sessionId, key, agentId, address: requester.address, parentKey: requester.sessionKey });
  await deps.runs.insert(tx, run, kept);
  if (brief.params !== null) await deps.briefing.apply(tx, run, requester.sessionKey, brief.params);
  if (started !== null) await deps.outbox.add(tx, { delivery: startedDelivery(run), address: run.address, parts: started });
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

async function admission(deps: SpawnDeps, requester: Requester, request: SpawnRequest): Promise<Admission> {
  const agent = deps.agents.find(requester.agentId);
  if (agent === null) return { ok: false, status: "error", error: `Agent "${requester.agentId}" is not configured any more.` };
  const parent = requester.runId === null ? null : await deps.runs.get(requester.runId);
  // Stopped since it made the call: its end took everybody below it along, and nobody would hear of or stop this one.
  const isRunOver = parent !== null && !isUnfinished(parent.state);
  if (isRunOver || requester.signal?.aborted === true)
    return { ok: false, status: "error", error: `This ${isRunOver ? "run" : "turn"} has ended; it sends nobody out any more.` };
  return admit({
    requester: agent,
    requesterDepth: requester.runId === null ? 0 : (parent?.depth ?? Number.POSITIVE_INFINITY),
    unfinishedChildren: await deps.runs.countUnfinished(requester.sessionKey),
    agentId: request.agentId,
    knownAgents: deps.agents.list().map((one) => one.id),
  });
}

type Draft = Parameters<SubagentDeps["runs"]["insert"]>[1];

interface Drafted {
  readonly run: Draft;
  readonly agent: Agent;
  readonly warning: string | null;
}

async function draft(deps: SpawnDeps, requester: Requester, request: SpawnRequest, agentId: string): Promise<Drafted> {
  const agent = deps.agents.find(agentId);
  const caller = deps.agents.find(requester.agentId);
  if (agent === null || caller === null) throw new Error(`agent ${agentId} vanished`);
  const settings = agent.subagents;
  const parent = requester.runId === null ? null : await deps.runs.get(requester.runId);
  const picked = pickSubagentModel({
    requested: request.model,
    agentModel: settings.model?.primary,
    defaultsModel: settings.defaultModel?.primary,
    callerModel: parent?.model ?? (await deps.sessions.get(requester.sessionId))?.model ?? caller.model,
    // The name only: a missing key is an error to be announced, never a silent switch of provider (MO7).
    check: deps.checkModelName,
  });
  const { role, briefing, systemPrompt, allowedTools } = request;
  const run: Draft = {
    id: newId(),
    spawnKey: requester.spawnKey,
    childKey: subagentKey(agentId, newId()),
    sessionId: newId(),
    agentId,
    requesterKey: requester.sessionKey,
    requesterSessionId: requester.sessionId,
    requesterRunId: requester.runId,
    rootKey: parent?.rootKey ?? requester.sessionKey,
    depth: (parent?.depth ?? 0) + 1,
    address: requester.address,
    // Redacted before they are cut: of a secret that the cut goes through, the rest would be known to no redactor.
    label: labelOf(deps.redact(oneLine(request.label ?? request.task))),
    task: deps.redact(request.task).slice(0, TASK_PREVIEW),
    model: picked.model,
    thinking: request.thinking ?? settings.thinking ?? caller.thinking,
    timeoutMs: (request.runTimeoutSeconds ?? settings.runTimeoutMs / 1000) * 1000,
    maxIterations: request.maxIterations ?? settings.maxIterations,
    cleanup: request.cleanup ?? "keep",
    announce: caller.subagents.announce,
    // Not the brief: it can be replaced and revoked, so it has a record of its own.
    params: { role, briefing, systemPrompt, allowedTools },
    toolCeiling: requester.tools,
    bootId: deps.bootId,
  };
  return { run, agent, warning: picked.warning ?? null };
}

function labelOf(text: string): string {
  if (text.length <= MAX_LABEL) return text;
  const head = text.slice(0, MAX_LABEL * 16);
  const clusters = [...new Intl.Segmenter().segment(head)].map((part) => part.segment);
  if (clusters.length <= MAX_LABEL && head.length === text.length) return text;
  // The last one seen may be half of what a person sees as one character.
  return `${clusters.slice(0, Math.min(MAX_LABEL, clusters.length) - 1).join("")}…`;
}

/** Chats without a list of runs get a quiet line with buttons; the page shows its list instead. */
function startedParts(deps: SpawnDeps, run: Draft): Part[] | null {
  const channel = deps.channel(run.address.channel, run.address.account);
  if (run.requesterRunId !== null || run.announce === "silent" || channel === null || channel.showsRuns === true) return null;
  const buttons = [
    { label: "Stop", command: `/subagents stop ${run.id}`, danger: true },
    { label: "Log", command: `/subagents log ${run.id}` },
    { label: "Info", command: `/subagents info ${run.id}` },
  ];
  return channel.render({ markdown: `🧭 Sub-agent started: ${run.label} (${shortId(run.id)})`, buttons, quiet: true }, run.address);
}

const accepted = (run: Pick<Run, "id" | "childKey" | "label" | "model">): Extract<SpawnAnswer, { status: "accepted" }> => ({
  status: "accepted",
  runId: run.id,
  childSessionKey: run.childKey,
  label: run.label,
  model: run.model,
});
