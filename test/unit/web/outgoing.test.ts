// No byte of the page's server carries a secret: neither what the real app answers on any route, nor what a route that
// tries to say one writes.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newId } from "../../../src/core/ids.ts";
import { createSecrets } from "../../../src/core/secrets.ts";
import type { Route } from "../../../src/web/http.ts";
import { createOutgoing } from "../../../src/web/outgoing.ts";
import { createLocalApp, type LocalApp } from "../../support/local-app.ts";
import { waitFor } from "../../support/wait.ts";
import { startWeb, type WebFixture } from "../../support/web-server.ts";

const SECRET = 'sk-"very"\\secret-0001';
const secrets = createSecrets();
secrets.add("API_KEY", SECRET);
const redact = secrets.redact;
const NAMED = "[API_KEY]";

/** Everything a stream says until it holds what is waited for. */
async function heardOn(url: string, headers: Record<string, string>, isEnough: (text: string) => boolean): Promise<string> {
  const abort = new AbortController();
  const response = await fetch(url, { headers, signal: abort.signal });
  let heard = "";
  const reading = (async () => {
    for await (const chunk of response.body ?? []) heard += Buffer.from(chunk).toString();
  })().catch(() => undefined);
  await waitFor("the events", () => isEnough(heard));
  abort.abort();
  await reading;
  return heard;
}

describe("a route that tries to say a secret", () => {
  let web: WebFixture;
  const route = (path: string, handle: Route["handle"]): Route => ({ method: "GET", path, access: "public", handle });
  beforeAll(async () => {
    const routes = [
      route("/json", () => ({ status: 200, body: { [SECRET]: [{ deep: SECRET, inner: JSON.stringify({ key: SECRET }) }, 1, null] } })),
      route("/text", () => ({ status: 200, body: `# ${SECRET}`, headers: { "content-type": "text/plain" } })),
      route("/header", () => ({ status: 200, body: {}, headers: { "x-note": "very secret 0002" } })),
      route("/refusal", () => ({ status: 400, body: { error: `${SECRET} is wrong` } })),
      route("/failure", () => {
        throw new Error(SECRET);
      }),
      route("/file", () => ({ status: 200, file: new URL("file:///etc/hostname"), headers: { "content-type": "text/plain" } })),
    ];
    secrets.add("OTHER", "very secret 0002");
    web = await startWeb({ redact, routes, status: () => ({ version: SECRET, model: SECRET, problem: SECRET, channels: [] }) });
  });
  afterAll(() => web.close());

  it.each(["json", "text", "refusal"])("[SC4] as %s: its name goes out instead", async (path) => {
    const text = await (await fetch(`${web.url}/${path}`)).text();
    expect(text).toContain(NAMED);
    expect(text).not.toContain("secret-0001");
  });

  it("[SC4] as a header or in an error: the same, and JSON stays JSON", async () => {
    expect((await fetch(`${web.url}/header`)).headers.get("x-note")).toBe("[OTHER]");
    const failed = await fetch(`${web.url}/failure`);
    expect([failed.status, await failed.text()]).toEqual([500, expect.not.stringContaining("secret-0001")]);
    expect(await (await fetch(`${web.url}/json`)).json()).toEqual({ [NAMED]: [{ deep: NAMED, inner: `{"key":"${NAMED}"}` }, 1, null] });
  });

  it("[SC4] as an event", async () => {
    const heard = await heardOn(`${web.url}/api/events`, { authorization: `Bearer ${web.token}` }, (text) =>
      text.includes("event: pairing"),
    );
    expect(heard).toContain(`event: status\ndata: {"version":"${NAMED}","model":"${NAMED}","problem":"${NAMED}","channels":[]}\n\n`);
    expect(createOutgoing(redact).event("x", { a: SECRET }, "7")).toBe(`id: 7\nevent: x\ndata: {"a":"${NAMED}"}\n\n`);
  });

  it("[SC4] as a file that is not the page's: it is not sent", async () => {
    const answer = await fetch(`${web.url}/file`);
    expect([answer.status, await answer.json()]).toEqual([500, { error: "Something went wrong here. The log says more." }]);
  });

  it("[SC4] the page's own files go out byte for byte, also when somebody's password is a word in them", async () => {
    secrets.add("DB_PASSWORD", "password");
    expect(await (await fetch(web.url)).text()).toBe(readFileSync(new URL("../../../src/web/page/page.html", import.meta.url), "utf8"));
  });
});

describe("one way out", () => {
  it("[SC4] only outgoing.ts and the streams it feeds, of the page and of programs, write to a response", () => {
    const folder = new URL("../../../src/web/", import.meta.url).pathname;
    const writers = readdirSync(folder)
      .filter((name) => name.endsWith(".ts"))
      .filter((name) => /\bres(?:ponse)?\.(?:writeHead|write|end)\(/.test(readFileSync(join(folder, name), "utf8")));
    expect(writers.sort()).toEqual(["mcp-api.ts", "outgoing.ts", "sse.ts"]);
  });
});

describe("the real settings", () => {
  const KEY = "planted-key-of-the-provider-0001";
  const ENV = "planted-value-for-an-mcp-server-0002";
  const SPAWN = "count the lines of nothing";
  let app: LocalApp;
  beforeAll(async () => {
    const providers = { planted: { api: "openai-compatible", baseUrl: "http://127.0.0.1:1", apiKey: KEY, models: [{ id: "m" }] } };
    const servers = { planted: { url: "http://127.0.0.1:1/mcp", headers: { authorization: `Bearer ${ENV}` } } };
    // It knows no secret of the settings: what shows up in an answer was put there, and nothing took it out again.
    app = await createLocalApp({ redacts: false, config: { models: { probeLocal: false, providers }, mcp: { servers } } });
  });
  afterAll(async () => app[Symbol.asyncDispose]());

  it("[SC4] no route of the running app answers with one, opened runs and the stream included", async () => {
    const token = readFileSync(join(app.stateDir, "web-token"), "utf8").trim();
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const body = JSON.stringify({ id: newId(), text: `/subagents spawn ${SPAWN}` });
    await fetch(`${app.origin}/api/chats/main/messages`, { method: "POST", headers, body });
    const run = await waitFor("the run", () => app.rows<{ id: string }>("SELECT id FROM runs")[0]);
    const paths = ["/", "/healthz", "/metrics", "/nope", "/api/chats", "/api/runs", "/api/pairing", "/api/chats/main/messages"];
    const opened = ["", "/transcript"].map((part) => `/api/runs/${run.id}${part}`);
    const answers = await Promise.all([...paths, ...opened].map(async (path) => (await fetch(`${app.origin}${path}`, { headers })).text()));
    const heard = await heardOn(`${app.origin}/api/events?cursor=0`, headers, (text) => /event: message/.test(text));
    expect(answers.join("\n")).toContain(SPAWN);
    const planted = [KEY, ENV, app.telegram.token.split(":")[1] ?? "?", token];
    for (const text of [...answers, heard]) for (const value of planted) expect(text).not.toContain(value);
    expect(/^event: status\ndata: (.*)$/m.exec(heard)?.[1]).toMatch(
      /^\{"version":"[^"]+","model":"[^"]+","problem":null,"channels":\[(\{"name":"[a-z]+","state":"[a-z]+","detail":(null|"[^"]+")\},?)+\]\}$/,
    );
  });
});
