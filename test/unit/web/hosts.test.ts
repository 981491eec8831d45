// Reached from elsewhere: behind a TLS proxy, a tunnel, a mapped port, on every interface.
import { afterEach, describe, expect, it } from "vitest";
import { createHosts } from "../../../src/web/hosts.ts";
import { requestBytes, sendBytes, statusOf } from "../../support/raw-http.ts";
import { startWeb, type WebFixture } from "../../support/web-server.ts";

const PUBLIC = "https://herald.example.com";
let web: WebFixture;

const ask = (line: string, headers: readonly string[], body = ""): Promise<string> =>
  sendBytes(web.port, requestBytes(line, headers, body));
const status = async (...headers: string[]): Promise<number> => statusOf(await ask("GET / HTTP/1.1", headers));
const login = (host: string, origin: string): Promise<string> => {
  const body = JSON.stringify({ token: web.token });
  const headers = [`Host: ${host}`, `Origin: ${origin}`, "Content-Type: application/json", `Content-Length: ${body.length}`];
  return ask("POST /api/login HTTP/1.1", headers, body);
};

describe("web.publicUrl", () => {
  afterEach(() => web.close());

  it("[WB8] Host, Origin and cookie follow it, with or without the port in the name, or the proxy's own name for us", async () => {
    web = await startWeb({ publicUrl: () => PUBLIC });
    const local = `127.0.0.1:${web.port}`;
    expect(await status("Host: herald.example.com")).toBe(200);
    expect(await status("Host: herald.example.com:443")).toBe(200);
    expect(await status(`Host: ${local}`)).toBe(200);
    for (const host of ["herald.example.com", "herald.example.com:443", local]) {
      const answer = await login(host, PUBLIC);
      expect([host, statusOf(answer), /set-cookie: .*/i.exec(answer)?.[0]]).toEqual([host, 200, expect.stringMatching(/; Secure$/)]);
    }
    const direct = await login(local, `http://${local}`);
    expect([statusOf(direct), /; Secure/.test(direct)]).toEqual([200, false]);
  });

  it("[WB8] [SC3] another name, scheme, port or origin is refused as before", async () => {
    web = await startWeb({ publicUrl: () => PUBLIC });
    for (const host of ["evil.example", "herald.example.com:8443", "xherald.example.com", "herald.example.com.evil.example"])
      expect([host, await status(`Host: ${host}`)]).toEqual([host, 403]);
    for (const origin of ["http://herald.example.com", `${PUBLIC}:8443`, "https://evil.example", "null", `${PUBLIC}/`])
      expect([origin, statusOf(await login("herald.example.com", origin))]).toEqual([origin, 403]);
  });

  it("[WB8] the refusal says what to set", async () => {
    web = await startWeb();
    const refused = async (host: string): Promise<string> => ask("GET /api/chats HTTP/1.1", [`Host: ${host}`]);
    expect(await refused("nas.local:8787")).toContain(
      'set web.publicUrl to the address you open, for example \\"https://nas.local:8787\\"',
    );
    expect(await refused("localhost:9000")).toContain('\\"http://localhost:9000\\"');
    expect(await refused("<script>")).not.toContain("<script>");
  });
});

describe("probes", () => {
  afterEach(() => web.close());

  it("[WB8] PAGE-012 only /healthz and /readyz answer any name, without names or figures; from another origin nothing is served", async () => {
    const metrics = { method: "GET", path: "/metrics", access: "token", handle: () => ({ status: 200, body: "herald_runs 7" }) } as const;
    web = await startWeb({ publicUrl: () => PUBLIC, routes: [metrics] });
    web.server.markReady();
    for (const path of ["/healthz", "/readyz"]) {
      const answer = await ask(`GET ${path} HTTP/1.1`, ["Host: whoever.example"]);
      expect([path, statusOf(answer), answer.split("\r\n\r\n")[1]]).toEqual([path, 200, expect.stringMatching(/^\{"status":"\w+"\}$/)]);
      expect(statusOf(await ask(`GET ${path} HTTP/1.1`, ["Host: herald.example.com", "Origin: https://evil.example"]))).toBe(403);
    }
    const bearer = `Authorization: Bearer ${web.token}`;
    expect(statusOf(await ask("GET /metrics HTTP/1.1", ["Host: whoever.example", bearer]))).toBe(403);
    expect(statusOf(await ask("GET /metrics HTTP/1.1", ["Host: herald.example.com"]))).toBe(401);
    expect(statusOf(await ask("GET /metrics HTTP/1.1", ["Host: herald.example.com", bearer]))).toBe(200);
    const cookie = /set-cookie: (.*)/i.exec(await login("herald.example.com", PUBLIC))?.[1] ?? "";
    expect(cookie).toMatch(/; Secure$/);
    // Bound to the host it was given by.
    expect(cookie).not.toMatch(/domain/i);
  });
});

describe("which names are served", () => {
  const served = (host: string, names: readonly string[], publicUrl: string | null = null): string[] => {
    const hosts = createHosts({ host, port: () => 8787, publicUrl: () => publicUrl });
    return names.filter((name) => hosts.isServed(name) && hosts.isOwnOrigin(`http://${name}`, name));
  };

  it.each(["0.0.0.0", "::"])(
    "[WB8] on all interfaces (%s) any address in digits, at any port, and localhost; a name only by publicUrl",
    (host) => {
      const fine = ["192.168.1.5:8787", "127.0.0.1:9000", "localhost:9000", "localhost", "10.0.0.1", "[fe80::1]:8787", "[::1]"];
      const rebound = [
        "evil.example:8787",
        "nas.local",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "2130706433",
        "[evil]",
        "::1",
        "",
      ];
      expect(served(host, [...fine, ...rebound])).toEqual(fine);
      expect(served(host, ["nas.local:8787"], "http://nas.local:8787")).toEqual(["nas.local:8787"]);
    },
  );

  it("[WB8] [SC3] on loopback exactly our own port, and a tunnel's by publicUrl", () => {
    const names = ["127.0.0.1:8787", "localhost:8787", "localhost:9000", "192.168.1.5:8787", "localhost"];
    expect(served("127.0.0.1", names)).toEqual(["127.0.0.1:8787", "localhost:8787"]);
    expect(served("127.0.0.1", names, "http://localhost:9000")).toEqual(["127.0.0.1:8787", "localhost:8787", "localhost:9000"]);
  });

  it("[WB8] a page of another port of this host is another origin, however we are reached", () => {
    for (const [host, publicUrl] of [
      ["127.0.0.1", null],
      ["0.0.0.0", null],
      ["127.0.0.1", PUBLIC],
    ] as const) {
      const hosts = createHosts({ host, port: () => 8787, publicUrl: () => publicUrl });
      expect(hosts.isOwnOrigin("http://127.0.0.1:3000", "127.0.0.1:8787")).toBe(false);
    }
  });
});
