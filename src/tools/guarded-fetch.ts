// HTTP to addresses nobody vouched for: web_fetch → parseTarget → guarded connect → body, capped in size and time.
// The address is judged where it can't change any more: literals before the connect (the lookup hook is not called
// for them), every DNS answer inside the lookup the socket uses, and the peer address after the connect. So neither
// DNS rebinding nor a redirect gets further than the first hop.
import { lookup as dnsLookup } from "node:dns/promises";
import { isIP, type LookupFunction } from "node:net";
import { Agent, buildConnector, type Dispatcher, fetch, type Response } from "undici";
import { errorText } from "../core/errors.ts";
import { isOwnAddress, isPublicAddress } from "./public-address.ts";

export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

export interface GuardedFetchOptions {
  /** Ports besides 80 and 443. */
  readonly ports?: readonly number[];
  /** Addresses that are allowed although they are not public. */
  readonly allowAddress?: (address: string) => boolean;
  /** All addresses of a name; the system's resolver by default. */
  readonly resolve?: (hostname: string) => Promise<readonly ResolvedAddress[]>;
  readonly maxBytes: number;
  readonly timeoutMs: number;
}

export type FetchOutcome =
  | {
      readonly ok: true;
      /** Where the body came from, after redirects. */
      readonly url: string;
      readonly status: number;
      readonly contentType: string;
      readonly body: Buffer;
      /** The body goes on, but a cap was reached. */
      readonly cut: "size" | "time" | null;
    }
  /** One sentence for the model. */
  | { readonly ok: false; readonly reason: string };

/** GET with the caps of the options. Never throws. */
export type GuardedFetch = (url: string, signal: AbortSignal) => Promise<FetchOutcome>;

const MAX_REDIRECTS = 5;
const MAX_URL_LENGTH = 4096;
const CONTROL = /\p{Cc}/u;

export function createGuardedFetch(options: GuardedFetchOptions): GuardedFetch {
  const ports = new Set([80, 443, ...(options.ports ?? [])]);
  return async (url, signal) => {
    const deadline = AbortSignal.timeout(options.timeoutMs);
    // An agent per call: no socket outlives it, none is shared with another call.
    const agent = createAgent(options);
    try {
      return await follow(url, { agent, ports, signal, deadline, maxBytes: options.maxBytes });
    } catch (error) {
      if (signal.aborted) return { ok: false, reason: "The request was stopped." };
      if (deadline.aborted) return { ok: false, reason: "The server did not answer in time." };
      return { ok: false, reason: `The request failed: ${rootText(error)}.` };
    } finally {
      await agent.destroy();
    }
  };
}

interface Call {
  readonly agent: Dispatcher;
  readonly ports: ReadonlySet<number>;
  readonly signal: AbortSignal;
  readonly deadline: AbortSignal;
  readonly maxBytes: number;
}

async function follow(first: string, call: Call): Promise<FetchOutcome> {
  let target = parseTarget(first, call.ports);
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    if (typeof target === "string") return { ok: false, reason: target };
    const response = await fetch(target, {
      dispatcher: call.agent,
      redirect: "manual",
      signal: AbortSignal.any([call.signal, call.deadline]),
      headers: { accept: "text/html,text/plain,application/json;q=0.9,*/*;q=0.5", "user-agent": "Herald/0 (web_fetch)" },
    });
    const location = response.status >= 300 && response.status < 400 ? response.headers.get("location") : null;
    if (location === null) return readOutcome(response, target, call);
    await response.body?.cancel();
    target = parseTarget(location, call.ports, target);
  }
  return { ok: false, reason: `The server redirected more than ${MAX_REDIRECTS} times.` };
}

/** Text → a URL that may be tried, or one sentence why not. The address behind the name is judged at connect time. */
function parseTarget(text: string, ports: ReadonlySet<number>, base?: URL): URL | string {
  const trimmed = text.trim();
  if (trimmed.length > MAX_URL_LENGTH) return `The URL is longer than ${MAX_URL_LENGTH} characters.`;
  // The URL parser drops tabs and newlines silently, so they must be seen before it.
  if (CONTROL.test(trimmed)) return "The URL contains control characters.";
  const url = URL.parse(trimmed, base?.href);
  if (url === null) return "That is not a valid URL; give a full one, such as https://example.org/page.";
  if (url.protocol !== "http:" && url.protocol !== "https:") return `Only http and https can be fetched, not ${url.protocol}`;
  if (url.username !== "" || url.password !== "") return "A URL with a user name or password in it is not fetched.";
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  if (!ports.has(port)) return `Port ${port} is not allowed; allowed: ${[...ports].join(", ")}.`;
  if (url.hostname.endsWith(".")) url.hostname = url.hostname.slice(0, -1);
  url.hash = "";
  return url;
}

function createAgent(options: GuardedFetchOptions): Agent {
  const isListed = (address: string) => options.allowAddress?.(address) === true;
  // What answers on this machine's own public address may trust whoever comes from the machine itself.
  const allowed = (address: string) => isListed(address) || (isPublicAddress(address) && !isOwnAddress(address));
  const connector = buildConnector({ lookup: guardedLookup(options.resolve ?? resolveByDns, allowed) } as buildConnector.BuildOptions);
  return new Agent({
    maxHeaderSize: 64 * 1024,
    connect(target, callback) {
      if (isIP(target.hostname) !== 0 && !allowed(target.hostname)) return callback(refused(target.hostname), null);
      connector(target, (...result) => {
        const [error, socket] = result;
        if (error !== null) return callback(error, null);
        const peer = socket.remoteAddress ?? "an unknown address";
        // Some addresses lead back to this machine without being an interface's: then both ends have the same one.
        if (isListed(peer) || (allowed(peer) && peer !== socket.localAddress)) return callback(null, socket);
        socket.destroy();
        callback(refused(peer), null);
      });
    },
  });
}

const resolveByDns = (hostname: string): Promise<readonly ResolvedAddress[]> => dnsLookup(hostname, { all: true });

/** Refuses the whole answer when one address in it is refused: a mixed answer is how rebinding looks. */
function guardedLookup(
  resolve: (hostname: string) => Promise<readonly ResolvedAddress[]>,
  allowed: (address: string) => boolean,
): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname).then(
      (answers) => {
        const bad = answers.find((answer) => !allowed(answer.address));
        const [first] = answers;
        if (bad !== undefined) callback(refused(bad.address), "");
        else if (first === undefined) callback(new Error(`${hostname} has no address`), "");
        else if (options.all === true) callback(null, [...answers]);
        else callback(null, first.address, first.family);
      },
      (error: unknown) => callback(new Error(`${hostname} was not found`, { cause: error }), ""),
    );
  };
}

const refused = (address: string): Error => new Error(`${address} is not an address on the public internet`);

async function readOutcome(response: Response, url: URL, call: Call): Promise<FetchOutcome> {
  const contentType = response.headers.get("content-type") ?? "";
  const { body, cut } = await readBody(response, call);
  return { ok: true, url: url.href, status: response.status, contentType, body, cut };
}

/** Counts bytes after decompression, so a small bomb meets the same cap as a large page. */
async function readBody(response: Response, call: Call): Promise<{ body: Buffer; cut: "size" | "time" | null }> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of response.body ?? []) {
      chunks.push(chunk);
      size += chunk.byteLength;
      if (size > call.maxBytes) return { body: Buffer.concat(chunks, call.maxBytes), cut: "size" };
    }
  } catch (error) {
    // What came before the deadline is still worth reading; everything else is a failure.
    if (call.signal.aborted || !call.deadline.aborted || size === 0) throw error;
    return { body: Buffer.concat(chunks), cut: "time" };
  }
  return { body: Buffer.concat(chunks), cut: null };
}

/** "fetch failed" says nothing; its innermost cause does. */
function rootText(error: unknown): string {
  let root = error;
  for (let depth = 0; depth < 5 && root instanceof Error && root.cause instanceof Error; depth++) root = root.cause;
  return errorText(root).replace(/\.$/, "");
}
