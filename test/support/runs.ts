// Run records for tests: one as a spawn hands it to the store, and an ordinary running one for what is said about runs;
// both changed where the test says so.
import type { Address } from "../../src/core/address.ts";
import type { Run } from "../../src/core/run.ts";
import type { NewRun } from "../../src/stores/run-row.ts";

export const ADDRESS: Address = { channel: "web", account: "local", chat: "main", kind: "dm" };
export const CHAT_KEY = "agent:main:web:dm:main";

export const newRun = (id: string, more: Partial<NewRun> = {}): NewRun => ({
  id,
  spawnKey: `spawn-${id}`,
  childKey: `child-${id}`,
  sessionId: `session-${id}`,
  agentId: "main",
  requesterKey: CHAT_KEY,
  requesterSessionId: "requester-session",
  requesterRunId: null,
  rootKey: more.requesterKey ?? CHAT_KEY,
  depth: 1,
  address: ADDRESS,
  label: id,
  task: "do it",
  model: "offline/rules",
  thinking: "off",
  timeoutMs: 0,
  maxIterations: 20,
  cleanup: "keep",
  announce: "post",
  params: {},
  toolCeiling: ["read"],
  bootId: "boot",
  ...more,
});

export const makeRun = (changes: Partial<Run> = {}): Run => ({
  ...newRun("11111111-2222-4333-8444-555555555555"),
  spawnKey: "turn:1:c0",
  childKey: "agent:main:subagent:aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee",
  sessionId: "99999999-8888-4777-8666-555555555555",
  requesterSessionId: "00000000-0000-4000-8000-000000000000",
  label: "count lines",
  task: "count the lines of src",
  model: "scripted/model-1",
  state: "running",
  delivery: "none",
  deliveryReason: null,
  generation: 1,
  resumes: 0,
  crashes: 0,
  bootId: "boot-1",
  createdAt: 1_000_000,
  queuedAt: 1_000_000,
  startedAt: 1_000_000,
  deadlineAt: null,
  steps: 0,
  endedAt: null,
  spend: { usage: null, costUsd: null },
  reason: null,
  incomplete: false,
  doing: null,
  waits: [],
  settledAt: null,
  archivedAt: null,
  archiveName: null,
  plan: null,
  sections: null,
  ...changes,
});
