// The routes of set-up: who may call them, what they take, and how a refusal reads.
import { afterEach, beforeEach, expect, it } from "vitest";
import { AppError } from "../../../src/core/errors.ts";
import type { SetupDesk } from "../../../src/web/setup.ts";
import { startWeb, type WebFixture } from "../../support/web-server.ts";

const TOUCHED = { section: "model", item: "model", values: { provider: "openai", list: ["a"], isOn: true, gone: null } };
const SAVE = { ...TOUCHED, version: "1", isInsisted: false };
const called: string[] = [];
let failure: AppError | null = null;

const note = async <T>(name: string, answer: T): Promise<T> => {
  if (failure !== null) throw failure;
  called.push(name);
  return answer;
};
const desk: SetupDesk = {
  view: async () => ({
    ...{ version: "1", machine: null, problem: null, waiting: [], canRestart: true, sections: [] },
    files: { settings: "/etc/herald.json5", dotEnv: "/etc/.env" },
  }),
  test: () => note("test", { isOk: true, lines: ["fine"] }),
  save: () => note("save", { outcome: "saved", waiting: [] }),
  remove: () => note("remove", { outcome: "saved", waiting: [] }),
  reload: () => note("reload", { problem: null, waiting: [] }),
  restart: () => note("restart", true),
};

let web: WebFixture;
beforeEach(async () => {
  web = await startWeb({ desks: { setup: desk } });
  called.length = 0;
  failure = null;
});
afterEach(() => web.close());

const post = (path: string, body: unknown, headers: Record<string, string>) =>
  fetch(`${web.url}/api/setup/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });

it("[WB7] a signed-in browser tests, saves, removes and restarts; the token of a script does none of it", async () => {
  const browser = await web.signIn();
  const script = { authorization: `Bearer ${web.token}` };
  const calls = [
    ["test", TOUCHED],
    ["save", SAVE],
    ["remove", { section: "mcp", item: "x", version: "1" }],
    ["restart", {}],
  ] as const;
  for (const [path, body] of calls) {
    expect([path, (await post(path, body, script)).status]).toEqual([path, 403]);
    expect([path, (await post(path, body, browser)).status]).toEqual([path, 200]);
  }
  expect(called).toEqual(["test", "save", "remove", "restart"]);
  // It changes nothing: the files are read anew, as SIGHUP does it.
  expect((await post("reload", {}, script)).status).toBe(200);
  expect((await post("reload", {}, { authorization: "Bearer wrong" })).status).toBe(401);
  expect((await fetch(`${web.url}/api/setup`, { headers: browser })).status).toBe(200);
});

it("[WB7] PAGE-006 another origin, none, or plain text reaches nothing", async () => {
  const browser = await web.signIn();
  for (const origin of ["http://127.0.0.1:1", "null", "https://evil.example"])
    expect([origin, (await post("save", SAVE, { ...browser, origin })).status]).toEqual([origin, 403]);
  expect((await post("save", SAVE, { ...browser, "content-type": "text/plain", origin: "null" })).status).toBe(403);
  expect((await post("save", SAVE, { ...browser, "content-type": "text/plain" })).status).toBe(415);
  expect((await post("save", SAVE, { cookie: browser.cookie, origin: browser.origin })).status).toBe(401);
  expect(called).toEqual([]);
});

it("[WB7] bodies that set-up never sends are refused, and what can't be done is told as it is", async () => {
  const browser = await web.signIn();
  for (const body of [
    {},
    { ...SAVE, more: 1 },
    { ...SAVE, values: { a: 1 } },
    { ...SAVE, values: { a: "x".repeat(8_001) } },
    { ...SAVE, item: "" },
    null,
  ])
    expect((await post("save", body, browser)).status).toBe(400);
  failure = new AppError("storage", "Herald may not write in /etc (EACCES).");
  const refused = await post("save", SAVE, browser);
  expect([refused.status, await refused.json()]).toEqual([507, { error: "Herald may not write in /etc (EACCES)." }]);
  failure = new AppError("config", "web.port: has a wrong value");
  expect((await post("save", SAVE, browser)).status).toBe(422);
});
