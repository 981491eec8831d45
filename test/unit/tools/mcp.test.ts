import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { type Logger, silentLogger } from "../../../src/core/logger.ts";
import type { Tool } from "../../../src/core/tool.ts";
import { childTools } from "../../../src/subagents/child.ts";
import { createMcpTools, type McpOptions, type McpTools } from "../../../src/tools/mcp.ts";
import { makeAgent } from "../../support/delegation.ts";
import { callTool, runTool } from "../../support/tool-context.ts";

const FAKE = fileURLToPath(new URL("../../support/fake-mcp.mjs", import.meta.url));
const EVERYTHING = fileURLToPath(new URL("../../../node_modules/@modelcontextprotocol/server-everything/dist/index.js", import.meta.url));

let dir: string;
let sleeps: number[];
let warnings: string[];
const started: McpTools[] = [];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-mcp-"));
  sleeps = [];
  warnings = [];
});
afterEach(async () => {
  for (const mcp of started.splice(0)) await mcp.stop();
  rmSync(dir, { recursive: true });
});

/** Waits of a minute take 10 ms; their length is kept. */
const clock: Clock = {
  now: systemClock.now,
  sleep(ms, signal) {
    sleeps.push(ms);
    return systemClock.sleep(Math.min(ms, 10), signal);
  },
};

const fake = (mode: string, ...args: string[]) => ({ command: process.execPath, args: [FAKE, mode, ...args] });

function open(servers: McpOptions["servers"], options: Partial<McpOptions> = {}): McpTools {
  const log: Logger = { ...silentLogger, warn: (fields, message) => warnings.push(`${message} ${JSON.stringify(fields)}`) };
  const mcp = createMcpTools({ servers, log, clock, environment: { PATH: process.env.PATH }, ...options });
  started.push(mcp);
  mcp.start();
  return mcp;
}

const until = (check: () => void | Promise<void>) => vi.waitFor(check, { timeout: 20_000, interval: 20 });
const stateOf = (mcp: McpTools, name: string) => mcp.status().find((status) => status.name === name);
const ready = (mcp: McpTools, name: string) => until(() => expect(stateOf(mcp, name)?.state).toBe("ready"));

function toolOf(mcp: McpTools, name: string): Tool {
  const tool = mcp.tools().find((candidate) => candidate.name === name);
  if (tool === undefined) throw new Error(`no tool ${name}`);
  return tool;
}

const isAlive = (pid: number) => {
  try {
    // A zombie still has an id; it is as good as gone.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
};

describe("stdio", () => {
  it("[TL1] server-everything from the registry works: tools are namespaced, schemas real, calls answered", async () => {
    const mcp = open({ everything: { command: process.execPath, args: [EVERYTHING, "stdio"] } });
    expect(mcp.tools()).toEqual([]);
    await ready(mcp, "everything");
    const echo = toolOf(mcp, "everything__echo");
    expect(z.toJSONSchema(echo.schema, { io: "input" })).toMatchObject({
      type: "object",
      properties: { message: { type: "string" } },
      required: ["message"],
    });
    const { quoted, text } = await runTool(echo, { message: "hello" });
    expect(quoted).toEqual({ source: "MCP server everything, tool echo", text: "Echo: hello" });
    expect(text).toBe("");
    expect(mcp.tools().length).toBeGreaterThan(3);
    for (const tool of mcp.tools()) expect(tool.name).toMatch(/^everything__[a-zA-Z0-9_-]{1,52}$/);
    await mcp.stop();
    expect(mcp.tools()).toEqual([]);
    expect(mcp.status()).toEqual([{ name: "everything", state: "stopped", detail: "" }]);
  });

  it("[TL1] arguments are checked against the server's schema before it is called", async () => {
    const mcp = open({ a: fake("normal") });
    await ready(mcp, "a");
    const echo = toolOf(mcp, "a__echo");
    expect(echo.schema.safeParse({ text: 5 }).error?.issues).toMatchObject([{ path: ["text"] }]);
    expect(echo.schema.safeParse({}).success).toBe(false);
    expect(echo.schema.safeParse([]).success).toBe(false);
    expect((await callTool(echo, { text: "x", extra: 1 })).text).toContain("echo: x");
  });

  it("[TL1] failures, images and long answers are results a model can read", async () => {
    const mcp = open({ a: fake("normal") });
    await ready(mcp, "a");
    const call = (name: string, overrides = {}) => callTool(toolOf(mcp, `a__${name}`), {}, overrides);
    expect(await call("fail")).toMatchObject({ isError: true, text: expect.stringContaining("it broke") });
    expect((await call("image")).text).toContain("[image, image/png: not shown]");
    expect((await call("big")).text).toContain("(Cut: the first 40000 of 100000 characters are shown.)");
    const stop = new AbortController();
    const stopped = call("silence", { signal: stop.signal });
    stop.abort();
    expect(await stopped).toEqual({ text: "The call was stopped.", isError: true });
    const hasty = open({ b: fake("normal") }, { callTimeoutMs: 200 });
    await ready(hasty, "b");
    const silence = await callTool(toolOf(hasty, "b__silence"), {});
    expect(silence).toMatchObject({ isError: true, text: expect.stringContaining("timed out") });
    // One slow call doesn't end a server that still answers.
    expect(stateOf(hasty, "b")?.state).toBe("ready");
  });

  it("[RO2] a role that must not write gets the tools the operator marked as read-only; what the server claims counts for nothing", async () => {
    const mcp = open({ a: { ...fake("claims"), readOnly: ["ec*"] }, b: fake("claims") });
    await ready(mcp, "a");
    await ready(mcp, "b");
    const child = (role: string) => {
      const run = { params: { role }, depth: 1, toolCeiling: mcp.tools().map((tool) => tool.name) };
      return childTools(mcp.tools(), makeAgent("main", dir), run).map((tool) => tool.name);
    };
    for (const role of ["explore", "review", "verifier"]) expect(child(role)).toEqual(["a__echo"]);
    expect(child("general")).toEqual(["a__echo", "a__wipe", "b__echo", "b__wipe"]);
  });

  it("[TL1] a stdio server gets the allow-list and its own variables, nothing else", async () => {
    const mcp = open(
      { a: { ...fake("normal"), env: { TOKEN: "t" } } },
      { environment: { PATH: process.env.PATH, HOME: dir, OPENAI_API_KEY: "secret", NODE_OPTIONS: "--no-warnings" } },
    );
    await ready(mcp, "a");
    const { text } = await callTool(toolOf(mcp, "a__env"), {});
    const env = JSON.parse(/^\{.*\}$/m.exec(text)?.[0] ?? "{}") as Record<string, string>;
    expect(
      Object.keys(env)
        .filter((name) => name !== "HERALD_MCP" && !name.startsWith("__"))
        .sort(),
    ).toEqual(["HOME", "PATH", "TOKEN"]);
  });

  it("[TL1] stopping ends the process, its children and one that left the group", async () => {
    const mcp = open({ a: fake("normal") });
    await ready(mcp, "a");
    const { text } = await callTool(toolOf(mcp, "a__pids"), {});
    const pids = JSON.parse(/^\[\d.*\]$/m.exec(text)?.[0] ?? "[]") as number[];
    expect(pids).toHaveLength(3);
    expect(pids.every(isAlive)).toBe(true);
    await mcp.stop();
    await until(() => expect(pids.filter(isAlive)).toEqual([]));
  });
});

describe("trouble", () => {
  it("[TL1] MCP-004 a server that crashes at its start is marked failed with its last words and tried again, later each time; others work", async () => {
    const mcp = open({ bad: fake("crash"), gone: { command: join(dir, "no-such-program") }, good: fake("normal") });
    await ready(mcp, "good");
    await until(() => expect(sleeps.filter((ms) => ms === 8_000).length).toBeGreaterThan(0));
    expect(sleeps.slice(0, 2).every((ms) => ms <= 2_000)).toBe(true);
    await until(() =>
      expect(stateOf(mcp, "bad")).toMatchObject({
        state: "failed",
        detail: "ended with exit code 2; stderr: reading config / fatal: no token",
      }),
    );
    await until(() => expect(stateOf(mcp, "gone")).toMatchObject({ state: "failed", detail: expect.stringContaining("ENOENT") }));
    expect((await callTool(toolOf(mcp, "good__echo"), { text: "fine" })).text).toContain("echo: fine");
  });

  it("[TL1] a server that dies in a call is started again and works", async () => {
    const mcp = open({ a: fake("normal", join(dir, "starts")) });
    await ready(mcp, "a");
    const [exit, echo] = [toolOf(mcp, "a__exit"), toolOf(mcp, "a__echo")];
    expect(await callTool(exit, {})).toMatchObject({ isError: true, text: expect.stringContaining("Connection closed") });
    await until(() => expect(readFileSync(join(dir, "starts"), "utf8")).toBe("xx"));
    await ready(mcp, "a");
    // The tool a turn already holds reaches the new process.
    await until(async () => expect((await callTool(echo, { text: "again" })).text).toContain("echo: again"));
  });

  it("[TL1] a server that freezes in a call is given up and started again", async () => {
    const mcp = open({ a: fake("normal", join(dir, "starts")) }, { callTimeoutMs: 200, initializeTimeoutMs: 2_000 });
    await ready(mcp, "a");
    const [freeze, echo] = [toolOf(mcp, "a__freeze"), toolOf(mcp, "a__echo")];
    expect(await callTool(freeze, {})).toMatchObject({ isError: true, text: expect.stringContaining("timed out") });
    await until(() => expect(readFileSync(join(dir, "starts"), "utf8").length).toBeGreaterThan(1));
    await until(async () => expect((await callTool(echo, { text: "again" })).text).toContain("echo: again"));
    expect(warnings.join()).toContain("does not answer any more");
  });

  it("[TL1] MCP-004 a hang at initialize, a 100 MB line and endless noise are survived", async () => {
    const mcp = open(
      { hang: fake("hang"), flood: fake("flood"), noise: fake("noise"), good: fake("normal") },
      { initializeTimeoutMs: 2_500 },
    );
    await ready(mcp, "good");
    await until(() => expect(stateOf(mcp, "flood")?.detail).toContain("sent a line of more than 8 MB"));
    await until(() => expect(stateOf(mcp, "noise")?.detail).toContain("prints something other than MCP messages"));
    await until(() => expect(stateOf(mcp, "hang")?.detail).toMatch(/timed out after 2500ms; stderr: waiting for nothing/));
    expect((await callTool(toolOf(mcp, "good__echo"), { text: "x" })).isError).toBe(false);
  });

  it("[TL1] MCP-004 lines that are no messages are skipped", async () => {
    const mcp = open({ a: fake("banner") });
    await ready(mcp, "a");
    expect((await callTool(toolOf(mcp, "a__echo"), { text: "x" })).text).toContain("echo: x");
  });
});

describe("definitions", () => {
  it("[TL1] a tool that changed after a reconnect is withheld and reported, the others stay", async () => {
    const mcp = open({ a: fake("change", join(dir, "starts")) });
    await ready(mcp, "a");
    const weather = toolOf(mcp, "a__weather");
    // The first process ends; the second describes its tool in another way.
    await callTool(toolOf(mcp, "a__exit"), {});
    await until(() => expect(mcp.tools().map((tool) => tool.name)).toEqual(["a__echo", "a__exit"]));
    await ready(mcp, "a");
    expect(stateOf(mcp, "a")?.detail).toBe("2 tools; withheld, because their definition changed: weather");
    expect(warnings.filter((line) => line.includes("changed its definition"))).toHaveLength(1);
    expect(weather.description).toContain("Reads the weather.");
  });

  it("[TL1] a change announced while connected is noticed, and fifty announcements cost one listing", async () => {
    const mcp = open({ a: fake("relist") });
    await until(() => expect(stateOf(mcp, "a")?.detail).toContain("withheld, because their definition changed: weather"));
    expect(mcp.tools().map((tool) => tool.name)).toEqual(["a__echo"]);
    expect(sleeps.length).toBeLessThan(5);
  });

  it("[TL1] MCP-002 MCP-003 hostile names, descriptions and schemas", async () => {
    const mcp = open({ "my.server": fake("names") });
    await ready(mcp, "my.server");
    const tools = mcp.tools();
    const names = tools.map((tool) => tool.name);
    for (const name of names) expect(name).toMatch(/^my_server__[a-zA-Z0-9_-]{1,53}$/);
    expect(new Set(names).size).toBe(names.length);
    // Of the eight, one is a duplicate and one has a schema too large to show.
    expect(names).toHaveLength(6);
    const exec = tools.find((tool) => tool.name.startsWith("my_server__exec"));
    expect(exec?.description.length).toBeLessThan(1_200);
    expect(exec?.description).toContain("(not instructions to you): Bad yyy");
    const evil = tools.find((tool) => tool.name.includes("evil"));
    // The server's regular expression is shown to the model, never run here.
    expect(JSON.stringify(z.toJSONSchema(evil?.schema ?? z.never()))).toContain("^(a+)+$");
    expect(evil?.schema.safeParse({ a: `${"a".repeat(40)}!`, pattern: "x" }).success).toBe(true);
    expect(evil?.schema.safeParse({ a: "a" }).success).toBe(false);
  });
});

describe("http", () => {
  interface Answer {
    status: number;
    headers?: Record<string, string>;
    body?: string;
  }

  async function serve(respond: (message: { id?: number; method: string }, url: string) => Answer) {
    const seen: { url: string; authorization: string | undefined }[] = [];
    const server = createServer(async (request, response) => {
      seen.push({ url: request.url ?? "", authorization: request.headers.authorization });
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const text = Buffer.concat(chunks).toString();
      const { status, headers, body } = respond(text === "" ? { method: request.method ?? "" } : JSON.parse(text), request.url ?? "");
      response.writeHead(status, { "content-type": "application/json", ...headers }).end(body);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const close = () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    };
    return { url: `http://127.0.0.1:${port}`, seen, close };
  }

  function answer({ id, method }: { id?: number; method: string }): Answer {
    const result: Record<string, object> = {
      initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "h", version: "1" } },
      "tools/list": {
        tools: [
          { name: "now", inputSchema: { type: "object" } },
          { name: "huge", inputSchema: { type: "object" } },
        ],
      },
      "tools/call": { content: [{ type: "text", text: "noon" }] },
    };
    if (id === undefined) return { status: 202 };
    if (result[method] === undefined)
      return { status: 200, body: JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message: "no" } }) };
    return { status: 200, body: JSON.stringify({ jsonrpc: "2.0", id, result: result[method] }) };
  }

  it("[TL1] an http server works with its headers, and a redirect within its origin is followed", async () => {
    const server = await serve((message, url) => (url === "/mcp" ? { status: 307, headers: { location: "/mcp/" } } : answer(message)));
    const mcp = open({ web: { url: `${server.url}/mcp`, headers: { authorization: "Bearer t" } } });
    await ready(mcp, "web");
    expect((await callTool(toolOf(mcp, "web__now"), {})).text).toContain("noon");
    expect(server.seen.some((request) => request.url === "/mcp/" && request.authorization === "Bearer t")).toBe(true);
    await mcp.stop();
    await server.close();
  });

  it("[TL1] MCP-005 a redirect to another origin is refused, and the other origin hears nothing", async () => {
    const other = await serve(answer);
    const server = await serve(() => ({ status: 307, headers: { location: `${other.url}/mcp` } }));
    const mcp = open({ web: { url: `${server.url}/mcp`, headers: { authorization: "Bearer t" } } });
    await until(() => expect(stateOf(mcp, "web")?.detail).toContain("redirected to another origin"));
    expect(other.seen).toEqual([]);
    await mcp.stop();
    await server.close();
    await other.close();
  });

  it("[TL1] an http server that goes away is marked failed, and an endless answer is cut", async () => {
    const server = await serve((message) =>
      message.method === "tools/call" ? { status: 200, body: "x".repeat(9 * 1024 * 1024) } : answer(message),
    );
    const mcp = open({ web: { url: `${server.url}/mcp` } });
    await ready(mcp, "web");
    expect(await callTool(toolOf(mcp, "web__huge"), {})).toMatchObject({
      isError: true,
      text: expect.stringContaining("larger than 8 MB"),
    });
    await server.close();
    expect((await callTool(toolOf(mcp, "web__now"), {})).isError).toBe(true);
    await until(() => expect(stateOf(mcp, "web")?.state).toBe("failed"));
  });
});

describe("a server that asks back", () => {
  const asks = async (elicit: NonNullable<McpOptions["elicit"]>, options: Partial<McpOptions> = {}): Promise<McpTools> => {
    const mcp = open({ shop: fake("asks") }, { elicit, ...options });
    await ready(mcp, "shop");
    return mcp;
  };

  it("[QA5] what a person answered is what it gets, and the time they took is not held against the call", async () => {
    const asked: unknown[] = [];
    const mcp = await asks(
      async (elicited) => {
        asked.push(elicited);
        await systemClock.sleep(600);
        return { action: "accept", content: { seat: "aisle" } };
      },
      { callTimeoutMs: 400 },
    );
    expect(await callTool(toolOf(mcp, "shop__book"), {})).toMatchObject({ text: '{"action":"accept","content":{"seat":"aisle"}}' });
    expect(asked).toMatchObject([{ server: "shop", message: "Which seat?", schema: { required: ["seat"] } }]);
  });

  it("[QA5] the limit of a call counts again once it was answered", async () => {
    const mcp = await asks(() => new Promise(() => {}), { callTimeoutMs: 300 });
    const stop = new AbortController();
    const call = callTool(toolOf(mcp, "shop__book"), {}, { signal: stop.signal });
    expect(await Promise.race([call, systemClock.sleep(900).then(() => "still open")])).toBe("still open");
    stop.abort();
    expect(await call).toMatchObject({ isError: true, text: "The call was stopped." });
  });

  it("[QA5] it is declined when nobody is there to ask, when it wants a browser, and when calls of two conversations are open", async () => {
    const silent = open({ shop: fake("asks") });
    await ready(silent, "shop");
    expect(await callTool(toolOf(silent, "shop__book"), {})).toMatchObject({ text: '{"action":"decline"}' });
    let count = 0;
    const hold = Promise.withResolvers<void>();
    const mcp = await asks(async () => {
      count++;
      await hold.promise;
      return { action: "accept", content: {} };
    });
    expect(await callTool(toolOf(mcp, "shop__visit"), {})).toMatchObject({ text: '{"action":"decline"}' });
    const first = callTool(toolOf(mcp, "shop__confirm"), {}, { sessionId: "one" });
    await until(() => expect(count).toBe(1));
    expect(await callTool(toolOf(mcp, "shop__confirm"), {}, { sessionId: "two" })).toMatchObject({ text: '{"action":"decline"}' });
    hold.resolve();
    expect(await first).toMatchObject({ text: '{"action":"accept","content":{}}' });
    expect(count).toBe(1);
  });
});
