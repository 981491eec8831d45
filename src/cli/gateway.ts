// The gateway of this state folder as a command talks to it: the page's own routes, over the address and with the token of the sign-in
// link that a running gateway keeps in its folder. So whoever may read that folder may steer, and nobody else.
import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { join } from "node:path";
import { loadConfig } from "../config/config.ts";
import { errorText } from "../core/errors.ts";
import { findHolder } from "../stores/lock.ts";
import { LINK_FILE } from "../web/token.ts";
import { stateFolderOf } from "./state-folder.ts";
import type { Terminal } from "./terminal.ts";

/** No gateway serves this folder, as far as its folder tells. */
export class GatewayAway extends Error {
  /** One is there, but without the page, over whose routes commands talk to it. */
  readonly isRunning: boolean;
  constructor(text: string, isRunning = false) {
    super(text);
    this.isRunning = isRunning;
  }
}
/** It answered, and said no. */
export class Refused extends Error {
  readonly status: number;
  constructor(status: number, text: string) {
    super(text);
    this.status = status;
  }
}

export interface Gateway {
  readonly origin: string;
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body: unknown): Promise<T>;
  /** What is told to every open page: first how things stand, then what changes. Ends with the connection. */
  events(signal: AbortSignal): AsyncGenerator<{ readonly name: string; readonly data: unknown }>;
}

/** Busy is one thing; a process that hangs answers nobody. */
const ANSWER_MS = 8_000;

type At = Pick<Terminal, "env" | "cwd" | "ended">;

/** Throws GatewayAway. Looks anew at each call: after a restart it may have another port. */
export function findGateway(terminal: At): Gateway {
  const stateDir = stateFolderOf(terminal);
  const link = readLink(stateDir);
  if (link === null) throw withoutLink(stateDir);
  const origin = originOf(link, terminal);
  const token = new URLSearchParams(link.hash.slice(1)).get("token") ?? "";
  const call = async (path: string, init: RequestInit, signal = AbortSignal.any([terminal.ended, AbortSignal.timeout(ANSWER_MS)])) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    try {
      return await fetch(`${origin}${path}`, { ...init, headers, signal, redirect: "error" });
    } catch (error) {
      throw unreachable(error, origin);
    }
  };
  return {
    origin,
    get: async (path) => readAnswer(await call(path, {}), origin),
    post: async (path, body) => readAnswer(await call(path, { method: "POST", body: JSON.stringify(body) }), origin),
    async *events(signal) {
      const response = await call("/api/events", {}, AbortSignal.any([terminal.ended, signal]));
      if (!response.ok || response.body === null) await readAnswer(response, origin);
      else yield* readEvents(response.body);
    },
  };
}

function withoutLink(stateDir: string): GatewayAway {
  const pid = findHolder(stateDir);
  if (pid === null) return new GatewayAway(`Herald does not run on the state folder ${stateDir}.`);
  const why = "its page is off (web.enabled, --role worker) or not up yet, and commands talk to it over that";
  return new GatewayAway(`Herald runs on the state folder ${stateDir} (pid ${pid}), but ${why}.`, true);
}

/** One answers for this state folder. */
export async function isServing(terminal: At): Promise<boolean> {
  try {
    await findGateway(terminal).get("/api/runs");
    return true;
  } catch {
    return false;
  }
}

function readLink(stateDir: string): URL | null {
  try {
    return URL.parse(readFileSync(join(stateDir, LINK_FILE), "utf8").trim());
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** The link names what people open. Behind a proxy that is another machine's name: then the settings say where it listens. */
function originOf(link: URL, terminal: At): string {
  const name = link.hostname.replace(/^\[|\]$/g, "");
  if (link.protocol === "http:" && (name === "localhost" || isIP(name) !== 0)) return link.origin;
  const { host, port, publicUrl } = loadConfig({ env: terminal.env, cwd: terminal.cwd }).config.web;
  // Those of another folder name another port: whoever listens there would be handed the page's token.
  if (URL.parse(publicUrl ?? `http://${host}:${port}`)?.origin !== link.origin)
    throw new Error(
      `The gateway is opened at ${link.origin}, but the settings found here are not its own. Run this in its folder, or set HERALD_CONFIG to its settings file.`,
    );
  const local = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${local.includes(":") ? `[${local}]` : local}:${port}`;
}

function unreachable(error: unknown, origin: string): Error {
  const { name, cause } = error as Error;
  if (name === "TimeoutError")
    return new Error(
      `The gateway at ${origin} did not answer within ${ANSWER_MS / 1000} s. It is busy or hangs: try again, or look at its log.`,
    );
  if (name === "AbortError") return error as Error;
  return new GatewayAway(`No gateway answers at ${origin} (${errorText(cause ?? error)}).`);
}

async function readAnswer<T>(response: Response, origin: string): Promise<T> {
  const body = (await response.json().catch(() => null)) as ({ error?: string } & T) | null;
  if (response.ok && body !== null) return body;
  if (response.status === 401)
    throw new Refused(
      401,
      `What answers at ${origin} does not know the token of this state folder: it is another gateway, or one with another token.`,
    );
  throw new Refused(response.status, body?.error ?? `The gateway at ${origin} answered ${response.status} without a word.`);
}

async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<{ name: string; data: unknown }> {
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for await (const chunk of body) {
      const blocks = (rest + decoder.decode(chunk, { stream: true })).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const field = (name: string): string | undefined => new RegExp(`^${name}: ?(.*)$`, "m").exec(block)?.[1];
        const [name, data] = [field("event"), field("data")];
        if (name !== undefined && data !== undefined) yield { name, data: JSON.parse(data) };
      }
    }
  } catch (error) {
    // Its end, ours, or a restart in the middle: whoever listens looks anew.
    if (error instanceof SyntaxError) throw error;
  }
}
