// The door of /mcp: which token opens what, how often one may be wrong, what is refused before the protocol is spoken, and that what
// leaves passes the redactor, in one answer and in a stream.
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { createBus } from "../../../src/core/events.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createProgramTokens, type NewProgramToken } from "../../../src/stores/program-tokens.ts";
import { createMcpRoute } from "../../../src/web/mcp-api.ts";
import type { ProgramRun } from "../../../src/web/program-desk.ts";
import { createManualClock } from "../../support/manual-clock.ts";
import { connectProgram, MODES } from "../../support/mcp-client.ts";
import { noPrograms, startWeb, type WebFixture } from "../../support/web-server.ts";

let web: WebFixture;
afterEach(() => web.close());

const makeToken = async (more: Partial<NewProgramToken> = {}): Promise<string> => {
  const wanted: NewProgramToken = { name: "tried", scopes: ["spawn", "read"], agentId: null, address: null, expiresAt: null, ...more };
  return (await createProgramTokens({ db: web.db, clock: systemClock }).make(wanted)) ?? "";
};

const post = async (token: string | null, body: unknown, headers: Record<string, string> = {}, path = "/mcp") => {
  const authorization = token === null ? {} : { authorization: `Bearer ${token}` };
  const sent = { "content-type": "application/json", accept: "application/json, text/event-stream", ...authorization, ...headers };
  const response = await fetch(`${web.url}${path}`, {
    method: "POST",
    headers: sent,
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  return { status: response.status, text: await response.text(), headers: response.headers };
};
const LIST = { jsonrpc: "2.0", id: 1, method: "tools/list" };

describe("tokens", () => {
  it("[PR1] the page's token opens no /mcp, a program's opens nothing of the page, and without one there is a challenge", async () => {
    web = await startWeb();
    const token = await makeToken();
    expect((await post(token, LIST)).status).toBe(200);
    expect(await post(web.token, LIST)).toMatchObject({ status: 401, text: expect.stringContaining("This token is not right") });
    const bare = await post(null, LIST);
    expect([bare.status, bare.headers.get("www-authenticate")]).toEqual([401, 'Bearer realm="herald"']);
    for (const path of ["/api/chats", "/api/runs", "/api/browsers"])
      expect((await fetch(`${web.url}${path}`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(401);
    expect((await fetch(`${web.url}/mcp`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(405);
  });

  it("[PR1] wrong ones are few a minute, and keep neither the right one nor people out; one whose time is over is a wrong one", async () => {
    const clock = createManualClock();
    web = await startWeb({ clock });
    const token = await makeToken({ name: "good" });
    const old = await makeToken({ name: "old", expiresAt: clock.now() - 1 });
    const statuses: number[] = [];
    for (let n = 0; n < 11; n++) statuses.push((await post(n % 2 === 0 ? old : `${token}x`, LIST)).status);
    expect(statuses).toEqual([...Array(10).fill(401), 429]);
    expect((await post(token, LIST)).status).toBe(200);
    expect((await fetch(`${web.url}/api/chats`, { headers: { authorization: `Bearer ${web.token}` } })).status).toBe(200);
    await clock.advance(60_000);
    expect((await post(old, LIST)).status).toBe(401);
  });
});

describe("before the protocol", () => {
  it("[PR1] MCPS-006 batches, huge and strange bodies and headers that contradict them are refused; a foreign origin, too", async () => {
    web = await startWeb();
    const token = await makeToken();
    const spawn = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "spawn", arguments: { task: "x" } } };
    expect(await post(token, Array(1000).fill(spawn))).toMatchObject({
      status: 400,
      text: expect.stringContaining("one message per request"),
    });
    expect((await post(token, "{")).status).toBe(400);
    expect((await post(token, '{"__proto__":1}')).status).toBe(400);
    for (const headers of [{ "mcp-name": "runs" }, { "mcp-method": "tools/list" }] as Record<string, string>[])
      expect(await post(token, spawn, headers)).toMatchObject({
        status: 400,
        text: expect.stringContaining("something else than the body"),
      });
    expect((await post(token, LIST, { origin: "https://evil.example" })).status).toBe(403);
    expect((await post(token, LIST, { "content-type": "text/plain" })).status).toBe(415);
    expect((await post(token, `{"a":"${"x".repeat(300_000)}"}`)).status).toBe(413);
    expect((await post(token, LIST, {}, `/mcp?token=${token}`)).status).toBe(400);
    const unknown = await post(token, { ...LIST, method: "tools/__proto__" });
    expect(unknown.text).toContain("-32601");
  });
});

describe.each(MODES)("what leaves, to a client of %s", (_year, options) => {
  it("[PR1] [SC4] passes the redactor, in an answer and in each event of a stream", async () => {
    const SECRET = "sk-very-secret";
    const bus = createBus(() => {});
    let looks = 0;
    const facts = { runId: "r", label: SECRET, state: "running", status: null, delivery: "none" } as unknown as ProgramRun["facts"];
    const run = (): ProgramRun => ({ facts, isOver: looks++ > 0, doing: `runs ${SECRET}`, step: null, questions: [] });
    const desk = { ...noPrograms, find: async () => run(), list: async () => [run()] };
    const route = createMcpRoute({
      desk: async () => desk,
      isValid: async () => true,
      version: () => "0",
      bus,
      clock: systemClock,
      log: silentLogger,
    });
    web = await startWeb({ redact: (text) => text.replaceAll(SECRET, "[KEY]"), routes: [route] });
    await using program = await connectProgram(web.url, await makeToken(), options);
    const seen: string[] = [];
    const waited = await program.call("wait", { runId: "r", maxSeconds: 5 }, { onprogress: (message) => seen.push(message) });
    const said = JSON.stringify([waited, await program.call("runs"), seen]);
    expect(seen).toEqual(["running · runs [KEY]"]);
    expect(said).not.toContain(SECRET);
    expect(said).toContain('"label":"[KEY]"');
  });
});
