// Who may pass: Host, query, Origin, token, content type and rate, checked in this order for every route before a
// byte of the body is read. A local caller is no friend: any web page and any program can reach loopback.
// request → checkOrigin (all routes) → route → checkAccess (its `access`) → checkBody → handler
import type { IncomingMessage } from "node:http";
import type { Logger } from "../core/logger.ts";
import type { RateLimit } from "../core/rate-limit.ts";
import { MAX_BODY_BYTES, problem, type Route } from "./http.ts";
import type { Reply } from "./outgoing.ts";
import { isSame, sessionValue } from "./token.ts";

export interface Gate {
  /** Null: may go on. Else the refusal to send. */
  checkOrigin(req: IncomingMessage, path: string, query: URLSearchParams): Reply | null;
  checkAccess(req: IncomingMessage, route: Pick<Route, "access" | "method">): Reply | null;
  checkBody(req: IncomingMessage): Reply | null;
  /** The token as typed or taken from the link; limited like every other guess. */
  signIn(caller: string, token: string): Reply;
}

export interface GateOptions {
  token: string;
  /** Exact `host:port` forms of this listener. */
  hosts(): readonly string[];
  port(): number;
  failures: RateLimit;
  posts: RateLimit;
  log: Logger;
}

const COOKIE_SECONDS = 30 * 24 * 3600;
const JSON_TYPE = /^application\/json(?:\s*;\s*charset="?utf-8"?)?$/i;
const TOO_MANY = problem(429, "Too many attempts. Wait a minute, then try again.", { "retry-after": "60" });

export function createGate(options: GateOptions): Gate {
  const session = sessionValue(options.token);
  // Cookies don't know ports: two gateways on one machine must not overwrite each other's.
  const cookieName = () => `herald_${options.port()}`;
  const guess = (caller: string, given: string, wanted: string): Reply | null => {
    if (options.failures.isEmpty(caller)) return TOO_MANY;
    if (isSame(given, wanted)) return null;
    options.failures.take(caller);
    options.log.warn({ caller }, "a wrong token was refused");
    return problem(401, "This token is not right.");
  };

  return {
    checkOrigin: (req, path, query) => checkOrigin(req, path, query, options.hosts()),
    checkAccess(req, route) {
      const bearer = bearerOf(req);
      if (route.method === "POST" && bearer === null && req.headers.origin === undefined) {
        return problem(403, "A request without an Origin header needs an Authorization header.");
      }
      if (route.access === "public") return null;
      if (bearer !== null) return guess(callerOf(req), bearer, options.token);
      const cookie = cookieOf(req, cookieName());
      if (cookie === null) return problem(401, "Sign in first.");
      // A browser that is signed in stays so while somebody else guesses.
      return isSame(cookie, session) ? null : guess(callerOf(req), cookie, session);
    },
    checkBody(req) {
      if (!options.posts.take(callerOf(req)))
        return problem(429, "Too many messages at once. Try again in a moment.", { "retry-after": "5" });
      return checkBody(req);
    },
    signIn(caller, token) {
      const refusal = guess(caller, token, options.token);
      if (refusal !== null) return refusal;
      const cookie = `${cookieName()}=${session}; Path=/api; HttpOnly; SameSite=Strict; Max-Age=${COOKIE_SECONDS}`;
      return { status: 200, body: { status: "ok" }, headers: { "set-cookie": cookie } };
    },
  };
}

function checkOrigin(req: IncomingMessage, path: string, query: URLSearchParams, hosts: readonly string[]): Reply | null {
  const named = req.headersDistinct.host ?? [];
  const [host] = named;
  if (named.length !== 1 || host === undefined) return problem(400, "Exactly one Host header is needed.");
  // DNS rebinding: a page of evil.example that resolves to 127.0.0.1 still says Host: evil.example.
  if (!hosts.includes(host)) return problem(403, "This host name is not served here.");
  if (!path.startsWith("/")) return problem(400, "This request target is not served here.");
  // Refused even when right: a URL ends up in histories and logs.
  if ([...query.keys()].some((key) => /^(access_)?token$/i.test(key))) return problem(400, "The token does not belong in the URL.");
  const { origin } = req.headers;
  if (origin !== undefined && origin !== `http://${host}`) return problem(403, "This origin may not call Herald.");
  // Ports share cookies, so a page on another port of this host counts as the same site; the browser says so here.
  const site = req.headers["sec-fetch-site"];
  if (path.startsWith("/api/") && site !== undefined && site !== "same-origin" && site !== "none") {
    return problem(403, "Only Herald's own page may call this.");
  }
  return null;
}

function checkBody(req: IncomingMessage): Reply | null {
  if (!JSON_TYPE.test(req.headers["content-type"] ?? "")) return problem(415, "Send application/json in UTF-8.");
  if (req.headers["content-encoding"] !== undefined) return problem(415, "Send the body without compression.");
  if (Number(req.headers["content-length"] ?? 0) > MAX_BODY_BYTES) return tooLarge();
  return null;
}

export const tooLarge = (): Reply => problem(413, `The body may have at most ${MAX_BODY_BYTES} bytes.`, { connection: "close" });

/** The peer's address, IPv4 written one way only. */
export const callerOf = (req: IncomingMessage): string => (req.socket.remoteAddress ?? "unknown").replace(/^::ffff:/i, "");

function bearerOf(req: IncomingMessage): string | null {
  return /^Bearer +(\S+)$/i.exec(req.headers.authorization ?? "")?.[1] ?? null;
}

function cookieOf(req: IncomingMessage, name: string): string | null {
  for (const pair of (req.headers.cookie ?? "").split(";")) {
    const eq = pair.indexOf("=");
    if (eq > 0 && pair.slice(0, eq).trim() === name) return pair.slice(eq + 1).trim();
  }
  return null;
}
