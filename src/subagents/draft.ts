// A run as it is sent out: what was asked for, over what the settings say (SP1). Nothing is written here.
import type { Agent } from "../agents/agent.ts";
import { narrower, toCap } from "../core/budget.ts";
import { newTimedId, programNameOf, subagentKey } from "../core/ids.ts";
import { programOf } from "../core/program.ts";
import { pickSubagentModel } from "../models/resolve.ts";
import { pinAnnouncing } from "./announcing.ts";
import type { SubagentDeps } from "./deps.ts";
import { oneLine } from "./quoting.ts";
import type { Requester, SpawnRequest } from "./spawn-request.ts";

export interface DraftDeps extends Pick<SubagentDeps, "runs" | "sessions" | "agents" | "bootId"> {
  redact(text: string): string;
  /** The account of a channel that has only one; null: it is off. */
  soleAccount(channel: string): string | null;
  /** Null when the name can be used, else why not. */
  checkModelName(model: string): string | null;
}

const MAX_LABEL = 80;
export const TASK_PREVIEW = 500;

type Draft = Omit<Parameters<SubagentDeps["runs"]["insert"]>[1], "id" | "rerunOf" | "groupId" | "batch">;

export interface Drafted {
  readonly run: Draft;
  readonly agent: Agent;
  readonly warning: string | null;
}

export async function draft(deps: DraftDeps, requester: Requester, request: SpawnRequest, agentId: string): Promise<Drafted> {
  const agent = deps.agents.find(agentId);
  const caller = deps.agents.find(requester.agentId);
  if (agent === null || caller === null) throw new Error(`agent ${agentId} vanished`);
  const settings = agent.subagents;
  const parent = requester.runId === null ? null : await deps.runs.get(requester.runId);
  const picked = pickSubagentModel({
    requested: request.model,
    agentModel: settings.model?.primary,
    defaultsModel: settings.defaultModel?.primary,
    callerModel: parent?.model ?? (await deps.sessions.modelOf(requester.sessionId)) ?? caller.model,
    // The name only: a missing key is an error to be announced, never a silent switch of provider (MO7).
    check: deps.checkModelName,
  });
  const { role, briefing, systemPrompt, allowedTools, checks, checkRounds, resultSchema } = request;
  const rootKey = parent?.rootKey ?? requester.sessionKey;
  const policy = caller.subagents.announcing;
  const run: Draft = {
    spawnKey: requester.spawnKey,
    // A model may tighten what the settings give, never widen it: more is a person's to give (BG6).
    budget: narrower(settings.budget, request.budget === undefined ? null : toCap(request.budget)),
    message: parent?.message ?? messageOf(requester),
    childKey: subagentKey(agentId, newTimedId()),
    sessionId: newTimedId(),
    agentId,
    requesterKey: requester.sessionKey,
    requesterSessionId: requester.sessionId,
    requesterRunId: requester.runId,
    rootKey,
    depth: (parent?.depth ?? 0) + 1,
    address: requester.address,
    person: requester.person,
    // Redacted before they are cut: of a secret that the cut goes through, the rest would be known to no redactor.
    label: labelOf(deps.redact(oneLine(request.label ?? request.task))),
    task: deps.redact(request.task).slice(0, TASK_PREVIEW),
    model: picked.model,
    thinking: request.thinking ?? settings.thinking ?? caller.thinking,
    timeoutMs: (request.runTimeoutSeconds ?? settings.runTimeoutMs / 1000) * 1000,
    maxIterations: request.maxIterations ?? settings.maxIterations,
    cleanup: request.cleanup ?? "keep",
    // A program's results go to the chat its token is bound to or to none, whatever the settings say of others' (PR3).
    announce: programOf(requester.address) === null ? caller.subagents.announce : "silent",
    announcing: pinAnnouncing(programNameOf(rootKey) === null ? policy : { ...policy, to: "thread" }, requester, deps.soleAccount),
    // Not the brief: it can be replaced and revoked, so it has a record of its own.
    params: { role, briefing, systemPrompt, allowedTools, checks, checkRounds, resultSchema },
    toolCeiling: requester.tools,
    bootId: deps.bootId,
  };
  return { run, agent, warning: picked.warning ?? null };
}

export function labelOf(text: string): string {
  if (text.length <= MAX_LABEL) return text;
  const head = text.slice(0, MAX_LABEL * 16);
  const clusters = [...new Intl.Segmenter().segment(head)].map((part) => part.segment);
  if (clusters.length <= MAX_LABEL && head.length === text.length) return text;
  // The last one seen may be half of what a person sees as one character.
  return `${clusters.slice(0, Math.min(MAX_LABEL, clusters.length) - 1).join("")}…`;
}

/** What one message sets off shares a limit, however deep it goes. */
export const messageOf = ({ sessionId, turnId, message }: Pick<Requester, "sessionId" | "turnId" | "message">): string =>
  message ?? `${sessionId}:${turnId}`;
