// Wires the page: its server, and what it shows of runs.
import type { Agents } from "../agents/agent.ts";
import type { Payments } from "../budgets/payments.ts";
import { spentWords } from "../budgets/words.ts";
import { type LevelNow, shareOf } from "../core/budget.ts";
import type { Judge } from "../core/check.ts";
import { errorText } from "../core/errors.ts";
import type { Commands } from "../gateway/commands.ts";
import type { Conversations } from "../gateway/conversation.ts";
import type { Replies } from "../questions/replies.ts";
import type { NodeView } from "../stores/nodes.ts";
import type { BudgetLine } from "../web/board.ts";
import type { Redeliver } from "../web/board-api.ts";
import type { Route } from "../web/http.ts";
import type { NodeLine, PageStatus } from "../web/live.ts";
import { createMcpRoute } from "../web/mcp-api.ts";
import { createMetrics } from "../web/metrics.ts";
import { createPrograms, type Programs } from "../web/programs.ts";
import { createWebServer, type WebServer, type WebServerOptions } from "../web/server.ts";
import type { SetupDesk } from "../web/setup.ts";
import { dropLink, keepLink, loadToken, signInUrl } from "../web/token.ts";
import type { AttachmentParts } from "./attachments.ts";
import type { Base, Lanes } from "./base.ts";
import { createRunBoard } from "./board.ts";
import { createBriefDesk } from "./brief-desk.ts";
import type { Channels } from "./channels.ts";
import { createChatDesk } from "./chat-desk.ts";
import type { ModelParts } from "./models.ts";
import { createProgramDesk } from "./program-desk.ts";
import { createQuestionDesk } from "./question-desk.ts";
import { createRunDesk } from "./run-desk.ts";
import { createRunLines } from "./run-lines.ts";
import { createRunRecord } from "./run-record.ts";
import { createSessionDesk } from "./session-desk.ts";
import type { Stores } from "./store-parts.ts";
import type { SubagentParts } from "./subagents.ts";
import { createUsageDesk } from "./usage-desk.ts";

export interface Page extends Pick<WebServer, "markReady" | "markStopping" | "close"> {
  /** Resolves once it listens. */
  open(): Promise<PageAddress>;
  /** The settings changed: token and public address count from now on, host and port from the next start. */
  /** Never rejects. */
  reconfigure(): Promise<void>;
}

export interface PageAddress {
  /** Where it listens. */
  readonly origin: string;
  /** What people open, the token in it. For a person's eyes only. */
  readonly signInUrl: string;
  /** The same link in a file, for whoever has no terminal to read it on. */
  readonly linkPath: string;
}

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
  readonly attaching: Pick<AttachmentParts, "desk" | "sweep">;
  status(): PageStatus;
}

export async function createPage(deps: PageDeps): Promise<Page> {
  const { config, stateDir, log, secrets } = deps;
  const { installation } = deps.stores;
  const readToken = async (): Promise<string> => {
    const own = (): string => loadToken(stateDir);
    const token = config().web.token ?? (installation === null ? own() : await installation.keep("web-token", own));
    secrets.add("web token", token);
    return token;
  };
  let token = await readToken();
  let origin = "";
  const metrics = createMetrics({
    bus: deps.bus,
    lanes: Object.values(deps.lanes),
    countRuns: deps.stores.runs.countUnfinishedByState,
    countOpenMessages: deps.stores.outbox.countAllOpen,
    countOpenQuestions: deps.stores.questions.countOpen,
    node: installation === null ? null : { name: installation.nodeName, role: installation.role },
  });
  const programs = createPrograms({ tokens: deps.stores.programTokens, clock: deps.clock, log });
  const server = createServer(deps, { token: () => token, programs, routes: [metrics.route, ...mcpRoutes(deps, programs)] });
  const link = (): string => signInUrl(config().web.publicUrl ?? origin, token);
  return {
    async open() {
      origin = await server.listen();
      return { origin, signInUrl: link(), linkPath: keepLink(stateDir, link()) };
    },
    async reconfigure() {
      deps.bus.emit({ type: "settings.changed" });
      try {
        const next = await readToken();
        const isOther = next !== token;
        token = next;
        if (isOther) await server.followToken();
        keepLink(stateDir, link());
        if (isOther) log.info({ audit: "token changed" }, "the page has another token; whoever signed in with the old one is signed out");
      } catch (error) {
        log.error({ err: error }, `The page keeps its token. ${errorText(error)}`);
      }
    },
    markReady: server.markReady,
    markStopping: server.markStopping,
    async close() {
      metrics.close();
      dropLink(stateDir);
      await server.close();
    },
  };
}

function createServer(deps: PageDeps, more: Pick<WebServerOptions, "token" | "programs" | "routes">): WebServer {
  const { config, stores, channels, lanes, subagents, payments, log, secrets } = deps;
  const { host, port } = config().web;
  const { viewsOf, ...runBoard } = createRunBoard({ ...subagents, stores, log, clock: deps.clock, lane: lanes.subagent, payments });
  return createWebServer({
    ...more,
    host,
    port,
    publicUrl: () => config().web.publicUrl ?? null,
    log,
    clock: deps.clock,
    bus: deps.bus,
    channel: channels.web,
    messages: stores.webMessages,
    webChats: stores.webChats,
    chats: createChatDesk({ ...deps, channel: channels.web }),
    browsers: stores.browsers,
    ...runBoard,
    lines: createRunLines({ stores, viewsOf }),
    runDesk: createRunDesk(deps),
    sessions: createSessionDesk({ ...deps, steering: subagents.steering }),
    record: createRunRecord({ stores, priceOf: deps.priceOf, log }),
    usage: createUsageDesk({ stores, payments, clock: deps.clock, agents: () => deps.agents.list().map(({ id }) => id) }),
    budgets: async () => (await payments.overall()).map(toBudgetLine),
    questions: createQuestionDesk({ stores, replies: deps.replies, log }),
    briefs: createBriefDesk({ ...subagents, stores, log }),
    files: deps.attaching.desk,
    pairing: stores.pairing,
    ...(deps.setup === null ? {} : { setup: deps.setup }),
    redeliver: (runId) => redeliver(deps, runId),
    redact: (text) => secrets.redact(text),
    heldBack: (text) => secrets.heldBack(text),
    status: () => statusOf(deps.status()),
    nodes: async () => (await stores.nodes.list()).map(toLine),
    isProbed: stores.installation?.role === "worker",
  });
}

/** Where the page is: a process that only works for others has neither. */
function mcpRoutes(deps: PageDeps, { isValid }: Programs): Route[] {
  const { stores, subagents, agents, judge, replies, clock, bus, log } = deps;
  if (stores.installation?.role === "worker") return [];
  const desk = createProgramDesk({ ...subagents, stores, agents, judge, replies, log });
  return [createMcpRoute({ desk, isValid, version: () => deps.status().version, bus, clock, log })];
}

/** Field by field: its source holds the whole settings, every token in them. */
const statusOf = ({ version, model, problem }: PageStatus): PageStatus => ({ version, model, problem });

const toLine = ({ id, name, role, version, isFront, load, seenAt }: NodeView): NodeLine => ({
  ...{ id, name, role, version, isFront, seenAt },
  turns: load.main ?? 0,
  runs: load.subagent ?? 0,
});

const toBudgetLine = (level: LevelNow): BudgetLine => ({ name: level.name, ...spentWords(level), share: shareOf(level) });

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
