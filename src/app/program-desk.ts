// Runs as other programs send them out and steer them (PR). A token has one session, and its runs are those below it; a spawn goes
// through the same door as everybody's: one transaction, the same caps, budgets and policies. Whose run it is follows from its tree.
// web/mcp-tools.ts → here → subagents/spawn.ts, steering.ts, questions/replies.ts
import { hash } from "node:crypto";
import type { Agents } from "../agents/agent.ts";
import { ensureSession } from "../agents/open-session.ts";
import type { Judge } from "../core/check.ts";
import { publicErrorText } from "../core/errors.ts";
import { newId, parseKey, programKey } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import { type Program, programAddress, programLabel } from "../core/program.ts";
import type { Question } from "../core/question.ts";
import { isUnfinished, type Run, STATUS_WORD, stepOf } from "../core/run.ts";
import { totalTokens } from "../core/usage.ts";
import { visibleText } from "../core/visible-text.ts";
import type { Replies } from "../questions/replies.ts";
import { lock } from "../stores/lock-keys.ts";
import { resultOf } from "../subagents/announce.ts";
import { outcomeSentence } from "../subagents/outcome.ts";
import type { Requester, SpawnRequest } from "../subagents/spawn-request.ts";
import { programSpawnSchema } from "../subagents/spawn-tool.ts";
import { runsOf } from "../subagents/targets.ts";
import { logText } from "../subagents/transcript-view.ts";
import { parsed, schemaProblem } from "../subagents/typed-result.ts";
import type { ProgramDesk, ProgramResult, ProgramRun, RunFacts, RunQuestion, Spawned, Told } from "../web/program-desk.ts";
import type { Stores } from "./store-parts.ts";
import type { SubagentParts } from "./subagents.ts";

export interface ProgramDeskDeps extends Pick<SubagentParts, "spawn" | "steering" | "mainTools"> {
  readonly stores: Stores;
  readonly agents: Agents;
  readonly judge: Judge;
  readonly replies: Replies;
  readonly log: Logger;
}

export function createProgramDesk(deps: ProgramDeskDeps): ProgramDesk {
  const { runs, transcripts } = deps.stores;
  /** By its token's id, not by its session's key: the default agent, which stands in that, may have changed since. */
  const own = async ({ id }: Program, runId: string): Promise<Run | null> => {
    const run = await runs.get(runId);
    const root = run === null ? null : parseKey(run.rootKey);
    return root?.kind === "program" && root.token === id ? run : null;
  };
  const withOwn = async <T>(program: Program, runId: string, act: (run: Run) => Promise<T>): Promise<T | null> => {
    const run = await own(program, runId);
    return run === null ? null : act(run);
  };
  return {
    spawnSchema: programSpawnSchema,
    spawn: (program, args) => spawn(deps, program, args),
    async list(program, limit) {
      const found = await Promise.all(keysOf(deps, program).map((key) => runsOf(runs, key)));
      const newest = found.flat().sort((a, b) => b.createdAt - a.createdAt);
      return Promise.all(newest.slice(0, limit).map((run) => toProgramRun(deps, run)));
    },
    find: (program, runId) => withOwn(program, runId, (run) => toProgramRun(deps, run)),
    result: (program, runId) => withOwn(program, runId, (run) => toResult(deps, run)),
    log: (program, runId, options) => withOwn(program, runId, (run) => logText(transcripts, run, options)),
    send: (program, runId, text) => withOwn(program, runId, (run) => send(deps, program, run, text)),
    stop: (program, runId) => withOwn(program, runId, (run) => stop(deps, program, run)),
    answer: (program, runId, questionId, words) => withOwn(program, runId, (run) => answer(deps, program, { run, questionId, words })),
  };
}

const agentOf = ({ agents }: ProgramDeskDeps, { agentId }: Program): string => agentId ?? agents.defaultId();

/** One session per token, whatever its clients call themselves: by another name nobody gets another `maxChildrenPerSession`. */
const keyOf = (deps: ProgramDeskDeps, program: Program): string => programKey(agentOf(deps, program), program.id, program.name);

/** All it may have had: bound to no agent, it was the default one's of its time. */
const keysOf = (deps: ProgramDeskDeps, program: Program): string[] =>
  program.agentId !== null ? [keyOf(deps, program)] : deps.agents.list().map(({ id }) => programKey(id, program.id, program.name));

async function spawn(deps: ProgramDeskDeps, program: Program, args: unknown): Promise<Spawned> {
  const { idempotencyKey, ...wanted } = args as ReturnType<typeof programSpawnSchema.parse>;
  const request = wanted as SpawnRequest;
  // Before the transaction, in which nobody may wait for anything but rows.
  const problem = await schemaProblem(deps.judge, request.resultSchema);
  if (problem !== null) return { refused: problem };
  const requester = await requesterOf(deps, program, { spawnKey: spawnKeyOf(program, idempotencyKey), digest: digestOf(request) });
  if ("refused" in requester) return requester;
  const isRepeated = (await deps.stores.runs.findBySpawnKey(requester.spawnKey)) !== null;
  const answer = await deps.spawn.now(requester, request);
  if (answer.status !== "accepted") return { refused: answer.error };
  const { runId, label, model, warning } = answer;
  // Asked of the row that there is now: of two calls at once with one key, either may have made it.
  if (await isOfAnother(deps, requester, runId)) return { refused: usedBefore(runId, label) };
  if (!isRepeated) deps.log.info({ audit: "spawned", runId, program: program.name }, "a program sent a sub-agent out");
  return { runId, label, model, isRepeated, ...(warning === undefined ? {} : { warning }) };
}

/**
 * By the client's own key alone. The id of a request would be no key: clients count from 0 at every connection, and a new task would be
 * answered with an old run.
 */
const spawnKeyOf = ({ id }: Program, idempotencyKey: string | undefined): string =>
  `mcp:${id}:${idempotencyKey === undefined ? newId() : `key:${hash("sha256", idempotencyKey, "base64url")}`}`;

/** What is asked for, so that a key that is used for something else is noticed: answered with the run of before, the task would be lost. */
const digestOf = (request: SpawnRequest): string => hash("sha256", JSON.stringify(request), "base64url");

async function isOfAnother({ stores }: ProgramDeskDeps, { turnId }: Requester, runId: string): Promise<boolean> {
  const run = await stores.runs.get(runId);
  // Behind the session's id, which is another's once the default agent is another.
  return run !== null && !run.message.endsWith(`:${turnId}`);
}

const usedBefore = (runId: string, label: string): string =>
  `This idempotencyKey was used before, with other arguments, for run ${runId} (${JSON.stringify(label)}). Nothing was sent out: take another key for another task.`;

interface SpawnCall {
  readonly spawnKey: string;
  readonly digest: string;
}

async function requesterOf(
  deps: ProgramDeskDeps,
  program: Program,
  { spawnKey, digest }: SpawnCall,
): Promise<Requester | { refused: string }> {
  const agent = deps.agents.find(agentOf(deps, program));
  if (agent === null) return { refused: `The agent "${program.agentId}" of this token is not configured any more. Make another token.` };
  const sessionKey = keyOf(deps, program);
  const address = program.address ?? programAddress(program);
  const session = await ensureSession(deps.stores, { key: sessionKey, agentId: agent.id, address, parentKey: null });
  return {
    ...{ sessionKey, sessionId: session.id, agentId: agent.id, runId: null, address, spawnKey, turnId: `${spawnKey}:${digest}` },
    person: { id: program.id, name: programLabel(program) },
    tools: deps.mainTools(agent).map((tool) => tool.name),
  };
}

async function send({ stores, steering, log }: ProgramDeskDeps, program: Program, run: Run, text: string): Promise<Told> {
  const sent = await stores.db.transaction(steering.locks([run]), (tx) => steering.send(tx, run, programLabel(program), text));
  if (typeof sent === "object") return { text: sent.refused, isDone: false };
  log.info({ audit: "sent", runId: run.id, program: program.name }, "a program wrote to its sub-agent");
  return { text: SENT[sent], isDone: true };
}

const SENT = {
  queued: "It is queued and reads this first.",
  running: "It reads this at its next step.",
  continued: "It had ended and goes on with this in the same session: call wait again.",
} as const;

async function stop({ stores, steering, log }: ProgramDeskDeps, program: Program, run: Run): Promise<Told> {
  const stopped = await stores.db.transaction(steering.locks([run]), (tx) => steering.stop(tx, [run], `by ${programLabel(program)}`));
  if (stopped.length === 0) return { text: "It had ended already. result reads what it found.", isDone: true };
  log.info({ audit: "stopped", runId: run.id, program: program.name }, "a program stopped its sub-agent");
  return { text: `Stopped ${stopped.length === 1 ? "it" : `it and ${stopped.length - 1} below it`}.`, isDone: true };
}

interface Answering {
  readonly run: Run;
  readonly questionId: string | undefined;
  readonly words: string;
}

async function answer(deps: ProgramDeskDeps, program: Program, { run, questionId, words }: Answering): Promise<Told> {
  const { stores, replies, log } = deps;
  const open = await openQuestions(deps, run);
  const question = questionId === undefined && open.length === 1 ? open[0] : open.find(({ id }) => id === questionId);
  if (question === undefined) return { text: questionId === undefined && open.length > 1 ? WHICH : NO_QUESTION, isDone: false };
  // A rule that outlives the run is a person's to make.
  if (question.kind === "approve" && /^always\b/i.test(visibleText(words).trim())) return { text: NOT_ALWAYS, isDone: false };
  return stores.db.transaction([lock.tree(question.rootKey)], async (tx) => {
    const text = await replies.settle(tx, question.id, { id: program.id, name: programLabel(program) }, words);
    const after = await stores.questions.get(question.id);
    const isDone = after?.state === "answered" && after.answeredBy?.id === program.id;
    if (isDone) log.info({ audit: "answered", question: question.id, verdict: after.verdict, program: program.name }, "a program answered");
    return { text, isDone };
  });
}

const WHICH = "It asks several things: say which with questionId, as wait shows them.";
const NO_QUESTION = "It asks nothing of this id, or no more.";
const NOT_ALWAYS = "A program can't allow something for always: say `yes`, `run` or `no`. The question stays open.";

async function openQuestions({ stores, replies }: ProgramDeskDeps, run: Run): Promise<Question[]> {
  const asked = await stores.questions.listOfRun(run.id);
  const isOpen = await Promise.all(asked.map((question) => replies.isWaitedFor(question)));
  return asked.filter((_question, n) => isOpen[n]);
}

async function toProgramRun(deps: ProgramDeskDeps, run: Run): Promise<ProgramRun> {
  const isOver = !isUnfinished(run.state);
  const questions = run.state === "waiting" ? await openQuestions(deps, run) : [];
  return {
    facts: factsOf(run),
    isOver,
    doing: isOver ? null : run.doing,
    step: isOver ? null : stepOf(run.plan),
    questions: questions.map(({ id, kind, text, options }): RunQuestion => ({ questionId: id, kind, text, options })),
  };
}

const isoTime = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString());

const factsOf = (run: Run): RunFacts => ({
  runId: run.id,
  label: run.label,
  state: run.state,
  status: isUnfinished(run.state) ? null : STATUS_WORD[run.state],
  reason: run.reason,
  parentRunId: run.requesterRunId,
  agentId: run.agentId,
  model: run.model,
  createdAt: new Date(run.createdAt).toISOString(),
  startedAt: isoTime(run.startedAt),
  endedAt: isoTime(run.endedAt),
  tokens: run.spend.usage === null ? null : totalTokens(run.spend.usage),
  costUsd: run.spend.costUsd,
  delivery: run.delivery,
  deliveryReason: run.deliveryReason,
});

async function toResult({ stores }: ProgramDeskDeps, run: Run): Promise<ProgramResult> {
  if (isUnfinished(run.state)) return { sentence: `It is still ${run.state}.`, text: "", notes: "" };
  const { result, notes } = await wordsOf(stores, run);
  return {
    sentence: outcomeSentence(run, { ...run, as: run.state }, result),
    text: result,
    notes,
    ...(run.data === null ? {} : { data: parsed(run.data) ?? run.data }),
    ...(run.checks === null ? {} : { checks: run.checks }),
  };
}

/** What it wrote may have been removed some time after its end; the row still says how it ended. */
async function wordsOf({ transcripts }: Stores, run: Run): ReturnType<typeof resultOf> {
  try {
    return await resultOf(transcripts, run);
  } catch (error) {
    return { result: "", notes: `What it wrote can't be read: ${publicErrorText(error)}` };
  }
}
