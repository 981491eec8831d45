// What is asked for when runs are sent out, by whom, and what is answered (SP1, GR1).
import type { Address } from "../core/address.ts";
import type { Check } from "../core/check.ts";
import type { Group } from "../core/group.ts";
import type { Person } from "../core/question.ts";
import type { Thinking } from "../core/thinking.ts";
import type { BriefParams } from "./documents/brief-params.ts";

export interface Requester {
  readonly sessionKey: string;
  readonly sessionId: string;
  readonly agentId: string;
  /** The run the requester is, when it is a child itself. */
  readonly runId: string | null;
  readonly address: Address;
  /** Whose message it works on. */
  readonly person: Person | null;
  /** The turn that spawns: what is accepted in one shares a status message. */
  readonly turnId: string;
  /** What pays for it (`budgets.message`), where that is another message than the turn's own. */
  readonly message?: string | undefined;
  /** The requester's turn and tool call. */
  readonly spawnKey: string;
  /** Aborts when its turn is ended. */
  readonly signal?: AbortSignal;
  /** Names of the tools it has now: the child's ceiling. */
  readonly tools: readonly string[];
}

export interface SpawnRequest {
  readonly task: string;
  readonly label?: string;
  readonly agentId?: string;
  readonly role?: string;
  readonly model?: string;
  readonly thinking?: Thinking;
  readonly runTimeoutSeconds?: number;
  readonly cleanup?: "keep" | "delete";
  readonly maxIterations?: number;
  readonly briefing?: string;
  readonly systemPrompt?: string;
  readonly allowedTools?: readonly string[];
  readonly brief?: unknown;
  readonly checks?: readonly Check[];
  readonly checkRounds?: number;
  readonly resultSchema?: Readonly<Record<string, unknown>>;
  /** USD and tokens; a side that is left out has no limit. */
  readonly budget?: { readonly usd?: number | undefined; readonly tokens?: number | undefined };
  /** Labels or ids of runs that have to end before it begins (GR2). */
  readonly after?: readonly string[];
  /** It begins also when one of those failed. */
  readonly ifFailed?: "end" | "run";
}

/** Runs that belong together (GR1). */
export interface GroupRequest {
  readonly name?: string;
  readonly wait?: "all" | "any" | number;
  readonly announce?: Group["announce"];
  readonly then?: "wake" | "nothing";
}

export interface Accepted {
  readonly status: "accepted";
  readonly runId: string;
  readonly childSessionKey: string;
  readonly label: string;
  readonly model: string;
  readonly warning?: string;
  /** What was summed up for it. */
  readonly brief?: BriefParams;
}

export interface Refused {
  readonly status: "forbidden" | "error";
  readonly error: string;
}

export type SpawnAnswer = Accepted | Refused;
