// The runs table ↔ the Run record of core/run.ts: names and JSON columns, nothing else.
import type { Address } from "../core/address.ts";
import type { CheckResult } from "../core/check.ts";
import type { Person } from "../core/question.ts";
import {
  ALWAYS,
  type Announcing,
  type DeliveryState,
  type Misfit,
  type PlanStep,
  type Run,
  type RunBudget,
  type RunSections,
  type RunState,
  type SpawnParams,
  type Wait,
} from "../core/run.ts";
import type { Usage } from "../core/usage.ts";
import { parseColumn } from "./database.ts";

/** What a spawn decides; the rest starts at its default. */
// biome-ignore format: a list of names reads better in rows
export type NewRun = Omit<
  Run,
  | "state" | "delivery" | "deliveryReason" | "generation" | "resumes" | "crashes" | "createdAt" | "queuedAt" | "startedAt" | "deadlineAt" | "steps" | "endedAt"
  | "spend" | "reason" | "incomplete" | "doing" | "waits" | "plan" | "sections" | "checks" | "checkRounds" | "data" | "misfits" | "settledAt" | "archivedAt" | "archiveName"
>;

export type RunRow = Record<string, string | number | null>;

/** Values of a fresh row, by column name. */
export function runColumns(run: NewRun, now: number): RunRow {
  return {
    id: run.id,
    spawn_key: run.spawnKey,
    rerun_of: run.rerunOf,
    group_id: run.groupId,
    budget: run.budget === null ? null : JSON.stringify(run.budget),
    message: run.message,
    child_key: run.childKey,
    session_id: run.sessionId,
    agent_id: run.agentId,
    requester_key: run.requesterKey,
    requester_session_id: run.requesterSessionId,
    requester_run_id: run.requesterRunId,
    root_key: run.rootKey,
    depth: run.depth,
    address: JSON.stringify(run.address),
    person: run.person === null ? null : JSON.stringify(run.person),
    batch: run.batch,
    label: run.label,
    task: run.task,
    model: run.model,
    thinking: run.thinking,
    timeout_ms: run.timeoutMs,
    max_iterations: run.maxIterations,
    cleanup: run.cleanup,
    announce: run.announce,
    announcing: run.announcing === ALWAYS ? null : JSON.stringify(run.announcing),
    params: JSON.stringify(run.params),
    tool_ceiling: JSON.stringify(run.toolCeiling),
    boot_id: run.bootId,
    state: "queued",
    delivery: "none",
    created_at: now,
    queued_at: now,
  };
}

/** The statement for these columns: with three dozen of them, putting it together would cost as much as a look at the table. */
export function createInsert(): (columns: RunRow) => string {
  const known = new Map<number, string>();
  return (columns) => {
    const names = Object.keys(columns);
    // One set has nothing of another but more of it.
    const sql = known.get(names.length) ?? `INSERT INTO runs (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`;
    known.set(names.length, sql);
    return sql;
  };
}

/** Throws AppError("state") naming the row when one of its JSON columns is damaged. */
export function fromRunRow(row: RunRow): Run {
  // Most are null, and a run is read more often than anything else.
  const json = <T>(column: string): T =>
    row[column] === null ? (null as T) : parseColumn<T>(String(row[column]), { table: "runs", id: String(row.id), column });
  const text = (name: string): string => String(row[name]);
  const maybe = (name: string): string | null => (row[name] === null ? null : String(row[name]));
  const number = (name: string): number => Number(row[name]);
  const time = (name: string): number | null => (row[name] === null ? null : Number(row[name]));
  return {
    id: text("id"),
    spawnKey: text("spawn_key"),
    rerunOf: maybe("rerun_of"),
    groupId: maybe("group_id"),
    budget: json<RunBudget | null>("budget"),
    // Before there were budgets nobody asked which one it was.
    message: maybe("message") ?? text("spawn_key"),
    childKey: text("child_key"),
    sessionId: text("session_id"),
    agentId: text("agent_id"),
    requesterKey: text("requester_key"),
    requesterSessionId: text("requester_session_id"),
    requesterRunId: maybe("requester_run_id"),
    rootKey: text("root_key"),
    depth: number("depth"),
    address: json<Address>("address"),
    person: json<Person | null>("person"),
    batch: maybe("batch"),
    label: text("label"),
    task: text("task"),
    model: text("model"),
    thinking: text("thinking") as Run["thinking"],
    timeoutMs: number("timeout_ms"),
    maxIterations: number("max_iterations"),
    cleanup: text("cleanup") as Run["cleanup"],
    announce: text("announce") as Run["announce"],
    announcing: json<Announcing | null>("announcing") ?? ALWAYS,
    params: json<SpawnParams>("params"),
    toolCeiling: json<string[]>("tool_ceiling"),
    state: text("state") as RunState,
    delivery: text("delivery") as DeliveryState,
    deliveryReason: maybe("delivery_reason"),
    generation: number("generation"),
    resumes: number("resumes"),
    crashes: number("crashes"),
    bootId: text("boot_id"),
    createdAt: number("created_at"),
    queuedAt: number("queued_at"),
    startedAt: time("started_at"),
    deadlineAt: time("deadline_at"),
    steps: number("steps"),
    endedAt: time("ended_at"),
    spend: { usage: usageOf(row), costUsd: time("cost_usd") },
    reason: maybe("reason"),
    incomplete: row.incomplete === 1,
    doing: maybe("doing"),
    waits: json<Wait[] | null>("waits") ?? [],
    plan: json<PlanStep[] | null>("plan"),
    sections: json<RunSections | null>("sections"),
    ...completionOf(row, json),
    settledAt: time("settled_at"),
    archivedAt: time("archived_at"),
    archiveName: maybe("archive_name"),
  };
}

const completionOf = (row: RunRow, json: <T>(column: string) => T): Pick<Run, "checks" | "checkRounds" | "data" | "misfits"> => ({
  checks: json<CheckResult[] | null>("checks"),
  checkRounds: Number(row.check_rounds),
  data: row.data == null ? null : String(row.data),
  misfits: json<Misfit[] | null>("misfits") ?? [],
});

/** Null: nothing was reported yet. */
const usageOf = ({ input, output, cache_read, cache_write }: RunRow): Usage | null =>
  input === null ? null : { input: Number(input), output: Number(output), cacheRead: Number(cache_read), cacheWrite: Number(cache_write) };
