import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newId } from "../../../src/core/ids.ts";
import { orderRuns, type RunView } from "../../../src/web/board.ts";
import type { BriefChanged } from "../../../src/web/briefs.ts";
import { waitFor } from "../../support/wait.ts";
import { aRun, startWeb, type WebFixture } from "../../support/web-server.ts";

const SECRET = "sk-very-secret";
const redact = (text: string): string => text.replaceAll(SECRET, "[key]");
const ann = {
  ...{ channel: "telegram", account: "bot", senderId: "42", senderName: `Ann ${SECRET}` },
  address: { channel: "telegram", account: "bot", chat: "42", kind: "dm" },
} as const;

const BRIEF = { from: "agent:main:web:dm:main", isOurs: false, at: 1, mission: "Mind it.", sharedMemory: [], constraints: [] };

let web: WebFixture;

beforeEach(async () => {
  web = await startWeb({ redact });
});

afterEach(async () => {
  await web.close();
});

const get = async (path: string): Promise<{ status: number; body: Record<string, never> }> => {
  const response = await fetch(`${web.url}${path}`, { headers: { authorization: `Bearer ${web.token}` } });
  return { status: response.status, body: (await response.json()) as Record<string, never> };
};
const post = async (path: string, body: unknown) => {
  const headers = { authorization: `Bearer ${web.token}`, "content-type": "application/json" };
  const response = await fetch(`${web.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as Record<string, never> };
};

describe("the order of the board", () => {
  const shape = (runs: readonly RunView[]) => orderRuns(runs).map(({ label, level }) => `${" ".repeat(level)}${label}`);

  it("[WB1] stands as trees by requester: in need of a person first, then where something goes on, then the newest", () => {
    const done = { state: "done", endedAt: 9 } as const;
    const telegram = { origin: "telegram 5551", chat: null };
    const parent = aRun({ label: "parent", createdAt: 4, ...done });
    const child = aRun({ label: "child", parentId: parent.id, createdAt: 5 });
    const grandchild = aRun({ label: "grandchild", parentId: child.id, createdAt: 6, ...done });
    const runs = [
      aRun({ label: "newest", createdAt: 8, ...done }),
      grandchild,
      child,
      parent,
      aRun({ label: "elsewhere, done", createdAt: 7, ...telegram, ...done }),
      aRun({ label: "elsewhere, stuck", createdAt: 1, ...telegram, ...done, delivery: "blocked" }),
      aRun({ label: "elsewhere, going on", createdAt: 2, ...telegram }),
      aRun({ label: "orphan", createdAt: 3, parentId: newId(), ...done }),
      aRun({ label: "asking", createdAt: 0, state: "waiting", isAsking: true }),
    ];
    expect(shape(runs)).toEqual([
      "asking",
      "elsewhere, stuck",
      "parent",
      " child",
      "  grandchild",
      "newest",
      "orphan",
      "elsewhere, going on",
      "elsewhere, done",
    ]);
    expect(orderRuns(runs).filter((row) => row.needsPerson)).toHaveLength(2);
    expect(orderRuns([])).toEqual([]);
  });
});

describe("one run", () => {
  it("[WB1] answers with everything on record; Markdown is rendered safely", async () => {
    const run = aRun({ label: "Count" });
    web.runs.push(run);
    web.details.set(run.id, {
      task: "count <b>lines</b>",
      briefing: { briefs: [{ ...BRIEF, mission: "<script>x</script>" }], version: 3, isOpen: true },
      plan: [{ title: "read", status: "doing" }],
      sections: { summary: "**42**", changes: null, evidence: null, risks: null, blockers: null },
      trace: [{ agent: "main", action: "Started", timestamp: "2026-01-01T00:00:00.000Z" }],
    });
    const { status, body } = await get(`/api/runs/${run.id}`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ run: { id: run.id }, task: "count <b>lines</b>", plan: [{ title: "read" }], facts: { model: "offline" } });
    expect(body.sections).toEqual([{ name: "summary", html: "<p><strong>42</strong></p>" }]);
    expect(body.briefing).toMatchObject({ briefs: [{ from: "agent:main:web:dm:main", mission: "<script>x</script>" }], version: 3 });
  });

  it.each([newId(), "nope", "..%2f..%2fetc", "__proto__"])("[WB1] there is no run %s, and no transcript of it", async (id) => {
    expect((await get(`/api/runs/${id}`)).status).toBe(404);
    expect((await get(`/api/runs/${id}/transcript`)).status).toBe(404);
  });

  it("[SC4] no text of it carries a secret, however deep it stands, on the board or opened", async () => {
    const run = aRun({ label: SECRET, step: SECRET });
    web.runs.push(run);
    const briefing = { briefs: [{ ...BRIEF, mission: SECRET, constraints: [SECRET] }], version: 1, isOpen: true };
    const sections = { summary: SECRET, changes: null, evidence: null, risks: null, blockers: SECRET };
    web.details.set(run.id, { task: SECRET, reason: SECRET, sections, plan: [{ title: SECRET, status: "done" }], briefing });
    const call = { type: "tool_call", callId: "1", name: "read", args: { deep: [{ path: SECRET }] } } as const;
    web.log(run.id, { id: "a", ...call }, { id: "b", type: "message", role: "assistant", text: SECRET, model: "m", calls: 0 });
    // A secret across the place where a long result is cut.
    const long = `${"x".repeat(3_995)}${SECRET}${"y".repeat(10)}`;
    web.log(run.id, { id: "c", type: "tool_result", callId: "1", name: "read", text: long, isError: false });
    const heard = await Promise.all(["", "/transcript"].map((path) => get(`/api/runs/${run.id}${path}`)));
    const all = JSON.stringify([...heard, await get("/api/runs")]);
    expect(all).toContain("[key]");
    expect(all).not.toMatch(/sk-very-se|sk-ve/);
  });
});

describe("a run beside others", () => {
  it("[RP1][RP2] its whole task, the runs it can be held against, and the two side by side", async () => {
    const [one, other] = [aRun({ label: "one" }), aRun({ label: "two" })];
    web.runs.push(one, other);
    web.details.set(one.id, { task: `a task with ${SECRET}` });
    expect(await get(`/api/runs/${one.id}/task`)).toEqual({ status: 200, body: { task: "a task with [key]", model: "offline" } });
    expect((await get(`/api/runs/${one.id}/related`)).body).toMatchObject({ repeats: null, repeatedBy: [], others: [{ id: other.id }] });
    const { status, body } = await get(`/api/runs/${one.id}/compare/${other.id}`);
    expect([status, body]).toMatchObject([200, { one: { id: one.id }, other: { label: "two" }, patch: expect.stringContaining("-red") }]);
  });

  it.each([newId(), "nope", "..%2f..%2fetc", "__proto__"])("[RP2] %s is no run, and one run is not two", async (id) => {
    const run = aRun();
    web.runs.push(run);
    for (const path of [`${id}/task`, `${id}/related`, `${id}/compare/${run.id}`, `${run.id}/compare/${id}`])
      expect((await get(`/api/runs/${path}`)).status, path).toBe(404);
    expect((await get(`/api/runs/${run.id}/compare/${run.id}`)).status).toBe(400);
  });
});

describe("briefs", () => {
  it("[WB5] what is refused is said with the reason, what came too late as such; a body of another form reaches nobody", async () => {
    const asked: unknown[] = [];
    const taken = { status: "taken", text: "So it is." } as const;
    const answers: Record<string, BriefChanged | null> = {
      ...{
        taken,
        late: { status: "late", text: "It has ended." },
        unfit: { status: "unfit", text: `The cap of ${SECRET} fired.` },
        none: null,
      },
    };
    const answer = async (id: string, request: unknown) => {
      asked.push(request);
      return answers[Object.keys(ids).find((name) => ids[name] === id) ?? ""] ?? null;
    };
    const ids: Record<string, string> = { taken: newId(), late: newId(), unfit: newId(), none: newId() };
    await web.close();
    web = await startWeb({ redact, desks: { briefs: { history: async () => null, give: answer, revoke: answer } } });
    const given = { version: 1, brief: { mission: "Mind it." }, replaces: null };
    const revoked = { version: 1, from: "agent:main:web:dm:main" };
    for (const [path, body] of [["brief", given] as const, ["brief/revoke", revoked] as const]) {
      expect(await post(`/api/runs/${ids.taken}/${path}`, body)).toEqual({ status: 200, body: { text: "So it is." } });
      expect(await post(`/api/runs/${ids.late}/${path}`, body)).toEqual({ status: 409, body: { error: "It has ended." } });
      expect(await post(`/api/runs/${ids.unfit}/${path}`, body)).toEqual({ status: 400, body: { error: "The cap of [key] fired." } });
      for (const id of [ids.none, "nope", "__proto__"]) expect((await post(`/api/runs/${id}/${path}`, body)).status).toBe(404);
      const known = asked.length;
      const wrong = [
        null,
        [],
        {},
        { ...body, version: -1 },
        { ...body, version: "1" },
        { ...body, more: 1 },
        { version: 1, from: "", replaces: "" },
      ];
      for (const one of wrong) expect((await post(`/api/runs/${ids.taken}/${path}`, one)).status).toBe(400);
      expect(asked).toHaveLength(known);
    }
    expect(asked[0]).toEqual(given);
  });
});

describe("a blocked announcement", () => {
  it("[DL3] is sent again on request; what can't be is said, and an unknown run is none", async () => {
    const [stuck, fine] = [aRun({ state: "done", delivery: "blocked", chat: null }), aRun()];
    web.runs.push(stuck, fine);
    expect(await post(`/api/runs/${stuck.id}/retry`, {})).toEqual({ status: 200, body: { text: "Its announcement is on its way again." } });
    expect(await post(`/api/runs/${fine.id}/retry`, {})).toEqual({ status: 409, body: { error: "Its announcement is not blocked." } });
    for (const id of [newId(), "nope"]) expect((await post(`/api/runs/${id}/retry`, {})).status).toBe(404);
  });
});

describe("its transcript", () => {
  const note = (n: number) => ({ id: `n${n}`, type: "note", text: `entry ${n}` }) as const;
  const textsOf = (body: Record<string, never>) => (body.entries as unknown as { text: string }[]).map((entry) => entry.text);

  it("[WB1] comes page by page, the newest first, and stays in place while it grows", async () => {
    const id = newId();
    web.log(id, ...Array.from({ length: 25 }, (_, n) => note(n)));
    const end = await get(`/api/runs/${id}/transcript?limit=10`);
    expect(textsOf(end.body)).toEqual(Array.from({ length: 10 }, (_, n) => `entry ${n + 15}`));
    web.log(id, note(25), note(26));
    const middle = await get(`/api/runs/${id}/transcript?limit=10&before=${end.body.before}`);
    expect(textsOf(middle.body)).toEqual(Array.from({ length: 10 }, (_, n) => `entry ${n + 5}`));
    const first = await get(`/api/runs/${id}/transcript?limit=10&before=${middle.body.before}`);
    expect(textsOf(first.body)).toEqual(Array.from({ length: 5 }, (_, n) => `entry ${n}`));
    expect(first.body.before).toBeNull();
  });

  it("[WB1] says who spoke: words as safe HTML, calls and results as capped text", async () => {
    const id = newId();
    web.log(
      id,
      { id: "task", type: "message", role: "user", from: "agent:main:web:dm:main", text: "<b>do</b>" },
      { id: "2", type: "message", role: "user", from: "Ann", text: "hurry" },
      { id: "3", type: "message", role: "assistant", text: "*so*", model: "m", calls: 1, partial: true },
      { id: "4", type: "tool_call", callId: "c", name: "read", args: { path: "a.md" } },
      { id: "5", type: "tool_result", callId: "c", name: "read", text: "é".repeat(9_000), isError: true },
    );
    const { body } = await get(`/api/runs/${id}/transcript`);
    expect(body.entries).toMatchObject([
      { kind: "task", text: "<b>do</b>" },
      { kind: "sent", who: "Ann", text: "hurry" },
      { kind: "said", html: "<p><em>so</em></p>\n<p><em>(cut off here)</em></p>" },
      { kind: "call", who: "read", callId: "c", line: "a.md", form: "json", text: '{\n  "path": "a.md"\n}' },
      { kind: "result", who: "read", callId: "c", isError: true, length: 9_000 },
    ]);
    expect(textsOf(body)[4]).toBe("é".repeat(4_000));
  });

  it("[WB5] what of an entry was cut is read on piece by piece, without a secret that lies across the cut", async () => {
    const id = newId();
    const text = `${"x".repeat(31_998)}${SECRET}${"y".repeat(40_000)}`;
    web.log(id, { id: "1", type: "tool_result", callId: "c", name: "exec", text, isError: false });
    web.log(id, { id: "2", type: "tool_call", callId: "d", name: "edit", args: { path: "a", oldText: "red\n", newText: "blue" } });
    const { body } = await get(`/api/runs/${id}/transcript`);
    const [first, call] = body.entries as unknown as { position: number; text: string; form: string }[];
    const pieces: string[] = [];
    for (let from: number | null = 0; from !== null && pieces.length < 9; ) {
      const { body: piece } = await get(`/api/runs/${id}/entries/${first?.position}?from=${from}`);
      pieces.push(piece.text ?? "");
      from = piece.next ?? null;
    }
    expect(pieces).toHaveLength(3);
    expect(pieces.join("")).toBe(redact(text));
    expect(pieces.join("")).toContain("x[key]y");
    expect(call).toMatchObject({ form: "diff", line: "a", text: "--- a\n+++ a\n@@ change @@\n-red\n+blue\n" });
    for (const path of [`${newId()}/entries/0`, `${id}/entries/999999`, "nope/entries/0"])
      expect((await get(`/api/runs/${path}`)).status).toBe(404);
    for (const path of ["entries/x", "entries/-1", "entries/0?from=x"]) expect((await get(`/api/runs/${id}/${path}`)).status).toBe(400);
    for (const path of ["documents/..%2fx", "documents/a.md", "documents/trace.txt"])
      expect((await get(`/api/runs/${id}/${path}`)).status).toBe(404);
  });

  it("[WB5] shows what was thought, also before a call without words, and entries of other shapes as they are", async () => {
    const id = newId();
    const extras = {
      p: { v: 1, model: "m", parts: [{ type: "reasoning", text: `hm, ${SECRET}` }, null, { type: "reasoning", text: 7 }] },
      q: null,
    };
    web.log(id, { id: "1", type: "message", role: "assistant", text: "", model: "m", calls: 1, extras });
    const { body } = await get(`/api/runs/${id}/transcript`);
    expect(body.entries).toMatchObject([{ kind: "said", html: "", thoughts: "hm, [key]" }]);
  });

  it.each(["before=x", "before=-1", "limit=0", "limit=many"])("[WB1] refuses %s", async (query) => {
    expect((await get(`/api/runs/${newId()}/transcript?${query}`)).status).toBe(400);
  });
});

describe("pairing", () => {
  it("[SC1] lists who waits without their chat, and a code lets in once", async () => {
    const code = (await web.db.transaction([], (tx) => web.pairing.request(tx, ann))) ?? "";
    const { body } = await get("/api/pairing");
    expect(body.waiting).toEqual([{ code, channel: "telegram", senderId: "42", senderName: "Ann [key]", expiresAt: expect.any(Number) }]);
    expect((await post("/api/pairing", { code: "ABCDEFGH" })).status).toBe(404);
    expect((await post("/api/pairing", {})).status).toBe(400);
    expect(await web.pairing.isPaired("telegram", "bot", "42")).toBe(false);
    expect(await post("/api/pairing", { code: code.toLowerCase() })).toMatchObject({ status: 200, body: { approved: { senderId: "42" } } });
    expect(await web.pairing.isPaired("telegram", "bot", "42")).toBe(true);
    expect((await post("/api/pairing", { code })).status).toBe(404);
    expect((await get("/api/pairing")).body.waiting).toEqual([]);
  });

  it("[SC1] lists who was let in or refused, and takes it back", async () => {
    const bob = { ...ann, senderId: "43", senderName: "Bob" };
    await post("/api/pairing", { code: await web.db.transaction([], (tx) => web.pairing.request(tx, ann)) });
    const refused = await post("/api/pairing", {
      code: await web.db.transaction([], (tx) => web.pairing.request(tx, bob)),
      decision: "refuse",
    });
    expect(refused).toMatchObject({ status: 200, body: { refused: { senderId: "43" } } });
    const people = async () =>
      (await get("/api/pairing")).body.people as unknown as { senderId: string; state: string; address?: unknown }[];
    expect((await people()).map(({ senderId, state, address }) => [senderId, state, address])).toEqual(
      expect.arrayContaining([
        ["42", "paired", undefined],
        ["43", "refused", undefined],
      ]),
    );
    const { channel, account } = ann;
    expect((await post("/api/pairing/revoke", { channel, account, senderId: "42" })).status).toBe(200);
    expect((await post("/api/pairing/revoke", { channel, account, senderId: "42" })).status).toBe(404);
    expect((await post("/api/pairing/revoke", { channel })).status).toBe(400);
    expect((await post("/api/pairing", { code: "x", decision: "maybe" })).status).toBe(400);
    expect([(await people()).length, await web.pairing.isPaired("telegram", "bot", "42")]).toEqual([1, false]);
    await web.pairing.revoke(bob);
  });

  it("[SC1] [WB2] every tab hears of it at once, and of a run that changed by its id", async () => {
    const abort = new AbortController();
    const headers = { authorization: `Bearer ${web.token}` };
    const stream = await fetch(`${web.url}/api/events?chat=main`, { headers, signal: abort.signal });
    let heard = "";
    const reading = (async () => {
      for await (const chunk of stream.body ?? []) heard += Buffer.from(chunk).toString();
    })().catch(() => undefined);
    await waitFor("the greeting", () => heard.includes('event: pairing\ndata: {"waiting":[],"people":[]}'));
    const code = await web.db.transaction([], (tx) => web.pairing.request(tx, ann));
    await waitFor("the code", () => heard.includes(`"code":"${code}"`));
    const [busy, other] = [newId(), newId()];
    for (let n = 0; n < 20; n++)
      web.bus.emit({ type: "turn.doing", sessionKey: "k", address: null, runId: n === 0 ? other : busy, doing: `${n}` });
    await waitFor("the run", () => heard.includes(`event: run\ndata: {"id":"${busy}"}`));
    expect(heard.split(`{"id":"${busy}"}`)).toHaveLength(2);
    expect(heard).toContain(`{"id":"${other}"}`);
    abort.abort();
    await reading;
  });
});
