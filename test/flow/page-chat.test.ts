// What a person does with chats and messages on the page, in a real browser against the whole process: by mouse, by keyboard alone, on a
// phone's width.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { child, plan, spawns } from "../support/brain.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import type { Harness } from "../support/harness.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

const visit = useBrowser(1200);
let scene: Scene;
beforeAll(async () => {
  scene = await createScene();
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

/** Of several processes always the same one: a browser is signed in at one address. */
const home = (): Harness => scene.herald.members[0] ?? scene.herald;
const tokenOf = (): string => readFileSync(join(home().stateDir, "sign-in-link"), "utf8").trim().split("#token=")[1] ?? "";
const says = (text: string): string => plan([{ text }]);

async function openAt({ id }: Pick<Chat, "id">, width = 1200): Promise<Page> {
  const page = await visit.open(home().origin(), tokenOf());
  await page.setViewportSize({ width, height: 800 });
  // It asks for the stream when the history is drawn and the box has the focus: from then on nothing takes the focus away.
  const isListening = page.waitForRequest((request) => request.url().includes(`/api/events?chat=${id}`));
  await page.goto(`${home().origin()}/#/chat/${id}`);
  await isListening;
  return page;
}
const standing = (page: Page) => page.locator("#messages > .message:not(.set-aside) > .body").allInnerTexts();
const stands = (page: Page, last: string) => waitFor(`"${last}" at the end`, async () => (await standing(page)).at(-1) === last);
const focused = (page: Page) => page.evaluate("document.activeElement.id || document.activeElement.textContent");

describe.skipIf(!hasBrowser)(`messages on the page${BROWSER_NOTE}`, () => {
  it("[WB3] [ST3] Stop ends this answer and not the sub-agent it sent out", async () => {
    const chat = scene.chat();
    const page = await openAt(chat);
    const helper = child("goes on", [{ text: "done", hold: "stop-helper" }]);
    await page.fill("#text", plan([spawns(helper), { text: "never said", hold: "stop-answer" }]));
    await page.keyboard.press("Enter");
    await waitFor("the helper", () => chat.runs().some(({ state }) => state === "running"));
    await page.click("#stop");
    await page.locator("#messages .agent", { hasText: "Stopped" }).waitFor();
    await page.waitForSelector("#working", { state: "hidden" });
    expect(chat.run("goes on").state).toBe("running");
    scene.release("stop-helper");
    expect(await chat.announced("goes on")).toContain("Status: success");
    scene.release("stop-answer");
  });

  it("[WB3] a message is copied as it was written, by mouse and by keyboard", async () => {
    const chat = scene.chat();
    await chat.ask(says("**bold** and `code`"));
    const page = await openAt(chat);
    await visit.context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const copy = page.locator("#messages .agent .action", { hasText: "Copy" });
    await copy.focus();
    await page.keyboard.press("Enter");
    await page.locator("#messages .agent .action", { hasText: "Copied" }).waitFor();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe("**bold** and `code`");
    await page.locator("#messages .user").hover();
    await page.locator("#messages .user .action", { hasText: "Copy" }).click();
    await waitFor("the person's own", async () => (await page.evaluate("navigator.clipboard.readText()")) === says("**bold** and `code`"));
  });

  it("[WB3] the last message is edited by keyboard alone; both tabs fold the earlier version, and it unfolds", async () => {
    const chat = scene.chat();
    await chat.ask(says("kept"));
    await chat.ask(says("unwanted"));
    const [page, other] = [await openAt(chat), await openAt(chat)];
    await stands(page, "unwanted");
    await page.bringToFront();
    await page.focus("#text");
    await page.keyboard.press("ArrowUp");
    const box = page.locator(".editor textarea");
    expect(await box.inputValue()).toBe(says("unwanted"));
    await page.keyboard.press("Escape");
    expect(await box.count()).toBe(0);
    expect(await focused(page)).toBe("Edit");
    await page.keyboard.press("Enter");
    await box.fill(says("wanted"));
    await page.keyboard.press("Enter");
    for (const tab of [page, other]) {
      // A tab is told of new messages first, then of those they took the place of.
      const wanted = JSON.stringify([says("kept"), "kept", says("wanted"), "wanted"]);
      await waitFor("the new version alone", async () => JSON.stringify(await standing(tab)) === wanted);
      expect(await tab.getByText("unwanted", { exact: true }).isVisible()).toBe(false);
    }
    await page.locator(".version").press("Enter");
    expect(await page.getByText("unwanted", { exact: true }).isVisible()).toBe(true);
    expect(await page.locator(".version").getAttribute("aria-expanded")).toBe("true");
    // The same after a reload, from the history.
    await other.reload();
    await stands(other, "wanted");
    expect(await other.locator(".version").count()).toBe(1);
    expect(await other.getByText("unwanted", { exact: true }).isVisible()).toBe(false);
  });

  it("[WB3] [ST1] other words that are stopped before the agent has read them: the earlier version unfolds where it stood", async () => {
    const chat = scene.chat();
    await chat.ask(says("stays"));
    const page = await openAt(chat);
    await stands(page, "stays");
    const others = Array.from({ length: 4 }, () => scene.chat());
    for (const other of others) await other.say(plan([{ text: "at last", hold: "no room" }]));
    const atWork = () => scene.model.calls.filter((request) => JSON.stringify(request).includes("no room")).length;
    await waitFor("no room", () => atWork() === others.length);
    await page.locator("#messages .user").hover();
    await page.click("#messages .user .redo");
    await page.locator(".editor textarea").fill(says("never said"));
    await page.keyboard.press("Enter");
    await page.locator(".version").waitFor();
    await page.fill("#text", "/stop");
    await page.keyboard.press("Enter");
    await stands(page, "⚙️ Agent was aborted. Stopped 0 sub-agents.");
    await waitFor("the earlier version", async () => (await page.locator(".version").count()) === 0);
    expect((await standing(page)).slice(0, 3)).toEqual([says("stays"), "stays", says("never said")]);
    expect(await page.getByText("stays", { exact: true }).isVisible()).toBe(true);
    scene.release("no room");
    for (const other of others) await scene.herald.reply(/^at last$/, other.id);
  });

  it("[WB3] Regenerate answers once more, on a phone; with a sub-agent at work it says why not", async () => {
    const chat = scene.chat();
    await chat.ask(says("an answer"));
    const page = await openAt(chat, 390);
    await stands(page, "an answer");
    await page.click("#messages .agent .redo");
    await page.locator(".version").waitFor();
    await stands(page, "an answer");
    expect(scene.herald.rows("SELECT 1 FROM web_messages WHERE chat = ? AND replaced_by IS NOT NULL", chat.id)).toHaveLength(2);
    await page.fill("#text", plan([spawns(child("busy", [{ text: "done", hold: "regenerate" }])), { text: "sent out" }]));
    await page.keyboard.press("Enter");
    await stands(page, "sent out");
    // On record as sent, too: until then it is on its way, which is another reason.
    const onItsWay = "SELECT 1 FROM outbox WHERE state IN ('queued', 'sending', 'unknown')";
    await waitFor("nothing to be on its way", () => scene.herald.rows(onItsWay).length === 0);
    await page.click("#messages .agent .redo");
    await page.locator("#toast", { hasText: "1 sub-agent that this message sent out is still at work. Stop it first" }).waitFor();
    expect((await standing(page)).at(-1)).toBe("sent out");
    scene.release("regenerate");
    await chat.announced("busy");
    // Something newer stands behind it: there is no button any more.
    await page.locator("#messages .announcement").waitFor();
    expect(await page.locator(".redo").count()).toBe(0);
  });

  it("[WB3] an edit that is refused keeps what was written and says why", async () => {
    const chat = scene.chat();
    await chat.ask(says("first"));
    const page = await openAt(chat);
    await stands(page, "first");
    await page.click("#messages .user .redo");
    await chat.ask(says("from elsewhere"));
    await page.locator(".editor textarea").fill("my words");
    await page.keyboard.press("Enter");
    await page.locator(".editor-problem", { hasText: "not the last message" }).waitFor();
    expect(await page.locator(".editor textarea").inputValue()).toBe("my words");
  });
});

describe.skipIf(!hasBrowser)(`chats on the page${BROWSER_NOTE}`, () => {
  it("[WB3] a chat is renamed in the list with F2, in its head on a phone, and left as it was with Esc", async () => {
    const chat = scene.chat();
    await chat.ask("first words");
    const [page, other] = [await openAt(chat), await openAt(chat)];
    await page.bringToFront();
    const line = page.locator(`#chats [data-chat="${chat.id}"]`);
    await line.focus();
    await page.keyboard.press("F2");
    await page.keyboard.type("Weekend");
    await page.keyboard.press("Enter");
    for (const tab of [page, other]) await tab.locator("#chat-title", { hasText: /^Weekend$/ }).waitFor();
    await waitFor("the focus", async () => (await page.evaluate("document.activeElement.dataset.chat")) === chat.id);
    await page.keyboard.press("F2");
    await page.keyboard.type("Never");
    await page.keyboard.press("Escape");
    expect(await line.innerText()).toContain("Weekend");
    await other.setViewportSize({ width: 390, height: 800 });
    await other.click("#chat-more");
    await other.click("#menu-rename");
    await other.locator(".chat-head .rename").fill('"><img src=x onerror=alert(1)>');
    await other.keyboard.press("Enter");
    for (const tab of [page, other]) await tab.locator("#chat-title", { hasText: "><img src=x" }).waitFor();
    expect(await page.locator("#sidebar img[src=x]").count()).toBe(0);
  });

  it("[WB3] deleting wants a second press that says what goes; other tabs are told; the keyboard is enough", async () => {
    const chat = scene.chat();
    await chat.ask("to be deleted");
    const [page, other] = [await openAt(chat), await openAt(chat)];
    await page.bringToFront();
    await page.locator("#chat-title", { hasText: "to be deleted" }).waitFor();
    await page.focus("#chat-more");
    await page.keyboard.press("Enter");
    await waitFor("the menu", async () => (await focused(page)) === "menu-rename");
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    const dialog = page.locator("#delete-chat[open]");
    await dialog.waitFor();
    expect(await dialog.innerText()).toMatch(/Delete “to be deleted”\?[\s\S]*2 messages will be gone for good/);
    await page.keyboard.press("Escape");
    expect((await scene.herald.messages(chat.id)).length).toBe(2);
    await page.click("#chat-more");
    await page.click("#menu-delete");
    await page.click("#delete-yes");
    // It stands there for some seconds only.
    await other.locator("#toast", { hasText: /^This chat was deleted\.$/ }).waitFor();
    for (const tab of [page, other]) await tab.locator('body[data-chat="main"]').waitFor();
    await waitFor("its line to be gone", async () => (await page.locator(`#chats [data-chat="${chat.id}"]`).count()) === 0);
    expect(await scene.herald.messages(chat.id)).toEqual([]);
  });

  it("[WB3] a lost connection takes nobody off the button they are on; a chat that was deleted meanwhile is left", async () => {
    const chat = scene.chat();
    await chat.ask(says("standing"));
    const page = await openAt(chat);
    await page.addInitScript(CUTTABLE);
    await page.reload();
    await stands(page, "standing");
    await page.getByRole("button", { name: "Edit this message" }).focus();
    const lose = async () => {
      await page.route("**/api/events*", (route) => route.abort());
      await page.evaluate("cut.abort()");
      await page.locator("#banner:not([hidden])").waitFor();
    };
    await lose();
    await page.unroute("**/api/events*");
    await page.locator("#banner").waitFor({ state: "hidden" });
    // Its stream begins with what is worked at, which places the buttons; the list of chats comes behind that.
    await scene.chat().ask("to be listed");
    await page.locator("#chats", { hasText: "to be listed" }).waitFor();
    expect(await focused(page)).toBe("Edit");
    await lose();
    const answer = await home().request(`/api/chats/${chat.id}/delete`, { method: "POST", body: "{}" });
    expect(answer.status).toBe(200);
    await page.unroute("**/api/events*");
    await page.locator("#toast", { hasText: /^This chat was deleted\.$/ }).waitFor();
    await page.locator('body[data-chat="main"]').waitFor();
  });

  it("[WB3] with a sub-agent at work it can't be deleted, and says what to do", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("holder", [{ text: "done", hold: "delete-holder" }]))]);
    const page = await openAt(chat);
    await page.click("#chat-more");
    await page.click("#menu-delete");
    await page.locator("#delete-text", { hasText: "1 sub-agent of this chat is still at work" }).waitFor();
    expect(await page.isVisible("#delete-yes")).toBe(false);
    scene.release("delete-holder");
  });

  it("[WB3] the search finds words of any chat and opens it at the message, however far back, by keyboard", async () => {
    const chat = scene.chat();
    await chat.ask("hello");
    await chat.ask(says("the wren sings"));
    for (let n = 0; n < 25; n++) await chat.ask(`/model ${n}`);
    const elsewhere = scene.chat();
    await elsewhere.ask("hello");
    const page = await openAt(elsewhere);
    await page.locator("#messages .agent").waitFor();
    await page.evaluate("document.activeElement.blur()");
    await page.keyboard.press("/");
    await page.keyboard.type("WREN sings");
    const hit = page.locator("#search-results .hit", { has: page.locator("mark", { hasText: "wren sings" }) });
    await hit.first().waitFor();
    expect(await page.isVisible("#chats")).toBe(false);
    expect(await hit.first().innerText()).toContain("Herald");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    const found = page.locator("#messages .found");
    await found.waitFor();
    expect(await found.innerText()).toContain("the wren sings");
    await waitFor("its place on screen", () =>
      page.evaluate("(({ top }) => top > 0 && top < innerHeight)(document.querySelector('.found').getBoundingClientRect())"),
    );
    expect(page.url()).not.toContain("at=");
    await page.fill("#search", "no such words anywhere");
    await page.locator("#search-said", { hasText: "Nothing found for “no such words anywhere”" }).waitFor();
    await page.focus("#search");
    await page.keyboard.press("Escape");
    expect(await page.isVisible("#chats")).toBe(true);
  });

  it("[WB3] a message further back than can be opened is said to be so, and one that can't be loaded is asked for once", async () => {
    const chat = scene.chat();
    await chat.ask("hello");
    const page = await openAt(chat);
    let asked = 0;
    let isLost = false;
    await page.route("**/messages?limit=*", (route) => {
      const before = Number(new URL(route.request().url()).searchParams.get("before") ?? 9_001);
      if (before < 9_001) asked++;
      if (isLost && before < 9_001) return route.abort();
      const message = {
        seq: before - 1,
        id: `reply:${before}#0`,
        author: "agent",
        kind: "plain",
        text: "x",
        html: "<p>x</p>",
        at: 1,
        buttons: [],
      };
      return route.fulfill({ json: { messages: [message], hasEarlier: true, cursor: "9000.0" } });
    });
    // Scrolling to the top asks for earlier ones, too: here only the search does.
    await page.addInitScript("addEventListener('scroll', (event) => event.stopImmediatePropagation(), true)");
    const find = async () => {
      asked = 0;
      await page.goto("about:blank");
      await page.goto(`${home().origin()}/#/chat/${chat.id}?at=7`);
    };
    await find();
    await page.locator("#toast", { hasText: "This message is further back than can be shown here." }).waitFor();
    expect(asked).toBe(60);
    isLost = true;
    await find();
    await page.locator("#toast", { hasText: "Earlier messages can't be loaded" }).waitFor();
    await page.evaluate("fetch('/')");
    expect(asked).toBe(1);
  });

  it("[WB3] PAGE-008 a chat is saved as a file, under a safe name", async () => {
    const chat = scene.chat();
    await chat.ask(says("<img src=x onerror=alert(1)> saved"));
    const page = await openAt(chat);
    for (const [item, name, holds] of [
      ["#menu-markdown", /^[\p{L}\p{N}-]+\.md$/u, "\\<img src=x onerror=alert(1)> saved"],
      ["#menu-json", /^[\p{L}\p{N}-]+\.json$/u, '"text": "<img src=x onerror=alert(1)> saved"'],
    ] as const) {
      await page.click("#chat-more");
      const [download] = await Promise.all([page.waitForEvent("download"), page.click(item)]);
      expect(download.suggestedFilename()).toMatch(name);
      expect(readFileSync(await download.path(), "utf8")).toContain(holds);
    }
  });
});

describe.skipIf(!hasBrowser)(`writing and reading on the page${BROWSER_NOTE}`, () => {
  it("[WB3] PAGE-008 code is in colour, readable in light and dark; tables are aligned; formulas drawn; nothing runs", async () => {
    const chat = scene.chat();
    const attack = '"><img src=x onerror=window.pwned=1> [x](javascript:window.pwned=1) $\\href{javascript:window.pwned=1}{y}$';
    const code = "```ts\n// note\nexport const a: string = 'x'; if (true) run(/b/, 2);\n```\n\n```html\n<a href=x>y</a>\n```";
    await chat.ask(says(`${attack}\n\n${code}\n\n| l | r |\n|:-|-:|\n| 1 | 2 |\n\nSo $e^{i\\pi}$, for $5 and $10.`));
    const page = await openAt(chat);
    await page.locator("#messages math").first().waitFor();
    const aligned =
      "[...document.querySelectorAll('#messages td')].map((cell) => getComputedStyle(cell).textAlign.replace('-webkit-', ''))";
    expect(await page.evaluate(aligned)).toEqual(["left", "right"]);
    expect(await page.locator("#messages .agent .body").innerText()).toContain("for $5 and $10.");
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      const poor = await page.evaluate(CONTRASTS);
      expect(poor, colorScheme).toEqual([]);
    }
    expect(await page.locator("#messages [class^=hljs-]").count()).toBeGreaterThan(5);
    expect(await page.evaluate("window.pwned")).toBeUndefined();
    expect(visit.requested.filter((url) => !url.startsWith(home().origin()) && !url.startsWith("blob:"))).toEqual([]);
  });

  it("[WB3] a slash lists the commands: arrows, Tab and Enter take one, Esc closes, one written out is sent", async () => {
    const chat = scene.chat();
    const page = await openAt(chat);
    const [box, options] = [page.locator("#text"), page.locator("#slash [role=option]")];
    await box.focus();
    await page.keyboard.type("/s");
    await options.first().waitFor();
    expect(await options.locator("code").allInnerTexts()).toEqual(expect.arrayContaining(["/subagents …"]));
    expect(await box.getAttribute("aria-activedescendant")).toBe("slash-0");
    await page.keyboard.press("Escape");
    expect(await page.isVisible("#slash")).toBe(false);
    await page.keyboard.type("u");
    await options.first().waitFor();
    await page.keyboard.press("Tab");
    expect(await box.inputValue()).toBe("/subagents ");
    await page.locator("#slash code", { hasText: "/subagents stop" }).waitFor();
    await page.keyboard.type("l");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    expect(await box.inputValue()).toBe("/subagents log ");
    await box.fill("/subagents list");
    await page.keyboard.press("Enter");
    await page.locator("#messages .agent", { hasText: "Subagents (current session)" }).waitFor();
    expect(await box.inputValue()).toBe("");
    await page.setViewportSize({ width: 390, height: 800 });
    await box.fill("/");
    await options.first().waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(390);
    await options.filter({ hasText: "/help" }).click();
    expect(await box.inputValue()).toBe("/help ");
  });

  it("[WB3] notifications come on request, while nobody looks, as text; without permission the page says so", async () => {
    const chat = scene.chat();
    await visit.context.addInitScript(`
      window.shown = [];
      window.Notification = class { constructor(title, { body }) { window.shown.push([title, body]); } close() {} };
      Notification.permission = "default";
      Notification.requestPermission = async () => (Notification.permission = window.answer ?? "denied");
      Object.defineProperty(document, "visibilityState", { get: () => window.isHidden ? "hidden" : "visible" });
    `);
    const page = await openAt(chat);
    await page.click("#notify");
    await page.locator("#toast", { hasText: "does not allow notifications" }).waitFor();
    await page.evaluate("window.answer = 'granted'");
    await page.click("#notify");
    await page.locator("#notify[aria-pressed=true]").waitFor();
    await chat.ask(says("seen"));
    await stands(page, "seen");
    await page.evaluate("window.isHidden = true");
    await chat.ask(says("**unseen** <b>words</b>"));
    await waitFor("the notification", async () => ((await page.evaluate("window.shown")) as unknown[]).length > 0);
    expect(await page.evaluate("window.shown.map(([, body]) => body)")).toEqual(["unseen <b>words</b>"]);
    await page.evaluate("window.isHidden = false");
    await page.click("#notify");
    await page.locator("#notify[aria-pressed=false]").waitFor();
  });

  it("[WB3] PAGE-008 an announcement is a card: state in a word, name, result, notes, folded figures, the run", async () => {
    const chat = scene.chat();
    const label = "<img src=x onerror=alert(1)>";
    await chat.act([spawns(child(label, "It is **42**."), child("broken", [{ status: 401, message: "no" }]))]);
    await chat.announced("broken");
    await waitFor("both", async () => (await chat.announcements()).length === 2);
    const page = await openAt(chat, 390);
    const good = page.locator("#messages .announcement", { has: page.locator(".card-head.success") });
    await good.waitFor();
    expect((await good.locator(".card-head").innerText()).replace(/\s+/g, " ")).toBe(`✓ Done ${label} Open run`);
    expect(await good.locator("> .body").innerText()).toBe("It is 42.");
    expect(await good.innerText()).not.toMatch(/Status:|Notes|sessionKey/);
    const bad = page.locator("#messages .announcement", { has: page.locator(".card-head.error") });
    expect(await bad.innerText()).toMatch(/Failed[\s\S]*broken[\s\S]*Notes[\s\S]*It failed:/);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(390);
    await good.locator(".stats summary").press("Enter");
    expect(await good.innerText()).toContain("sessionKey");
    await good.locator(".card-open").click();
    await page.locator("#panel:not(.loading) #panel-title", { hasText: label }).waitFor();
    expect(page.url()).toContain(`/chat/${chat.id}?run=${chat.run(label).id}`);
  });

  it("[WB3] few keys for the page: listed by ?, new chat by n, the box by m; they can be turned off", async () => {
    const page = await openAt(scene.chat());
    await page.evaluate("document.activeElement.blur()");
    await page.keyboard.press("?");
    await page.locator("#shortcuts[open]").waitFor();
    // Not while a window lies on top.
    const before = page.url();
    await page.keyboard.press("n");
    expect(page.url()).toBe(before);
    await page.keyboard.press("Escape");
    await page.evaluate("document.activeElement.blur()");
    await page.keyboard.press("m");
    expect(await focused(page)).toBe("text");
    await page.keyboard.type("n?");
    expect(await page.inputValue("#text")).toBe("n?");
    await page.evaluate("document.activeElement.blur()");
    await page.keyboard.press("n");
    await waitFor("another chat", () => page.url() !== before);
    await page.click("#open-shortcuts");
    await page.uncheck("#shortcuts-on");
    await page.keyboard.press("Escape");
    await page.evaluate("document.activeElement.blur()");
    const now = page.url();
    await page.keyboard.press("n");
    await page.keyboard.press("?");
    expect(page.url()).toBe(now);
    expect(await page.locator("#shortcuts[open]").count()).toBe(0);
  });

  it("[WB3] what is written without a connection is kept, and the page says what to do", async () => {
    const chat = scene.chat();
    const page = await openAt(chat);
    await page.locator("#empty").waitFor();
    await page.route("**/api/**", (route) => route.abort());
    await page.fill("#text", says("sent later"));
    await page.keyboard.press("Enter");
    await page.locator(".failure", { hasText: "Not sent: No connection to Herald." }).waitFor();
    expect(await page.locator(".failure button").allInnerTexts()).toEqual(["Try again", "Remove"]);
    await page.unroute("**/api/**");
    await page.locator(".failure button", { hasText: "Try again" }).click();
    await stands(page, "sent later");
  });
});

/** `cut.abort()` ends the stream as a lost network does. */
const CUTTABLE = `{
  const ask = window.fetch;
  window.fetch = (path, init) => {
    if (!path.startsWith("/api/events")) return ask(path, init);
    window.cut = new AbortController();
    return ask(path, { ...init, signal: AbortSignal.any([init.signal, window.cut.signal]) });
  };
}`;

/** Pieces of code whose colour stands out too little from what is behind them (4.5 to 1, WCAG AA). */
const CONTRASTS = `(() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((value) => Number(value) / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = light(getComputedStyle(document.querySelector("#messages .code")).backgroundColor);
  return [...document.querySelectorAll("#messages [class^=hljs-]")].flatMap((node) => {
    const own = light(getComputedStyle(node).color);
    const ratio = (Math.max(own, behind) + 0.05) / (Math.min(own, behind) + 0.05);
    return ratio >= 4.5 ? [] : [node.className + " " + ratio.toFixed(2)];
  });
})()`;
