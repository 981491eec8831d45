// What the page asks for by routes of its own, wired. Loaded with the first of them, as those are (web/routes.ts).
import type { Agents } from "../agents/agent.ts";
import type { Payments } from "../budgets/payments.ts";
import type { Judge } from "../core/check.ts";
import type { Commands } from "../gateway/commands.ts";
import type { Conversations } from "../gateway/conversation.ts";
import type { Replies } from "../questions/replies.ts";
import type { Redeliver } from "../web/board-api.ts";
import type { PageDesks } from "../web/routes.ts";
import type { SetupDesk } from "../web/setup.ts";
import type { Base, Lanes } from "./base.ts";
import { createRunBoard } from "./board.ts";
import { createBriefDesk } from "./brief-desk.ts";
import type { Channels } from "./channels.ts";
import { createChatDesk } from "./chat-desk.ts";
import type { Files } from "./files.ts";
import type { ModelParts } from "./models.ts";
import { createQuestionDesk } from "./question-desk.ts";
import { createRunDesk } from "./run-desk.ts";
import { createRunLines } from "./run-lines.ts";
import { createRunRecord } from "./run-record.ts";
import { createSessionDesk } from "./session-desk.ts";
import type { StatusSource } from "./status.ts";
import type { Stores } from "./store-parts.ts";
import type { SubagentParts } from "./subagents.ts";
import { createUsageDesk } from "./usage-desk.ts";

export interface PageDeps extends Pick<Base, "config" | "stateDir" | "clock" | "bus" | "log" | "secrets" | "failpoint"> {
  readonly stores: Stores;
  readonly channels: Channels;
  readonly lanes: Lanes;
  readonly agents: Agents;
  readonly subagents: Pick<SubagentParts, "archiver" | "again" | "briefing" | "steering" | "spawn" | "mainTools">;
  readonly conversations: Conversations;
  readonly judge: Judge;
  readonly payments: Pick<Payments, "ownLevels" | "overall" | "ofToday">;
  readonly priceOf: ModelParts["priceOf"];
  readonly replies: Replies;
  readonly commands: Pick<Commands, "list" | "isKnown">;
  readonly setup: SetupDesk | null;
  readonly attaching: Pick<Files, "desk" | "sweep">;
  status(): StatusSource;
}

export async function createPageDesks(deps: PageDeps): Promise<PageDesks> {
  const { stores, channels, lanes, subagents, payments, clock, log } = deps;
  const { viewsOf, ...runBoard } = createRunBoard({ ...subagents, stores, log, clock, lane: lanes.subagent, payments });
  return {
    webChats: stores.webChats,
    chats: createChatDesk({ ...deps, channel: channels.web }),
    ...runBoard,
    lines: createRunLines({ stores, viewsOf }),
    runDesk: createRunDesk(deps),
    sessions: createSessionDesk({ ...deps, steering: subagents.steering }),
    record: createRunRecord({ stores, priceOf: deps.priceOf, log }),
    usage: createUsageDesk({ stores, payments, clock, agents: () => deps.agents.list().map(({ id }) => id) }),
    questions: createQuestionDesk({ stores, replies: deps.replies, log }),
    briefs: createBriefDesk({ ...subagents, stores, log }),
    files: await deps.attaching.desk(),
    ...(deps.setup === null ? {} : { setup: deps.setup }),
    redeliver: (runId) => redeliver(deps, runId),
  };
}

/** As `/subagents retry`, for a run of any channel. */
async function redeliver({ stores, subagents, log }: PageDeps, runId: string): ReturnType<Redeliver> {
  const found = await stores.runs.get(runId);
  if (found === null) return null;
  return stores.db.transaction(subagents.steering.locks([found]), async (tx) => {
    const run = await stores.runs.get(runId);
    if (run === null) return null;
    if (run.delivery !== "blocked") return { isOnItsWay: false, text: `Its announcement is not blocked (${run.delivery}).` };
    if (!(await subagents.steering.retry(tx, run)))
      return { isOnItsWay: false, text: `Its announcement can't be sent yet: ${run.deliveryReason ?? "its channel is off"}.` };
    log.info({ audit: "announced again", runId }, "a blocked announcement is sent again from the page");
    return { isOnItsWay: true, text: "Its announcement is on its way again." };
  });
}
