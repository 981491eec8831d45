// What both fake chat platforms are made of: a server on loopback that lets go of everything when it is closed, faults on
// demand, and the ways in which any answer can go wrong.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** Faults every platform's fake can make. `…_after`: the call is executed, then the answer goes wrong. `slow`: executed late. */
export type PlatformFault =
  | "429"
  | "500"
  | "500_after"
  | "html"
  | "drop"
  | "drop_after"
  | "truncate_after"
  | "hang"
  | "hang_after"
  | "slow";

export interface FaultOptions {
  /** Calls of the method that pass before the fault strikes; default 0. */
  skip?: number;
  /** How many calls it strikes; default 1, Infinity until clear(). */
  times?: number;
  /** For 429: seconds. */
  retryAfter?: number;
  /** For slow: milliseconds. */
  delayMs?: number;
}

export interface Strike<F> {
  readonly fault: F;
  readonly options: FaultOptions;
}

export interface Faults<F> {
  add(method: string, fault: F, options?: FaultOptions): void;
  clear(): void;
  /** What strikes this call. */
  take(method: string): Strike<F> | null;
}

export function createFaults<F>(): Faults<F> {
  const planned: { method: string; fault: F; skip: number; times: number; options: FaultOptions }[] = [];
  return {
    add(method, fault, options = {}) {
      planned.push({ method, fault, skip: options.skip ?? 0, times: options.times ?? 1, options });
    },
    clear: () => void planned.splice(0),
    take(method) {
      for (const fault of planned) {
        if (fault.method !== method || fault.times <= 0) continue;
        if (fault.skip > 0) fault.skip--;
        else {
          fault.times--;
          return fault;
        }
      }
      return null;
    },
  };
}

export const isAfter = (fault: unknown): boolean => typeof fault === "string" && fault.endsWith("_after");

export function respondJson(response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  if (response.destroyed) return;
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

/** What the way back can make of an answer: a page in between, half of it, or nothing. */
export function spoil(response: ServerResponse, fault: PlatformFault | "html_200", answer: object): void {
  switch (fault) {
    case "html":
    case "html_200":
      response.writeHead(fault === "html" ? 502 : 200, { "content-type": "text/html" });
      response.end("<html><body><h1>502 Bad Gateway</h1></body></html>");
      return;
    case "truncate_after": {
      const text = JSON.stringify(answer);
      response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
      response.write(text.slice(0, Math.floor(text.length / 2)), () => response.destroy());
      return;
    }
    case "drop":
    case "drop_after":
      response.destroy();
      return;
    default:
      // hang: the connection stays open and silent until the client or close() ends it.
      return;
  }
}

export interface FakeServer {
  readonly server: Server;
  readonly port: number;
  close(): Promise<void>;
}

type Handle = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** Listens on loopback. */
export async function openFakeServer(handle: Handle, port = 0): Promise<FakeServer> {
  const open = new Set<ServerResponse>();
  const server = createServer((request, response) => {
    open.add(response);
    response.on("close", () => open.delete(response));
    handle(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    server,
    port: (server.address() as AddressInfo).port,
    async close() {
      for (const response of open) response.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
