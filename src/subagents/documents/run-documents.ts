// A run's documents beside its child's transcript, in the Brief protocol (BP1): <id>.brief.md (what was delegated),
// <id>.response.md (what came back), trace.md (who did what when). All of it is made from the row and the transcript.
// The trace goes down with the child when it is spawned, and what it gained comes back up when the run ends.
import type { Agents } from "../../agents/agent.ts";
import { Brief } from "../../brief/brief.ts";
import { BriefResponse, type ResponseStatus } from "../../brief/response.ts";
import { Trace, type TraceEntry } from "../../brief/trace.ts";
import { codeBlock } from "../../core/code-block.ts";
import { errorText, isStorageError } from "../../core/errors.ts";
import { agentIdOf } from "../../core/ids.ts";
import type { Logger } from "../../core/logger.ts";
import { type EndState, isUnfinished, type Run, STATUS_WORD } from "../../core/run.ts";
import type { Runs } from "../../stores/runs.ts";
import type { SessionDocuments, SessionRef } from "../../stores/session-documents.ts";
import type { Transcripts } from "../../stores/transcripts.ts";
import { resultOf } from "../announce.ts";
import { checksMarkdown, checksNote } from "../checks.ts";
import { transcriptOfRun } from "../deps.ts";
import { outcomeSentence, sectionsText } from "../outcome.ts";
import { oneLine } from "../quoting.ts";
import type { Briefing } from "./briefing.ts";
import { addToTrace, readTrace, readTraceEnd } from "./trace-file.ts";

export interface RunDocumentDeps {
  readonly runs: Runs;
  readonly transcripts: Transcripts;
  readonly sessionDocuments: SessionDocuments;
  readonly agents: Agents;
  readonly briefing: Briefing;
  readonly log: Logger;
  redact(text: string): string;
}

const MAX_BODY = 1024 * 1024;

/** The run's id in the Brief protocol: made of the run id, so that it needs no record and is the same after a crash. */
export const briefIdOf = (runId: string): string => `brief-${runId.slice(0, 6)}`;

/**
 * Brings the documents up to what the row says; writes nothing that is there already. Rejects when the disk refuses. The brief
 * comes last: as long as it is missing, all this is done again.
 */
export async function writeDocuments(deps: RunDocumentDeps, run: Run): Promise<void> {
  if (isUnfinished(run.state)) return writeBeginning(deps, run);
  const isBegun = await hasBrief(deps, run);
  const trace = await writeTrace(deps, run);
  await deps.sessionDocuments.replace(run, responseFile(run), (await responseOf(deps, run, run.state)).content);
  await handBack(deps, run, trace ?? (await readTrace(deps.sessionDocuments, run)), isBegun);
  if (!isBegun) await writeBrief(deps, run);
}

async function writeBeginning(deps: RunDocumentDeps, run: Run): Promise<void> {
  await writeTrace(deps, run);
  if (await hasBrief(deps, run)) return;
  await addToTrace(deps.sessionDocuments, requesterSession(run), [delegation(deps, run)]);
  await writeBrief(deps, run);
}

/** Returns what the child's trace tells since its spawn, or more of it, when it is new; null: it was there. */
async function writeTrace(deps: RunDocumentDeps, run: Run): Promise<Trace | null> {
  // The trace goes down the tree: what stands above begins first. It ends in its own time, after all below it.
  const above = await requesterOf(deps, run);
  if (above !== null && !(await hasBrief(deps, above))) await writeBeginning(deps, above);
  await deps.briefing.write(run);
  const { sessionDocuments } = deps;
  return addToTrace(sessionDocuments, run, await entriesOf(deps, run), () => readTraceEnd(sessionDocuments, requesterSession(run)));
}

const writeBrief = async (deps: RunDocumentDeps, run: Run): Promise<void> =>
  deps.sessionDocuments.replace(run, briefFile(run), (await briefOf(deps, run)).content);

const hasBrief = (deps: RunDocumentDeps, run: Run): Promise<boolean> => deps.sessionDocuments.has(run, briefFile(run));

export const briefFile = (run: Pick<Run, "id">): string => `${briefIdOf(run.id)}.brief.md`;
export const responseFile = (run: Pick<Run, "id">): string => `${briefIdOf(run.id)}.response.md`;

async function briefOf(deps: RunDocumentDeps, run: Run): Promise<Brief> {
  const entries = (await fromTranscript(deps, run, (found) => deps.transcripts.tail(transcriptOfRun(found), 50))) ?? [];
  const task = entries.find((entry) => entry.id === "task");
  const body = `# ${oneLine(run.label)}\n\n${task?.type === "message" ? task.text : run.task}\n`;
  return Brief.create({
    id: briefIdOf(run.id),
    delegator: run.requesterKey,
    delegatee: run.childKey,
    body: deps.redact(body).slice(0, MAX_BODY),
    timestamp: timeOf(run.createdAt),
    ...(run.requesterRunId === null ? {} : { parentId: briefIdOf(run.requesterRunId) }),
    currentDepth: run.depth,
    maxDepth: Math.max(run.depth, deps.agents.find(run.agentId)?.subagents.maxSpawnDepth ?? run.depth),
  });
}

/**
 * A transcript somebody damaged or removed leaves what the record knows. Where it lies is asked anew: it may have been
 * archived while the files before this one were written.
 */
async function fromTranscript<T>({ log, runs }: RunDocumentDeps, run: Run, read: (found: Run) => Promise<T>): Promise<T | null> {
  try {
    return await read({ ...run, ...(await runs.archivedAs(run.id)) });
  } catch (error) {
    // It may be read later; then the document is written then.
    if (isStorageError(error)) throw error;
    log.warn({ runId: run.id, reason: errorText(error) }, "a document is written without its transcript");
    return null;
  }
}

function responseStatus(run: Run, as: EndState): ResponseStatus {
  if (as === "done") return run.incomplete ? "partial" : "success";
  return as === "stopped" ? "rejected" : "failure";
}

async function responseOf(deps: RunDocumentDeps, run: Run, as: EndState): Promise<BriefResponse> {
  const { result, notes } = (await fromTranscript(deps, run, (found) => resultOf(deps.transcripts, found))) ?? { result: "", notes: "" };
  const checked = checksNote(run.params, run.checks);
  const parts = [
    outcomeSentence(run, { ...run, as }, result),
    `## Result\n\n${result.trim() || "(not available)"}`,
    ...(run.data === null ? [] : [`## Data\n\n${codeBlock(run.data, "json")}`]),
    ...(checked === null ? [] : [`## Checks\n\n${checked}\n\n${checksMarkdown(run.checks ?? [])}`.trimEnd()]),
    ...(notes.trim() === "" ? [] : [`## Notes\n\n${notes.trim()}`]),
    ...(run.sections === null ? [] : [`## Sections\n\n${sectionsText(run.sections)}`]),
  ];
  const body = deps.redact(`${parts.join("\n\n")}\n`).slice(0, MAX_BODY);
  return BriefResponse.create({
    id: briefIdOf(run.id),
    status: responseStatus(run, as),
    body,
    timestamp: timeOf(run.endedAt ?? run.createdAt),
  });
}

const timeOf = (at: number): string => new Date(at).toISOString();

/** What the row itself tells of the run. The same row gives the same entries, so that adding them again changes nothing. */
async function entriesOf(deps: RunDocumentDeps, run: Run): Promise<TraceEntry[]> {
  const briefId = briefIdOf(run.id);
  const entries = [delegation(deps, run)];
  for (const { requesterKey, appliedAt } of await deps.briefing.list(run))
    entries.push({ agent: requesterKey, action: "Applied a brief", briefId, timestamp: timeOf(appliedAt) });
  if (run.startedAt !== null) {
    const action = run.generation === 1 ? "Started" : `Took it up again (generation ${run.generation})`;
    entries.push({ agent: run.childKey, action, briefId, timestamp: timeOf(run.startedAt) });
  }
  if (run.endedAt !== null && !isUnfinished(run.state)) {
    const why = run.reason === null ? "" : ` – ${deps.redact(run.reason)}`;
    const action = `Ended: ${run.state}, status ${STATUS_WORD[run.state]}${why}`;
    entries.push({ agent: run.childKey, action, briefId, timestamp: timeOf(run.endedAt) });
  }
  return entries;
}

const delegation = (deps: RunDocumentDeps, run: Run): TraceEntry => ({
  agent: run.requesterKey,
  action: `Delegated "${deps.redact(oneLine(run.label))}" to ${run.childKey}`,
  briefId: briefIdOf(run.id),
  timestamp: timeOf(run.createdAt),
});

const requesterSession = (run: Run): SessionRef => ({ agentId: agentIdOf(run.requesterKey), sessionId: run.requesterSessionId });

/**
 * What the child's trace gained goes back to the requester. An unfinished requester hands it on when it ends itself;
 * one that ended before its child (a stop ends both) can't any more, so it is done for it.
 */
async function handBack(deps: RunDocumentDeps, run: Run, trace: Trace, isBegun: boolean): Promise<void> {
  const gained = trace.getEntries().filter((entry) => Date.parse(entry.timestamp) >= run.createdAt);
  // With a brief its own delegation stands there since the spawn; to look for it again would mean reading the whole trace.
  const fresh = isBegun ? gained.filter((entry) => !isDelegation(entry, run)) : gained;
  await addToTrace(deps.sessionDocuments, requesterSession(run), fresh);
  for (let above = await requesterOf(deps, run); above !== null && !isUnfinished(above.state); above = await requesterOf(deps, above))
    await addToTrace(deps.sessionDocuments, requesterSession(above), gained);
}

const requesterOf = async ({ runs }: RunDocumentDeps, run: Run): Promise<Run | null> =>
  run.requesterRunId === null ? null : await runs.get(run.requesterRunId);

const isDelegation = (entry: TraceEntry, run: Run): boolean =>
  entry.briefId === briefIdOf(run.id) && entry.agent === run.requesterKey && entry.action.startsWith("Delegated ");

/** The newest entries about the run and those below it, in time order. */
export async function listTrace({ sessionDocuments }: RunDocumentDeps, run: Run, limit: number): Promise<readonly TraceEntry[]> {
  const trace = await readTrace(sessionDocuments, run);
  return ownEntries(run, trace.merge(Trace.create()).getEntries()).slice(-limit);
}

/**
 * A child's trace begins with its requester's (BP1), so it also tells of its elder siblings. What is about the run itself
 * carries its id; whoever it sent out, and whoever those sent out, is named in the entry that did so.
 */
export function ownEntries(run: Pick<Run, "id" | "childKey">, entries: readonly TraceEntry[]): TraceEntry[] {
  const ids = new Set([briefIdOf(run.id)]);
  const keys = new Set([run.childKey]);
  return entries.filter((entry) => {
    const child = keys.has(entry.agent) ? /^Delegated .* to (\S+)$/.exec(entry.action)?.[1] : undefined;
    if (child !== undefined) keys.add(child);
    if (child !== undefined && entry.briefId !== undefined) ids.add(entry.briefId);
    return entry.briefId !== undefined && ids.has(entry.briefId);
  });
}
