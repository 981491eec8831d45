// Wires the page: its server, and what it shows of runs.
import { errorText } from "../core/errors.ts";
import type { NodeView } from "../stores/nodes.ts";
import type { Redeliver } from "../web/board-api.ts";
import type { NodeLine, PageStatus } from "../web/live.ts";
import { createMetrics } from "../web/metrics.ts";
import { createWebServer, type WebServer, type WebServerOptions } from "../web/server.ts";
import { dropLink, keepLink, loadToken, signInUrl } from "../web/token.ts";
import type { Base, Lanes } from "./base.ts";
import { createRunBoard } from "./board.ts";
import type { Channels } from "./channels.ts";
import type { Stores } from "./store-parts.ts";
import type { SubagentParts } from "./subagents.ts";

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

export interface PageDeps extends Pick<Base, "config" | "stateDir" | "clock" | "bus" | "log" | "secrets"> {
  readonly stores: Stores;
  readonly channels: Channels;
  readonly lanes: Lanes;
  readonly subagents: Pick<SubagentParts, "archiver" | "steering">;
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
    node: installation === null ? null : { name: installation.nodeName, role: installation.role },
  });
  const server = createServer(deps, { token: () => token, routes: [metrics.route] });
  const link = (): string => signInUrl(config().web.publicUrl ?? origin, token);
  return {
    async open() {
      origin = await server.listen();
      return { origin, signInUrl: link(), linkPath: keepLink(stateDir, link()) };
    },
    async reconfigure() {
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

function createServer(deps: PageDeps, more: Pick<WebServerOptions, "token" | "routes">): WebServer {
  const { config, stores, channels, lanes, subagents, log, secrets } = deps;
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
    ...createRunBoard({ stores, log, lane: lanes.subagent, archiver: subagents.archiver }),
    pairing: stores.pairing,
    redeliver: (runId) => redeliver(deps, runId),
    redact: (text) => secrets.redact(text),
    heldBack: (text) => secrets.heldBack(text),
    status: () => statusOf(deps.status()),
    nodes: async () => (await stores.nodes.list()).map(toLine),
    isProbed: stores.installation?.role === "worker",
  });
}

/** Field by field: its source holds the whole settings, every token in them. */
const statusOf = ({ version, model, problem }: PageStatus): PageStatus => ({ version, model, problem });

const toLine = ({ id, name, role, version, isFront, load, seenAt }: NodeView): NodeLine => ({
  ...{ id, name, role, version, isFront, seenAt },
  turns: load.main ?? 0,
  runs: load.subagent ?? 0,
});

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
