// The HTTP server: node:http, loopback by default, one dispatcher for one route table. Each request meets the gate
// first; the one catcher for whatever throws is here.
// socket → gate (Host, Origin, token, body) → route → reply or stream
// Probes and routes of other parts are there from the start. The page's own are loaded by the first request for anything else: most
// starts are never looked at.
import type { IncomingMessage, Server, ServerOptions, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { Clock } from "../core/clock.ts";
import { AppError, errorText, isStorageError } from "../core/errors.ts";
import type { Bus } from "../core/events.ts";
import { onFirstUse } from "../core/first-use.ts";
import type { Logger } from "../core/logger.ts";
import { createRateLimit } from "../core/rate-limit.ts";
import type { Browsers } from "../stores/browsers.ts";
import type { WebMessages } from "../stores/web-messages.ts";
import { createApiRoutes, type PostTaker, type Stage } from "./api.ts";
import type { BudgetLine } from "./board.ts";
import { createBrowsersRoutes } from "./browsers-api.ts";
import { callerOf, createGate, type Gate, tooLarge } from "./gate.ts";
import { createHosts, hostText, isWildcard } from "./hosts.ts";
import { BodyTooLarge, BodyTooSlow, createFinder, type Found, problem, type Route, readJson, readUpload } from "./http.ts";
import { createLive, type LiveOptions, type NodeLine, type PageStatus } from "./live.ts";
import { createMessageViews } from "./message-view.ts";
import { createOutgoing, type Outgoing, type Reply } from "./outgoing.ts";
import type { PairingDesk } from "./people-api.ts";
import type { Programs } from "./programs.ts";
import { createQuestionViews } from "./questions.ts";
import { createRenderer } from "./rendering.ts";
import type { PageDesks } from "./routes.ts";
import { createSignIns } from "./sign-ins.ts";
import type { StreamLimits } from "./sse.ts";

// Not imported: the namespace of node:http reads every getter, and one of them loads Node's fetch, a tenth of the start.
const { createServer } = process.getBuiltinModule("node:http");

export interface WebServerOptions {
  channel: PostTaker;
  messages: WebMessages;
  pairing: PairingDesk;
  /** All else that the page asks for. Asked for at its first use, again after a failure. */
  desks(): Promise<PageDesks>;
  host: string;
  /** 0 takes a free one (tests). */
  port: number;
  /** The address people open when it is not ours: a TLS proxy, a tunnel, a mapped port. Null: ours. */
  publicUrl(): string | null;
  /** As it is now; tell followToken when it changed. */
  token(): string;
  browsers: Browsers;
  programs: Pick<Programs, "find">;
  log: Logger;
  clock: Clock;
  bus: Bus;
  /** Replaces known secrets by their names. */
  redact(text: string): string;
  /** How much of a growing text's end may be the beginning of a secret. */
  heldBack(text: string): number;
  status(): PageStatus;
  nodes(): Promise<readonly NodeLine[]>;
  budgets(): Promise<readonly BudgetLine[]>;
  /** No page here, only /healthz, /readyz and the routes below: a process that works for others must be watched, too. */
  isProbed?: boolean;
  /** Routes of other parts (metrics, /mcp); gated like all others. */
  routes?: readonly Route[];
  streams?: { limits?: StreamLimits; heartbeatMs?: number };
  /** How long a request may take to arrive, but for a file; slow senders are dropped then. */
  requestTimeoutMs?: number;
}

export interface WebServer {
  /** What is served, and who may: plain data for the test that proves every gate. */
  routes(): Promise<readonly Pick<Route, "method" | "path" | "access">[]>;
  /** Resolves with `http://host:port` once it listens; `/healthz` says "starting" until markReady. Throws AppError("port"). */
  listen(): Promise<string>;
  markReady(): void;
  /** No new work is taken; `/readyz` says so while what runs may finish. */
  markStopping(): void;
  /** The token is another one: whatever was signed in with the old one ends, open streams included. */
  followToken(): Promise<void>;
  /** Ends streams and connections; resolves when the port is free. */
  close(): Promise<void>;
}

const MAX_CONNECTIONS = 1024;
const CLOSE_GRACE_MS = 500;

export const REQUEST_TIMEOUT_MS = 8000;
/** A large file over a slow line; who stalls is dropped long before. */
const UPLOAD_TIMEOUT_MS = 15 * 60_000;
const KEEP_ALIVE_MS = 5000;
const MAX_HEADER_BYTES = 16 * 1024;

export function createWebServer(options: WebServerOptions): WebServer {
  const { clock, log, bus, channel, messages, pairing, redact, requestTimeoutMs = REQUEST_TIMEOUT_MS } = options;
  let stage: Stage = "starting";
  const outgoing = createOutgoing(redact);
  const renderer = createRenderer();
  const views = createMessageViews(redact, renderer);
  const questionViews = createQuestionViews(redact, renderer);
  const { status, nodes, budgets, streams, token, browsers, publicUrl, host } = options;
  // Known from the moment it listens; asking the system costs more than the rest of the check of a caller.
  let boundPort = 0;
  const port = (): number => boundPort;
  const signIns = createSignIns({ browsers, clock, log, token });
  const { isSignedIn } = signIns;
  const gates = { redact, heldBack: options.heldBack, outgoing, isSignedIn };
  const desks = onFirstUse(options.desks);
  const shown = { messages, views, ...deskViews(desks), questionViews, pairing, status, nodes, budgets, render: renderer.render };
  const live = createLive({ bus, clock, log, ...shown, ...gates, ...streams });
  const gate = createGate({
    token,
    signIns,
    programs: options.programs,
    log,
    port,
    hosts: createHosts({ host, port, publicUrl }),
    failures: createRateLimit({ burst: 10, refillMs: 60_000, clock }),
    // A person never reaches it, a script may post twenty a second for long.
    posts: createRateLimit({ burst: 300, refillMs: 15_000, clock }),
  });
  const api = createApiRoutes({ channel, messages, views, live, stage: () => stage, problem: () => status().problem });
  const browsersApi = createBrowsersRoutes({ gate, signIns, onEnded: live.recheck });
  const others = options.routes ?? [];
  const first = [...api.filter(({ access }) => access === "probe"), ...others];
  const all = onFirstUse(async () => {
    if (options.isProbed === true) return first;
    const { createOwnRoutes } = await import("./routes.ts");
    const own = createOwnRoutes(await desks(), { channel, messages, pairing, questionViews, renderer, live, clock, redact });
    return [...api, ...browsersApi, ...own, ...others];
  });
  const find = findAmong(first, all);
  const server = createServer(limitsOf(options), (req, res) => void serve(req, res, { gate, find, outgoing, log, requestTimeoutMs }));
  server.maxConnections = MAX_CONNECTIONS;

  return {
    routes: async () => (await all()).map(({ method, path, access }) => ({ method, path, access })),
    async listen() {
      await signIns.followToken();
      await listenOn(server, options.host, options.port);
      boundPort = (server.address() as AddressInfo).port;
      // Out of file handles at an accept, for one: that must not end the gateway.
      server.on("error", (error) => log.warn({ err: error }, "the page's server reported an error"));
      return `http://${hostText(isWildcard(host) ? "127.0.0.1" : host)}:${port()}`;
    },
    markReady() {
      stage = "ready";
    },
    markStopping() {
      stage = "stopping";
    },
    async followToken() {
      await signIns.followToken();
      live.cut();
    },
    async close() {
      live.close();
      renderer.stop();
      if (!server.listening) return;
      const closed = new Promise((resolve) => server.close(resolve));
      // Answers under way get a moment; whoever holds on after that is cut off.
      await Promise.race([closed, delay(CLOSE_GRACE_MS, undefined, { ref: false })]);
      server.closeAllConnections();
      await closed;
    },
  };
}

/** What is asked for most, and by probes, is found without loading the rest. */
function findAmong(first: readonly Route[], all: () => Promise<readonly Route[]>): Serving["find"] {
  const amongFirst = createFinder(first);
  const amongAll = onFirstUse(async () => createFinder(await all()));
  return async (path) => {
    const found = amongFirst(path);
    return found.length > 0 ? found : (await amongAll())(path);
  };
}

/** What streams show of them, which nobody asks for before there is one. */
const deskViews = (desks: () => Promise<PageDesks>): Pick<LiveOptions, "board" | "questions"> => ({
  board: { listRuns: async (wanted) => (await desks()).board.listRuns(wanted) },
  questions: { open: async (limit) => (await desks()).questions.open(limit) },
});

/** Streams are not concerned: their request ended long ago. */
function limitsOf({ requestTimeoutMs = REQUEST_TIMEOUT_MS }: WebServerOptions): ServerOptions {
  return {
    headersTimeout: requestTimeoutMs,
    // Of all that is no file the body is timed where it is read.
    requestTimeout: UPLOAD_TIMEOUT_MS,
    connectionsCheckingInterval: Math.min(1000, requestTimeoutMs),
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
  };
}

async function listenOn(server: Server, host: string, port: number): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host, () => {
        server.off("error", reject);
        resolve();
      });
    });
  } catch (error) {
    const taken = (error as NodeJS.ErrnoException).code === "EADDRINUSE";
    const why = taken ? "is taken by another program" : `can't be used: ${errorText(error)}`;
    throw new AppError("port", `The page's address ${host}:${port} ${why}. Set web.port (or web.host) to another one.`, { cause: error });
  }
}

const DISK_FULL = problem(503, "Herald can't write to its disk right now. Nothing was taken; send it again later.", { "retry-after": "5" });

interface Serving {
  gate: Gate;
  /** All that may be meant by this path. */
  find(path: string): Promise<readonly Found[]>;
  outgoing: Outgoing;
  log: Logger;
  requestTimeoutMs: number;
}

async function serve(req: IncomingMessage, res: ServerResponse, serving: Serving): Promise<void> {
  const [path = "", search = ""] = (req.url ?? "").split("?", 2);
  const { outgoing } = serving;
  try {
    const reply = await answer(req, res, { ...serving, path, query: new URLSearchParams(search) });
    if (reply !== null) await outgoing.reply(req, res, reply);
  } catch (error) {
    if (error instanceof BodyTooLarge) return outgoing.reply(req, res, tooLarge());
    if (error instanceof BodyTooSlow) return outgoing.reply(req, res, problem(408, "The request took too long to arrive."));
    // The caller hung up in the middle of the body: no failure of ours, and nobody is left to answer.
    if ((error as NodeJS.ErrnoException).code === "ECONNRESET") return;
    // The path only: a query is the caller's text.
    serving.log.error({ err: error, method: req.method, path: path.slice(0, 200) }, "a request failed");
    await outgoing.reply(req, res, isStorageError(error) ? DISK_FULL : problem(500, "Something went wrong here. The log says more."));
    if (!res.writableEnded) res.destroy();
  }
}

async function answer(
  req: IncomingMessage,
  res: ServerResponse,
  at: Serving & { path: string; query: URLSearchParams },
): Promise<Reply | null> {
  const { gate, path, query } = at;
  const found = await at.find(path);
  const match = found.find(({ route }) => route.method === req.method || isHeadOf(route, req.method));
  const refusal = gate.checkOrigin(req, path, query, match?.route ?? null);
  if (refusal !== null) return refusal;
  if (found.length === 0) return problem(404, "There is nothing here.");
  if (match === undefined)
    return problem(405, "This method does not work here.", { allow: found.map(({ route }) => route.method).join(", ") });

  const { route, params } = match;
  const passage = await gate.checkAccess(req, route);
  if (passage.refusal !== null) return passage.refusal;
  const denied = route.method === "POST" ? gate.checkBody(req, route, passage.program) : null;
  if (denied !== null) return denied;
  const { browser, program } = passage;
  const body = { json: () => readJson(req, at.requestTimeoutMs), bytes: () => readUpload(req) };
  const asked = { params, query, headers: req.headers, caller: callerOf(req), browser, program, event: at.outgoing.event };
  return route.handle({ ...asked, ...body, response: res });
}

const isHeadOf = (route: Route, method: string | undefined): boolean =>
  method === "HEAD" && route.method === "GET" && route.access !== "token";
