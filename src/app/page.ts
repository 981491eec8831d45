// Wires the page: its server, what it shows of runs, and letting people in.
import type { LoadedConfig } from "../config/config.ts";
import type { PairingRequest } from "../stores/pairing.ts";
import type { PageStatus } from "../web/live.ts";
import { createMetrics } from "../web/metrics.ts";
import { createWebServer, type WebServer } from "../web/server.ts";
import { loadToken } from "../web/token.ts";
import type { Base, Lanes } from "./base.ts";
import { createRunBoard } from "./board.ts";
import type { Channels } from "./channels.ts";
import type { Stores } from "./stores.ts";
import type { SubagentParts } from "./subagents.ts";

export interface Page {
  readonly server: WebServer;
  readonly token: string;
}

export interface PageDeps extends Pick<Base, "clock" | "bus" | "log" | "secrets"> {
  readonly loaded: LoadedConfig;
  readonly stores: Stores;
  readonly channels: Channels;
  readonly lanes: Lanes;
  readonly subagents: Pick<SubagentParts, "archiver">;
  status(): PageStatus;
}

export function createPage(deps: PageDeps): Page {
  const { loaded, stores, channels, clock, bus, log, secrets } = deps;
  const token = loaded.config.web.token ?? loadToken(loaded.stateDir);
  secrets.add("web token", token);
  const metrics = createMetrics({
    bus,
    lanes: Object.values(deps.lanes),
    countRuns: stores.runs.countUnfinishedByState,
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
    ...createRunBoard({ stores, log, lane: deps.lanes.subagent, archiver: deps.subagents.archiver }),
    pairing: { listPending: stores.pairing.listPending, approve: (code) => approve(deps, code) },
    redact: (text) => secrets.redact(text),
    status: () => statusOf(deps.status()),
    routes: [metrics.route],
  });
  const close = (): Promise<void> => {
    metrics.close();
    return server.close();
  };
  return { server: { ...server, close }, token };
}

/** Field by field: its source holds the whole settings, every token in them. */
const statusOf = ({ version, model, problem }: PageStatus): PageStatus => ({ version, model, problem });

/** The person is let in and told so in their chat, in one transaction (SC1). */
function approve({ stores, channels, log }: PageDeps, code: string): PairingRequest | null {
  return stores.db.transaction(() => {
    const person = stores.pairing.approve(code);
    if (person === null) return null;
    const { channel, account, senderId, address } = person;
    log.info({ audit: "paired", channel, sender: senderId }, "let in by the operator on the page");
    const parts = channels.find(channel, account)?.render({ markdown: "You may talk to me now." }, address);
    if (parts !== undefined) stores.outbox.add({ delivery: `paired:${channel}:${account}:${senderId}`, address, parts });
    return person;
  });
}
