// The request to a provider on a real socket: connections kept, an answer read at the reader's pace, every way it ends.
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { type Answer, createHttpPost } from "../../../src/models/http-post.ts";

const textOf = ({ body }: Answer): Promise<string> => new Response(body).text();

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function start(answer: RequestListener) {
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => answer(request, response));
  }).listen(0, "127.0.0.1");
  servers.push(server);
  await once(server, "listening");
  let connections = 0;
  server.on("connection", () => connections++);
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const post = createHttpPost();
  return {
    connections: () => connections,
    post: (init: RequestInit = {}, onBytes: (count: number) => void = () => {}) => post(url, { body: "{}", ...init }, { onBytes }),
  };
}

it("[MO1] calls one after the other share a connection, and an answer without a body is one", async () => {
  const { connections, post } = await start((request, response) => {
    response.writeHead(request.headers["x-want"] === "nothing" ? 204 : 200, { "x-a": ["1", "2"] }).end();
  });
  const first = await post({ headers: { "X-Want": "something" } });
  expect([first.status, first.headers.get("x-a"), await textOf(first)]).toEqual([200, "1, 2", ""]);
  const second = await post({ headers: { "X-Want": "nothing" } });
  expect([second.status, second.body]).toEqual([204, null]);
  expect(connections()).toBe(1);
});

it("[MO2] no more is taken than the reader wants", async () => {
  const chunk = Buffer.alloc(256 * 1024);
  const { post } = await start((request, response) => {
    response.writeHead(200);
    if (request.headers["x-want"] === "little") return void response.end("x");
    let left = 200;
    const fill = (): void => {
      while (left-- > 0) if (!response.write(chunk)) return void response.once("drain", fill);
    };
    fill();
  });
  let taken = 0;
  const response = await post({}, (count) => {
    taken += count;
  });
  const reader = response.body?.getReader();
  await reader?.read();
  // Other answers come and go meanwhile: time in which 50 MB would have been taken.
  for (let n = 0; n < 50; n++) await textOf(await post({ headers: { "x-want": "little" } }));
  expect(taken).toBeLessThan(1024 * 1024);
  await reader?.cancel();
});

it("[MO4] a server that isn't there, a connection cut before and in the answer, and too long an answer are all errors", async () => {
  const { post } = await start((request, response) => {
    if (request.headers["x-cut"] === "before") return void request.socket.destroy();
    response.writeHead(200);
    response.write("half");
    if (request.headers["x-cut"] === "in") setImmediate(() => request.socket.destroy());
  });
  await expect(post({ headers: { "x-cut": "before" } })).rejects.toMatchObject({ message: "fetch failed", cause: { code: "ECONNRESET" } });
  await expect(post({ headers: { "x-cut": "in" } }).then(textOf)).rejects.toThrow();
  const refuse = (count: number): void => {
    if (count > 0) throw new Error("too long");
  };
  await expect(post({}, refuse).then(textOf)).rejects.toThrow("too long");
  const gone = createHttpPost();
  await expect(gone("http://127.0.0.1:1/v1", { body: "" }, { onBytes: () => {} })).rejects.toMatchObject({
    cause: { code: "ECONNREFUSED" },
  });
});

it("[ST2] an abort ends a call before, during and after the head", async () => {
  const { post } = await start((request, response) => {
    if (request.headers["x-head"] !== "no") response.writeHead(200).write("half");
  });
  await expect(post({ signal: AbortSignal.abort("before") })).rejects.toBe("before");
  const waiting = new AbortController();
  const call = post({ signal: waiting.signal, headers: { "x-head": "no" } });
  waiting.abort("while waiting");
  await expect(call).rejects.toBe("while waiting");
  const reading = new AbortController();
  const response = await post({ signal: reading.signal });
  const text = textOf(response);
  reading.abort("while reading");
  await expect(text).rejects.toThrow();
});
