// What the files of this folder work with: the stores, the lane, and what app/ answers from the config. One type, so
// that each file names the few things it takes with Pick and the composition stays one object.
import type { Agents } from "../agents/agent.ts";
import type { Turns } from "../agents/turn.ts";
import type { Clock } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import type { Tool } from "../core/tool.ts";
import type { Lane } from "../lanes/lanes.ts";
import type { Models } from "../models/model.ts";
import type { Database } from "../stores/database.ts";
import type { Listings } from "../stores/listings.ts";
import type { MailStore } from "../stores/mail.ts";
import type { Nodes } from "../stores/nodes.ts";
import type { Outbox } from "../stores/outbox.ts";
import type { Runs } from "../stores/runs.ts";
import type { Sessions } from "../stores/sessions.ts";
import type { TranscriptRef, Transcripts } from "../stores/transcripts.ts";
import type { Tries } from "../stores/tries.ts";
import type { ChildPrompt } from "./child-prompt.ts";

export interface SubagentDeps {
  readonly db: Database;
  readonly runs: Runs;
  readonly sessions: Sessions;
  readonly transcripts: Transcripts;
  readonly mail: MailStore;
  readonly outbox: Outbox;
  readonly listings: Listings;
  readonly tries: Tries;
  readonly agents: Agents;
  readonly models: Models;
  readonly turns: Turns;
  readonly lane: Lane;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Logger;
  readonly failpoint: HitFailpoint;
  readonly bootId: string;
  readonly nodes: Pick<Nodes, "alive">;
  /** Other processes work beside this one. */
  readonly isShared?: boolean;
  channel(name: string, account: string): Channel | null;
  /** Every tool there is, before any policy. */
  tools(): readonly Tool[];
  readonly childPrompt: ChildPrompt;
  settings(): { readonly archiveAfterMinutes: number; readonly purgeAfterDays: number | null; readonly onRestart: "resume" | "interrupt" };
}

/** The line in the chat that says it was sent out. */
export const startedDelivery = ({ childKey, id }: Pick<Run, "childKey" | "id">): string => `started:v1:${childKey}:${id}`;

export const transcriptOfRun = (run: Run): TranscriptRef => ({
  agentId: run.agentId,
  sessionId: run.sessionId,
  runId: run.id,
  archiveName: run.archiveName,
});
