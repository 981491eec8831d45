// HTTP requests: malformed ones on raw sockets against the real server, and its pure parsers alone. Nothing a caller
// sends may raise an error inside, stay unanswered, or get past the gate.
import { connect } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { silentLogger } from "../../src/core/logger.ts";
import { createFinder, type Route, wholeNumber } from "../../src/web/http.ts";
import { parseStrictJson } from "../../src/web/strict-json.ts";
import { startWeb, type WebFixture } from "../support/web-server.ts";
import { cases, checkPrototype, damagedBytes, damagedText, damagedTree, hostileText } from "./cases.ts";

it("[SC3] any path fits a route segment by segment as it was sent, or not at all", () => {
  const paths = ["/healthz", "/api/chats/:chat/messages", "/api/runs/:id", "/api/runs/:id/transcript", "/"];
  const routes = paths.map((path): Route => ({ method: "GET", path, access: "public", handle: () => null }));
  const find = createFinder(routes);
  const path = damagedText(
    fc.constantFrom("/healthz", "/api/chats/main/messages", "/api/runs/1/transcript", "/api/chats/__proto__/messages", "//"),
  );
  fc.assert(
    fc.property(path, (sent) => {
      const found = find(sent);
      checkPrototype();
      for (const { route, params } of found) {
        expect(route.path.replace(/:(\w+)/g, (_, name: string) => params[name] ?? "?")).toBe(sent);
        for (const value of Object.values(params)) expect(value).not.toContain("/");
      }
      const pattern = (route: Route) => new RegExp(`^${route.path.replace(/:\w+/g, "[^/]*")}$`, "s");
      expect(found.map(({ route }) => route)).toEqual(routes.filter((route) => pattern(route).test(sent)));
    }),
    cases(),
  );
});

it("[WB2] any cursor is absent, a safe whole number, or refused", () => {
  fc.assert(
    fc.property(fc.option(fc.oneof(damagedText(fc.constantFrom("0", "41", "999999999999999")), hostileText)), (text) => {
      const cursor = wholeNumber(text);
      if (text === null) expect(cursor).toBeNull();
      else if (Number.isNaN(cursor)) expect(text).not.toMatch(/^\d{1,15}$/);
      else expect(Number.isSafeInteger(cursor) && BigInt(text) === BigInt(cursor ?? -1)).toBe(true);
    }),
    cases(),
  );
});

const BODY = {
  id: "11111111-2222-4333-8444-555555555555",
  text: 'a "b" \\ 🧭',
  kind: "message",
  list: [{ a: 1 }, { a: 2.5e3 }],
  on: true,
  off: null,
};

/** Throws where an object has a key `__proto__`. */
function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  if (Object.hasOwn(value, "__proto__")) throw new Error("a prototype came through");
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

it("[SC3] any body is null or exactly what JSON says, shallow, without a prototype and without half a character", () => {
  const text = damagedTree(fc.constant(BODY)).map((tree) => JSON.stringify(tree) ?? "");
  let taken = 0;
  expect(parseStrictJson(Buffer.from('\uFEFF{"a":1}'))).toEqual({ a: 1 });
  fc.assert(
    fc.property(fc.oneof(text.map(Buffer.from), damagedBytes(fc.constant(JSON.stringify(BODY))), damagedBytes(text)), (bytes) => {
      const value = parseStrictJson(bytes);
      checkPrototype();
      if (value === null) return;
      taken++;
      // A mark at the start is no part of the text.
      expect(value).toEqual(JSON.parse(bytes.toString().replace(/^\uFEFF/, "")));
      const again = JSON.stringify(value);
      expect(again.isWellFormed() && depthOf(value) <= 16).toBe(true);
      expect(parseStrictJson(Buffer.from(again))).toEqual(value);
    }),
    cases(),
  );
  expect(taken).toBeGreaterThan(0);
});

let web: WebFixture;
const errors: unknown[] = [];
beforeAll(async () => {
  const log = { ...silentLogger, error: (fields: object, message: string) => void errors.push([message, fields]) };
  web = await startWeb({ log: { ...log, child: () => log }, requestTimeoutMs: 2_000 });
});
afterAll(() => web.close());

/** Sends bytes in pieces and reads until the server closes; whoever sends half a request ends their side first. */
function exchange(pieces: readonly Buffer[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: web.port, host: "127.0.0.1" });
    const received: Buffer[] = [];
    const deadline = setTimeout(() => {
      socket.destroy();
      reject(new Error("no end of the connection within 10 s"));
    }, 10_000);
    // A server that has heard enough closes while we still write.
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => received.push(chunk));
    socket.on("close", () => {
      clearTimeout(deadline);
      resolve(Buffer.concat(received).toString("latin1"));
    });
    for (const piece of pieces) socket.write(piece);
    socket.end();
  });
}

const STATUSES = [100, 200, 202, 400, 401, 403, 404, 405, 408, 409, 413, 415, 417, 429, 431];

it("[SC3][SC2] any bytes on a socket are answered or closed, never with a 5xx, never past the gate, and the next caller is served", async () => {
  const fill = (text: string): string => text.replaceAll("PORT", String(web.port)).replaceAll("TOKEN", web.token);
  const post = JSON.stringify({ id: BODY.id, text: "hello" });
  const auth = "Authorization: Bearer TOKEN\r\n";
  const head = (line: string, more = "") => `${line} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n${more}`;
  const json = `Content-Type: application/json\r\nContent-Length: ${post.length}\r\n\r\n${post}`;
  const requests = [
    head("GET /healthz", "\r\n"),
    head("GET /api/chats/main/messages?before=5&limit=2", `${auth}\r\n`),
    head("POST /api/chats/main/messages", auth + json),
    head("POST /api/login", `Origin: http://127.0.0.1:PORT\r\n${json}`),
    head(
      "POST /api/chats/main/messages",
      `${auth}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"id"\r\n0\r\n\r\n`,
    ),
    head("GET /api/events?chat=main&cursor=0", `${auth}Last-Event-ID: 1\r\n\r\n`),
    head(
      "GET /api/runs/x/transcript",
      "Cookie: herald_PORT=abc\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nExpect: 100-continue\r\n\r\n",
    ),
  ];
  const bytes = damagedBytes(fc.array(fc.constantFrom(...requests), { minLength: 1, maxLength: 3 }).map((all) => all.join("")));
  const sample = fc.tuple(bytes, fc.array(fc.nat(400), { maxLength: 2 }));
  await fc.assert(
    fc.asyncProperty(sample, async ([raw, cuts]) => {
      const whole = Buffer.from(fill(raw.toString("latin1")), "latin1");
      const ends = [0, ...cuts.toSorted((a, b) => a - b), whole.length];
      const answer = await exchange(ends.slice(1).map((end, n) => whole.subarray(ends[n], end)));
      expect(errors.splice(0)).toEqual([]);
      expect(answer === "" || answer.startsWith("HTTP/1.1 ")).toBe(true);
      for (const [, status] of answer.matchAll(/HTTP\/1\.1 (\d{3}) /g)) expect(STATUSES).toContain(Number(status));
      if (answer.includes("HTTP/1.1 202 ")) expect(whole.includes(web.token)).toBe(true);
      // The token itself is shown to nobody, whatever was sent.
      expect(answer).not.toContain(web.token);
    }),
    cases(40), // a connection each
  );
  expect(await exchange([Buffer.from(fill(head("GET /healthz", "Connection: close\r\n\r\n")))])).toContain('{"status":"ok"}');
  // Only whole, signed-in posts were taken, each id once.
  for (const { externalId, raw } of await web.inbox()) {
    expect(externalId).toContain(BODY.id.slice(0, 4));
    expect(Object.keys(raw)).not.toContain("__proto__");
  }
});

it("[SC3] a length that can't be compared is a bad request, not a failure", async () => {
  const body = '{"token":{"length":{"toString":1,"valueOf":1}}}';
  const headers = { "content-type": "application/json", origin: web.url };
  expect((await fetch(`${web.url}/api/login`, { method: "POST", headers, body })).status).toBe(400);
});
