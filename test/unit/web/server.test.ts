import { connect, createServer, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { newId } from "../../../src/core/ids.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createBrowsers } from "../../../src/stores/browsers.ts";
import { createWebChats } from "../../../src/stores/web-chats.ts";
import { createWebServer, REQUEST_TIMEOUT_MS } from "../../../src/web/server.ts";
import { waitFor } from "../../support/wait.ts";
import { boardParts, NO_CHAT_DESK, NO_USAGE, startWeb, type WebFixture } from "../../support/web-server.ts";

let web: WebFixture;

beforeEach(async () => {
  web = await startWeb();
});

afterEach(async () => {
  await web.close();
});

/** Sends bytes as they are; resolves with everything the server said once it hangs up (or after `waitMs`). */
function raw(bytes: string, { waitMs = 15_000, port = web.port } = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket: Socket = connect(port, "127.0.0.1", () => socket.write(bytes));
    let answer = "";
    const timer = setTimeout(() => socket.destroy(), waitMs);
    socket.on("data", (chunk) => {
      answer += chunk;
    });
    // A reset after the answer is still an answer.
    socket.on("error", (error: NodeJS.ErrnoException) =>
      error.code === "ECONNRESET" || error.code === "EPIPE" ? undefined : reject(error),
    );
    socket.on("close", () => {
      clearTimeout(timer);
      resolve(answer);
    });
  });
}

const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]);
const request = (line: string, headers: string[], body = "") => `${[line, ...headers, "Connection: close", "", ""].join("\r\n")}${body}`;
const rawStatus = async (line: string, headers: string[], body = "") => statusOf(await raw(request(line, headers, body)));

const bearer = () => ({ authorization: `Bearer ${web.token}` });
const post = (path: string, body: unknown, headers: Record<string, string> = bearer()) =>
  fetch(`${web.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
const message = (text: string, id = newId()) => ({ id, text });

describe("the route table", () => {
  it("[SC2] [SC3] every handler but health, sign-in and the page's own files refuses without a token", async () => {
    const routes = await web.server.routes();
    const open = routes.filter((route) => route.access === "public");
    expect(open.filter((route) => route.path.startsWith("/api/")).map((route) => route.path)).toEqual(["/api/login"]);
    expect(routes.filter((route) => route.access === "token").length).toBeGreaterThanOrEqual(5);
    for (const { method, path, access } of routes) {
      const url = `${web.url}${path.replace(":chat", "main")}`;
      const headers = { origin: web.url, "content-type": "application/json" };
      const response = await fetch(url, { method, headers, ...(method === "POST" && { body: "{}" }) });
      await response.body?.cancel();
      if (access === "token" || access === "program") expect({ path, status: response.status }).toEqual({ path, status: 401 });
      else expect({ path, ok: response.status === (path === "/api/login" ? 400 : 200) }).toEqual({ path, ok: true });
    }
  });

  it("[SC3] HTTP-001 HTTP-003 every handler but health refuses a foreign Host, and all a foreign Origin and a token in the URL", async () => {
    for (const { method, path, access } of await web.server.routes()) {
      const target = path.replace(":chat", "main");
      const auth = [`Authorization: Bearer ${web.token}`, "Content-Length: 0"];
      const host = `Host: 127.0.0.1:${web.port}`;
      expect(await rawStatus(`${method} ${target} HTTP/1.1`, ["Host: evil.example", ...auth])).toBe(access === "probe" ? 200 : 403);
      expect(await rawStatus(`${method} ${target} HTTP/1.1`, [host, "Origin: https://evil.example", ...auth])).toBe(403);
      expect(await rawStatus(`${method} ${target}?token=${web.token} HTTP/1.1`, [host, ...auth])).toBe(400);
    }
  });

  it("[SC3] FM-026 no page holds the token, every answer carries the same strict headers", async () => {
    for (const { path, access } of await web.server.routes()) {
      if (access !== "public" || path.startsWith("/api/")) continue;
      const response = await fetch(`${web.url}${path}`);
      const text = await response.text();
      expect(text).not.toContain(web.token);
      expect(text).not.toMatch(/<script(?![^>]*\bsrc=)|\son\w+="|style="/i);
      expect(response.headers.get("content-security-policy")).toContain(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;",
      );
      expect(response.headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
      expect(response.headers.get("x-content-type-options")).toBe("nosniff");
      expect(response.headers.get("referrer-policy")).toBe("no-referrer");
      expect(response.headers.get("access-control-allow-origin")).toBeNull();
    }
  });

  it("[SC3] HTTP-015 unknown paths are 404, wrong methods 405, preflights get no leave", async () => {
    expect((await fetch(`${web.url}/nope`)).status).toBe(404);
    expect((await fetch(`${web.url}/../src/main.ts`)).status).toBe(404);
    expect(await rawStatus("GET /../token.ts HTTP/1.1", [`Host: localhost:${web.port}`])).toBe(404);
    const wrong = await fetch(`${web.url}/api/chats`, { method: "DELETE" });
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET"]);
    const preflight = await raw(
      request("OPTIONS /api/chats HTTP/1.1", [
        `Host: localhost:${web.port}`,
        "Origin: https://evil.example",
        "Access-Control-Request-Method: POST",
      ]),
    );
    expect(statusOf(preflight)).toBe(403);
    expect(preflight.toLowerCase()).not.toContain("access-control-allow");
  });

  it("[SC2] WS-001 an upgrade to a WebSocket meets the same gate", async () => {
    const upgrade = [
      "Upgrade: websocket",
      "Connection: Upgrade",
      "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==",
    ];
    const answer = await raw(
      `${["GET /api/events HTTP/1.1", `Host: localhost:${web.port}`, "Origin: null", ...upgrade, "", ""].join("\r\n")}`,
      { waitMs: 1000 },
    );
    expect(statusOf(answer)).toBe(403);
  });
});

describe("health", () => {
  it("[RN3] [WB8] says starting, then ok, to anybody; ready only while it takes messages", async () => {
    const early = await startWeb();
    try {
      await early.server.close();
      const { bus, channel, messages, desk, pairing, token, db, files } = early;
      const browsers = createBrowsers({ db, clock: systemClock });
      early.server = createWebServer({
        ...{ host: "127.0.0.1", port: 0, publicUrl: () => null, token: () => token, browsers, programs: { find: async () => null } },
        ...{ log: silentLogger, clock: systemClock, bus, channel, messages, pairing },
        desks: async () => ({
          ...{ questions: desk, files: files.desk, webChats: createWebChats({ db }), chats: NO_CHAT_DESK },
          redeliver: async () => null,
          ...boardParts(db),
          briefs: { history: async () => null, give: async () => null, revoke: async () => null },
          board: { listRuns: async () => [] },
          details: {
            ...{ find: async () => null, transcript: async () => null, task: async () => null },
            ...{ related: async () => null, compare: async () => null },
          },
          record: { entry: async () => null, documents: async () => null, document: async () => null, spend: async () => null },
          usage: { read: async () => NO_USAGE },
        }),
        ...{
          redact: (text) => text,
          heldBack: () => 0,
          nodes: async () => [],
          budgets: async () => [],
          status: () => ({ version: "0", model: "m", problem: null, channels: [] }),
        },
      });
      const url = await early.server.listen();
      const ask = async (path: string) => {
        const answer = await fetch(`${url}${path}`);
        return [answer.status, await answer.json()];
      };
      expect(await ask("/healthz")).toEqual([503, { status: "starting" }]);
      expect(await ask("/readyz")).toEqual([503, { status: "starting" }]);
      early.server.markReady();
      expect(await ask("/healthz")).toEqual([200, { status: "ok" }]);
      expect(await ask("/readyz")).toEqual([200, { status: "ok" }]);
      // It lives while it lets running turns finish, and takes nothing new.
      early.server.markStopping();
      expect(await ask("/healthz")).toEqual([200, { status: "ok" }]);
      expect(await ask("/readyz")).toEqual([503, { status: "stopping" }]);
    } finally {
      await early.close();
    }
  });

  it("[RN2] a taken port is an error that names the setting", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as { port: number };
    await expect(startWeb({ port })).rejects.toMatchObject({ code: "port", message: expect.stringContaining("web.port") });
    await new Promise((resolve) => other.close(resolve));
  });
});

describe("Host and Origin", () => {
  it.each(["127.0.0.1:PORT", "localhost:PORT", "[::1]:PORT"])("[SC3] Host %s is served", async (host) => {
    expect(await rawStatus("GET / HTTP/1.1", [`Host: ${host.replace("PORT", String(web.port))}`])).toBe(200);
  });

  it.each([
    "evil.example",
    "localhost.:PORT",
    "localhost",
    "127.0.0.1:1",
    "127.0.0.1:PORT@evil.example",
    "evil.example:PORT",
    "2130706433:PORT",
  ])("[SC3] [WB8] HTTP-003 Host %s is not, but for health", async (host) => {
    expect(await rawStatus("GET / HTTP/1.1", [`Host: ${host.replace("PORT", String(web.port))}`])).toBe(403);
    // Whoever watches over it may call it by any name.
    for (const path of ["/healthz", "/readyz"])
      expect(await rawStatus(`GET ${path} HTTP/1.1`, [`Host: ${host.replace("PORT", String(web.port))}`])).toBe(200);
  });

  it("[SC3] HTTP-003 no Host, and two of them, are refused", async () => {
    const host = `Host: 127.0.0.1:${web.port}`;
    expect(await rawStatus("GET /healthz HTTP/1.1", [])).toBe(400);
    expect(await rawStatus("GET /healthz HTTP/1.1", [host, "Host: evil.example"])).toBe(400);
    expect(await rawStatus("GET /healthz HTTP/1.1", [host, host])).toBe(400);
  });

  it("[SC3] a cookie post needs the page's own Origin; a script with the token needs none", async () => {
    const { cookie, "x-herald-key": key } = await web.signIn();
    const signedIn = { cookie, "x-herald-key": key };
    const send = (headers: Record<string, string>) => post("/api/chats/main/messages", message("hi"), headers).then((r) => r.status);
    expect(await send({ ...signedIn })).toBe(403);
    expect(await send({ ...signedIn, origin: "null" })).toBe(403);
    expect(await send({ ...signedIn, origin: `http://localhost:${web.port}` })).toBe(403);
    expect(await send({ ...signedIn, origin: `https://127.0.0.1:${web.port}` })).toBe(403);
    expect(await send({ ...signedIn, origin: web.url, "sec-fetch-site": "same-site" })).toBe(403);
    expect(await send({ ...signedIn, origin: web.url, "sec-fetch-site": "same-origin" })).toBe(202);
    expect(await send(bearer())).toBe(202);
  });

  it("[SC3] forwarding headers change nothing", async () => {
    const lies = { "x-forwarded-for": "127.0.0.1", forwarded: "for=127.0.0.1", "x-real-ip": "127.0.0.1", "x-forwarded-host": "localhost" };
    expect((await fetch(`${web.url}/api/chats`, { headers: lies })).status).toBe(401);
  });
});

describe("signing in", () => {
  const login = (token: string) => post("/api/login", { token }, { origin: web.url });

  it("[SC3] trades the token for a cookie and a key that are not the token, and survives a restart", async () => {
    const response = await login(web.token);
    expect(response.status).toBe(200);
    const cookie = response.headers.get("set-cookie") ?? "";
    expect(cookie).toMatch(/; Path=\/api; HttpOnly; SameSite=Strict; Max-Age=\d+$/);
    expect(cookie).not.toContain(web.token);
    const text = await response.text();
    expect(text).not.toContain(web.token);
    await web.restart();
    const headers = { cookie: `other=1; ${cookie.split(";")[0]}`, "x-herald-key": (JSON.parse(text) as { key: string }).key };
    expect((await fetch(`${web.url}/api/chats`, { headers })).status).toBe(200);
  });

  it("[SC3] wrong tokens are refused, and after ten nobody's guess is looked at", async () => {
    const signedIn = await web.signIn();
    const statuses: number[] = [];
    for (let n = 0; n < 6; n++) {
      statuses.push((await login("wrong")).status);
      statuses.push((await fetch(`${web.url}/api/chats`, { headers: { authorization: "Bearer wrong" } })).status);
    }
    expect(statuses.slice(0, 10)).toEqual(Array(10).fill(401));
    expect(statuses.slice(10)).toEqual([429, 429]);
    const right = await login(web.token);
    expect([right.status, right.headers.get("retry-after")]).toEqual([429, "60"]);
    // A browser that is signed in goes on working.
    expect((await fetch(`${web.url}/api/chats`, { headers: signedIn })).status).toBe(200);
  });

  it("[SC3] calls without any token are no guesses", async () => {
    for (let n = 0; n < 15; n++) expect((await fetch(`${web.url}/api/chats`)).status).toBe(401);
    expect((await login(web.token)).status).toBe(200);
  });
});

describe("posting", () => {
  const path = "/api/chats/main/messages";

  it("[RC3] answers 202 once it is recorded; the retry is recorded no second time", async () => {
    const body = message("hello");
    expect(await (await post(path, body)).json()).toEqual({ id: body.id, status: "accepted" });
    const again = await post(path, body);
    expect([again.status, await again.json()]).toEqual([202, { id: body.id, status: "known" }]);
    expect(await web.inbox()).toEqual([{ externalId: body.id, raw: { ...body, chat: "main", kind: "message" } }]);
    expect((await post(path, { ...body, text: "other" })).status).toBe(409);
  });

  it("[SC1] HTTP-018 rights a client writes into its message are dropped", async () => {
    await post(path, { ...message("hi"), role: "owner", scopes: ["admin"], senderIsOwner: true, sender: { id: "boss" } });
    expect(Object.keys((await web.inbox())[0]?.raw ?? {}).sort()).toEqual(["chat", "id", "kind", "text"]);
    expect(web.channel.decode((await web.inbox())[0]?.raw)?.sender).toEqual({ id: "local", name: "the page" });
  });

  it.each(["MAIN", "..%2f", "main%00", "x".repeat(300), "agent:main:web:dm:main", ""])("[SE1] there is no chat %j", async (chat) => {
    expect((await post(`/api/chats/${chat}/messages`, message("x"))).status).toBe(404);
    expect((await fetch(`${web.url}/api/chats/${chat}/messages`, { headers: bearer() })).status).toBe(404);
  });

  it.each([
    {},
    { id: "1", text: "x" },
    message(""),
    message(" \n "),
    message("x".repeat(60_001)),
    { ...message("x"), kind: "command" },
    [],
  ])("[SC3] a body that is no message is refused with what would be accepted (%#)", async (body) => {
    const response = await post(path, body);
    expect(response.status).toBe(400);
    expect(((await response.json()) as { error: string }).error).toContain("uuid");
    expect(await web.inbox()).toEqual([]);
  });

  it.each(['{"a":', "[".repeat(100_000), '{"id":"1","id":"2"}', '{"a":1e999}', '{"text":"\\ud800"}'])(
    "[SC3] HTTP-009 bad JSON is a 400 (%#)",
    async (body) => {
      const response = await post(path, body);
      expect([response.status, Object.keys((await response.json()) as object)]).toEqual([400, ["error"]]);
    },
  );

  it.each(["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", "multipart/form-data", ""])(
    "[SC3] HTTP-010 content type %j is a 415",
    async (type) => {
      expect((await post(path, message("x"), { ...bearer(), "content-type": type })).status).toBe(415);
    },
  );

  it("[SC3] compressed bodies are refused", async () => {
    expect((await post(path, message("x"), { ...bearer(), "content-encoding": "gzip" })).status).toBe(415);
  });

  it("[SC3] a body beyond 256 KB is refused by its announced length and by its real one", async () => {
    const headers = [`Host: 127.0.0.1:${web.port}`, `Authorization: Bearer ${web.token}`, "Content-Type: application/json"];
    expect(await rawStatus(`POST ${path} HTTP/1.1`, [...headers, "Content-Length: 900000"], "{")).toBe(413);
    const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`;
    expect(await rawStatus(`POST ${path} HTTP/1.1`, [...headers, "Transfer-Encoding: chunked"], chunk.repeat(6))).toBe(413);
    expect(await web.inbox()).toEqual([]);
  });

  it("[SC3] a flood of posts is slowed down", async () => {
    const flood = () => Promise.all(Array.from({ length: 400 }, (_, n) => post(path, message(`m${n}`)).then((r) => r.status)));
    const statuses = await flood();
    // A slow machine gives the limit time to recover.
    for (let i = 0; i < 10 && !statuses.includes(429); i++) statuses.push(...(await flood()));
    expect(statuses.filter((status) => status === 202).length).toBeGreaterThanOrEqual(300);
    expect(statuses).toContain(429);
  });

  it("[RC4] a disk that refuses gives a 500 in words, and the server lives on", async () => {
    await web.db.transaction([], (tx) => tx.run("ALTER TABLE inbox RENAME TO gone"));
    const response = await post(path, message("x"));
    expect([response.status, await response.json()]).toEqual([500, { error: "Something went wrong here. The log says more." }]);
    await web.db.transaction([], (tx) => tx.run("ALTER TABLE gone RENAME TO inbox"));
    expect((await post(path, message("x"))).status).toBe(202);
    expect(await web.messages.list("main", { limit: 9 })).toHaveLength(1);
  });
});

describe("hostile bytes", () => {
  const host = () => `Host: 127.0.0.1:${web.port}`;

  it("[SC3] HTTP-014 smuggling attempts are refused and the connection closed", async () => {
    const smuggled = "0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: evil\r\n\r\n";
    const both = await raw(`POST /api/login HTTP/1.1\r\n${host()}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n${smuggled}`);
    expect(statusOf(both)).toBe(400);
    expect(both.match(/HTTP\/1\.1/g)).toHaveLength(1);
    expect(statusOf(await raw(`GET /healthz HTTP/1.1\n${host()}\n\n`))).toBe(400);
    expect(statusOf(await raw(`GET /healthz HTTP/1.1\r\n${host()}\r\nX-A: 1\r\n folded\r\n\r\n`))).toBe(400);
    expect(statusOf(await raw(`POST /api/login HTTP/1.1\r\n${host()}\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello`))).toBe(400);
  });

  it("[SC3] HTTP-014 huge headers are refused", async () => {
    expect(statusOf(await raw(`GET /healthz HTTP/1.1\r\n${host()}\r\nX-A: ${"a".repeat(1_000_000)}\r\n\r\n`))).toBe(431);
    expect(statusOf(await raw(`GET /healthz HTTP/1.1\r\n${host()}\r\n${"X-A: a\r\n".repeat(10_000)}\r\n`))).toBe(431);
  });

  it("[SC3] an absolute or empty target is not served", async () => {
    expect(await rawStatus("GET http://evil.example/healthz HTTP/1.1", [host()])).toBe(400);
    expect(await rawStatus("GET //evil.example/ HTTP/1.1", [host()])).toBe(404);
  });

  it("[SC3] HTTP-011 slow senders are dropped while others are served", async () => {
    expect(REQUEST_TIMEOUT_MS).toBeLessThanOrEqual(9000);
    const impatient = await startWeb({ requestTimeoutMs: 700 });
    try {
      const slow = Array.from({ length: 500 }, () => raw("GET /healthz HTTP/1.1\r\nHos", { port: impatient.port }));
      const start = `POST /api/login HTTP/1.1\r\nHost: 127.0.0.1:${impatient.port}\r\nOrigin: ${impatient.url}\r\n`;
      const halfBody = raw(`${start}Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{`, { port: impatient.port });
      expect((await fetch(`${impatient.url}/healthz`)).status).toBe(200);
      const answers = await Promise.all([...slow, halfBody]);
      expect(answers.map(statusOf)).toEqual(Array(501).fill(408));
    } finally {
      await impatient.close();
    }
  });

  it("[RN4] closing lets go of idle and half-open connections", async () => {
    const idle = connect(web.port, "127.0.0.1");
    idle.on("error", () => undefined);
    await waitFor("the connection", () => idle.readyState === "open");
    let isClosed = false;
    idle.on("close", () => {
      isClosed = true;
    });
    idle.resume();
    await web.server.close();
    await waitFor("its end", () => isClosed);
    await expect(fetch(`${web.url}/healthz`)).rejects.toThrow();
  });
});

describe("reading back", () => {
  const history = async (query = "") => {
    const response = await fetch(`${web.url}/api/chats/main/messages${query}`, { headers: bearer() });
    return (await response.json()) as { messages: { text?: string; html?: string; seq: number }[]; hasEarlier: boolean; cursor: string };
  };

  it("[WB1] history comes in pages, newest last, with the cursor to go on from", async () => {
    for (let n = 1; n <= 5; n++) await web.say(`m${n}`);
    const last = await history("?limit=2");
    expect(last.messages.map((m) => m.html)).toEqual(["<p>m4</p>", "<p>m5</p>"]);
    expect([last.hasEarlier, last.cursor]).toEqual([true, String(await web.messages.lastSeq("main"))]);
    const first = await history(`?limit=3&before=${last.messages[0]?.seq}`);
    expect(first.messages.map((m) => m.html)).toEqual(["<p>m1</p>", "<p>m2</p>", "<p>m3</p>"]);
    expect(first.hasEarlier).toBe(false);
  });

  it.each(["?limit=0", "?limit=x", "?before=-1", "?before=1e3"])("[SC3] %s is a 400", async (query) => {
    expect((await fetch(`${web.url}/api/chats/main/messages${query}`, { headers: bearer() })).status).toBe(400);
  });

  it("[WB1] chats and runs can be listed", async () => {
    await post("/api/chats/main/messages", message("Plan a trip"));
    const chats = (await (await fetch(`${web.url}/api/chats`, { headers: bearer() })).json()) as { chats: object[] };
    expect(chats.chats).toMatchObject([{ id: "main", title: "Plan a trip" }]);
    expect(await (await fetch(`${web.url}/api/runs`, { headers: bearer() })).json()).toEqual({ runs: [] });
  });

  it("[SC4] known secrets show as their names", async () => {
    const redacting = await startWeb({ redact: (text) => text.replaceAll("sk-very-secret", "[API_KEY]") });
    try {
      await redacting.say("the key is sk-very-secret");
      const response = await fetch(`${redacting.url}/api/chats/main/messages`, { headers: { authorization: `Bearer ${redacting.token}` } });
      const text = await response.text();
      expect(text).toContain("[API_KEY]");
      expect(text).not.toContain("sk-very-secret");
    } finally {
      await redacting.close();
    }
  });
});
