import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Address } from "../../src/core/address.ts";
import { newId } from "../../src/core/ids.ts";
import type { OutMessage } from "../../src/core/message.ts";
import { signInUrl } from "../../src/web/token.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import { waitFor } from "../support/wait.ts";
import { aRun, startWeb, type WebFixture } from "../support/web-server.ts";

const MAIN: Address = { channel: "web", account: "local", chat: "main", kind: "dm" };
const ATTACK = "<script>window.pwned=1</script><img src=x onerror='window.pwned=1'>";

describe.skipIf(!hasBrowser)(`the page${BROWSER_NOTE}`, () => {
  const visit = useBrowser(1200);
  let web: WebFixture;
  beforeEach(async () => {
    web = await startWeb();
  });
  afterEach(() => web.close());

  const openPage = (): Promise<Page> => visit.open(web.url, web.token);
  const texts = (page: Page, selector = "#messages .body") => page.locator(selector).allInnerTexts();
  const saw = (page: Page, expected: string[]) =>
    waitFor(expected.join(), async () => JSON.stringify(await texts(page)) === JSON.stringify(expected));

  /** Everything the channel makes of a message, as delivery sends it. */
  const post = async (message: OutMessage, delivery: string): Promise<void> => {
    const parts = web.channel.render(message, MAIN);
    for (const [n, part] of parts.entries()) await web.channel.send({ address: MAIN, part, key: `${delivery}#${n}`, repeated: false });
  };

  it("[SC3] the link signs in, leaves the address bar, and the token stays nowhere", async () => {
    const page = await openPage();
    expect(page.url()).toBe(`${web.url}/`);
    const kept = await page.evaluate(
      "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, document.documentElement.outerHTML])",
    );
    expect(kept).not.toContain(web.token);
    const [cookie] = await visit.context.cookies(`${web.url}/api/chats`);
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict", path: "/api" });
    expect(visit.requested.some((url) => url.includes(web.token) && !url.includes("#"))).toBe(false);
  });

  it("[SC3] without a cookie it asks for the token and says when it is wrong", async () => {
    const page = await visit.context.newPage();
    await page.goto(web.url);
    await page.fill("#token", "wrong");
    await page.keyboard.press("Enter");
    await page.locator("#sign-in-error", { hasText: "not right" }).waitFor();
    await page.fill("#token", signInUrl(web.url, web.token));
    await page.keyboard.press("Enter");
    await page.waitForSelector("#empty", { state: "visible" });
    expect(await page.locator("#examples button").count()).toBe(4);
  });

  it("[WB8] what another port of this host gets to see of a signed-in browser opens nothing", async () => {
    const seen: Record<string, string | undefined>[] = [];
    const other = createServer((req, res) => {
      seen.push({ cookie: req.headers.cookie, key: req.headers["x-herald-key"] as string | undefined });
      res.setHeader("content-type", "text/html").end(`<script>window.stored = JSON.stringify({ ...localStorage })</script>`);
    });
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    try {
      const page = await openPage();
      const [cookie] = await visit.context.cookies(`${web.url}/api/chats`);
      const thief = await visit.context.newPage();
      await thief.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}/api/`);
      expect(seen[0]).toEqual({ cookie: `${cookie?.name}=${cookie?.value}`, key: undefined });
      expect(await thief.evaluate("window.stored")).toBe("{}");
      for (const path of ["/api/chats", "/api/events"])
        expect((await fetch(`${web.url}${path}`, { headers: { cookie: seen[0]?.cookie ?? "", origin: web.url } })).status).toBe(401);
      await page.reload();
      await page.waitForSelector("#empty", { state: "visible" });
    } finally {
      other.closeAllConnections();
      other.close();
    }
  });

  it("[WB8] signed in once, every tab, a reload and a plain address work; signing out ends them all, signing in wakes them", async () => {
    const [page, second] = [await openPage(), await visit.context.newPage()];
    await second.goto(`${web.url}/#/`);
    await second.waitForSelector("#empty", { state: "visible" });
    await second.reload();
    await second.waitForSelector("#empty", { state: "visible" });
    await page.click("#open-browsers");
    await page.locator(".browser", { hasText: "this browser · from 127.0.0.1" }).waitFor();
    await page.locator(".browser", { hasText: /^Chrome on Linux/ }).waitFor();
    await page.click("#sign-out");
    for (const tab of [page, second]) await tab.waitForSelector("#sign-in", { state: "visible" });
    expect(await page.evaluate("localStorage.getItem('herald.key')")).toBeNull();
    await second.fill("#token", web.token);
    await second.keyboard.press("Enter");
    for (const tab of [page, second]) await tab.waitForSelector("#empty", { state: "visible" });
    await web.say("for both");
    for (const tab of [page, second]) await saw(tab, ["for both"]);
  });

  it("[WB8] another browser is listed and can be signed out from here", async () => {
    const page = await openPage();
    const phone = await web.signIn("Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) Version/26.0 Mobile Safari/604.1");
    await page.click("#open-browsers");
    await page.locator(".browser", { hasText: "Safari on iPhone" }).getByRole("button", { name: "Sign out" }).click();
    await waitFor("one browser less", async () => (await page.locator(".browser").count()) === 1);
    expect((await fetch(`${web.url}/api/chats`, { headers: phone })).status).toBe(401);
    expect(await page.isVisible("#browsers-others")).toBe(false);
    await page.keyboard.press("Escape");
    await page.waitForSelector("#browsers", { state: "hidden" });
  });

  it("[WB1] [WB2] Enter sends, Shift+Enter makes a line, every tab and a reload show the same", async () => {
    const [page, other] = [await openPage(), await openPage()];
    await page.bringToFront();
    await page.focus("#text");
    await page.keyboard.type("first");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("second");
    // As Safari reports the Enter that picks an input method's word: after the composition, but with this code.
    await page.evaluate(
      'document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", keyCode: 229, bubbles: true, cancelable: true }))',
    );
    expect(await page.inputValue("#text")).toBe("first\nsecond");
    await page.keyboard.press("Enter");
    await saw(page, ["first\nsecond"]);
    await web.say("**done**");
    for (const tab of [page, other]) await saw(tab, ["first\nsecond", "done"]);
    await page.reload();
    await saw(page, ["first\nsecond", "done"]);
    expect((await web.inbox()).map((row) => row.raw.text)).toEqual(["first\nsecond"]);
    expect(await page.inputValue("#text")).toBe("");
  });

  it("[WB1] hostile text is shown as text and runs nothing", async () => {
    const page = await openPage();
    await page.fill("#text", ATTACK);
    await page.keyboard.press("Enter");
    await web.say(`${ATTACK}\n\n[x](javascript:window.pwned=1)\n\n\`\`\`html\n${ATTACK}\n\`\`\``, {
      buttons: [{ label: ATTACK, command: "/stop" }],
    });
    web.runs.push(aRun({ label: ATTACK, doing: ATTACK }));
    web.bus.emit({ type: "run.changed", runId: "x", state: "running" });
    web.bus.emit({ type: "turn.started", sessionKey: "k", address: MAIN, turnId: "t" });
    web.bus.emit({ type: "turn.doing", sessionKey: "k", address: MAIN, runId: null, doing: ATTACK });
    web.bus.emit({ type: "turn.text", sessionKey: "k", address: MAIN, turnId: "t", text: ATTACK });
    await page.waitForSelector("#draft", { state: "visible" });
    await page.waitForSelector(".run");
    expect(await page.textContent("#draft")).toContain("<script>");
    expect(await page.textContent(".run-label")).toBe(ATTACK);
    await page.locator("#chat-title", { hasText: "<script>" }).waitFor();
    expect(await page.textContent("#messages .agent pre")).toContain(ATTACK);
    expect(await page.locator("#app script, #messages img, #draft img, .run img").count()).toBe(0);
    await page.click("#messages a:has-text('x')");
    expect(await page.evaluate("window.pwned")).toBeUndefined();
  });

  it("[WB2] HTTP-005 nothing is asked from another host", async () => {
    const page = await openPage();
    await web.say("![x](https://evil.example/?q=SECRET) ![y](//evil.example/y.png) https://evil.example");
    await page.locator("#messages .body", { hasText: "x (evil.example)" }).waitFor();
    await page.goto(`${web.url}/?gatewayUrl=ws://evil.example:1`);
    await page.locator("#messages .body", { hasText: "x (evil.example)" }).waitFor();
    expect(visit.requested.length).toBeGreaterThan(10);
    expect(visit.requested.filter((url) => new URL(url).origin !== web.url)).toEqual([]);
  });

  it("[WB2] fits a phone, whatever is written, and the drawer works by keyboard", async () => {
    await web.say(`${"wide".repeat(200)}\n\n\`\`\`\n${"code ".repeat(200)}\n\`\`\`\n\n| ${"cell | ".repeat(30)}\n|${"---|".repeat(30)}`);
    const page = await openPage();
    await page.setViewportSize({ width: 360, height: 700 });
    await page.locator("#messages .agent").waitFor();
    const widths = () => page.evaluate("[document.documentElement.scrollWidth, document.getElementById('scroll').scrollWidth]");
    expect(await widths()).toEqual([360, 360]);
    await page.focus("#open-sidebar");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#new-chat", { state: "visible" });
    expect(await widths()).toEqual([360, 360]);
    await page.keyboard.press("Escape");
    await page.waitForSelector("#new-chat", { state: "hidden" });
    expect(await page.evaluate("document.activeElement.id")).toBe("open-sidebar");
  });

  it("[AG4] [ST3] shows the text as it grows, what it does, and Stop; then the message in its place", async () => {
    const page = await openPage();
    const turn = { sessionKey: "k", address: MAIN, turnId: "t" };
    web.bus.emit({ type: "turn.started", ...turn });
    web.bus.emit({ type: "turn.doing", sessionKey: "k", address: MAIN, runId: null, doing: "read a.md" });
    web.bus.emit({ type: "turn.text", ...turn, text: "So *far*" });
    await page.locator("#draft em", { hasText: "far" }).waitFor();
    await page.locator("#working-text", { hasText: "Working… (read a.md)" }).waitFor();
    await page.dblclick("#stop");
    await waitFor("the press", async () => (await web.inbox()).length === 1);
    expect((await web.inbox())[0]?.raw).toMatchObject({ text: "/stop answer", kind: "button", chat: "main" });
    await web.say("So far, so good");
    web.bus.emit({ type: "turn.ended", ...turn, outcome: "ok" });
    await page.waitForSelector("#working", { state: "hidden" });
    await page.waitForSelector("#draft", { state: "hidden" });
    await saw(page, ["So far, so good"]);
    // Once for each answer, however often it was pressed: a second one would end the sub-agents too.
    web.bus.emit({ type: "turn.started", ...turn, turnId: "next" });
    await page.click("#stop:enabled");
    await waitFor("the next press", async () => (await web.inbox()).length === 2);
  });

  it("[AG4] what was written stays where it is when the answer takes its place", async () => {
    for (let n = 0; n < 12; n++) await web.say(`earlier ${n}`);
    await web.channel.accept({ id: newId(), chat: "main", text: "and now?", kind: "message" });
    const page = await openPage();
    await page.locator("#messages .user").waitFor();
    const turn = { sessionKey: "k", address: MAIN, turnId: "turn:70" };
    const text = "First words.\n\n```js\nlet x = 1;\n```\n\n- one\n- two\n\nLast words.";
    web.bus.emit({ type: "turn.started", ...turn });
    web.bus.emit({ type: "turn.text", ...turn, text });
    await page.locator("#draft", { hasText: "Last words." }).waitFor();
    const places = (root: string) =>
      page.evaluate(
        `[...document.querySelectorAll("${root} > .body > *, ${root} > .meta")].map((node) => { const { top, left, height } = node.getBoundingClientRect(); return [Math.round(top), Math.round(left), Math.round(height)]; })`,
      );
    const before = await places("#draft");
    expect(before).toHaveLength(5);
    // The page drops a draft whose answer stays away for some seconds; how slow this machine is does not matter here.
    await page.clock.install();
    await page.clock.pauseAt(Date.now() + 10_000);
    // The next message is being answered before this answer is here: the draft is still the one of this answer.
    web.bus.emit({ type: "turn.ended", ...turn, outcome: "ok" });
    web.bus.emit({ type: "turn.started", ...turn, turnId: "turn:80" });
    await web.say("a command's answer", { key: "answer:9#0" });
    await page.locator("#messages .body", { hasText: "a command's answer" }).waitFor();
    expect(await page.isVisible("#draft")).toBe(true);
    await page.clock.resume();
    web.bus.emit({ type: "turn.ended", ...turn, turnId: "turn:80", outcome: "ok" });
    await page.waitForSelector("#draft", { state: "hidden" });
    web.bus.emit({ type: "turn.started", ...turn, turnId: "turn:100" });
    web.bus.emit({ type: "turn.text", ...turn, turnId: "turn:100", text });
    await page.locator("#draft", { hasText: "Last words." }).waitFor();
    const drafted = await places("#draft");
    await web.say(text, { key: "reply:100#0" });
    await page.locator("#messages > li:last-child", { hasText: "Last words." }).waitFor();
    expect(await page.isVisible("#draft")).toBe(false);
    web.bus.emit({ type: "turn.ended", ...turn, turnId: "turn:100", outcome: "ok" });
    await page.waitForSelector("#working", { state: "hidden" });
    expect(await places("#messages > li:last-child")).toEqual(drafted);
  });

  it("[AN9] an announcement shows its figures; keys, ids and path are folded until somebody asks", async () => {
    const stats = {
      figures: ["runtime 5m12s", "tokens 11.2k", "est $0.12"],
      names: ["sessionKey agent:main:subagent:x", "transcript /s/x.jsonl"],
    };
    const markdown = "**Sub-agent: count**\n\nStatus: success\n\nResult:\n42\n\nNotes:\n- (none)";
    await post({ markdown, stats, kind: "announcement" }, "announce:v1:x");
    const page = await openPage();
    const card = page.locator("#messages .announcement");
    await card.waitFor();
    expect(await card.innerText()).toMatch(/Status: success[\s\S]*42[\s\S]*runtime 5m12s • tokens 11\.2k • est \$0\.12\s+Copy$/);
    expect(await card.innerText()).not.toMatch(/sessionKey|transcript|Stats:/);
    await card.locator("summary").press("Enter");
    await card.getByText("sessionKey agent:main:subagent:x").waitFor();
    expect(await card.locator("li:visible").allInnerTexts()).toEqual(["(none)", ...stats.names]);
  });

  it("[AN10] a result of any length is shown whole, as one", async () => {
    const lines = Array.from({ length: 3_000 }, (_, n) => `line ${n} of a long result`);
    await post({ markdown: `Result:\n\n${lines.join("\n\n")}`, kind: "announcement" }, "announce:v1:long");
    await post({ markdown: "another one", kind: "announcement" }, "announce:v1:other");
    const page = await openPage();
    await page.locator("#messages .announcement", { hasText: "another one" }).waitFor();
    const shown = (await texts(page, "#messages .announcement .body")).join("\n");
    for (const line of lines) if (!shown.includes(line)) expect.fail(`${line} is missing`);
    const gaps = await page.evaluate(
      "[...document.querySelectorAll('#messages .announcement')].map((node, n, all) => n === 0 ? 0 : Math.round(node.getBoundingClientRect().top - all[n - 1].getBoundingClientRect().bottom))",
    );
    expect((gaps as number[]).slice(0, -1).every((gap) => gap === 0)).toBe(true);
    expect((gaps as number[]).at(-1)).toBeGreaterThan(5);
    expect((gaps as number[]).length).toBeGreaterThan(4);
  });

  it("[WB2] the end of the chat stays in sight when the window or an opened run takes room away, and only then", async () => {
    const run = aRun({ label: "Count" });
    web.runs.push(run);
    for (let n = 0; n < 30; n++) await web.say(`${n} ${"words that break into more lines in a narrow column ".repeat(4)}`);
    const page = await openPage();
    await page.setViewportSize({ width: 1400, height: 800 });
    const fromEnd = () =>
      page.evaluate(
        "(({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight)(document.getElementById('scroll'))",
      );
    const isAtEnd = (what: string) => waitFor(`the end, ${what}`, async () => ((await fromEnd()) as number) < 3);
    await isAtEnd("at first");
    await page.click(".run-label");
    await page.waitForSelector("#panel", { state: "visible" });
    await isAtEnd("beside an open run");
    await page.keyboard.press("Escape");
    for (const width of [700, 400, 1300]) {
      await page.setViewportSize({ width, height: 600 });
      await isAtEnd(`at ${width} px`);
    }
    // Whoever reads above is left there.
    await waitFor("a place above", async () => {
      // Once the last change of size is dealt with: nobody scrolls in the same frame.
      await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
      await page.evaluate("document.getElementById('scroll').scrollTop = 300");
      await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
      return ((await fromEnd()) as number) > 1000;
    });
    await page.setViewportSize({ width: 500, height: 600 });
    await web.say("a new one");
    await page.waitForSelector("#to-end", { state: "visible" });
    expect((await fromEnd()) as number).toBeGreaterThan(1000);
  });

  it("[WB2] a word at the top doesn't cover what says that there are new messages; columns stand as their table says", async () => {
    for (let n = 0; n < 40; n++) await web.say(`message ${n}`);
    await web.say("| a | b | c |\n|---|--:|:-:|\n| 1 | 2 | 3 |");
    const page = await openPage();
    const cells =
      "['#messages th', '#messages td'].map((cells) => [...document.querySelectorAll(cells)].map((cell) => getComputedStyle(cell).textAlign.replace('-webkit-', '')))";
    await page.locator("#messages table").waitFor();
    expect(await page.evaluate(cells)).toEqual([
      ["left", "right", "center"],
      ["start", "right", "center"],
    ]);
    // The page hears of it with the next frame; what is said before that still finds a reader at the end.
    await page.evaluate(
      "new Promise((heard) => { const box = document.getElementById('scroll'); box.addEventListener('scroll', () => requestAnimationFrame(heard), { once: true }); box.scrollTop = 0; })",
    );
    await web.say("unseen", { buttons: [{ label: "Do", command: "/usage" }] });
    await page.waitForSelector("#to-end", { state: "visible" });
    await page.evaluate("import('/dom.js').then(({ toast }) => toast('Sent.'))");
    await page.waitForSelector("#toast", { state: "visible" });
    const box = async (id: string) => (await page.locator(id).boundingBox()) ?? { y: 0, height: 0 };
    const [toast, button] = [await box("#toast"), await box("#to-end")];
    expect(toast.y + toast.height).toBeLessThan(button.y);
    await page.click("#to-end");
    await page.waitForSelector("#to-end", { state: "hidden" });
  });

  it("[WB2] over a lost connection nothing is lost or doubled, in either direction", async () => {
    const page = await openPage();
    await web.say("before");
    await saw(page, ["before"]);
    await web.server.close();
    await page.waitForSelector("#banner", { state: "visible" });
    await page.fill("#text", "typed while away");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#pending .failed");
    await web.say("missed");
    await web.restart();
    await saw(page, ["before", "missed", "typed while away"]);
    await page.waitForSelector("#banner", { state: "hidden" });
    expect(await page.locator("#pending li").count()).toBe(0);
    expect(await web.inbox()).toHaveLength(1);
  });

  it("[WB2] a message that could not be sent survives a reload and is sent once", async () => {
    const page = await openPage();
    // The answer is lost after the server took it: the page can't know.
    let dropped = 0;
    await page.route("**/api/chats/main/messages", async (route) => {
      if (route.request().method() !== "POST" || dropped++ > 0) return route.continue();
      await route.fetch();
      return route.abort();
    });
    await page.fill("#text", "once");
    await page.keyboard.press("Enter");
    await saw(page, ["once"]);
    await page.reload();
    await saw(page, ["once"]);
    expect(await page.locator("#pending li").count()).toBe(0);
    expect(await web.inbox()).toHaveLength(1);
  });

  it("[WB1] unsent words wait in their chat; a new chat is another session; back goes back", async () => {
    const page = await openPage();
    await page.fill("#text", "half a thought");
    await page.click("#new-chat");
    await waitFor("an empty field", async () => (await page.inputValue("#text")) === "");
    await page.fill("#text", "hello there");
    await page.keyboard.press("Enter");
    await saw(page, ["hello there"]);
    expect(String((await web.inbox())[0]?.raw.chat)).toMatch(/^[0-9a-f-]{36}$/);
    await page.goBack();
    await waitFor("the unsent words", async () => (await page.inputValue("#text")) === "half a thought");
    await saw(page, []);
    await page.locator(".chat-link", { hasText: "hello there" }).click();
    await saw(page, ["hello there"]);
  });

  it("[WB1] a slow answer for a chat left behind is not drawn into the next one", async () => {
    await web.say("of the main chat");
    const chat = newId();
    await web.say("of the other chat", { chat });
    const page = await openPage();
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route("**/api/chats/main/messages?*", async (route) => {
      await held;
      await route.continue();
    });
    await page.goto(`${web.url}/#/chat/${chat}`);
    await saw(page, ["of the other chat"]);
    await page.evaluate("location.hash = 'chat=main'");
    await page.waitForSelector(".chat-link[href='#/'][aria-current]");
    await page.evaluate(`location.hash = 'chat=${chat}'`);
    await saw(page, ["of the other chat"]);
    const answered = page.waitForResponse(/chats\/main\/messages/);
    release();
    await answered;
    await web.say("later", { chat });
    await saw(page, ["of the other chat", "later"]);
  });

  it("[WB1] scrolling up loads what came before, in place", async () => {
    for (let n = 0; n < 75; n++)
      await web.db.transaction([], (tx) => web.messages.post(tx, { chat: "main", key: `k${n}`, author: "agent", text: `message ${n}` }));
    const page = await openPage();
    await waitFor("the newest", async () => (await texts(page)).length === 30);
    await waitFor("all of them", async () => {
      await page.evaluate("document.getElementById('scroll').scrollTop = 0");
      return (await texts(page)).length === 75;
    });
    expect(await texts(page)).toEqual(Array.from({ length: 75 }, (_, n) => `message ${n}`));
    await page.waitForSelector("#earlier", { state: "hidden" });
  });
});
