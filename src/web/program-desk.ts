// What other programs may ask of their own runs (PR1), as data: app/ answers it, mcp-tools.ts puts it into tools. A run of another token
// and one that is not there are the same: null.
import type { z } from "zod";
import type { Program } from "../core/program.ts";
import type { DeliveryState, RunState } from "../core/run.ts";

/** What code knows of a run; no word of a model but its label, which the program gave or a sub-agent of its. */
export interface RunFacts {
  readonly runId: string;
  readonly label: string;
  readonly state: RunState;
  /** success, error, timeout or unknown, once it has ended. */
  readonly status: string | null;
  readonly reason: string | null;
  /** The run that sent it out; null: the program did. */
  readonly parentRunId: string | null;
  readonly agentId: string;
  readonly model: string;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly tokens: number | null;
  readonly costUsd: number | null;
  readonly delivery: DeliveryState;
  readonly deliveryReason: string | null;
}

export interface RunQuestion {
  readonly questionId: string;
  /** `approve` wants a yes or a no. */
  readonly kind: "ask" | "approve";
  readonly text: string;
  readonly options: readonly string[];
}

export interface ProgramRun {
  readonly facts: RunFacts;
  readonly isOver: boolean;
  /** In words of the run's own or of its tools. */
  readonly doing: string | null;
  readonly step: string | null;
  /** What it waits for somebody to answer. */
  readonly questions: readonly RunQuestion[];
}

export interface ProgramResult {
  /** What became of it, in the runtime's own words. */
  readonly sentence: string;
  readonly text: string;
  readonly notes: string;
  /** Its typed result (TR1). */
  readonly data?: unknown;
  readonly checks?: unknown;
}

export type Spawned =
  | { readonly runId: string; readonly label: string; readonly model: string; readonly isRepeated: boolean; readonly warning?: string }
  | { readonly refused: string };

/** What is told: it was done, or why not. */
export type Told = { readonly text: string; readonly isDone: boolean };

export interface ProgramDesk {
  /** The arguments of a spawn; `idempotencyKey` among them. */
  readonly spawnSchema: z.ZodObject;
  /** With a key that this token has used before it finds that run. Durable on return. */
  spawn(program: Program, args: unknown): Promise<Spawned>;
  /** Newest first. */
  list(program: Program, limit: number): Promise<ProgramRun[]>;
  find(program: Program, runId: string): Promise<ProgramRun | null>;
  /** Of one that has ended. */
  result(program: Program, runId: string): Promise<ProgramResult | null>;
  log(program: Program, runId: string, options: { limit: number; tools: boolean }): Promise<string | null>;
  send(program: Program, runId: string, text: string): Promise<Told | null>;
  stop(program: Program, runId: string): Promise<Told | null>;
  answer(program: Program, runId: string, questionId: string | undefined, words: string): Promise<Told | null>;
}
