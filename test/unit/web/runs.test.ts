// The board's routes over HTTP: pages, what is left out of a filter, and what steering is asked with.
import { afterEach, beforeEach, expect, it } from "vitest";
import { newId } from "../../../src/core/ids.ts";
import { readFilter } from "../../../src/web/runs.ts";
import { type BoardRun, putRuns } from "../../support/board-runs.ts";
import { startWeb, type WebFixture } from "../../support/web-server.ts";

const SECRET = "sk-very-secret";
let web: WebFixture;
beforeEach(async () => {
  web = await startWeb({ redact: (text) => text.replaceAll(SECRET, "[key]") });
});
afterEach(async () => {
  await web.close();
});

interface Page {
  readonly rows: { readonly id: string; readonly label: string; readonly outcome: string | null }[];
  readonly above: { readonly label: string }[];
  readonly next: string | null;
  readonly dropped: string[];
}

const ask = async (path: string, body?: unknown) => {
  const headers = { authorization: `Bearer ${web.token}`, "content-type": "application/json" };
  const init = body === undefined ? { headers } : { headers, method: "POST", body: JSON.stringify(body) };
  const response = await fetch(`${web.url}${path}`, init);
  return { status: response.status, body: (await response.json()) as Page & { error?: string; text?: string } };
};
const labels = async (query: string) => (await ask(`/api/board?${query}`)).body.rows.map(({ label }) => label);
const put = (...runs: BoardRun[]) => putRuns(web.db, runs);

it("[WB4] pages behind a cursor, with those that sent the rows out; ids bring only what fits", async () => {
  const [parent = ""] = await put({ label: "parent", state: "done" });
  const [one = "", two = ""] = await put(
    { label: "one", requesterRunId: parent, state: "error", reason: `broken by ${SECRET}` },
    { label: "two", requesterRunId: parent },
  );
  const first = (await ask("/api/board?limit=1")).body;
  expect([first.rows.map(({ label }) => label), first.above.map(({ label }) => label)]).toEqual([["two"], ["parent"]]);
  const second = (await ask(`/api/board?limit=5&after=${first.next}`)).body;
  expect(second.rows.map(({ label, outcome }) => [label, outcome])).toEqual([
    ["one", "broken by [key]"],
    ["parent", null],
  ]);
  expect(second.next).toBeNull();
  expect(await labels(`ids=${one},${two}&state=running`)).toEqual(["two"]);
  for (const wrong of [
    "after=nowhere.1",
    "after=live",
    "limit=0",
    "limit=many",
    "ids=1",
    `ids=${Array.from({ length: 101 }, newId).join(",")}`,
  ])
    expect((await ask(`/api/board?${wrong}`)).status, wrong).toBe(400);
});

it("[WB4] PAGE-010 values that make no sense are left out and named, whatever they are called", async () => {
  await put({ label: "here" });
  const query = "q=(a%2B)%2B$&state=__proto__,running&cost=NaN&time=-1e99&channel=%25&chat=nobody&__proto__=x&toString=y";
  const { body } = await ask(`/api/board?${query}`);
  expect(body.rows).toEqual([]);
  expect(body.dropped).toEqual([...["state=__proto__", "cost=NaN", "time=-1e99", "channel=%", "chat=nobody", "__proto__=x", "toString=y"]]);
  expect(await labels("state=__proto__&cost=1e9&time=forever")).toEqual(["here"]);
  expect(readFilter(new URLSearchParams({ q: "x".repeat(201), agent: "y".repeat(301) }), 0)).toEqual({
    filter: {},
    dropped: [`q=${"x".repeat(40)}…`, `agent=${"y".repeat(40)}…`],
  });
  expect(readFilter(new URLSearchParams("state=live,done&time=1h&cost=0.5&agent=&q=a"), 3_600_001)).toEqual({
    filter: { states: ["queued", "running", "waiting", "done"], since: 1, minCostUsd: 0.5, text: "a" },
    dropped: [],
  });
});

it("[WB4] totals and what there is to choose from, chats by their names", async () => {
  const requesterKey = "agent:main:slack:channel:c1:thread:17.5";
  await put({ label: "a", state: "done" }, { label: "b", requesterKey });
  expect((await ask("/api/board/totals?q=b")).body).toMatchObject({
    states: { running: 1 },
    needy: 0,
    isWhole: true,
    channels: ["slack", "web"],
    chats: [
      { key: requesterKey, origin: "slack C1, thread 17.5", chat: null },
      { key: "agent:main:web:dm:main", origin: "web main", chat: "main" },
    ],
  });
});

it("[WB4] steering takes what its form says and nothing else", async () => {
  const [id, other, key] = [newId(), newId(), newId()];
  const taken: [string, unknown][] = [
    ["stop", {}],
    ["stop", { also: [other] }],
    ["send", { text: "hurry" }],
    ["again", { key, model: "other/model" }],
    ["raise", { amount: "+20k", generation: 1 }],
  ];
  for (const [action, body] of taken) expect(await ask(`/api/runs/${id}/${action}`, body), action).toMatchObject({ status: 200 });
  expect(web.steered).toEqual([
    ["stop", id],
    ["stop", id, other],
    ["send", id, "hurry"],
    ["again", id],
    ["raise", id, "+20k"],
  ]);
  const refused: [string, unknown][] = [
    ["stop", { also: ["all"] }],
    ["stop", { also: Array.from({ length: 101 }, newId) }],
    ["send", { text: "  " }],
    ["send", { text: "x".repeat(16_001) }],
    ["again", {}],
    ["again", { key, model: "two words" }],
    ["raise", { amount: 2 }],
    ["raise", { amount: "x2", to: "me" }],
  ];
  for (const [action, body] of refused)
    expect((await ask(`/api/runs/${id}/${action}`, body)).status, JSON.stringify(body).slice(0, 80)).toBe(400);
  expect((await ask("/api/runs/all/stop", {})).status).toBe(404);
  expect(web.steered).toHaveLength(5);
});
