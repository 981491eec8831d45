// What the files of this folder work with: the stores, the lane, and what app/ answers from the config. One type, so
// that each file names the few things it takes with Pick and the composition stays one object.
import type { Agents } from "../agents/agent.ts";
import type { Gate } from "../agents/gate.ts";
import type { Turns } from "../agents/turn.ts";
import type { Payments } from "../budgets/payments.ts";
import type { RunCheck } from "../core/check.ts";
import type { Clock } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import type { Tool, ToolContext } from "../core/tool.ts";
import type { Lane } from "../lanes/lanes.ts";
import type { Models } from "../models/model.ts";
import type { Database } from "../stores/database.ts";
import type { Digests } from "../stores/digests.ts";
import type { Groups } from "../stores/groups.ts";
import type { Inbox } from "../stores/inbox.ts";
import type { Listings } from "../stores/listings.ts";
import type { LiveMessages } from "../stores/live-messages.ts";
import type { MailStore } from "../stores/mail.ts";
import type { Nodes } from "../stores/nodes.ts";
import type { Outbox } from "../stores/outbox.ts";
import type { Questions } from "../stores/questions.ts";
import type { Runs } from "../stores/runs.ts";
import type { Sessions } from "../stores/sessions.ts";
import type { TranscriptRef, Transcripts } from "../stores/transcripts.ts";
import type { Tries } from "../stores/tries.ts";
import type { ChildPrompt } from "./child-prompt.ts";
import type { ChildWords } from "./child-words.ts";

export interface SubagentDeps {
  readonly db: Database;
  readonly runs: Runs;
  readonly sessions: Sessions;
  readonly transcripts: Transcripts;
  readonly mail: MailStore;
  readonly outbox: Outbox;
  readonly digests: Digests;
  readonly groups: Groups;
  /** Where a requester's turn that nobody asked for waits. */
  readonly inbox: Pick<Inbox, "wake">;
  readonly questions: Questions;
  readonly live: LiveMessages;
  readonly listings: Listings;
  readonly tries: Tries;
  readonly agents: Agents;
  readonly models: Models;
  readonly turns: Turns;
  readonly lane: Lane;
  readonly payments: Payments;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Logger;
  readonly failpoint: HitFailpoint;
  readonly bootId: string;
  readonly nodes: Pick<Nodes, "alive">;
  /** What a child's tool calls pass; left out: nothing. */
  readonly gate?: Gate;
  /** One completion check, carried out. */
  readonly runCheck: RunCheck;
  /** What children write meanwhile. */
  readonly words: ChildWords;
  /** Does this tool need a person's yes before each call? */
  needsYes(tool: string, caller: Pick<ToolContext, "agentId" | "runId">): Promise<boolean>;
  /** Other processes work beside this one. */
  readonly isShared?: boolean;
  channel(name: string, account: string): Channel | null;
  /** Every tool there is, before any policy. */
  tools(): readonly Tool[];
  readonly childPrompt: ChildPrompt;
  settings(): {
    readonly archiveAfterMinutes: number;
    readonly purgeAfterDays: number | null;
    readonly onRestart: "resume" | "interrupt";
    /** Where people open the page from elsewhere; null: nobody said. */
    readonly publicUrl: string | null;
  };
}

export const transcriptOfRun = (run: Run): TranscriptRef => ({
  agentId: run.agentId,
  sessionId: run.sessionId,
  runId: run.id,
  archiveName: run.archiveName,
});
