// Wires the page: its server, and what it shows of runs.
import { spentWords } from "../budgets/words.ts";
import { type LevelNow, shareOf } from "../core/budget.ts";
import { errorText } from "../core/errors.ts";
import type { NodeView } from "../stores/nodes.ts";
import type { BudgetLine } from "../web/board.ts";
import type { Route } from "../web/http.ts";
import type { NodeLine, PageStatus } from "../web/live.ts";
import { createMcpRoute } from "../web/mcp-api.ts";
import { createMetrics } from "../web/metrics.ts";
import { createPrograms, type Programs } from "../web/programs.ts";
import { createWebServer, type WebServer, type WebServerOptions } from "../web/server.ts";
import { dropLink, keepLink, loadToken, signInUrl } from "../web/token.ts";
import type { PageDeps } from "./page-desks.ts";
import { channelStandings, type StatusSource } from "./status.ts";

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
  const { config, stores, channels, payments, log, secrets } = deps;
  const { host, port } = config().web;
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
    browsers: stores.browsers,
    desks: async () => (await import("./page-desks.ts")).createPageDesks(deps),
    budgets: async () => (await payments.overall()).map(toBudgetLine),
    pairing: stores.pairing,
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
  const desk = async () => (await import("./program-desk.ts")).createProgramDesk({ ...subagents, stores, agents, judge, replies, log });
  return [createMcpRoute({ desk, isValid, version: () => deps.status().version, bus, clock, log })];
}

/** Field by field: its source holds the whole settings, every token in them. */
const statusOf = ({ version, model, problem, ...source }: StatusSource): PageStatus => ({
  ...{ version, model, problem },
  channels: channelStandings(source),
});

const toLine = ({ id, name, role, version, isFront, load, seenAt }: NodeView): NodeLine => ({
  ...{ id, name, role, version, isFront, seenAt },
  turns: load.main ?? 0,
  runs: load.subagent ?? 0,
});

const toBudgetLine = (level: LevelNow): BudgetLine => ({ name: level.name, ...spentWords(level), share: shareOf(level) });
