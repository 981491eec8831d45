// The small HTTP vocabulary of the web folder: what a route is, what it answers, how a body is read.
// server.ts dispatches, gate.ts decides who may pass, api.ts and page-files.ts hold the routes, outgoing.ts writes.

import type { IncomingMessage } from "node:http";
import type { Program } from "../core/program.ts";
import { readBytes } from "../core/read-bytes.ts";
import type { Browser } from "../stores/browsers.ts";
import type { Outgoing, Outlet, Reply } from "./outgoing.ts";
import { parseStrictJson } from "./strict-json.ts";

export const MAX_BODY_BYTES = 256 * 1024;

export interface WebRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  /** The socket's address, IPv4 in its plain form; forwarding headers are never believed. */
  readonly caller: string;
  /** The signed-in browser; null for a script with the token and on public routes. */
  readonly browser: Browser | null;
  /** Whose token it is, on a route for programs; null on all others. */
  readonly program: Program | null;
  /** The body as strict JSON, or null when it is none. Throws BodyTooLarge. */
  json(): Promise<unknown>;
  /** The body as it arrives; only where the route takes bytes, and then whoever reads counts. */
  bytes(): AsyncIterable<Uint8Array>;
  /** For a stream: the handler takes over and returns null. */
  readonly response: Outlet;
  /** What a stream may be given to write. */
  readonly event: Outgoing["event"];
}

/** One entry of the route table. Plain data but for the handler, so a test can list it and prove each gate. */
export interface Route {
  readonly method: "GET" | "POST";
  /** `:name` stands for one segment. */
  readonly path: string;
  /**
   * `public`: carries nothing of the gateway's; `token`: refused but for the token and signed-in browsers; `probe`: public,
   * and by any host name; `program`: refused but for a token of another program, which opens nothing else (PR1).
   */
  readonly access: "public" | "token" | "probe" | "program";
  /** Takes a body of any bytes and size, counted by the handler. Left out: JSON. */
  readonly body?: "bytes";
  handle(request: WebRequest): Reply | null | Promise<Reply | null>;
}

export class BodyTooLarge extends Error {}
export class BodyTooSlow extends Error {}

export const json = (status: number, body: unknown, headers?: Reply["headers"]): Reply => ({ status, body, ...(headers && { headers }) });
export const problem = (status: number, error: string, headers?: Reply["headers"]): Reply => json(status, { error }, headers);

/** Reads at most MAX_BODY_BYTES, also when no length was announced, and no longer than that. */
export async function readJson(req: IncomingMessage, timeoutMs: number): Promise<unknown> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new BodyTooSlow()), timeoutMs);
  try {
    const bytes = await Promise.race([readBytes(req.iterator({ destroyOnReturn: false }), MAX_BODY_BYTES), late.promise]);
    if (bytes === null) throw new BodyTooLarge();
    return parseStrictJson(bytes);
  } finally {
    clearTimeout(timer);
  }
}

/** Somebody who sends nothing for this long has gone. */
const STALLED_MS = 30_000;

export function readUpload(req: IncomingMessage): AsyncIterable<Uint8Array> {
  req.setTimeout(STALLED_MS, () => req.destroy());
  return req.iterator({ destroyOnReturn: false });
}

/** A route that a path fits, and the values in it. */
export interface Found {
  readonly route: Route;
  readonly params: Readonly<Record<string, string>>;
}

/** All that may be meant by a path, those without values first. Made once: every request would be held against every route. */
export function createFinder(routes: readonly Route[]): (path: string) => Found[] {
  const plain = Map.groupBy(
    routes.filter(({ path }) => !path.includes(":")),
    ({ path }) => path,
  );
  const open = routes.flatMap((route) => (route.path.includes(":") ? [{ route, wanted: route.path.split("/") }] : []));
  return (path) => {
    const found: Found[] = (plain.get(path) ?? []).map((route) => ({ route, params: {} }));
    const given = path.split("/");
    for (const { route, wanted } of open) if (fits(wanted, given)) found.push({ route, params: valuesOf(wanted, given) });
    return found;
  };
}

/** Segments are compared as sent: nothing is decoded. */
const fits = (wanted: readonly string[], given: readonly string[]): boolean =>
  wanted.length === given.length && wanted.every((part, n) => part.startsWith(":") || part === given[n]);

/** What stands in a path where the pattern has names. */
function valuesOf(wanted: readonly string[], given: readonly string[]): Found["params"] {
  const params: Record<string, string> = Object.create(null);
  for (const [n, part] of wanted.entries()) if (part.startsWith(":")) params[part.slice(1)] = given[n] ?? "";
  return params;
}

/** A number of a query: null when absent, NaN when it is no whole number. */
export const wholeNumber = (text: string | null): number | null =>
  text === null ? null : /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
