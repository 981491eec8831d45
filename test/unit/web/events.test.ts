import { request } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Address } from "../../../src/core/address.ts";
import { newId } from "../../../src/core/ids.ts";
import { createSecrets } from "../../../src/core/secrets.ts";
import type { RunView } from "../../../src/web/board.ts";
import { renderMarkdown } from "../../../src/web/markdown.ts";
import { waitFor } from "../../support/wait.ts";
import { aRun, startWeb, type WebFixture } from "../../support/web-server.ts";

const MAIN: Address = { channel: "web", account: "local", chat: "main", kind: "dm" };

interface Heard {
  id: number | null;
  event: string;
  data: Record<string, unknown>;
}

interface Tab {
  heard: Heard[];
  comments: number;
  isClosed: boolean;
  messages(): string[];
  of(event: string): Record<string, unknown>[];
  /** Begins to take what it left in the socket. */
  read(): void;
  close(): void;
}

let web: WebFixture;
let tabs: Tab[];

const start = async (options?: Parameters<typeof startWeb>[0]) => {
  web = await startWeb(options);
};

beforeEach(() => {
  tabs = [];
});

afterEach(async () => {
  for (const tab of tabs) tab.close();
  await web.close();
});

/** An event stream as a browser reads it. `isReading: false` leaves everything in the socket. */
async function openTab(query = "", { lastEventId = "", isReading = true } = {}): Promise<Tab> {
  const headers = { authorization: `Bearer ${web.token}`, ...(lastEventId !== "" && { "last-event-id": lastEventId }) };
  const req = request(`${web.url}/api/events?chat=main${query}`, { headers, agent: false });
  return new Promise((resolve, reject) => {
    req.on("error", reject);
    req.on("response", (res) => {
      if (res.statusCode !== 200) return reject(new Error(`status ${res.statusCode}`));
      const tab: Tab = {
        heard: [],
        comments: 0,
        isClosed: false,
        messages: () => tab.of("message").map((data) => String(data.html ?? data.text)),
        of: (event) => tab.heard.filter((heard) => heard.event === event).map((heard) => heard.data),
        read: () =>
          void res.on("data", (chunk: string) => {
            const blocks = (rest + chunk).split("\n\n");
            rest = blocks.pop() ?? "";
            for (const block of blocks) hear(tab, block);
          }),
        close: () => req.destroy(),
      };
      let rest = "";
      res.setEncoding("utf8");
      res.on("error", () => undefined);
      res.on("close", () => {
        tab.isClosed = true;
      });
      if (isReading) tab.read();
      tabs.push(tab);
      resolve(tab);
    });
    req.end();
  });
}

function hear(tab: Tab, block: string): void {
  if (block.startsWith(":")) tab.comments++;
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1];
  const data = field("data");
  if (data !== undefined)
    tab.heard.push({ id: field("id") === undefined ? null : Number(field("id")), event: field("event") ?? "", data: JSON.parse(data) });
}

/** 12 000 characters that are five times as long on the page. */
const TABLE = ["|".padEnd(41, "a|"), "|".padEnd(41, "-|"), ...Array(284).fill("|".padEnd(41, "a|"))].join("\n");

describe("messages by cursor", () => {
  it("[WB2] a new tab hears what comes, with a growing id, and nothing of other chats", async () => {
    await start();
    await web.say("before");
    const tab = await openTab();
    await web.say("elsewhere", { chat: newId() });
    await web.say("one");
    await web.say("two");
    await waitFor("both messages", () => tab.messages().length === 2);
    expect(tab.messages()).toEqual(["<p>one</p>", "<p>two</p>"]);
    const ids = tab.heard.filter((heard) => heard.event === "message").map((heard) => heard.id);
    expect(ids).toEqual((await web.messages.list("main", { limit: 9 })).slice(1).map((message) => message.seq));
  });

  it("[WB3] a tab of a chat that was deleted while it had no stream is told when it comes back, and at missed bells; no other is", async () => {
    await start();
    await web.say("kept");
    const seq = await web.messages.lastSeq("main");
    const standing = await openTab(`&cursor=${seq}`);
    const fresh = await openTab("&cursor=0");
    await waitFor("what is there", () => fresh.messages().length === 1 && standing.of("status").length === 1);
    expect([standing, fresh].flatMap((tab) => tab.of("gone"))).toEqual([]);
    await web.db.transaction([], (tx) => tx.run("DELETE FROM web_messages"));
    const back = await openTab(`&cursor=${seq}`);
    await waitFor("the one that comes back", () => back.of("gone").length === 1);
    web.bus.emit({ type: "bells.missed" });
    await waitFor("those that stand", () => standing.of("gone").length === 1 && fresh.of("gone").length === 1);
    const empty = await openTab("&cursor=0");
    await web.say("anew");
    await waitFor("the new one", () => empty.messages().length === 1);
    expect(empty.of("gone")).toEqual([]);
  });

  it("[WB2] WS-009 a reconnect replays exactly what was missed, over a restart too", async () => {
    await start();
    const tab = await openTab("&cursor=0");
    const heard: string[] = [];
    let cursor = "0";
    let current = tab;
    for (let round = 0; round < 4; round++) {
      const from = await web.messages.lastSeq("main");
      await web.say(`live ${round}`);
      await waitFor("the live one", () => current.heard.some((event) => event.id !== null && event.id > from));
      heard.push(...current.messages());
      cursor = String(current.heard.findLast((event) => event.id !== null)?.id);
      current.close();
      await web.say(`missed ${round}`);
      if (round === 2) await web.restart();
      // As EventSource does: the old URL again, and what it saw last in the header.
      current = await openTab("&cursor=0", { lastEventId: cursor });
    }
    await waitFor("the missed one", () => current.messages().length === 1);
    heard.push(...current.messages());
    expect(heard).toEqual([0, 1, 2, 3].flatMap((round) => [`<p>live ${round}</p>`, `<p>missed ${round}</p>`]));
  });

  it("[WB2] a long backlog arrives whole, in order, once", async () => {
    await start();
    for (let n = 0; n < 300; n++)
      await web.db.transaction([], (tx) =>
        web.messages.post(tx, { chat: "main", key: `k${n}`, author: "agent", text: `${n} ${"x".repeat(3000)}` }),
      );
    const tab = await openTab("&cursor=0");
    await web.say("last");
    await waitFor("all messages", () => tab.messages().length >= 301);
    const seqs = tab.of("message").map((data) => data.seq);
    expect(seqs).toEqual((await web.messages.list("main", { limit: 1000 })).map((message) => message.seq));
  });

  it("[WB2] a page of messages that is more than a tab may be behind arrives on one connection", async () => {
    await start();
    for (let n = 0; n < 20; n++)
      await web.db.transaction([], (tx) =>
        web.messages.post(tx, { chat: "main", key: `k${n}`, author: "agent", text: "x".repeat(60_000) }),
      );
    const tab = await openTab("&cursor=0");
    await waitFor("all messages, or the end of the stream", () => tab.messages().length === 20 || tab.isClosed);
    expect(tab.messages()).toHaveLength(20);
    expect(tab.messages().join("").length).toBeGreaterThan(1024 * 1024);
    expect(tab.isClosed).toBe(false);
  });

  it("[WB1] [WB2] two tabs stay in step while one of them posts", async () => {
    await start();
    const [one, two] = [await openTab(), await openTab()];
    for (let n = 0; n < 10; n++) {
      await web.channel.accept({ id: newId(), chat: "main", text: `q${n}`, kind: "message" });
      await web.say(`a${n}`);
    }
    await waitFor("all in both tabs", () => one.messages().length === 20 && two.messages().length === 20);
    expect(one.of("message")).toEqual(two.of("message"));
    expect(one.messages().slice(0, 2)).toEqual(["q0", "<p>a0</p>"]);
  });

  it("[WB2][LV3] a change reaches every tab of its chat, and one that comes back with an old cursor hears of it, once", async () => {
    await start();
    await web.say("first", { key: "live:1#0" });
    await web.say("second", { key: "live:2#0" });
    const seq = (await web.messages.findByKey("live:1#0"))?.seq ?? 0;
    const edit = (text: string) => web.channel.edit?.({ address: MAIN, ref: String(seq), part: { text } });
    const history = await fetch(`${web.url}/api/chats/main/messages`, { headers: { authorization: `Bearer ${web.token}` } });
    const { cursor } = (await history.json()) as { cursor: string };
    // Between the history and the stream.
    await edit("changed");
    const [one, other] = [await openTab(`&cursor=${cursor}`), await openTab()];
    await waitFor("the change", () => one.of("edited").length === 1);
    expect(one.of("edited")[0]).toMatchObject({ seq, html: "<p>changed</p>", editedAt: expect.any(Number) });
    await edit("again");
    for (const tab of [one, other]) await waitFor("the next change", () => tab.of("edited").at(-1)?.html === "<p>again</p>");
    expect([one.messages(), other.messages(), other.of("edited").length]).toEqual([[], [], 1]);
    const last = String((await web.messages.list("main", { limit: 9 })).at(-1)?.seq);
    one.close();
    await edit("while away");
    await web.say("third");
    await web.restart();
    const back = await openTab("&cursor=0", { lastEventId: `${last}.${one.of("edited").at(-1)?.editedAt}` });
    await waitFor("what was missed", () => back.of("edited").length === 1);
    expect([back.messages(), back.of("edited").map(({ html }) => html)]).toEqual([["<p>third</p>"], ["<p>while away</p>"]]);
  });

  it.each(["&cursor=x", "&cursor=-1", "&cursor=1e9", "&cursor=1.", "&cursor=1.x", "&cursor=.5"])("[WB2] %s is refused", async (query) => {
    await start();
    await expect(openTab(query)).rejects.toThrow("status 400");
  });

  it("[WB2] WS-007 a chat that can't exist is refused", async () => {
    await start();
    const response = await fetch(`${web.url}/api/events?chat=../x`, { headers: { authorization: `Bearer ${web.token}` } });
    expect(response.status).toBe(404);
  });
});

describe("what goes on now", () => {
  const turn = (turnId: string) => ({ sessionKey: "k", address: MAIN, turnId });

  it("[AG4] working, the tool, the growing text and the end reach every tab", async () => {
    await start();
    const tab = await openTab();
    web.bus.emit({ type: "turn.started", ...turn("t1") });
    web.bus.emit({ type: "turn.doing", sessionKey: "k", address: MAIN, runId: null, doing: "read README.md" });
    web.bus.emit({ type: "turn.text", ...turn("t1"), text: "**Hel" });
    web.bus.emit({ type: "turn.text", ...turn("t1"), text: "**Hello** <b>" });
    await waitFor("a draft", () => tab.of("draft").length > 0);
    expect(tab.of("draft").at(-1)).toEqual({ turnId: "t1", html: "<p><strong>Hello</strong> &lt;b&gt;</p>" });
    expect(tab.of("working").map((data) => [data.working, data.doing])).toEqual([
      [false, null],
      [true, null],
      [true, "read README.md"],
    ]);
    web.bus.emit({ type: "turn.text", ...turn("t1"), text: "too late to be drawn" });
    web.bus.emit({ type: "turn.ended", ...turn("t1"), outcome: "ok" });
    await waitFor("the end", () => tab.of("working").at(-1)?.working === false);
    web.bus.emit({ type: "turn.text", ...turn("t1"), text: "after the end" });
    web.bus.emit({ type: "turn.started", ...turn("t2") });
    web.bus.emit({ type: "turn.text", ...turn("t2"), text: "next" });
    await waitFor("the next draft", () => tab.of("draft").at(-1)?.turnId === "t2");
    expect(tab.of("draft").map((draft) => draft?.turnId)).toEqual(["t1", "t2"]);
    expect(JSON.stringify(tab.of("draft"))).not.toContain("late");
    expect(JSON.stringify(tab.of("draft"))).not.toContain("after the end");
  });

  it("[AG4] a tab that comes later sees the same moment; other channels' turns are not shown", async () => {
    await start();
    const early = await openTab();
    web.bus.emit({ type: "turn.started", sessionKey: "x", address: { ...MAIN, channel: "telegram" }, turnId: "other" });
    web.bus.emit({ type: "turn.started", ...turn("t1") });
    web.bus.emit({ type: "turn.text", ...turn("t1"), text: "so far" });
    await waitFor("a draft", () => early.of("draft").length > 0);
    const late = await openTab();
    await waitFor("the greeting", () => late.of("runs").length > 0);
    expect(late.of("working")).toMatchObject([{ working: true }]);
    // Once with the greeting, and perhaps rendered anew because somebody looks.
    expect(late.of("draft")[0]).toEqual({ turnId: "t1", html: "<p>so far</p>" });
    expect(new Set(late.of("draft").map(({ html }) => html)).size).toBe(1);
    expect(late.of("status")).toEqual([{ version: "0.1.0", model: "offline model", problem: null, channels: [] }]);
  });

  it("[RC4] a state folder that is gone is said on every open tab and to probes, and so is its return", async () => {
    let problem: string | null = null;
    await start({ status: () => ({ version: "0.1.0", model: "offline model", problem, channels: [] }) });
    const tab = await openTab();
    const probe = async (): Promise<number> => (await fetch(`${web.url}/readyz`)).status;
    expect(await probe()).toBe(200);
    for (const next of ["The state folder is gone.", null]) {
      problem = next;
      web.bus.emit({ type: "folder.changed" });
      await waitFor("the word", () => tab.of("status").at(-1)?.problem === next);
      expect(await probe()).toBe(next === null ? 200 : 503);
    }
  });

  it("[AG4] a fast stream of text is thinned out, its last state arrives", async () => {
    await start();
    const tab = await openTab();
    web.bus.emit({ type: "turn.started", ...turn("t1") });
    let text = "";
    for (let n = 0; n < 2000; n++) {
      text += `word${n} `;
      web.bus.emit({ type: "turn.text", ...turn("t1"), text });
      if (n % 100 === 0) await new Promise(setImmediate);
    }
    await waitFor("the last word", () => String(tab.of("draft").at(-1)?.html).includes("word1999"));
    expect(tab.of("draft").length).toBeLessThan(200);
  });

  it("[SC4] a secret in a draft shows as its name", async () => {
    await start({ redact: (text) => text.replaceAll("sk-very-secret", "[API_KEY]") });
    const tab = await openTab();
    web.bus.emit({ type: "turn.started", ...turn("t1") });
    web.bus.emit({ type: "turn.doing", sessionKey: "k", address: MAIN, runId: null, doing: "fetch sk-very-secret" });
    web.bus.emit({ type: "turn.text", ...turn("t1"), text: "it is sk-very-secret" });
    await waitFor("a draft", () => tab.of("draft").length > 0);
    expect(JSON.stringify(tab.heard)).not.toContain("sk-very-secret");
  });

  it("[SC4] a secret that is still being written is not shown letter by letter", async () => {
    const secrets = createSecrets();
    secrets.add("API_KEY", "sk-very-secret-0123");
    await start(secrets);
    const tab = await openTab();
    web.bus.emit({ type: "turn.started", ...turn("t1") });
    web.bus.emit({ type: "turn.doing", sessionKey: "k", address: MAIN, runId: null, doing: "exec: sk-very-sec" });
    for (const written of ["it is sk-very-secret-012", "it is sk-very-secret-0123 now"]) {
      const before = tab.of("draft").length;
      web.bus.emit({ type: "turn.text", ...turn("t1"), text: written });
      await waitFor("a draft", () => tab.of("draft").length > before);
    }
    expect(tab.of("draft").map((draft) => draft?.html)).toEqual(["<p>it is</p>", "<p>it is [API_KEY] now</p>"]);
    expect(tab.of("working").at(-1)?.doing).toBe("exec: ");
    expect(JSON.stringify(tab.heard)).not.toContain("sk-");
  });

  it("[WB1] a long draft is rendered as a message would be, beside everything else", async () => {
    await start();
    const tab = await openTab();
    web.bus.emit({ type: "turn.started", ...turn("t1") });
    const text = `${"Some **bold** words, one paragraph of them. ".repeat(300)}the end`;
    web.bus.emit({ type: "turn.text", ...turn("t1"), text: text.slice(0, 9_000) });
    await waitFor("a draft", () => tab.of("draft").length > 0);
    web.bus.emit({ type: "turn.text", ...turn("t1"), text });
    await waitFor("the end", () => String(tab.of("draft").at(-1)?.html).includes("the end"));
    expect(tab.of("draft").at(-1)?.html).toBe(renderMarkdown(text));
  });

  it("[WB1] runs arrive on connect and on change: those in need first, then unfinished ones", async () => {
    await start();
    web.runs.push(
      aRun({ label: "old", state: "done", endedAt: 2 }),
      aRun({ label: "active" }),
      aRun({ label: "stuck", state: "done", delivery: "blocked" }),
    );
    const tab = await openTab();
    await waitFor("the runs", () => tab.of("runs").length === 1);
    const labels = () => (tab.of("runs").at(-1) as unknown as RunView[]).map((view) => view.label);
    expect(labels()).toEqual(["stuck", "active", "old"]);
    web.runs.push(aRun({ label: "newer", createdAt: 5 }));
    for (let n = 0; n < 50; n++) web.bus.emit({ type: "run.changed", runId: "x", state: "running" });
    await waitFor("the runs again", () => tab.of("runs").length === 2);
    expect(labels()).toEqual(["stuck", "newer", "active", "old"]);
  });

  it("[WB1] words in another chat show in the list of chats", async () => {
    await start();
    const tab = await openTab();
    const chat = newId();
    await web.channel.accept({ id: newId(), chat, text: "Other", kind: "message" });
    await waitFor("the chat", () => JSON.stringify(tab.of("chats").at(-1)).includes(chat));
    expect(tab.messages()).toEqual([]);
  });
});

describe("slow and lost readers", () => {
  it("[WB2] HTTP-012 one that takes nothing does not hold up the others, and beats keep those alive", async () => {
    await start({ streams: { heartbeatMs: 20 } });
    const good = await openTab();
    await openTab("", { isReading: false });
    for (let n = 0; n < 400; n++)
      await web.channel.accept({ id: newId(), chat: "main", text: `${n} ${"x".repeat(12_000)}`, kind: "message" });
    await waitFor("all messages", () => good.messages().length === 400);
    await waitFor("beats", () => good.comments >= 3);
  });

  it("[AG4] [WB2] one that is behind gets the messages, then the last draft, on the same connection", async () => {
    const turn = { sessionKey: "k", address: MAIN, turnId: "t1" };
    await start({ streams: { limits: { maxBufferedBytes: 200_000, stallMs: 45_000 } } });
    const [slow, good] = [await openTab("", { isReading: false }), await openTab()];
    web.bus.emit({ type: "turn.started", ...turn });
    // Far more than the kernel takes by itself.
    const text = "x".repeat(100_000);
    for (let n = 0; n < 60; n++)
      await web.db.transaction([], (tx) => web.messages.post(tx, { chat: "main", key: `k${n}`, author: "user", text }));
    web.bus.emit({ type: "web.posted", chat: "main", seq: 60 });
    await waitFor("all messages", () => good.messages().length === 60);
    for (const n of [1, 2, 3, 4]) {
      web.bus.emit({ type: "turn.text", ...turn, text: `${TABLE}\n\n${n}` });
      await waitFor("the draft in the other tab", () => String(good.of("draft").at(-1)?.html).endsWith(`<p>${n}</p>`));
    }
    slow.read();
    await waitFor("the last draft, or the end", () => String(slow.of("draft").at(-1)?.html).endsWith("<p>4</p>") || slow.isClosed);
    await waitFor("all messages, or the end", () => slow.messages().length === 60 || slow.isClosed);
    expect(slow.isClosed).toBe(false);
    expect(slow.of("draft")).toHaveLength(1);
    expect(slow.heard.at(-1)?.event).toBe("draft");
  });

  it("[RN4] closing the server ends every stream", async () => {
    await start();
    const tab = await openTab();
    await web.server.close();
    await waitFor("the end of the stream", () => tab.isClosed);
    web.bus.emit({ type: "run.changed", runId: "x", state: "running" });
  });
});

describe("a run that a tab has open", () => {
  const say = (runId: string, what: "text" | "thoughts", text: string) =>
    web.bus.emit({ type: "run.text", runId, turnId: `${runId}:${what}`, what, text });
  const watch = (tab: Tab, run: string | null) => {
    const body = JSON.stringify({ tab: tab.of("tab")[0]?.id, run });
    return fetch(`${web.url}/api/watch`, {
      ...{ method: "POST", body },
      headers: { authorization: `Bearer ${web.token}`, "content-type": "application/json" },
    });
  };

  it("[WB5] tells the tab that has it open, and no other, what it writes; a secret by its name, not by its beginning", async () => {
    const secrets = createSecrets();
    secrets.add("key", "sk-secret-0123456789");
    await start({ redact: (text) => secrets.redact(text), heldBack: (text) => secrets.heldBack(text) });
    const watched: string[] = [];
    web.bus.on((event) => event.type === "run.watched" && void watched.push(event.runId));
    const [one, other] = [await openTab(), await openTab()];
    for (const tab of [one, other]) await waitFor("its name", () => tab.of("tab").length === 1);
    const id = newId();
    say(id, "text", "nobody looks");
    expect((await watch(one, id)).status).toBe(200);
    expect(watched).toEqual([id]);
    say(id, "thoughts", "use sk-secret-0123456789");
    say(id, "text", "**It** is sk-secr");
    const last = () => one.of("run.draft").at(-1);
    await waitFor("the draft", () => String(last()?.html).includes("<strong>It</strong> is"));
    expect(last()).toEqual({ id, html: "<p><strong>It</strong> is</p>", thoughts: "use [key]" });
    say(id, "text", "");
    say(id, "thoughts", "");
    await waitFor("its end", () => last()?.html === "" && last()?.thoughts === "");
    say(id, "text", "more");
    await waitFor("more", () => last()?.html === "<p>more</p>");
    web.bus.emit({ type: "run.ended", runId: id, state: "error" });
    await waitFor("its end", () => last()?.html === "");
    expect(other.of("run.draft")).toEqual([]);
    expect((await watch(one, null)).status).toBe(200);
    const heard = one.of("run.draft").length;
    say(id, "text", "unheard");
    web.bus.emit({ type: "run.changed", runId: id, state: "running" });
    await waitFor("another event", () => one.of("run").length > 0);
    expect(one.of("run.draft")).toHaveLength(heard);
  });

  it("[WB5] refuses a tab there is not, and what is no run", async () => {
    await start();
    const tab = await openTab();
    await waitFor("its name", () => tab.of("tab").length === 1);
    expect((await watch(tab, "nope")).status).toBe(400);
    tab.heard.splice(0);
    expect((await watch(tab, newId())).status).toBe(400);
    tab.heard.push({ id: null, event: "tab", data: { id: newId() } });
    expect((await watch(tab, newId())).status).toBe(404);
  });
});
