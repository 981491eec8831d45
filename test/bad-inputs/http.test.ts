// Bad requests to the page's server, by their id in the catalogue; on a real port, where they enter.
import type { IncomingMessage } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newId } from "../../src/core/ids.ts";
import { type Logger, silentLogger } from "../../src/core/logger.ts";
import { callerOf } from "../../src/web/gate.ts";
import { requestBytes, sendBytes, statusOf } from "../support/raw-http.ts";
import { startWeb, type WebFixture } from "../support/web-server.ts";

const PATH = "/api/chats/main/messages";
let web: WebFixture;
let lines: string[];

beforeEach(async () => {
  lines = [];
  const log: Logger = {
    ...silentLogger,
    warn: (fields, message) => void lines.push(`${JSON.stringify(fields)} ${message}`),
    child: () => log,
  };
  web = await startWeb({ log });
});
afterEach(() => web.close());

const statusFor = async (path: string, headers: Record<string, string> = {}) => (await fetch(`${web.url}${path}`, { headers })).status;
const login = (body: object, headers: Record<string, string> = {}) =>
  fetch(`${web.url}/api/login`, {
    method: "POST",
    headers: { origin: web.url, "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });

describe("the token", () => {
  it("[SC3] HTTP-001 none, a wrong one, one in the URL and a cookie from another site are refused, and none is logged", async () => {
    expect(await statusFor("/api/chats")).toBe(401);
    for (const value of ["Bearer wrong", `Bearer ${web.token}x`, `Basic ${web.token}`, web.token, "Bearer "]) {
      expect({ value, status: await statusFor("/api/chats", { authorization: value }) }).toEqual({ value, status: 401 });
    }
    for (const name of ["token", "TOKEN", "access_token", "%74oken"]) {
      expect(await statusFor(`/api/chats?${name}=${web.token}`, { authorization: `Bearer ${web.token}` })).toBe(400);
    }
    const signedIn = await web.signIn();
    expect(await statusFor("/api/chats", signedIn)).toBe(200);
    for (const [name, value] of [
      ["origin", "https://evil.example"],
      ["sec-fetch-site", "cross-site"],
      ["sec-fetch-site", "same-site"],
    ] as const) {
      expect(await statusFor("/api/chats", { ...signedIn, [name]: value })).toBe(403);
      expect(await statusFor("/api/events", { ...signedIn, [name]: value })).toBe(403);
    }
    expect(lines.length).toBeGreaterThan(0);
    expect(lines.join("\n")).not.toContain(web.token);
  });

  it("[SC3] HTTP-006 who guesses is known by the socket: made-up forwarding headers start no new count", async () => {
    const lies = (n: number): Record<string, string> => ({
      "x-forwarded-for": `10.0.0.${n}, 127.0.0.1`,
      forwarded: `for=10.0.0.${n}`,
      "x-real-ip": `10.0.0.${n}`,
      "client-ip": `10.0.0.${n}`,
    });
    const statuses: number[] = [];
    for (let n = 0; n < 12; n++) statuses.push((await login({ token: "wrong" }, lies(n))).status);
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
    expect(lines.filter((line) => !line.startsWith('{"caller":"127.0.0.1"}'))).toEqual([]);
    const from = (remoteAddress: string): string => callerOf({ socket: { remoteAddress } } as IncomingMessage);
    expect([from("::ffff:127.0.0.1"), from("::FFFF:127.0.0.1"), from("127.0.0.1")]).toEqual(Array(3).fill("127.0.0.1"));
  });

  it("[SC3] HTTP-019 no request mints a token: cookie and key stay what they are, and what a sign-in asks for is ignored", async () => {
    const signedIn = await login({ token: web.token, scopes: ["admin"], role: "owner", maxAge: 9e9 });
    const value = /^herald_\d+=([\w-]+);/.exec(signedIn.headers.get("set-cookie") ?? "")?.[1] ?? "";
    const { key, ...rest } = (await signedIn.json()) as { key: string };
    expect(rest).toEqual({ status: "ok" });
    for (const secret of [value, key]) expect(secret).toMatch(/^[\w-]{43}$/);
    for (const secret of [value, key]) {
      expect(await statusFor("/api/chats", { authorization: `Bearer ${secret}` })).toBe(401);
      expect((await login({ token: secret })).status).toBe(401);
    }
    expect((await login({ scopes: ["admin"] }, await web.signIn())).status).toBe(400);
    for (const path of ["/api/token", "/api/tokens", "/api/login/token", "/api/keys"]) {
      const response = await fetch(`${web.url}${path}`, { method: "POST", headers: { authorization: `Bearer ${web.token}` } });
      expect(response.status).toBe(404);
    }
    expect((await web.server.routes()).filter(({ method }) => method === "POST").map(({ path }) => path)).toEqual([
      "/api/chats/:chat/messages",
      ...["/api/login", "/api/logout", "/api/browsers/end"],
      ...["/api/chats/:chat/resend", "/api/chats/:chat/title", "/api/chats/:chat/delete"],
      ...["/api/chats/:chat/files/:key", "/api/chats/:chat/files/:id/remove"],
      ...["/api/runs/:id/retry", "/api/runs/:id/stop", "/api/runs/:id/send", "/api/runs/:id/again", "/api/runs/:id/raise"],
      "/api/watch",
      ...["/api/sessions/:id/stop", "/api/sessions/:id/send"],
      ...["/api/runs/:id/brief", "/api/runs/:id/brief/revoke"],
      "/api/questions/:id/answer",
      ...["/api/pairing", "/api/pairing/revoke"],
      ...["/api/setup/test", "/api/setup/save", "/api/setup/remove", "/api/setup/reload", "/api/setup/restart"],
      "/mcp",
    ]);
  });
});

describe("what the page talks to", () => {
  it("[WB2] HTTP-005 an address in the URL changes no byte of the page, and its scripts know no other host", async () => {
    const plain = await fetch(web.url);
    const asked = await fetch(`${web.url}/?gatewayUrl=ws://evil.example:1&api=https://evil.example`);
    expect(await asked.text()).toBe(await plain.text());
    expect(asked.headers.get("content-security-policy")).toContain("connect-src 'self'");
    const scripts = (await web.server.routes()).filter(({ path }) => path.endsWith(".js")).map(({ path }) => path);
    expect(scripts.length).toBeGreaterThan(5);
    for (const path of scripts) {
      // Its maker's name stands in front of a library.
      const source = (await (await fetch(`${web.url}${path}`)).text()).replace(/^\/\*!.*?\*\//s, "");
      expect({ path, found: source.match(/location\.search|new WebSocket|\b(?:wss?|https?):\/\/|sendBeacon/g) }).toEqual({
        path,
        found: null,
      });
      // Only it tells how far an upload came; whoever has a path for it asks the one way out.
      expect({ path, asks: source.includes("XMLHttpRequest") }).toEqual({ path, asks: path === "/wire.js" });
      // Every call starts at the page's own root.
      for (const [, target = ""] of source.matchAll(/(?:new EventSource|fetch|getJson|postJson|getBlob)\(\s*["'`]([^"'`]*)/g)) {
        expect(target).toMatch(/^\/api\//);
      }
    }
  });
});

describe("bodies", () => {
  const head = () => [`Host: 127.0.0.1:${web.port}`, `Authorization: Bearer ${web.token}`];
  const post = async (headers: string[], body: Buffer | string): Promise<number> => {
    const bytes = requestBytes(`POST ${PATH} HTTP/1.1`, [...head(), ...headers, `Content-Length: ${Buffer.byteLength(body)}`]);
    return statusOf(await sendBytes(web.port, `${bytes}${body.toString("latin1")}`));
  };

  it("[SC3] HTTP-010 without a content type, or in another encoding than UTF-8, a body is not read", async () => {
    const body = JSON.stringify({ id: newId(), text: "hi" });
    expect(await post([], body)).toBe(415);
    for (const type of ["application/json; charset=utf-16", "application/json;charset=iso-8859-1", "application/jsonx", "text/json"]) {
      expect({ type, status: await post([`Content-Type: ${type}`], body) }).toEqual({ type, status: 415 });
    }
    // UTF-16 that claims to be UTF-8 is read strictly.
    expect(await post(["Content-Type: application/json"], Buffer.from(body, "utf16le"))).toBe(400);
    expect(await web.inbox()).toEqual([]);
    expect(await post(['Content-Type: application/json; charset="UTF-8"'], body)).toBe(202);
  });
});
