import { execFile } from "node:child_process";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import type { networkInterfaces } from "node:os";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import { visibleText } from "../../../src/core/visible-text.ts";
import type { GuardedFetchOptions, ResolvedAddress } from "../../../src/tools/guarded-fetch.ts";
import { listDescendants } from "../../../src/tools/process-tree.ts";
import { isOwnAddress, isPublicAddress } from "../../../src/tools/public-address.ts";
import { plainText, toReadable } from "../../../src/tools/readable.ts";
import { createWebFetch } from "../../../src/tools/web-fetch.ts";
import { findProcesses } from "../../support/tool-bench.ts";
import { callTool, runTool } from "../../support/tool-context.ts";

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

interface Local {
  port: number;
  hits: string[];
  /** TCP connections, with or without a request. */
  connections(): number;
}

async function serve(listener: RequestListener, host = "127.0.0.1", port = 0): Promise<Local> {
  const hits: string[] = [];
  const server = createServer((request, response) => {
    hits.push(request.url ?? "");
    listener(request, response);
  });
  let connections = 0;
  server.on("connection", () => connections++);
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  cleanups.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return { port: (server.address() as AddressInfo).port, hits, connections: () => connections };
}

const secret: RequestListener = (_, response) => response.setHeader("content-type", "text/plain").end("SECRET");
const never = new AbortController().signal;

const LIMITS = { maxBytes: 5 * 1024 * 1024, timeoutMs: 20_000 };

/** A web_fetch that may deliberately reach the loopback server. */
const local = (port: number, options: Partial<GuardedFetchOptions> = {}) =>
  createWebFetch({ ...LIMITS, ports: [port], allowAddress: (address) => address === "127.0.0.1", ...options });

const fetchPage = (port: number, path = "/", options: Partial<GuardedFetchOptions> = {}) =>
  callTool(local(port, options), { url: `http://127.0.0.1:${port}${path}` });

describe("addresses", () => {
  const hosts = [
    ...["127.0.0.1", "localhost", "LOCALHOST.", "LOCALHOST", "127.1", "0x7f000001", "0x7f.1", "2130706433", "0177.0.0.1", "0.0.0.0"],
    ...[
      "①②⑦.⓪.⓪.①",
      "127.9.9.9",
      "127.0.0.1.",
      "[::1]",
      "[::]",
      "[::127.0.0.1]",
      "[::ffff:127.0.0.1]",
      "[::ffff:7f00:1]",
      "[::ffff:0:127.0.0.1]",
    ],
    ...["[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001::7f00:1]", "[fc00::1]", "[fd00:ec2::254]", "[fe80::1]"],
    ...[
      "169.254.169.254",
      "168.63.129.16",
      "100.100.100.200",
      "10.0.0.1",
      "172.16.0.1",
      "192.168.1.1",
      "198.18.0.1",
      "224.0.0.1",
      "255.255.255.255",
    ],
  ];

  it("[TL6] SSRF-001 no spelling of a private, loopback, link-local or metadata address is reached", async () => {
    const v4 = await serve(secret);
    const v6 = await serve(secret, "::1", v4.port).catch(() => null);
    const tool = createWebFetch({ ...LIMITS, ports: [v4.port] });
    for (const host of hosts) {
      const result = await callTool(tool, { url: `http://${host}:${v4.port}/` });
      expect(result.isError, host).toBe(true);
      expect(result.text, host).toContain("not an address on the public internet");
    }
    expect([v4.connections(), v6?.connections() ?? 0]).toEqual([0, 0]);
    // The listener was there to be reached.
    expect((await fetchPage(v4.port)).text).toContain("SECRET");
  });

  it("[TL6] a redirect to a private address is refused at its hop", async () => {
    const inside = await serve(secret, "127.0.0.2");
    const outside = await serve((request, response) => {
      const host = new URL(`http://x${request.url}`).searchParams.get("to");
      response.writeHead(302, { location: `http://${host}:${inside.port}/` }).end();
    });
    for (const host of ["127.0.0.2", "localhost", "[::1]", "2130706434", "169.254.169.254"]) {
      const result = await callTool(local(outside.port, { ports: [outside.port, inside.port] }), {
        url: `http://127.0.0.1:${outside.port}/?to=${host}`,
      });
      expect(result.isError, host).toBe(true);
    }
    expect(outside.hits).toHaveLength(5);
    expect(inside.connections()).toBe(0);
  });

  it("[TL6] SSRF-005 DNS rebinding: each connect judges the answer it uses, and a mixed answer is refused", async () => {
    const inside = await serve(secret, "127.0.0.2");
    const outside = await serve(
      (_, response) => response.writeHead(302, { location: "http://again.test/", connection: "close" }).end(),
      "127.0.0.1",
      0,
    );
    const answers: ResolvedAddress[][] = [[{ address: "127.0.0.1", family: 4 }], [{ address: "127.0.0.2", family: 4 }]];
    const asked: string[] = [];
    const options = (resolve: GuardedFetchOptions["resolve"]): Partial<GuardedFetchOptions> => ({
      ports: [outside.port, inside.port],
      ...(resolve && { resolve }),
    });
    const rebinding = options(async (name) => {
      asked.push(name);
      return answers[asked.length - 1] ?? [];
    });
    const first = await callTool(local(outside.port, rebinding), { url: `http://rebind.test:${outside.port}/` });
    expect(asked).toEqual(["rebind.test", "again.test"]);
    expect(first.text).toContain("127.0.0.2 is not an address on the public internet");

    const mixed = options(async () => [...(answers[0] ?? []), ...(answers[1] ?? [])]);
    const second = await callTool(local(outside.port, mixed), { url: `http://mixed.test:${outside.port}/` });
    expect(second.text).toContain("127.0.0.2 is not an address on the public internet");
    expect(outside.hits).toHaveLength(1);
    expect(inside.connections()).toBe(0);
  });

  it("[TL6] an address of this machine is its own in every spelling", () => {
    const interfaces = { eth0: [{ address: "93.184.216.34" }, { address: "2606:4700::1111" }] } as unknown as ReturnType<
      typeof networkInterfaces
    >;
    for (const address of ["93.184.216.34", "::ffff:93.184.216.34", "::ffff:5db8:d822", "2606:4700::1111", "2606:4700:0:0::1111"])
      expect(isOwnAddress(address, interfaces), address).toBe(true);
    for (const address of ["93.184.216.35", "2606:4700::1112", "localhost"]) expect(isOwnAddress(address, interfaces), address).toBe(false);
  });

  it("[TL6] a public address of this machine is not reached, be it an interface's or only routed here", async (test) => {
    // A network of its own, in which this machine is 93.184.216.34 and all of 8.8.8.0/24.
    const setup = "ip link set lo up && ip addr add 93.184.216.34/32 dev lo && ip route add local 8.8.8.0/24 dev lo";
    const script = `
      import { createServer } from "node:http";
      import { createWebFetch } from ${JSON.stringify(new URL("../../../src/tools/web-fetch.ts", import.meta.url).href)};
      let hits = 0;
      createServer((_, response) => response.end("SECRET " + ++hits)).listen(80, "0.0.0.0").unref();
      const tool = createWebFetch({ maxBytes: 10_000, timeoutMs: 5_000 });
      const fetchPage = (host) => tool.run({ url: "http://" + host + "/" }, { signal: new AbortController().signal, progress() {} });
      for (const host of ["93.184.216.34", "8.8.8.8", "[::ffff:93.184.216.34]"]) console.log((await fetchPage(host)).text);
      console.log("hits", hits);`;
    const inside = [
      "--user",
      "--map-root-user",
      "--net",
      "sh",
      "-c",
      `${setup} && exec "$0" --input-type=module -e "$1"`,
      process.execPath,
      script,
    ];
    const { stdout, stderr } = await promisify(execFile)("unshare", inside, { timeout: 20_000 }).catch((error) => error);
    if (!String(stdout).includes("hits")) return test.skip(`no network namespace here: ${stderr}`);
    expect(stdout.match(/is not an address on the public internet/g)).toHaveLength(3);
    expect(stdout).toContain("hits 0");
  });

  it("[TL6] public and special addresses are told apart", () => {
    for (const address of ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450::1", "::ffff:1.1.1.1", "::ffff:101:101"]) {
      expect(isPublicAddress(address), address).toBe(true);
    }
    for (const address of [
      "",
      "localhost",
      "1.1.1",
      "01.1.1.1",
      "2001:db8::1",
      "3fff::1",
      "5f00::1",
      "ff02::1",
      "fec0::1",
      "2606:4700::1%eth0",
      "::ffff:10.0.0.1",
    ]) {
      expect(isPublicAddress(address), address).toBe(false);
    }
  });

  it("[TL6] SSRF-006 other schemes, ports, user names and control characters are refused before anything is resolved", async () => {
    const asked: string[] = [];
    const tool = createWebFetch({
      ...LIMITS,
      async resolve(name) {
        asked.push(name);
        return [];
      },
    });
    const urls = [
      "file:///etc/passwd",
      "ftp://a.com/",
      "gopher://a.com/",
      "data:text/plain,x",
      "javascript:alert(1)",
      "blob:http://a.com/x",
      "a.com",
      "",
    ];
    urls.push("http://user:pass@a.com/", "http://user@a.com/", "http://a.com:22/", "http://a.com:6379/", "https://a.com:8443/");
    urls.push(
      "http://a.com\0.b.com/",
      "http://a.com%00.b.com/",
      "http://a.com/\r\nx: y",
      "ht\ttp://a.com/",
      `http://a.com/${"x".repeat(5000)}`,
    );
    for (const url of urls) expect((await callTool(tool, { url })).isError, JSON.stringify(url)).toBe(true);
    expect(asked).toEqual([]);
    expect((await callTool(tool, { url: "http://user@a.com/" })).text).toContain("user name or password");
    // A look-alike name is resolved, and shown, in its ASCII form.
    await callTool(tool, { url: "http://аpple.com/" });
    expect(asked).toEqual(["xn--pple-43d.com"]);
  });
});

describe("limits", () => {
  it("[TL6] the model is told the limits that hold", () => {
    expect(createWebFetch({ maxBytes: 300 * 1024, timeoutMs: 7_500 }).description).toContain("limited to 300.0 KB and 7.5 seconds");
    expect(createWebFetch(LIMITS).description).toContain("limited to 5.0 MB and 20 seconds");
  });

  it("[TL6] SSRF-007 an endless body and a gzip bomb are cut at the size limit", async () => {
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024, "a"));
    const { port } = await serve((request, response) => {
      if (request.url === "/bomb") {
        response.writeHead(200, { "content-type": "text/plain", "content-encoding": "gzip" }).end(bomb);
        return;
      }
      response.writeHead(200, { "content-type": "text/plain" });
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(64 * 1024, "b")));
      };
      response.on("drain", more);
      more();
    });
    for (const path of ["/endless", "/bomb"]) {
      const result = await fetchPage(port, path, { maxBytes: 1_000_000 });
      expect(result.text).toContain("HTTP 200, 1000000 bytes, cut at the size limit");
      expect(result.text.length).toBeLessThan(41_000);
      expect(result.text).toContain("(Cut: the first 40000 of 1000000 characters are shown.)");
    }
  });

  it("[TL6] SSRF-007 a slow body is cut at the time limit, a silent server is an error, a stop ends the call", async () => {
    const { port } = await serve((request, response) => {
      if (request.url === "/slow") response.writeHead(200, { "content-type": "text/plain" }).write("first words");
    });
    expect((await fetchPage(port, "/slow", { timeoutMs: 1500 })).text).toMatch(/^first words\n\n[^\n]*cut at the time limit$/);
    expect((await fetchPage(port, "/silent", { timeoutMs: 300 })).text).toContain("did not answer in time");
    const abort = new AbortController();
    const stopped = callTool(local(port), { url: `http://127.0.0.1:${port}/silent` }, { signal: abort.signal });
    abort.abort();
    expect(await stopped).toEqual({ text: "The request was stopped.", isError: true });
  });

  it("[TL6] SSRF-007 redirects are followed five times, cookies and odd headers are survived", async () => {
    const { port, hits } = await serve((request, response) => {
      const n = Number(request.url?.slice(1));
      const cookies = Array.from({ length: 100 }, (_, i) => `c${i}=${"v".repeat(100)}`);
      if (n > 0) response.writeHead(302, { location: `/${n - 1}`, "set-cookie": cookies }).end();
      else response.writeHead(200, { "content-type": "text/plain" }).end(String(request.headers.cookie));
    });
    expect((await fetchPage(port, "/5")).text).toContain("undefined");
    expect((await fetchPage(port, "/6")).text).toContain("redirected more than 5 times");
    expect(hits).toHaveLength(12);
  });
});

describe("many at once", () => {
  it("[TL10] have three readers and eight downloads at a time, and each its page", async () => {
    const open = new Set<object>();
    let mostOpen = 0;
    const { port } = await serve((request, response) => {
      open.add(response);
      mostOpen = Math.max(mostOpen, open.size);
      response.on("close", () => open.delete(response));
      response.setHeader("content-type", request.url?.includes("html") ? "text/html" : "text/plain");
      // Long enough that all who may be here at once are.
      setTimeout(() => response.end(`<article><h1>${request.url}</h1><p>${"Some words. ".repeat(50)}</p></article>`), 100);
    });
    const isReader = (pid: number): boolean => findProcesses("readable-process.ts").includes(pid);
    let mostReaders = 0;
    const watch = setInterval(() => {
      mostReaders = Math.max(mostReaders, listDescendants(process.pid, 100).filter(isReader).length);
    }, 20);
    const tool = local(port);
    const paths = [...Array.from({ length: 6 }, (_, n) => `page-${n}.html`), ...Array.from({ length: 10 }, (_, n) => `page-${n}.txt`)];
    const pages = await Promise.all(paths.map((path) => callTool(tool, { url: `http://127.0.0.1:${port}/${path}` })));
    clearInterval(watch);
    for (const [n, path] of paths.entries()) expect(pages[n]?.text).toContain(path);
    expect(mostReaders).toBeGreaterThan(0);
    expect(mostReaders).toBeLessThanOrEqual(3);
    expect(mostOpen).toBe(8);
  }, 60_000);
});

describe("text", () => {
  const html = `<html><head><title>Tides &amp; moons</title><script>alert("never shown")</script></head><body><nav>Menu</nav><article><h1>Tides</h1>
    <p>${"The moon pulls the sea. ".repeat(30)}</p><table><tr><th>place</th><th>metres</th></tr><tr><td>Fundy</td><td>16</td></tr></table></article></body></html>`;

  it("[TL6] PROV-018 HTML comes as readable Markdown, quoted from its last address", async () => {
    const { port } = await serve((_, response) => response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(html));
    const { quoted, text: remark, isError } = await runTool(local(port), { url: `http://127.0.0.1:${port}/tides#part` });
    expect(isError).toBe(false);
    expect(remark).toMatch(/^HTTP 200, \d+ bytes$/);
    expect(quoted?.source).toBe(`http://127.0.0.1:${port}/tides`);
    const text = quoted?.text ?? "";
    expect(text).toContain("The moon pulls the sea.");
    expect(text).toMatch(/\| Fundy \| 16 \|/);
    expect(text).not.toContain("never shown");
  });

  it("[TL6] SSRF-007 charset, binary, errors, maxChars and invisible characters", async () => {
    const bodies: Record<string, [string, Buffer]> = {
      "/latin1": ["text/plain; charset=ISO-8859-1", Buffer.from("caf\xe9", "latin1")],
      "/meta": ["text/html", Buffer.from("<meta charset=windows-1251><p>\xcf\xf0\xe8\xe2\xe5\xf2", "latin1")],
      "/unknown": ["text/plain; charset=klingon", Buffer.from("häh")],
      "/utf16": ["text/plain", Buffer.from("\ufeffsixteen", "utf16le")],
      "/json": ["application/json", Buffer.from('{"a":[1,2]}')],
      "/png": ["image/png", Buffer.from([0x89, 0x50])],
      "/liar": ["text/plain", Buffer.from([1, 0, 2, 0, 3])],
      "/untyped": ["", Buffer.from("just text")],
      "/sneaky": ["text/plain", Buffer.from("vis\u200bib\u202ele\u{e0041}\u001b[31m \ufe0fend")],
    };
    const { port } = await serve((request, response) => {
      const [type, body] = bodies[request.url ?? ""] ?? ["text/plain", Buffer.from("no such page")];
      response.writeHead(request.url === "/gone" ? 404 : 200, type === "" ? {} : { "content-type": type }).end(body);
    });
    const text = async (path: string) => (await fetchPage(port, path)).text;
    expect(await text("/latin1")).toContain("café\n");
    expect(await text("/meta")).toContain("Привет");
    expect(await text("/unknown")).toContain("häh");
    expect(await text("/utf16")).toContain("sixteen\n");
    expect(await text("/json")).toContain('{"a":[1,2]}');
    expect(await text("/png")).toContain("binary (image/png), not shown");
    expect(await text("/liar")).toContain("binary (text/plain), not shown");
    expect(await text("/untyped")).toContain("just text");
    expect(await text("/sneaky")).toMatch(/^visible\[31m end\n/);
    const gone = await fetchPage(port, "/gone");
    expect(gone).toMatchObject({ isError: true });
    expect(gone.text).toContain("HTTP 404");
    expect(() => local(port).schema.parse({ url: "http://a.com", maxChars: 50_000 })).toThrow();
    expect(() => local(port).schema.parse({ url: "http://a.com", method: "POST" })).toThrow();
  });

  it("[TL6] a page the extractor can't finish in time still gives its plain text", async () => {
    const page = { html: `<p>plain &lt;words&gt;</p>${"<div>".repeat(20_000)}`, url: "http://a.test/" };
    const readable = await toReadable(page, never, { deadlineMs: 1 });
    expect(readable.text).toBe("plain <words>");
    expect(await toReadable({ html: "", url: "http://a.test/" }, never)).toEqual({ title: "", text: "" });
  });

  it("[TL6] a page that fills the extractor's memory costs only the extractor", async () => {
    const readable = await toReadable({ html: `<p>before ${"<".repeat(1_500_000)}`, url: "http://a.test/" }, never);
    expect(readable.text).toBe("before");
  });

  it("[TL6] plain text is one pass, whatever the markup", () => {
    expect(plainText("<p>a<br>b</p><SCRIPT>x</sCript>c<!-- <p>d --> e&#x41;&nope;&#0;")).toBe("a\nb\nc eA&nope;&#0;");
    expect(plainText("İ<style>hidden</style>shown <unclosed")).toBe("İshown");
    for (const part of ["<script", "<script>", "<!--", "<", "<svg></svg", "&#", " \n"]) plainText(part.repeat(200_000));
    expect(visibleText("a\r\nb\rc\u2028d\ud800")).toBe("a\nb\nc\nd\ufffd");
  });
});
