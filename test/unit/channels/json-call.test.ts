// Requests over node:http: what a failure says about whether anything was sent.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server } from "node:net";
import { afterEach, expect, it } from "vitest";
import { explainRequestFailure } from "../../../src/channels/connecting.ts";
import { createJsonCall } from "../../../src/channels/json-call.ts";

const open: Server[] = [];
afterEach(() => {
  for (const server of open.splice(0)) server.close();
});

async function listen(server: Server): Promise<string> {
  open.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}
const serve = async (answer: (req: IncomingMessage, res: ServerResponse) => unknown) =>
  `http://${await listen(createServer((req, res) => void answer(req, res)))}/bot1:x/getMe`;
const body = (text: string | AsyncIterable<Uint8Array> = "{}") => ({
  ...{ method: "POST", headers: { "content-type": "application/json" }, body: text },
  signal: new AbortController().signal,
});
const failure = async (url: string, wanted = body(), call = createJsonCall()) => {
  const error: unknown = await call(url, wanted)
    .then((answer) => answer.json())
    .then(
      () => expect.unreachable("it was answered"),
      (reason: unknown) => reason,
    );
  return explainRequestFailure(error);
};

it("[DL4] an answer is read as JSON, whatever its status; a body may come in pieces", async () => {
  const url = await serve(async (req, res) => {
    const got = (await req.toArray()).join("");
    res.writeHead(429).end(JSON.stringify({ got }));
  });
  async function* pieces(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("one ");
    yield Buffer.from("two");
  }
  expect(await (await createJsonCall()(url, body(pieces()))).json()).toEqual({ got: "one two" });
  expect(await (await createJsonCall()(url, body("ü"))).json()).toEqual({ got: "ü" });
});

it("[DL4] nobody listens, or a network that swallows everything: surely nothing was sent", async () => {
  const free = await listen(createTcpServer());
  for (const server of open.splice(0)) await new Promise((resolve) => server.close(resolve));
  expect(await failure(`http://${free}/`)).toEqual({ notSent: true, code: "ECONNREFUSED" });
  // Accepted, and never a word of TLS.
  const silent = await listen(createTcpServer((socket) => socket.on("error", () => {})));
  expect(await failure(`https://${silent}/`, body(), createJsonCall(50))).toEqual({ notSent: true, code: "ETIMEDOUT" });
});

it("[DL4] cut before or in the middle of its answer: it may have been executed", async () => {
  const dropped = await serve((req) => req.socket.destroy());
  expect((await failure(dropped)).notSent).toBe(false);
  const cut = await serve((req, res) => {
    res.writeHead(200, { "content-length": "100" }).write('{"ok":');
    setImmediate(() => req.socket.destroy());
  });
  expect((await failure(cut)).notSent).toBe(false);
});

it("[SC4] a redirect is not followed: the token stands in the address", async () => {
  let isFollowed = false;
  const elsewhere = await serve((_req, res) => {
    isFollowed = true;
    res.end("{}");
  });
  const url = await serve((_req, res) => res.writeHead(307, { location: elsewhere }).end());
  expect((await failure(url)).notSent).toBe(false);
  expect(isFollowed).toBe(false);
});

it("[MO5] an abort closes the connection, also while the answer is awaited", async () => {
  const over = new AbortController();
  let closed: Promise<unknown> = Promise.resolve();
  const url = await serve((req) => {
    closed = once(req.socket, "close");
    over.abort(new Error("stopped"));
  });
  await expect(createJsonCall()(url, { ...body(), signal: over.signal })).rejects.toThrow("stopped");
  await closed;
});

it("[CH2] a body that breaks is the request's end", async () => {
  const url = await serve((req, res) => {
    req.on("error", () => {}).resume();
    req.on("end", () => res.end("{}"));
  });
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("one");
    throw new Error("the file is gone");
  }
  await expect(createJsonCall()(url, body(broken()))).rejects.toThrow("the file is gone");
});
