// A state folder with briefs and documents on it and runs that a test records by hand: what unit tests of delegation
// share. The agents `main` and `scout` have workspaces of their own.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Agent, Agents } from "../../src/agents/agent.ts";
import { newId, subagentKey } from "../../src/core/ids.ts";
import type { Run } from "../../src/core/run.ts";
import { type Briefing, createBriefing } from "../../src/subagents/documents/briefing.ts";
import { createDocuments, type Documents } from "../../src/subagents/documents/documents.ts";
import { makeRun } from "./runs.ts";
import { createStateFolder, type StateFolder } from "./state-folder.ts";

export const makeAgent = (id: string, workspace: string, subagents: Partial<Agent["subagents"]> = {}): Agent => ({
  id,
  name: id,
  model: "scripted/model-1",
  fallbacks: [],
  thinking: "off",
  workspace,
  maxIterations: 50,
  timeoutMs: 0,
  policies: [],
  subagents: {
    allowAgents: [],
    model: null,
    defaultModel: null,
    thinking: null,
    announce: "post",
    announcing: { when: "always", everyMinutes: null, to: "thread" },
    planning: true,
    runTimeoutMs: 0,
    budget: null,
    maxIterations: 20,
    maxSpawnDepth: 3,
    maxChildren: 20,
    announceTimeoutMs: 60_000,
    policies: [],
    grant: [],
    ...subagents,
  },
});

export interface Delegation extends AsyncDisposable {
  readonly folder: StateFolder;
  readonly briefing: Briefing;
  readonly documents: Documents;
  /** Another set on the same folder, as after a restart. */
  restart(): Documents;
  /** Records a queued run with its transcript, below `above` when given. */
  spawn(label: string, above?: Run, changes?: Partial<Run>): Promise<Run>;
  get(run: Run): Promise<Run>;
  /** Where the run's documents are. */
  folderOf(run: Run): string;
  /** Writes a file of an agent's workspace. */
  put(agentId: string, path: string, text: string): void;
}

export async function createDelegation(): Promise<Delegation> {
  const folder = await createStateFolder();
  const { stores, secrets } = folder;
  const workspace = (id: string): string => join(folder.stateDir, `workspace-${id}`);
  const known = ["main", "scout"].map((id) => makeAgent(id, workspace(id)));
  for (const agent of known) mkdirSync(agent.workspace, { recursive: true });
  const agents: Agents = { find: (id) => known.find((one) => one.id === id) ?? null, list: () => known, defaultId: () => "main" };
  const redact = (text: string): string => secrets.redact(text);
  const crewPath = join(folder.stateDir, "CREW.md");
  const briefing = createBriefing({
    ...folder,
    ...stores,
    agents,
    redact,
    crewPath,
    confirmed: (read) => read(),
    memoryEnabled: () => true,
  });
  const make = (): Documents => createDocuments({ ...folder, ...stores, agents, briefing, redact });
  const documents = make();
  return {
    ...{ folder, briefing, documents, restart: make },
    spawn: (label, above, changes = {}) => spawn(folder, label, above, changes),
    async get(run) {
      const found = await stores.runs.get(run.id);
      if (found === null) throw new Error(`run ${run.label} vanished`);
      return found;
    },
    folderOf: (run) => join(folder.stateDir, "agents", run.agentId, "sessions", run.sessionId),
    put(agentId, path, text) {
      mkdirSync(dirname(join(workspace(agentId), path)), { recursive: true });
      writeFileSync(join(workspace(agentId), path), text);
    },
    async [Symbol.asyncDispose]() {
      await documents.stop();
      folder[Symbol.dispose]();
    },
  };
}

async function spawn({ stores }: StateFolder, label: string, above: Run | undefined, changes: Partial<Run>): Promise<Run> {
  const agentId = changes.agentId ?? "main";
  const run = makeRun({
    id: newId(),
    spawnKey: newId(),
    sessionId: newId(),
    childKey: subagentKey(agentId, newId()),
    label,
    task: `do ${label}`,
    ...(above === undefined
      ? {}
      : { requesterKey: above.childKey, requesterSessionId: above.sessionId, requesterRunId: above.id, depth: above.depth + 1 }),
    ...changes,
  });
  const ref = { agentId: run.agentId, sessionId: run.sessionId };
  await stores.transcripts.create(ref, { key: run.childKey, parent: run.requesterKey });
  await stores.transcripts.append(ref, [
    { type: "message", role: "user", text: `the whole of ${label}`, from: run.requesterKey, id: "task" },
  ]);
  await stores.db.transaction([], (tx) => stores.runs.insert(tx, run));
  return (await stores.runs.get(run.id)) ?? run;
}
