// Wires the page: its server, and the runs as the page shows them.
import type { LoadedConfig } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
import { shortId } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import { isUnfinished, type Run } from "../core/run.ts";
import type { Secrets } from "../core/secrets.ts";
import { totalTokens } from "../core/usage.ts";
import type { Lane } from "../lanes/lanes.ts";
import type { RunView } from "../web/board.ts";
import { createMetrics } from "../web/metrics.ts";
import { createWebServer, type WebServer } from "../web/server.ts";
import { loadToken } from "../web/token.ts";
import type { Channels } from "./channels.ts";
import type { Stores } from "./stores.ts";

export interface Page {
  readonly server: WebServer;
  readonly token: string;
}

export interface PageWiring {
  readonly loaded: LoadedConfig;
  readonly stores: Stores;
  readonly channels: Channels;
  readonly lanes: { readonly main: Lane; readonly subagent: Lane };
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Logger;
  readonly secrets: Secrets;
  status(): { readonly version: string; readonly model: string };
}

export function createPage(wiring: PageWiring): Page {
  const { loaded, stores, channels, clock, bus, log, secrets } = wiring;
  const token = loaded.config.web.token ?? loadToken(loaded.stateDir);
  secrets.add("web token", token);
  const metrics = createMetrics({
    bus,
    lanes: Object.values(wiring.lanes),
    countRuns: stores.runs.countByState,
    countOpenMessages: stores.outbox.countAllOpen,
  });
  const server = createWebServer({
    host: loaded.config.web.host,
    port: loaded.config.web.port,
    token,
    log,
    clock,
    bus,
    channel: channels.web,
    messages: stores.webMessages,
    board: { listRuns: ({ limit }) => listRuns(wiring, limit) },
    redact: (text) => secrets.redact(text),
    status: wiring.status,
    routes: [metrics.route],
  });
  const close = (): Promise<void> => {
    metrics.close();
    return server.close();
  };
  return { server: { ...server, close }, token };
}

/** All unfinished runs and the newest others. */
function listRuns({ stores, lanes }: PageWiring, limit: number): RunView[] {
  const unfinished = stores.runs.listUnfinished(limit);
  const rest = stores.runs.listRecent(limit).filter((run) => !isUnfinished(run.state));
  return [...unfinished, ...rest].slice(0, limit).map((run) => toView(run, lanes.subagent.position(run.id)));
}

function toView(run: Run, position: number | null): RunView {
  const { id, label, state, delivery, requesterKey, depth, createdAt, startedAt, endedAt, doing, spend } = run;
  return {
    id,
    shortId: shortId(id),
    label,
    state,
    delivery,
    requesterKey,
    chat: run.address.channel === "web" ? run.address.chat : null,
    depth,
    createdAt,
    startedAt,
    endedAt,
    doing,
    tokens: spend.usage === null ? null : totalTokens(spend.usage),
    costUsd: spend.costUsd,
    position,
  };
}
