// Who may pass: Host, query, Origin, token or browser, content type and rate, checked in this order for every route before
// a byte of the body is read. A local caller is no friend: any web page and any program can reach loopback.
// request → checkOrigin (all routes) → route → checkAccess (its `access`) → checkBody → handler
import type { IncomingMessage } from "node:http";
import type { Logger } from "../core/logger.ts";
import { commandWords } from "../core/own-files.ts";
import type { Program } from "../core/program.ts";
import type { RateLimit } from "../core/rate-limit.ts";
import type { Browser } from "../stores/browsers.ts";
import type { Hosts } from "./hosts.ts";
import { MAX_BODY_BYTES, problem, type Route } from "./http.ts";
import type { Reply } from "./outgoing.ts";
import type { Programs } from "./programs.ts";
import { SIGN_IN_SECONDS, type SignIns } from "./sign-ins.ts";
import { isSame } from "./token.ts";

/** Let through, or the refusal to send. `browser` is null for a script with the token and on a public route. */
export type Passage =
  | { readonly refusal: Reply }
  | { readonly refusal: null; readonly browser: Browser | null; readonly program: Program | null };

export interface Gate {
  /** Null: may go on. Else the refusal to send. */
  checkOrigin(req: IncomingMessage, path: string, query: URLSearchParams, route: Pick<Route, "access"> | null): Reply | null;
  checkAccess(req: IncomingMessage, route: Pick<Route, "access" | "method">): Promise<Passage>;
  checkBody(req: IncomingMessage, route: Pick<Route, "body">, program: Program | null): Reply | null;
  /** The token as typed or taken from the link; limited like every other guess. */
  signIn(visitor: Visitor, token: string): Promise<Reply>;
  /** The same browser's cookie, gone. */
  signOut(visitor: Visitor): Reply;
}

/** Who asks, as far as signing in cares. */
export interface Visitor {
  readonly caller: string;
  readonly headers: IncomingMessage["headers"];
  readonly browser: Browser | null;
}

export interface GateOptions {
  token(): string;
  signIns: SignIns;
  programs: Pick<Programs, "find">;
  hosts: Hosts;
  port(): number;
  failures: RateLimit;
  posts: RateLimit;
  log: Logger;
}

/** Beside the cookie on every call of the page: what other ports of this host never see. */
const KEY_HEADER = "x-herald-key";

const JSON_TYPE = /^application\/json(?:\s*;\s*charset="?utf-8"?)?$/i;
/** No form can send it: a page elsewhere would have to ask first. */
const BYTES_TYPE = "application/octet-stream";
const TOO_MANY = problem(429, "Too many attempts. Wait a minute, then try again.", { "retry-after": "60" });
/** What OAuth's clients look for: there is nothing to sign in to, only a token to be given. */
const CHALLENGE = { "www-authenticate": 'Bearer realm="herald"' };
const NEEDS_TOKEN = problem(401, `Send a token of \`${commandWords("token")}\` as the header Authorization: Bearer <token>.`, CHALLENGE);
const WRONG_TOKEN = problem(
  401,
  `This token is not right, was taken back, or its time is over. \`${commandWords("token")}\` makes another.`,
  CHALLENGE,
);
const SIGN_IN_FIRST = problem(401, "Sign in first.");

export function createGate(options: GateOptions): Gate {
  const { signIns, hosts } = options;
  // Cookies don't know ports: two gateways on one machine must not overwrite each other's.
  const cookieName = () => `herald_${options.port()}`;
  const guess = (caller: string, isRight: () => boolean): Reply | null => {
    if (options.failures.isEmpty(caller)) return TOO_MANY;
    if (isRight()) return null;
    options.failures.take(caller);
    options.log.warn({ caller }, "a wrong token was refused");
    return problem(401, "This token is not right.");
  };
  const browserOf = async (req: Pick<IncomingMessage, "headers">, caller: string): Promise<Browser | null> => {
    const key = keyOf(req);
    if (key === null) return null;
    // All of that name: a page on another port of this host can set one too, and the browser sends it first.
    for (const cookie of cookiesOf(req, cookieName())) {
      const browser = await signIns.find(cookie, key, caller);
      if (browser !== null) return browser;
    }
    return null;
  };
  const passProgram = async (caller: string, bearer: string | null): Promise<Passage> => {
    if (bearer === null) return { refusal: NEEDS_TOKEN };
    // The right token first: another program on the same machine that guesses must not lock this one out, nor people out of the page.
    const program = await options.programs.find(bearer);
    if (program !== null) return { refusal: null, browser: null, program };
    if (!options.failures.take(`mcp ${caller}`)) return { refusal: TOO_MANY };
    options.log.warn({ caller }, "a wrong token of a program was refused");
    return { refusal: WRONG_TOKEN };
  };
  const setCookie = (value: string, maxAge: number, origin: string | undefined): Record<string, string> => ({
    "set-cookie": `${cookieName()}=${value}; Path=/api; HttpOnly; SameSite=Strict; Max-Age=${maxAge}${hosts.isSecure(origin) ? "; Secure" : ""}`,
  });

  return {
    checkOrigin: (req, path, query, route) => checkOrigin(req, { path, query, hosts, isProbe: route?.access === "probe" }),
    async checkAccess(req, route) {
      const bearer = bearerOf(req);
      if (route.access === "program") return passProgram(callerOf(req), bearer);
      if (route.method === "POST" && bearer === null && req.headers.origin === undefined) {
        return { refusal: problem(403, "A request without an Origin header needs an Authorization header.") };
      }
      // Looked at on public routes too: signing in again takes the place of what the browser had.
      const caller = callerOf(req);
      if (bearer !== null && route.access === "token") {
        const refusal = guess(caller, () => isSame(bearer, options.token()));
        return refusal === null ? { refusal, browser: null, program: null } : { refusal };
      }
      const browser = await browserOf(req, caller);
      if (browser !== null || route.access !== "token") return { refusal: null, browser, program: null };
      // No guess, whatever it sent: nobody guesses two secrets of 32 random bytes, and a page that was signed out, or whose
      // cookie another port has replaced, would lock its own person out of signing in.
      return { refusal: SIGN_IN_FIRST };
    },
    checkBody(req, route, program) {
      // By token, where there is one: a busy program must not use up what a person on the same machine may post.
      if (!options.posts.take(program === null ? callerOf(req) : `token ${program.id}`))
        return problem(429, "Too many messages at once. Try again in a moment.", { "retry-after": "5" });
      return checkBody(req, route.body === "bytes");
    },
    async signIn({ caller, headers, browser }, token) {
      const refusal = guess(caller, () => isSame(token, options.token()));
      if (refusal !== null) return refusal;
      const { cookie, key } = await signIns.add(caller, headers["user-agent"] ?? "");
      if (browser !== null) await signIns.end(browser.id);
      options.log.info({ audit: "signed in", caller }, "a browser signed in to the page");
      return { status: 200, body: { status: "ok", key }, headers: setCookie(cookie, SIGN_IN_SECONDS, headers.origin) };
    },
    signOut({ headers }) {
      return { status: 200, body: { status: "ok" }, headers: setCookie("", 0, headers.origin) };
    },
  };
}

interface Target {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly hosts: Hosts;
  /** Says only whether we live: whoever watches over us may call us by any name. */
  readonly isProbe: boolean;
}

function checkOrigin(req: IncomingMessage, { path, query, hosts, isProbe }: Target): Reply | null {
  const named = req.headersDistinct.host ?? [];
  const [host] = named;
  if (named.length !== 1 || host === undefined) return problem(400, "Exactly one Host header is needed.");
  if (!isProbe && !hosts.isServed(host)) return problem(403, hosts.refusal(host));
  if (!path.startsWith("/")) return problem(400, "This request target is not served here.");
  // Refused even when right: a URL ends up in histories and logs.
  if ([...query.keys()].some((key) => /^(access_)?token$/i.test(key))) return problem(400, "The token does not belong in the URL.");
  const { origin } = req.headers;
  if (origin !== undefined && !hosts.isOwnOrigin(origin, host)) return problem(403, "This origin may not call Herald.");
  // Ports share cookies, so a page on another port of this host counts as the same site; the browser says so here.
  const site = req.headers["sec-fetch-site"];
  if (path.startsWith("/api/") && site !== undefined && site !== "same-origin" && site !== "none") {
    return problem(403, "Only Herald's own page may call this.");
  }
  return null;
}

function checkBody(req: IncomingMessage, isBytes: boolean): Reply | null {
  if (isBytes && req.headers["content-type"] !== BYTES_TYPE) return problem(415, `Send ${BYTES_TYPE}.`);
  if (!isBytes && !JSON_TYPE.test(req.headers["content-type"] ?? "")) return problem(415, "Send application/json in UTF-8.");
  if (req.headers["content-encoding"] !== undefined) return problem(415, "Send the body without compression.");
  if (!isBytes && Number(req.headers["content-length"] ?? 0) > MAX_BODY_BYTES) return tooLarge();
  return null;
}

export const tooLarge = (): Reply => problem(413, `The body may have at most ${MAX_BODY_BYTES} bytes.`, { connection: "close" });

/** The peer's address, IPv4 written one way only. */
export const callerOf = (req: IncomingMessage): string => (req.socket.remoteAddress ?? "unknown").replace(/^::ffff:/i, "");

function bearerOf(req: IncomingMessage): string | null {
  return /^Bearer +(\S+)$/i.exec(req.headers.authorization ?? "")?.[1] ?? null;
}

function keyOf({ headers }: Pick<IncomingMessage, "headers">): string | null {
  const key = headers[KEY_HEADER];
  return typeof key === "string" && key !== "" ? key : null;
}

function cookiesOf({ headers }: Pick<IncomingMessage, "headers">, name: string): string[] {
  const pairs = (headers.cookie ?? "").split(";").map((pair) => pair.trim());
  return pairs.filter((pair) => pair.startsWith(`${name}=`)).map((pair) => pair.slice(name.length + 1));
}
