// The routes of questions: what is listed, what an answer may be, who was first.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type EventStream, openEvents } from "../../support/event-stream.ts";
import { waitFor } from "../../support/wait.ts";
import { aRun, startWeb, type WebFixture } from "../../support/web-server.ts";

const SECRET = "sk-very-secret";
const TELEGRAM = { channel: "telegram", account: "bot", chat: "5551", kind: "dm" } as const;

let web: WebFixture;
beforeEach(async () => {
  web = await startWeb({ redact: (text) => text.replaceAll(SECRET, "[key]") });
});
afterEach(async () => {
  await web.close();
});

const authorization = (): Record<string, string> => ({ authorization: `Bearer ${web.token}` });
const get = async (path: string): Promise<{ status: number; body: Record<string, unknown> }> => {
  const response = await fetch(`${web.url}${path}`, { headers: authorization() });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
};
const post = async (path: string, body: unknown): Promise<[number, string]> => {
  const headers = { ...authorization(), "content-type": "application/json" };
  const response = await fetch(`${web.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const { text, error } = (await response.json()) as { text?: string; error?: string };
  return [response.status, text ?? error ?? ""];
};
const answer = (id: string, body: unknown): Promise<[number, string]> => post(`/api/questions/${id}/answer`, body);

describe("answering", () => {
  it("[QA1] an option, words, or other words than the options; each of any channel's chat, by the page", async () => {
    const asks = { options: ["Red", "Blue"], asker: "painter", address: TELEGRAM, rootKey: "agent:main:telegram:dm:5551" };
    const [one, two, three] = [await web.ask(asks), await web.ask(asks), await web.ask(asks)];
    expect(await answer(one.id, { option: 2 })).toEqual([200, "📨 painter goes on with: Blue"]);
    expect(await answer(two.id, { answer: "red" })).toEqual([200, "📨 painter goes on with: Red"]);
    expect(await answer(three.id, { answer: " Green,\nrather " })).toEqual([200, "📨 painter goes on with: Green, rather"]);
    const by = { id: "local", name: "the page" };
    expect(await web.questions.get(two.id)).toMatchObject({ state: "answered", answer: "Red", answeredBy: by });
    expect(await web.questions.get(three.id)).toMatchObject({ state: "answered", answer: "Green,\nrather", answeredBy: by });
  });

  it.each([
    [{ verdict: "yes" }, "yes", ""],
    [{ verdict: "run" }, "run", ""],
    [{ verdict: "always" }, "always", ""],
    [{ verdict: "no" }, "no", ""],
    [{ verdict: "no", reason: "yes, but not today" }, "no", "yes, but not today"],
  ])("[QA4] an approval: %j", async (given, verdict, reason) => {
    const { id } = await web.ask({ kind: "approve", tool: "write", digest: "d" });
    expect((await answer(id, given))[0]).toBe(200);
    expect(await web.questions.get(id)).toMatchObject({ state: "answered", verdict, answer: reason });
  });

  it.each([
    ...[{}, { option: 0 }, { option: 9 }, { option: 1.5 }, { option: "1" }, { answer: "" }, { answer: " \n" }, { answer: 7 }],
    ...[{ answer: "x".repeat(16_001) }, { option: 1, answer: "both" }, { answer: "x", by: { id: "7" } }, { verdict: "maybe" }],
    ...[{ verdict: "no", reason: 1 }, [], "yes", null],
  ])("[QA3] no answer at all: %#, and the question stays open", async (body) => {
    const { id } = await web.ask({ options: ["Red"] });
    const [status, text] = await answer(id, body);
    expect([status, text]).toEqual([400, expect.stringContaining("Send {")]);
    expect((await web.questions.get(id))?.state).toBe("open");
  });

  it("[QA3][QA4] an answer of the other kind, an option that is not there, is none: it stays open", async () => {
    const [ask, approve] = [await web.ask({ options: ["Red"] }), await web.ask({ kind: "approve", tool: "exec" })];
    expect(await answer(ask.id, { verdict: "yes" })).toEqual([400, "This question wants an option or words."]);
    expect(await answer(approve.id, { answer: "yes" })).toEqual([400, "This one wants a yes or a no."]);
    expect(await answer(approve.id, { option: 1 })).toEqual([400, "This one wants a yes or a no."]);
    expect(await answer(ask.id, { option: 2 })).toEqual([400, "There is no option #2: the question stays open."]);
    for (const { id } of [ask, approve]) expect((await web.questions.get(id))?.state).toBe("open");
  });

  it("[QA3] many at once: one is taken, all others hear whose", async () => {
    const { id } = await web.ask({ options: ["A", "B", "C", "D"] });
    const all = await Promise.all([1, 2, 3, 4, 1, 2].map((option) => answer(id, { option })));
    const taken = all.filter(([status]) => status === 200);
    const said = (await web.questions.get(id))?.answer;
    expect(taken).toEqual([[200, `📨 Herald goes on with: ${said}`]]);
    expect(all.filter(([status, text]) => status === 409 && text === `Already answered by the page: ${said}`)).toHaveLength(5);
  });

  it("[QA3] one that is over, one whose asker is gone, one that never was", async () => {
    const late = await web.ask({ expiresAt: Date.now() - 1 });
    expect(await answer(late.id, { answer: "x" })).toEqual([409, "This question is closed: nobody had answered in time."]);
    const left = await web.ask({ turnId: "turn:9" });
    web.endedTurns.add("turn:9");
    expect(await answer(left.id, { answer: "x" })).toEqual([409, "This question is closed: what asked it has ended."]);
    expect((await get(`/api/questions/${left.id}`)).body).toMatchObject({ outcome: "This question is closed: what asked it has ended." });
    for (const id of ["x".repeat(22), "x", "../../x", "%00"]) {
      expect((await answer(encodeURIComponent(id), { answer: "x" }))[0]).toBe(404);
      expect((await get(`/api/questions/${encodeURIComponent(id)}`)).status).toBe(404);
    }
  });
});

describe("what is open", () => {
  const tab = (): Promise<EventStream> =>
    openEvents({ request: (path, init) => fetch(`${web.url}${path}`, { ...init, headers: authorization() }) });
  const heard = async (): Promise<{ questions: Record<string, unknown>[]; total: number }> => {
    await using stream = await tab();
    return (await waitFor("the list", () => stream.of("questions")[0])).data;
  };

  it("[QA1][SC4] is listed with what it wants, secrets by their names; a run has its own", async () => {
    const run = aRun({ state: "waiting", isAsking: true });
    web.runs.push(run);
    const asked = await web.ask({ runId: run.id, asker: "painter", text: `Is **${SECRET}** right?`, options: ["Yes"], address: TELEGRAM });
    await web.ask({ text: "over", expiresAt: Date.now() - 1 });
    const { questions, total } = await heard();
    const view = { id: asked.id, kind: "ask", asker: "painter", runId: run.id, chat: null, origin: "telegram 5551", options: ["Yes"] };
    expect(questions).toEqual([expect.objectContaining({ ...view, html: "<p>Is <strong>[key]</strong> right?</p>" })]);
    expect(total).toBe(1);
    expect((await get(`/api/runs/${run.id}`)).body.questions).toEqual(questions);
  });

  it("[QA4] a long text is left out of the list as a whole and comes by itself, to its last character", async () => {
    const text = `\`\`\`\n${"line\n".repeat(3_000)}LAST\n\`\`\``;
    const { id } = await web.ask({ kind: "approve", tool: "write", text });
    expect((await heard()).questions).toEqual([expect.objectContaining({ id, html: null, length: text.length })]);
    const { body } = await get(`/api/questions/${id}`);
    expect(body).toMatchObject({ id, outcome: null, html: expect.stringContaining("LAST") });
    expect(String(body.html).split("line\n")).toHaveLength(3_001);
  });

  it("[QA2] of very many the oldest are listed and all are counted", async () => {
    for (let n = 0; n < 70; n++) await web.ask({ text: `number ${n}` });
    const { questions, total } = await heard();
    expect([questions.length, total]).toEqual([30, 70]);
  });

  it("[WB2] every tab hears of a change, once for many in the same moment", async () => {
    await using stream = await tab();
    const totals = (): number[] => stream.of("questions").map(({ data }) => data.total);
    const asked = [];
    const since = performance.now();
    for (let n = 0; n < 20; n++) asked.push(await web.ask());
    await waitFor("all of them", () => totals().at(-1) === 20);
    // The greeting, the first change at once, and from then on what a moment of 150 ms brings together.
    expect(totals().length).toBeLessThanOrEqual(3 + (performance.now() - since) / 150);
    await answer(asked[0]?.id ?? "", { answer: "x" });
    await waitFor("one less", () => totals().at(-1) === 19);
  });
});
