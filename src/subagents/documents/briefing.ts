// Briefs of children: who may know what (BF). sessions_spawn.brief and the tool `subagents` → check → apply → rows, one
// per requester → BRIEF.md among the child's documents, and the first part of its [AGENT MEMORY] block. The rows are
// the truth and are read at every step of the child, so that a new brief or a revoke counts from the next one on.
import type { Agents } from "../../agents/agent.ts";
import { type Confirmed, formatMemory, type MemoryReference, type MemorySection, readMemoryReference } from "../../agents/memory.ts";
import type { Bus } from "../../core/events.ts";
import { agentIdOf } from "../../core/ids.ts";
import type { Logger } from "../../core/logger.ts";
import type { Run } from "../../core/run.ts";
import type { Briefs } from "../../stores/briefs.ts";
import type { Tx } from "../../stores/database.ts";
import type { Runs } from "../../stores/runs.ts";
import type { SessionDocuments } from "../../stores/session-documents.ts";
import type { BriefEvent } from "./brief-history.ts";
import { type BriefParams, listReferences, parseBriefParams, type RequesterBrief, renderBrief } from "./brief-params.ts";

/** The child a brief is for. */
export type BriefedChild = Pick<Run, "agentId" | "sessionId" | "requesterKey">;

export interface Briefing {
  /** Null, or why this requester can't share what the brief names. Writes nothing. */
  check(requesterKey: string, brief: BriefParams): Promise<string | null>;
  /**
   * Replaces all this requester said before, and what `replaces` said with it. BRIEF.md follows the commit. A requester is a session or, by
   * a name that is no session's key, a person: no model replaces or revokes what a person said, and its memory references are read where
   * the child's requester has its memory.
   */
  apply(tx: Tx, child: BriefedChild, requesterKey: string, brief: BriefParams, replaces?: string | null): Promise<void>;
  /** Takes one requester's brief back, or all with null; returns how many there were. */
  revoke(tx: Tx, child: BriefedChild, requesterKey: string | null, by: string): Promise<number>;
  /** Oldest first. */
  list(child: BriefedChild): Promise<RequesterBrief[]>;
  /** What became of them, newest first. */
  history(child: BriefedChild): Promise<BriefEvent[]>;
  /** Another number after each change: who changes what he has seen names it. */
  version(child: BriefedChild): Promise<number>;
  /** What the child's memory block shows of its briefs; both empty without one. Never throws on a missing memory file. */
  read(child: BriefedChild): Promise<{ readonly section: string; readonly memory: string }>;
  /** Makes BRIEF.md say what the rows say. Never throws. */
  write(child: BriefedChild): Promise<void>;
  /** Resolves when BRIEF.md says what was committed up to now: who revokes a brief is told that it is gone, and then it is. */
  written(): Promise<void>;
}

export interface BriefingDeps {
  readonly bus: Bus;
  readonly briefs: Briefs;
  readonly runs: Pick<Runs, "findByChildKey">;
  readonly sessionDocuments: Pick<SessionDocuments, "read" | "change">;
  readonly agents: Agents;
  readonly log: Logger;
  readonly crewPath: string;
  readonly confirmed: Confirmed;
  memoryEnabled(): boolean;
  redact(text: string): string;
}

export const BRIEF_FILE = "BRIEF.md";
/** Of the history that is shown; older ones stay on record. */
const MAX_CHANGES = 100;

export function createBriefing(deps: BriefingDeps): Briefing {
  const list = (child: BriefedChild): Promise<RequesterBrief[]> => listBriefs(deps, child);
  const changed = (tx: Tx, { agentId, sessionId, requesterKey }: BriefedChild): void =>
    tx.emit({ type: "brief.changed", child: { agentId, sessionId, requesterKey } });
  let writing: Promise<void> = Promise.resolve();
  deps.bus.on((event) => {
    // At once, unlike the other documents.
    if (event.type === "brief.changed") writing = writing.then(() => attempt(deps, event.child, () => rewrite(deps, event.child)));
  });
  return {
    written: () => writing,
    check: (requesterKey, brief) => checkReach(deps, requesterKey, brief),
    async apply(tx, child, requesterKey, brief, replaces = null) {
      await deps.briefs.put(tx, child.sessionId, { requesterKey, brief, by: requesterKey, replaces });
      changed(tx, child);
    },
    async revoke(tx, child, requesterKey, by) {
      const removed = await deps.briefs.remove(tx, child.sessionId, requesterKey, by);
      changed(tx, child);
      return removed;
    },
    list,
    async history({ sessionId }) {
      const { briefHistory } = await import("./brief-history.ts");
      return briefHistory(await deps.briefs.changes(sessionId, MAX_CHANGES));
    },
    version: ({ sessionId }) => deps.briefs.version(sessionId),
    // Most children have no brief, and this is asked at every look at a run: looking costs less than a lock.
    write: (child) =>
      attempt(deps, child, async () => {
        if ((await textOf(deps, child)) !== (await deps.sessionDocuments.read(child, BRIEF_FILE))) await rewrite(deps, child);
      }),
    async read(child) {
      const briefs = await list(child);
      const memory = deps.memoryEnabled() ? await deps.confirmed(() => readReferences(deps, child, briefs)) : [];
      return { section: renderBrief(briefs).section, memory: memory.length === 0 ? "" : `# Shared memory\n\n${formatMemory(memory)}` };
    },
  };
}

/** A row this version can't read is left out, not guessed at. */
async function listBriefs({ briefs, log }: BriefingDeps, child: BriefedChild): Promise<RequesterBrief[]> {
  return (await briefs.list(child.sessionId)).flatMap(({ requesterKey, appliedAt, brief }) => {
    const parsed = parseBriefParams(brief);
    if (parsed.ok) return [{ requesterKey, appliedAt, brief: parsed.brief }];
    log.error({ sessionId: child.sessionId, requesterKey, reason: parsed.error }, "a stored brief can't be read");
    return [];
  });
}

const nameOf = ({ tier, key }: MemoryReference): string => (key === undefined ? tier : `${tier}/${key}`);

/**
 * A sub-agent can share what it can read itself: AGENT, which it inherits, and what its own briefs name. Otherwise it
 * could have a child of its own read the rest to it (BF4).
 */
async function checkReach(deps: BriefingDeps, requesterKey: string, brief: BriefParams): Promise<string | null> {
  const run = await deps.runs.findByChildKey(requesterKey);
  if (run === null) return null;
  const own = listReferences(await listBriefs(deps, run));
  const covers = (given: (typeof own)[number], wanted: (typeof own)[number]): boolean =>
    given.tier === wanted.tier && (given.key === undefined || given.key === wanted.key);
  const beyond = brief.sharedMemory.filter((wanted) => wanted.tier !== "AGENT" && !own.some((given) => covers(given, wanted)));
  if (beyond.length === 0) return null;
  return `Brief refused: brief.sharedMemory: ${beyond.map(nameOf).join(", ")} was not shared with you, so you can't pass it on.`;
}

/** By a name instead of a session's key. */
export const isPerson = (requesterKey: string): boolean => agentIdOf(requesterKey) === "";

const workspaceOf = ({ agents }: BriefingDeps, sessionKey: string): string | null => agents.find(agentIdOf(sessionKey))?.workspace ?? null;

/** The text behind each reference, once, from the memory of whoever gave it. */
async function readReferences(deps: BriefingDeps, child: BriefedChild, briefs: readonly RequesterBrief[]): Promise<MemorySection[]> {
  const inherited = workspaceOf(deps, child.requesterKey);
  const sections = new Map<string, MemorySection>();
  for (const brief of briefs) {
    const workspace = isPerson(brief.requesterKey) ? inherited : workspaceOf(deps, brief.requesterKey);
    if (workspace === null) continue;
    for (const { tier, key } of listReferences([brief])) {
      // It stands in the block anyway, as the memory every child inherits.
      if (tier === "AGENT" && workspace === inherited) continue;
      const found = await readMemoryReference({ tier, key, workspace, crewPath: deps.crewPath });
      const name = nameOf({ tier, key });
      for (const section of found.ok ? found.sections : [{ name, text: `(${found.error})`, cut: false }])
        sections.set(tier === "CREW" ? "CREW" : JSON.stringify([workspace, section.name]), section);
    }
  }
  return [...sections.values()];
}

/** What BRIEF.md is to say; null without a brief. */
async function textOf(deps: BriefingDeps, child: BriefedChild): Promise<string | null> {
  const briefs = await listBriefs(deps, child);
  return briefs.length === 0 ? null : deps.redact(renderBrief(briefs).markdown);
}

/**
 * Two changes of a brief in a row are written side by side. Had one read its rows before it waited for the other, a revoked brief
 * could be written last; so the rows are read where nobody else changes the document, and who writes last has read last.
 */
const rewrite = (deps: BriefingDeps, child: BriefedChild): Promise<void> =>
  deps.sessionDocuments.change(child, BRIEF_FILE, async (document) => {
    const text = await textOf(deps, child);
    const old = (await document.end(Number.POSITIVE_INFINITY))?.text ?? null;
    if (text === old) return;
    if (text === null) await document.remove();
    else await document.replace(text);
  });

async function attempt({ log }: BriefingDeps, { sessionId }: BriefedChild, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    log.error({ err: error, sessionId }, "BRIEF.md could not be written; the child reads the brief all the same");
  }
}
