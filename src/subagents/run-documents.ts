// A run's documents in its child's session folder, in the Brief protocol (BP1): <id>.brief.md (what was delegated),
// <id>.response.md (what came back), trace.md (who did what when). All of it is made from the row and the transcript.
// The trace goes down with the child when it is spawned, and what it gained comes back up when the run ends.
import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import type { Agents } from "../agents/agent.ts";
import { Brief } from "../brief/brief.ts";
import { BriefResponse, type ResponseStatus } from "../brief/response.ts";
import { Trace, type TraceEntry } from "../brief/trace.ts";
import { fileStamp } from "../core/clock.ts";
import { type EndState, isUnfinished, type Run, STATUS_WORD } from "../core/run.ts";
import type { Runs } from "../stores/runs.ts";
import type { Transcripts } from "../stores/transcripts.ts";
import type { Briefing } from "./briefing.ts";
import { transcriptOfRun } from "./deps.ts";
import { oneLine, outcomeSentence, sectionsText } from "./report.ts";
import { readEnd, replaceText, sessionFolder } from "./session-folder.ts";
import { resultOf } from "./transcript-view.ts";

export interface PaperDeps {
  readonly runs: Runs;
  readonly transcripts: Transcripts;
  readonly agents: Agents;
  readonly briefing: Briefing;
  redact(text: string): string;
}

const TRACE_FILE = "trace.md";
/** A longer trace is put aside under a name with its time, so that a session of years stays cheap. */
const MAX_TRACE_BYTES = 256 * 1024;
/** How many entries of the requester's trace go down with a child. */
const MAX_HANDED_DOWN = 100;
const MAX_BODY = 1024 * 1024;

/** The run's id in the Brief protocol: made of the run id, so that it needs no record and is the same after a crash. */
export const briefIdOf = (runId: string): string => `brief-${runId.slice(0, 6)}`;

const folderOf = ({ transcripts }: PaperDeps, run: Run): string => sessionFolder(transcripts, run);

/** Brings the files up to what the row says; writes nothing that is there already. Throws when the disk refuses. */
export function writeDocuments(deps: PaperDeps, run: Run): void {
  const folder = folderOf(deps, run);
  const name = briefIdOf(run.id);
  deps.briefing.write(run);
  if (!existsSync(join(folder, `${name}.brief.md`))) replaceText(folder, `${name}.brief.md`, briefOf(deps, run).content);
  const trace = traceDown(deps, run).merge(traceOf(deps, run));
  writeTrace(folder, trace);
  if (!isUnfinished(run.state)) replaceText(folder, `${name}.response.md`, responseOf(deps, run, run.state as EndState).content);
  traceUp(deps, run, trace);
}

function briefOf(deps: PaperDeps, run: Run): Brief {
  const task = deps.transcripts.tail(transcriptOfRun(run), 50).find((entry) => entry.id === "task");
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

function responseStatus(run: Run, as: EndState): ResponseStatus {
  if (as === "done") return run.incomplete ? "partial" : "success";
  return as === "stopped" ? "rejected" : "failure";
}

function responseOf(deps: PaperDeps, run: Run, as: EndState): BriefResponse {
  const { result, notes } = resultOf(deps.transcripts, run);
  const parts = [
    outcomeSentence(run, as, run.reason, run.incomplete),
    `## Result\n\n${result.trim() || "(not available)"}`,
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

/** What the row itself tells of the run. The same row gives the same entries, so that merging them again adds nothing. */
function traceOf(deps: PaperDeps, run: Run): Trace {
  const briefId = briefIdOf(run.id);
  const trace = Trace.create().append(delegation(deps, run));
  for (const { requesterKey, appliedAt } of deps.briefing.list(run))
    trace.append({ agent: requesterKey, action: "Applied a brief", briefId, timestamp: timeOf(appliedAt) });
  if (run.startedAt !== null) {
    const action = run.generation === 1 ? "Started" : `Took it up again (generation ${run.generation})`;
    trace.append({ agent: run.childKey, action, briefId, timestamp: timeOf(run.startedAt) });
  }
  if (run.endedAt !== null) {
    const why = run.reason === null ? "" : ` – ${deps.redact(run.reason)}`;
    const action = `Ended: ${run.state}, status ${STATUS_WORD[run.state as EndState]}${why}`;
    trace.append({ agent: run.childKey, action, briefId, timestamp: timeOf(run.endedAt) });
  }
  return trace;
}

const delegation = (deps: PaperDeps, run: Run): TraceEntry => ({
  agent: run.requesterKey,
  action: `Delegated "${deps.redact(oneLine(run.label))}" to ${run.childKey}`,
  briefId: briefIdOf(run.id),
  timestamp: timeOf(run.createdAt),
});

const requesterFolder = ({ transcripts }: PaperDeps, run: Run): string =>
  sessionFolder(transcripts, { agentId: run.requesterKey.split(":")[1] ?? "", sessionId: run.requesterSessionId });

/** The child's trace; before there is one, what the requester's tells. */
function traceDown(deps: PaperDeps, run: Run): Trace {
  const folder = folderOf(deps, run);
  if (existsSync(join(folder, TRACE_FILE))) return readTrace(folder);
  const trace = Trace.create();
  for (const entry of readTrace(requesterFolder(deps, run)).getEntries().slice(-MAX_HANDED_DOWN)) trace.append(entry);
  return trace;
}

/**
 * Back to the requester: at first that it delegated, at the end all that happened since. An unfinished requester hands
 * it on when it ends itself; one that has ended before its child can't any more, so it is done for it.
 */
function traceUp(deps: PaperDeps, run: Run, trace: Trace): void {
  const isOver = !isUnfinished(run.state);
  const since = Trace.create();
  const known = isOver ? trace.getEntries().filter((entry) => Date.parse(entry.timestamp) >= run.createdAt) : [delegation(deps, run)];
  for (const entry of known) since.append(entry);
  for (let at: Run | null = run; at !== null; ) {
    const folder = requesterFolder(deps, at);
    writeTrace(folder, readTrace(folder).merge(since));
    const requester: Run | null = at.requesterRunId === null ? null : deps.runs.get(at.requesterRunId);
    at = requester !== null && !isUnfinished(requester.state) ? requester : null;
  }
}

/** The child's trace as it stands. */
export const readTraceOf = (deps: PaperDeps, run: Run): Trace => readTrace(folderOf(deps, run));

const readTrace = (folder: string): Trace => Trace.parse(readEnd(folder, TRACE_FILE, MAX_TRACE_BYTES * 2) ?? "");

function writeTrace(folder: string, trace: Trace): void {
  const text = trace.toString();
  if (text === readEnd(folder, TRACE_FILE, MAX_TRACE_BYTES * 2)) return;
  replaceText(folder, TRACE_FILE, text);
  const last = trace.getEntries().at(-1);
  if (text.length <= MAX_TRACE_BYTES || last === undefined) return;
  renameSync(join(folder, TRACE_FILE), join(folder, `trace.${fileStamp(Date.parse(last.timestamp))}.md`));
}
