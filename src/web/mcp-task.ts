// A run as a task of the extension io.modelcontextprotocol/tasks: a client that names the extension gets its spawn back as a task, asks for
// it with tasks/get and takes it back with tasks/cancel. Only such a client: to any other the answer would look like an empty success.
import type { ProgramRun } from "./program-desk.ts";

export const TASKS = "io.modelcontextprotocol/tasks";
const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const POLL_MS = 2000;

/** Says the client in this very request that it can? One of 2025 has no such envelope. */
export function canTasks(envelope: Readonly<Record<string, unknown>> | undefined): boolean {
  const capabilities = envelope?.[CAPABILITIES] as { extensions?: Record<string, unknown> } | undefined;
  return capabilities?.extensions?.[TASKS] !== undefined;
}

/** What is asked is answered by the tool `answer` or by people; the task works on for the client. */
export function taskOf({ facts, isOver, questions }: ProgramRun) {
  const { runId, state, createdAt, startedAt, endedAt } = facts;
  return {
    taskId: runId,
    status: !isOver ? "working" : state === "stopped" ? "cancelled" : "completed",
    statusMessage: questions.length > 0 ? "It asks something and waits for the answer." : state,
    ...{ createdAt, lastUpdatedAt: endedAt ?? startedAt ?? createdAt, ttlMs: null, pollIntervalMs: POLL_MS },
  };
}
