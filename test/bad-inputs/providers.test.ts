// What a model provider may do that no other test of the model layer shows: odd rates, drips, names, bytes and
// certificates. Real servers on loopback; a turn on a real transcript where the answer goes on from there.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { loadConfig } from "../../src/config/config.ts";
import { defineTool, type Tool } from "../../src/core/tool.ts";
import type { ModelReply } from "../../src/models/model.ts";
import { makeCertificate } from "../support/certificate.ts";
import { inOrder, type Script, sse } from "../support/fake-model-server.ts";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import { createFastClock } from "../support/fast-clock.ts";
import { createSubject, type SubjectOptions } from "../support/model-formats.ts";
import { callTools, createTurnRig } from "../support/turn-rig.ts";
import { waitFor } from "../support/wait.ts";

const closes: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closes.splice(0)) await close();
});

const subjectAt = (baseUrl: string, rest: Partial<SubjectOptions> = {}) =>
  createSubject({ endpoints: { test: { api: "openai-compatible", baseUrl, apiKey: "k" } }, request: { model: "test/model" }, ...rest });

async function scripted(...scripts: Script[]) {
  const server = await createFakeOpenAi({ respond: inOrder(...scripts) });
  closes.push(() => server.close());
  return { server, subject: subjectAt(server.url) };
}

async function listen(server: Server, scheme: string): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closes.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

const streams = (listener: RequestListener): Promise<string> =>
  listen(
    createServer((request, response) => {
      request.resume();
      response.writeHead(200, { "content-type": "text/event-stream" });
      listener(request, response);
    }),
    "http",
  );

const delta = (fields: object, finish: string | null = null): string =>
  sse({
    id: "c",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta: fields, finish_reason: finish }],
  });
const chunk = (content: string, finish: string | null = null): string => delta({ content }, finish);

/** A tool that says how often it was really run. */
function counted(name: string, answer = "done"): { tool: Tool; runs: () => number } {
  let runs = 0;
  const tool = defineTool({
    ...{ name, description: "Works.", capability: "write", schema: z.strictObject({ path: z.string() }) },
    run: async () => {
      runs++;
      return { text: answer };
    },
  });
  return { tool, runs: () => runs };
}

describe("rates and silence", () => {
  it.each<Record<string, string>>([{}, { "retry-after": "soon" }])(
    "[MO4] PROV-001 429 with %o is waited out a few times, then the rate is named",
    async (headers) => {
      const { server, subject } = await scripted({ status: 429, headers, message: "slow down" });
      const reply = await subject.call();
      expect(reply).toMatchObject({ outcome: "error", error: { kind: "rate" } });
      expect(reply.error?.message).toContain("allows no more calls to model for now (429): slow down. Try again in a few minutes.");
      expect(server.calls).toHaveLength(3);
    },
  );

  it("[MO4] PROV-006 a byte now and then is a sign of life, but not for longer than a step may take", async () => {
    let isClosed = false;
    const url = await streams((_request, response) => {
      const drip = setInterval(() => response.write(":"), 5);
      response.once("close", () => {
        clearInterval(drip);
        isClosed = true;
      });
    });
    const subject = subjectAt(url, { clock: createFastClock(100), limits: { idleMs: 10_000, stepMs: 40_000 } });
    const reply = await subject.call();
    expect(reply).toMatchObject({ outcome: "error", error: { kind: "timeout" } });
    await waitFor("the closed connection", () => isClosed);
  });
});

describe("tool calls", () => {
  it("[AG3] PROV-007 arguments that never parse run nothing, and the turn comes to an end", async () => {
    const { tool, runs } = counted("read");
    const bad = { name: "read", args: '{"path": "x', invalid: "The arguments are not valid JSON." };
    using same = await createTurnRig({ answers: [callTools(bad)] });
    same.tools = [tool];
    await same.put({ type: "message", role: "user", text: "go", from: "ann" });
    expect(await same.run({ maxIterations: 50 })).toMatchObject({ outcome: "capped" });
    expect(same.requests).toHaveLength(5);
    let n = 0;
    using changing = await createTurnRig({ answers: [(...given) => callTools({ ...bad, args: `{${n++}` })(...given)] });
    changing.tools = [tool];
    await changing.put({ type: "message", role: "user", text: "go", from: "ann" });
    expect(await changing.run({ maxIterations: 8 })).toMatchObject({ outcome: "capped", reason: "it reached its limit of 8 steps" });
    expect(runs()).toBe(0);
  });

  it("[AG3] PROV-008 no name that isn't exactly a tool's reaches one, nor a property of an object", async () => {
    const { tool, runs } = counted("read");
    const names = ["", "READ", " read", "read\0", "rm_all", "toString", "__proto__", "constructor", "hasOwnProperty", "r".repeat(10_000)];
    const { server } = await scripted({ toolCalls: names.map((name) => ({ name, args: { path: "a" } })) });
    const endpoints = { openai: { api: "openai" as const, baseUrl: server.url, apiKey: "k" } };
    const reply = await createSubject({ endpoints, request: { model: "openai/gpt-5.6" } }).call({
      tools: [{ name: "read", description: "Works.", parameters: { type: "object" } }],
    });
    using rig = await createTurnRig({ answers: [() => reply, () => ({ text: "I see" })] });
    rig.tools = [tool];
    await rig.put({ type: "message", role: "user", text: "go", from: "ann" });
    expect(await rig.run()).toMatchObject({ outcome: "done", text: "I see" });
    const results = (await rig.entries()).flatMap((entry) => (entry.type === "tool_result" ? [entry] : []));
    expect(results.map((entry) => [entry.isError, /^(There is no tool "|The call named no tool\.)/.test(entry.text)])).toEqual(
      names.map(() => [true, true]),
    );
    expect(runs()).toBe(0);
  });

  const nameless = (...functions: object[]): string =>
    functions.map((one) => delta({ tool_calls: [{ index: 0, id: "call_1", function: one }] })).join("");
  it.each([
    ["an empty name and arguments at once", nameless({ name: "", arguments: '{"path":"a"}' })],
    ["an empty name before the arguments", nameless({ name: "", arguments: "" }, { arguments: '{"path":' }, { arguments: '"a"}' })],
    ["no name at all", nameless({ arguments: '{"path":' }, { arguments: '"a"}' })],
  ])("[AG3] PROV-008 %s is a call the model hears about, and is paid for once", async (_what, frames) => {
    let calls = 0;
    const url = await streams((_request, response) => {
      calls++;
      response.end(`${frames}${delta({}, "tool_calls")}data: [DONE]\n\n`);
    });
    const reply = await subjectAt(url).call({ tools: [{ name: "read", description: "Works.", parameters: { type: "object" } }] });
    expect(reply).toMatchObject({ outcome: "ok", text: "", finish: "tool-calls" });
    const invalid = "The call named no tool. Tools you can call: read.";
    expect(reply.toolCalls).toEqual([{ id: expect.stringMatching(/^call_\w{1,35}$/), name: "unknown", args: {}, invalid }]);
    expect(calls).toBe(1);
  });

  it("[AG3] PROV-011 a result of 10 MB is cut with a note and leaves no trace in memory", async () => {
    const { tool } = counted("read", "x".repeat(10 * 1024 * 1024));
    using rig = await createTurnRig({ answers: [callTools({ name: "read", args: { path: "a" } }), () => ({ text: "long" })] });
    rig.tools = [tool];
    await rig.put({ type: "message", role: "user", text: "go", from: "ann" });
    const before = process.memoryUsage().heapUsed;
    await rig.run();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(50 * 1024 * 1024);
    const result = (await rig.entries()).find((entry) => entry.type === "tool_result");
    expect(result?.type === "tool_result" ? result.text : "").toMatch(/^x{65536}\n… \[cut: \d+ of 10485760 characters/);
  });
});

describe("text and ends", () => {
  it("[AN5] PROV-012 NUL, half characters, bytes that are no UTF-8 and floods come out as text that parses", async () => {
    const url = await streams((_request, response) => {
      response.write(chunk("a\u0000b\ud800c\u001b[2Jd"));
      response.write(
        Buffer.concat([Buffer.from(chunk("before-INVALID-after").split("INVALID")[0] ?? ""), Buffer.from([0xff, 0xc0, 0xaf])]),
      );
      response.write(chunk("x-INVALID-after").split("INVALID")[1]);
      response.write(chunk("\ufffd".repeat(5_000)));
      response.end(`${chunk("end", "stop")}data: [DONE]\n\n`);
    });
    const reply = await subjectAt(url).call();
    expect(reply).toMatchObject({ outcome: "ok" });
    using rig = await createTurnRig({ answers: [() => reply] });
    await rig.put({ type: "message", role: "user", text: "go", from: "ann" });
    const { text } = await rig.run();
    expect(text).toBe(`ab\ufffdc[2Jdbefore-\ufffd\ufffd\ufffd-after${"\ufffd".repeat(5_000)}end`);
    const lines = readFileSync(rig.folder.stores.transcripts.path(rig.ref), "utf8").trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line) as { type: string }).map((entry) => entry.type)).toEqual(["session", "message", "message"]);
  });

  const ENDS: [string, string | null, Partial<ModelReply>, string, RegExp | null][] = [
    ["length", "length", { outcome: "ok", finish: "length" }, "capped", /length limit/],
    ["content_filter", "content_filter", { outcome: "ok", finish: "filter" }, "capped", /content filter/],
    ["an unknown reason", "out_of_bananas", { outcome: "ok", finish: "other" }, "done", null],
    ["no reason at all", null, { outcome: "error" }, "error", /without a finish reason\. Try again in a few minutes\./],
  ];
  it.each(ENDS)(
    "[AG3] PROV-013 an answer that ends with %s has a known outcome, and what is cut is called cut",
    async (_name, finish, fits, ...end) => {
      const url = await streams((_request, response) => response.end(`${chunk("half", finish)}data: [DONE]\n\n`));
      const reply = await subjectAt(url).call();
      expect(reply).toMatchObject(fits);
      using rig = await createTurnRig({ answers: [() => reply] });
      await rig.put({ type: "message", role: "user", text: "go", from: "ann" });
      const [outcome, reason] = end;
      expect(await rig.run()).toMatchObject({ outcome, text: "half", reason: reason === null ? null : expect.stringMatching(reason) });
    },
  );
});

describe("certificates", () => {
  const DAY_MS = 86_400_000;
  const at = (days: number): Date => new Date(Date.now() + days * DAY_MS);

  async function serveTls(days: readonly [number, number]) {
    const certificate = makeCertificate(at(days[0]), at(days[1]));
    let requests = 0;
    const server = createTlsServer({ cert: certificate.cert, key: certificate.key }, (_request, response) => {
      requests++;
      response.writeHead(200, { "content-type": "text/event-stream" }).end(`${chunk("hello", "stop")}data: [DONE]\n\n`);
    });
    return { url: await listen(server, "https"), cert: certificate.cert, requests: () => requests };
  }

  it("[MO1] PROV-020 one nobody vouches for is refused before anything is said, also with a switch in .env", async () => {
    const { url, requests } = await serveTls([-1, 1]);
    const dir = mkdtempSync(join(tmpdir(), "herald-tls-"));
    closes.push(async () => rmSync(dir, { recursive: true }));
    writeFileSync(join(dir, ".env"), "NODE_TLS_REJECT_UNAUTHORIZED=0\n", { mode: 0o600 });
    const { env } = loadConfig({ env: { HOME: dir }, cwd: dir });
    expect([env.NODE_TLS_REJECT_UNAUTHORIZED, process.env.NODE_TLS_REJECT_UNAUTHORIZED]).toEqual(["0", undefined]);
    const reply = await subjectAt(url).call();
    expect(reply).toMatchObject({
      outcome: "error",
      error: { kind: "network", message: expect.stringContaining("DEPTH_ZERO_SELF_SIGNED_CERT") },
    });
    expect(requests()).toBe(0);
  });

  it("[MO1] PROV-020 an expired one is refused though its maker is trusted, a fresh one is taken", async () => {
    const [expired, fresh] = [await serveTls([-2, -1]), await serveTls([-1, 1])];
    const known = getCACertificates("default");
    setDefaultCACertificates([...known, expired.cert, fresh.cert]);
    closes.push(async () => setDefaultCACertificates(known));
    expect(await subjectAt(fresh.url).call()).toMatchObject({ outcome: "ok", text: "hello" });
    const reply = await subjectAt(expired.url).call();
    expect(reply).toMatchObject({ outcome: "error", error: { kind: "network", message: expect.stringContaining("CERT_HAS_EXPIRED") } });
    expect(expired.requests()).toBe(0);
  });
});
