// The small HTTP vocabulary of the web folder: what a route is, what it answers, how a body is read.
// server.ts dispatches, gate.ts decides who may pass, api.ts and page-files.ts hold the routes, outgoing.ts writes.

import type { IncomingMessage } from "node:http";
import { readBytes } from "../core/read-bytes.ts";
import type { Browser } from "../stores/browsers.ts";
import type { Outlet, Reply } from "./outgoing.ts";
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
  /** The body as strict JSON, or null when it is none. Throws BodyTooLarge. */
  json(): Promise<unknown>;
  /** For a stream: the handler takes over and returns null. */
  readonly response: Outlet;
}

/** One entry of the route table. Plain data but for the handler, so a test can list it and prove each gate. */
export interface Route {
  readonly method: "GET" | "POST";
  /** `:name` stands for one segment. */
  readonly path: string;
  /**
   * `public`: carries nothing of the gateway's; `token`: refused but for the token and signed-in browsers; `probe`: public,
   * and by any host name.
   */
  readonly access: "public" | "token" | "probe";
  handle(request: WebRequest): Reply | null | Promise<Reply | null>;
}

export class BodyTooLarge extends Error {}

export const json = (status: number, body: unknown, headers?: Reply["headers"]): Reply => ({ status, body, ...(headers && { headers }) });
export const problem = (status: number, error: string, headers?: Reply["headers"]): Reply => json(status, { error }, headers);

/** Reads at most MAX_BODY_BYTES, also when no length was announced. */
export async function readJson(req: IncomingMessage): Promise<unknown> {
  const bytes = await readBytes(req.iterator({ destroyOnReturn: false }), MAX_BODY_BYTES);
  if (bytes === null) throw new BodyTooLarge();
  return parseStrictJson(bytes);
}

/** The values of a path that fits the pattern, or null. Segments are compared as sent: nothing is decoded. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = Object.create(null);
  for (const [n, part] of wanted.entries()) {
    const value = given[n] ?? "";
    if (part.startsWith(":")) params[part.slice(1)] = value;
    else if (part !== value) return null;
  }
  return params;
}

/** A number of a query: null when absent, NaN when it is no whole number. */
export const wholeNumber = (text: string | null): number | null =>
  text === null ? null : /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
