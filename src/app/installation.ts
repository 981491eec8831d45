// This process among several, as its settings say: its name, what it does, which agents it can run and how much at a time; and what they
// have in common.
import { hostname, uptime } from "node:os";
import type { Config } from "../config/schema.ts";
import type { NodeRole } from "../core/node-role.ts";
import type { Bell } from "../stores/postgres/bell.ts";
import type { PostgresDatabase } from "../stores/postgres/database.ts";
import type { LaneJobs } from "../stores/postgres/lane-jobs.ts";
import type { Membership } from "../stores/postgres/nodes.ts";
import type { TranscriptRef } from "../stores/transcripts.ts";

export interface SharedOptions {
  readonly url: string;
  readonly poolSize: number;
  /** Of this machine; unset: its host name. */
  readonly nodeName?: string;
  readonly version: string;
  readonly role: NodeRole;
  readonly leaseMs?: number;
  agents(): readonly string[];
  limits(): Readonly<Record<string, number>>;
  /** Tools that its settings deny everybody. */
  denies(): readonly string[];
  /** What somebody waits for whose agent nobody alive can run. */
  whereIs(agentId: string): string;
  /** Milliseconds that never go back and count while the machine sleeps. */
  steady(): number;
  /** Where people read a transcript. */
  addressOf(ref: TranscriptRef): string;
  /** Its lease is over: it must end at once. */
  onLost(): void;
}

export interface Installation {
  readonly db: PostgresDatabase;
  readonly nodeName: string;
  readonly role: NodeRole;
  readonly members: Membership;
  readonly bell: Bell;
  jobs(lane: string): LaneJobs;
  /** What somebody waits for whose agent nobody alive can run; null: somebody can. */
  whyStranded(agentId: string): Promise<string | null>;
  /** A value that is one for all processes: whoever asks first gives it. */
  keep(name: string, first: () => string): Promise<string>;
}

const whereIs = (nodes: readonly string[], agentId: string): string =>
  nodes.length > 0 ? `waits for ${nodes.join(" or ")}` : `waits for a machine that has the agent ${agentId} in its settings`;

export interface ThisProcess {
  readonly version: string;
  readonly role?: NodeRole;
  readonly leaseMs?: number;
  /** As it is now. */
  config(): Config;
  onLost?(): void;
}

/** Null: it works alone, on a file of its own. */
export function sharedOptions({ version, role = "all", leaseMs, config, onLost }: ThisProcess): SharedOptions | null {
  const { url, poolSize, node } = config().store;
  if (url === undefined) return null;
  const nodeName = node ?? hostname();
  const canRun = ({ nodes }: { readonly nodes: readonly string[] }): boolean => nodes.length === 0 || nodes.includes(nodeName);
  return {
    ...{ url, poolSize, nodeName, version, role },
    ...(leaseMs === undefined ? {} : { leaseMs }),
    agents: () =>
      role === "gateway"
        ? []
        : config()
            .agents.list.filter(canRun)
            .map(({ id }) => id),
    limits: () => ({ main: config().agents.defaults.maxConcurrent, subagent: config().agents.defaults.subagents.maxConcurrent }),
    denies: () => config().tools.deny,
    whereIs: (id) => whereIs(config().agents.list.find((agent) => agent.id === id)?.nodes ?? [], id),
    // Counts while the machine sleeps, and no clock that is set changes it.
    steady: () => uptime() * 1000,
    addressOf: ({ sessionId, runId }) => {
      const { publicUrl } = config().web;
      return runId === undefined ? `${sessionId} in PostgreSQL` : `${publicUrl ?? "on the page"}/#/run/${runId}`;
    },
    onLost: () => onLost?.(),
  };
}
