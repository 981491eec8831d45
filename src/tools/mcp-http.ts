// One MCP server behind a URL from the config. The operator named it, so it may be a local address; but it can't send
// us, or the headers meant for it, anywhere else, and its answers are bounded.
import type { McpLink } from "./mcp-server.ts";

export interface HttpServer {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const MAX_ANSWER_BYTES = 8 * 1024 * 1024;
const MAX_REDIRECTS = 3;
const DELETE_MS = 2_000;

export function createHttpLink(server: HttpServer): McpLink {
  const { promise: closed, resolve: fail } = Promise.withResolvers<string>();
  return {
    transport: { type: "http", url: server.url, headers: { ...server.headers }, fetch: boundedFetch },
    closed,
    fail,
    lastWords: () => "",
    end: async () => {},
  };
}

/** The client's fetch: same-origin redirects only, answers up to 8 MB. */
const boundedFetch: typeof fetch = async (input, init = {}) => {
  // The stream for messages the server begins: nothing of ours listens to it.
  if (init.method === "GET") return new Response(null, { status: 405 });
  const signal = init.method === "DELETE" ? AbortSignal.timeout(DELETE_MS) : (init.signal ?? null);
  let url = new URL(input instanceof Request ? input.url : input);
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    const response = await fetch(url, { ...init, signal, redirect: "manual" });
    const location = response.headers.get("location");
    if (response.status < 300 || response.status >= 400 || location === null) return bounded(response);
    await response.body?.cancel();
    const next = new URL(location, url);
    if (next.origin !== url.origin) throw new Error(`the server redirected to another origin (${next.origin}), which is refused`);
    // Any other status would turn the POST into a GET.
    if (response.status !== 307 && response.status !== 308) throw new Error(`the server redirected with status ${response.status}`);
    url = next;
  }
  throw new Error(`the server redirected more than ${MAX_REDIRECTS} times`);
};

function bounded(response: Response): Response {
  let size = 0;
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      size += chunk.byteLength;
      if (size > MAX_ANSWER_BYTES) controller.error(new Error("the server's answer is larger than 8 MB"));
      else controller.enqueue(chunk);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body?.pipeThrough(limit) ?? null, { status, statusText, headers });
}
