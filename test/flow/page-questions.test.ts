// Questions and approvals on the page, in a real browser: answered in place by mouse, by keyboard and on a phone, in step in every tab;
// and messages that change where they stand.
import type { Page } from "playwright-core";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Address } from "../../src/core/address.ts";
import type { Question } from "../../src/core/question.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import { waitFor } from "../support/wait.ts";
import { aRun, startWeb, type WebFixture } from "../support/web-server.ts";

const MAIN: Address = { channel: "web", account: "local", chat: "main", kind: "dm" };
const TELEGRAM: Address = { channel: "telegram", account: "bot", chat: "5551", kind: "dm" };
const ATTACK = "<img src=x onerror='window.pwned=1'>";

let web: WebFixture;
const settled = (id: string): Promise<Question> =>
  waitFor("the question to be settled", async () => {
    const question = await web.questions.get(id);
    return question?.state === "open" ? null : question;
  });
const cards = (page: Page, list = "#needs-list") => page.locator(`${list} .question`);
const focused = (page: Page): Promise<string> => page.evaluate("document.activeElement.id || document.activeElement.textContent");

/** A question's message in the main chat, as it is posted and as the painter changes it. */
const MESSAGE = { markdown: "**painter** asks: which?", buttons: [{ label: "Red", command: "/subagents answer x #1" }] };
async function post(message = MESSAGE, key = "live:question:x#0"): Promise<string> {
  const [part = {}] = web.channel.render(message, MAIN);
  const sent = await web.channel.send({ address: MAIN, part, key, repeated: false });
  return sent.status === "sent" ? sent.ref : expect.unreachable();
}
async function edit(ref: string, markdown: string): Promise<void> {
  const [part = {}] = web.channel.render({ markdown }, MAIN);
  expect(await web.channel.edit?.({ address: MAIN, ref, part })).toEqual({ status: "shown" });
}

describe.skipIf(!hasBrowser)(`questions on the page${BROWSER_NOTE}`, () => {
  const visit = useBrowser(1200);
  beforeEach(async () => {
    web = await startWeb();
  });
  afterEach(() => web.close());
  const openPage = (): Promise<Page> => visit.open(web.url, web.token);

  it("[QA1][WB1] a press answers it, in every tab; the title and the list count what is open, in all chats", async () => {
    const [page, other] = [await openPage(), await openPage()];
    const run = aRun({ label: "painter", state: "waiting", isAsking: true, origin: "telegram 5551", chat: null });
    web.runs.push(run);
    const { id } = await web.ask({ runId: run.id, asker: "painter", text: "Which **colour**?", options: ["Red", "#1"], address: TELEGRAM });
    await web.ask({ text: "And when?" });
    for (const tab of [page, other]) {
      await cards(tab).nth(1).waitFor();
      expect(await tab.title()).toBe("(2) Herald");
    }
    const words = (await cards(page).first().innerText()).replace(/\n+/g, " ");
    expect(words).toMatch(/^painter asks: Telegram 5551 \d+s ago Which colour\? Red #1 Send$/);
    expect(await page.locator("#runs .run-group").first().innerText()).toBe("Needs you");
    await page.getByRole("group", { name: "painter asks, Telegram 5551" }).getByRole("button", { name: "#1" }).click();
    // It stands there for some seconds only.
    await page.locator("#toast", { hasText: "painter goes on with: #1" }).waitFor();
    expect(await settled(id)).toMatchObject({ state: "answered", answer: "#1", answeredBy: { id: "local", name: "the page" } });
    for (const tab of [page, other]) {
      await waitFor("one card less", async () => (await cards(tab).count()) === 1);
      await waitFor("the title", async () => (await tab.title()) === "(1) Herald");
    }
  });

  it("[QA1][WB2] by keyboard alone: written words, Enter, and the focus goes on to the next, then back to the chat", async () => {
    const first = await web.ask({ text: "Your name?" });
    const second = await web.ask({ text: "Sure?", options: ["Yes", "No"] });
    const page = await openPage();
    await cards(page).nth(1).waitFor();
    // Behind the last of the menu's places.
    await page.focus("#to-setup");
    await page.keyboard.press("Tab");
    await page.keyboard.type("Ada");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("Lovelace");
    await page.reload();
    await cards(page).nth(1).waitFor();
    expect(await page.locator("#needs-list textarea").first().inputValue()).toBe("Ada\nLovelace");
    await page.locator("#needs-list textarea").first().focus();
    await page.keyboard.press("Enter");
    expect(await settled(first.id)).toMatchObject({ state: "answered", answer: "Ada\nLovelace" });
    await waitFor("the next one's first button", async () => (await focused(page)) === "Yes");
    await page.keyboard.press("Tab");
    expect(await focused(page)).toBe("No");
    await page.keyboard.press("Space");
    expect(await settled(second.id)).toMatchObject({ state: "answered", answer: "No" });
    await page.waitForSelector("#needs", { state: "hidden" });
    expect(await focused(page)).toBe("text");
    expect(await page.title()).toBe("Herald");
    expect(await page.evaluate("Object.keys(localStorage).filter((key) => key.includes('question'))")).toEqual([]);
  });

  it("[QA4] an approval shows all of it, a difference in colour; a No takes a reason, and Enter in it is never a Yes", async () => {
    const diff = `--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n same\n--- sign\n+new ${"wide ".repeat(60)}END`;
    const { id } = await web.ask({ kind: "approve", tool: "edit", text: `\`\`\`diff\n${diff}\n\`\`\`` });
    const page = await openPage();
    const card = cards(page).first();
    await card.waitFor();
    expect(await card.getByRole("button").allInnerTexts()).toEqual(["Yes", "Yes for this turn", "Always in this chat", "No"]);
    expect((await card.locator("pre").innerText()).trim()).toBe(diff);
    expect(await card.locator(".diff-removed").allInnerTexts()).toEqual(["--- sign\n"]);
    expect(await card.locator(".diff-added").count()).toBe(1);
    // Nothing stands outside of what can be seen.
    const isAllSeen =
      "((pre) => pre.scrollWidth <= pre.clientWidth && pre.scrollHeight <= pre.clientHeight)(document.querySelector('#needs-list pre'))";
    expect(await page.evaluate(isAllSeen)).toBe(true);
    await card.getByRole("textbox", { name: "Reason for a No, optional" }).fill("not that file");
    await page.keyboard.press("Enter");
    expect(await settled(id)).toMatchObject({ state: "answered", verdict: "no", answer: "not that file" });
  });

  it("[QA4] a long one can be refused at once, but allowed only when all of it has been shown", async () => {
    const text = `\`\`\`\n${Array.from({ length: 500 }, (_, n) => `line ${n}`).join("\n")}\n\`\`\``;
    const { id } = await web.ask({ kind: "approve", tool: "write", text });
    const page = await openPage();
    const yes = cards(page).getByRole("button", { name: "Always in this chat" });
    await yes.waitFor();
    expect([await yes.isDisabled(), await cards(page).getByRole("button", { name: "No" }).isDisabled()]).toEqual([true, false]);
    await cards(page)
      .getByRole("button", { name: `Show all of it (${text.length.toLocaleString("en-US")} characters)` })
      .click();
    await cards(page).locator("pre", { hasText: "line 499" }).waitFor();
    await yes.click();
    expect(await settled(id)).toMatchObject({ state: "answered", verdict: "always" });
  });

  it("[QA3] answered elsewhere a moment before: it says who and what, whether one was pressing or still writing", async () => {
    const { id } = await web.ask({ options: ["Red"] });
    const late = await web.ask({ text: "Another?" });
    const page = await openPage();
    await cards(page).nth(1).waitFor();
    const by = { id: "7", name: "Ada" };
    // Settled behind the page's back: the press is on its way before the list is there.
    await page.route("**/api/questions/*/answer", async (route) => {
      await web.db.transaction([], (tx) => web.questions.answer(tx, id, { by, answer: "Blue", verdict: null }));
      await route.continue();
    });
    await cards(page).getByRole("button", { name: "Red" }).click();
    await page.locator("#toast", { hasText: "Already answered by Ada: Blue" }).waitFor();
    await waitFor("one card less", async () => (await cards(page).count()) === 1);
    await cards(page).getByRole("textbox").fill("I think");
    await web.db.transaction([], (tx) => web.questions.answer(tx, late.id, { by, answer: "No", verdict: null }));
    await page.locator("#toast", { hasText: "Already answered by Ada: No" }).waitFor();
    expect(await web.questions.get(id)).toMatchObject({ answer: "Blue", answeredBy: by });
  });

  it("[QA3] one whose turn was stopped goes; one that failed to be sent can be sent again", async () => {
    const { id } = await web.ask({ text: "Stopped soon", turnId: "turn:7" });
    const kept = await web.ask({ text: "Kept" });
    const page = await openPage();
    await cards(page).nth(1).waitFor();
    web.endedTurns.add("turn:7");
    web.bus.emit({ type: "turn.ended", sessionKey: "k", address: MAIN, turnId: "turn:7", outcome: "stopped" });
    await waitFor("one card less", async () => (await cards(page).count()) === 1);
    expect((await web.questions.get(id))?.state).toBe("open");
    await page.route("**/api/questions/*/answer", (route) => route.abort(), { times: 1 });
    await cards(page).getByRole("textbox").fill("yes");
    await cards(page).getByRole("button", { name: "Send" }).click();
    await page.locator("#toast", { hasText: "That did not work" }).waitFor();
    await cards(page).getByRole("button", { name: "Send" }).click();
    expect(await settled(kept.id)).toMatchObject({ answer: "yes" });
  });

  it("[WB1] an open run shows its question with the same answers; Answer on its line leads there", async () => {
    const run = aRun({ label: "painter", state: "waiting", isAsking: true });
    web.runs.push(run);
    const { id } = await web.ask({ runId: run.id, asker: "painter", options: ["Red"] });
    const page = await openPage();
    await cards(page).first().waitFor();
    await page.locator(".run", { hasText: "painter" }).getByRole("button", { name: "Answer" }).click();
    expect(await focused(page)).toBe("Red");
    await page.locator("#needs-list a", { hasText: "painter" }).click();
    await cards(page, "#panel-questions").getByRole("button", { name: "Red" }).click();
    expect(await settled(id)).toMatchObject({ answer: "Red" });
    await waitFor("no card", async () => (await cards(page, "#panel-questions").count()) === 0);
    await waitFor("the panel's own focus", async () => (await focused(page)) === "panel-title");
  });

  it("[WB1] names and words of a model are text, and run nothing", async () => {
    await web.ask({ asker: ATTACK, text: ATTACK, options: [ATTACK], address: { ...TELEGRAM, chat: ATTACK } });
    const page = await openPage();
    await cards(page).getByRole("button", { name: ATTACK }).waitFor();
    expect(await cards(page).locator("img").count()).toBe(0);
    expect(await page.evaluate("window.pwned")).toBeUndefined();
  });

  it("[WB2] a screen reader hears once that somebody is needed, and nothing while it waits or is answered", async () => {
    const page = await openPage();
    await page.evaluate(`
      window.said = [];
      new MutationObserver(() => said.push(document.getElementById("needs-said").textContent))
        .observe(document.getElementById("needs-said"), { childList: true, characterData: true, subtree: true });`);
    const { id } = await web.ask();
    await cards(page).first().waitFor();
    for (let n = 0; n < 3; n++) web.bus.emit({ type: "question.changed", questionId: id, runId: null, rootKey: "x" });
    await cards(page)
      .locator(".question-age", { hasText: /^[1-9]/ })
      .waitFor();
    expect(await page.evaluate("said")).toEqual(["A question needs you."]);
    expect(await page.locator("#needs [aria-live], #needs [role=status], #needs [role=alert]").count()).toBe(0);
  });

  it("[QA1][WB2] a message that changes does so in its place in every tab, without its buttons, and the focus stays with it", async () => {
    const ref = await post();
    await web.say("something after it");
    const [page, other] = [await openPage(), await openPage()];
    await page.bringToFront();
    await page.locator("#messages button", { hasText: "Red" }).focus();
    await edit(ref, "**painter** asks: which?\n\n✅ **Ada**: Red");
    for (const tab of [page, other]) {
      await tab.locator("#messages li").first().locator("text=Ada").waitFor();
      expect(await tab.locator("#messages li").count()).toBe(2);
      expect(await tab.locator("#messages .buttons").count()).toBe(0);
    }
    expect(await page.evaluate("document.activeElement.dataset.seq")).toBe(ref);
    expect(await page.locator("#messages li").first().getAttribute("aria-live")).toBe("off");
  });

  it("[WB2] changed while the line was down, a message is new after it: by the stream, by a reload, and further up", async () => {
    const ref = await post();
    for (let n = 0; n < 40; n++) await web.say(`message ${n}`);
    const shown = await post({ ...MESSAGE, markdown: "**writer** asks: which?" }, "live:question:y#0");
    const page = await openPage();
    await page.locator("#messages button", { hasText: "Red" }).waitFor();
    await web.server.close();
    await page.waitForSelector("#banner", { state: "visible" });
    await edit(shown, "✅ answered meanwhile");
    await edit(ref, "✅ the first one, too");
    await web.restart();
    await page.locator("#messages li", { hasText: "answered meanwhile" }).waitFor();
    expect(await page.locator("#messages .buttons").count()).toBe(0);
    await waitFor("the first one", async () => {
      await page.evaluate("document.getElementById('scroll').scrollTop = 0");
      return (await page.locator("#messages li").first().innerText()).includes("the first one, too");
    });
    await page.reload();
    await page.locator("#messages li", { hasText: "answered meanwhile" }).waitFor();
    expect(await page.locator("#messages li", { hasText: "writer" }).count()).toBe(0);
  });

  it("[WB2] an answer to 'show earlier' that was read before a change does not bring the old words back", async () => {
    const ref = await post();
    for (let n = 0; n < 40; n++) await web.say(`message ${n}`);
    const shown = await post({ ...MESSAGE, markdown: "**writer** asks: which?" }, "live:question:y#0");
    const page = await openPage();
    await page.locator("#messages li", { hasText: "writer" }).waitFor();
    // The page is read, then the message is changed, then the answer arrives.
    await page.route("**/messages?*before=*", async (route) => {
      const response = await route.fetch();
      await edit(ref, "✅ new words");
      // Changes come in their order: with this one the page has heard of the other.
      await edit(shown, "✅ changed, too");
      await page.locator("#messages li", { hasText: "changed, too" }).waitFor();
      await route.fulfill({ response });
    });
    await page.click("#earlier");
    await waitFor("all messages", async () => (await page.locator("#messages li").count()) === 42);
    expect(await page.locator("#messages li").first().innerText()).toContain("new words");
  });
});

describe.skipIf(!hasBrowser)(`questions on a phone${BROWSER_NOTE}`, () => {
  const visit = useBrowser(390);
  beforeEach(async () => {
    web = await startWeb();
  });
  afterEach(() => web.close());

  it("[QA1][WB2] beside the chat's name stands how many need somebody; it opens them, they fit, and answering goes on there", async () => {
    const first = await web.ask({ options: ["A rather long option that has to break somewhere on a phone", "No"] });
    const second = await web.ask({ kind: "approve", tool: "exec", text: `\`\`\`sh\n${"rm -rf build && ".repeat(12)}true\n\`\`\`` });
    const page = await visit.open(web.url, web.token);
    await page.getByRole("button", { name: "2 need you" }).click();
    await cards(page).nth(1).waitFor();
    const overflow = "Math.max(...[...document.querySelectorAll('#needs *')].map((node) => node.getBoundingClientRect().right)) <= 320";
    expect(await page.evaluate(overflow)).toBe(true);
    await cards(page)
      .getByRole("button", { name: /^A rather long/ })
      .click();
    expect(await settled(first.id)).toMatchObject({ answer: first.options[0] });
    await waitFor("one card less", async () => (await cards(page).count()) === 1);
    await cards(page).getByRole("button", { name: "Yes for this turn" }).click();
    expect(await settled(second.id)).toMatchObject({ verdict: "run" });
    await page.waitForSelector("#needs", { state: "hidden" });
    expect(await focused(page)).toBe("close-sidebar");
    await page.keyboard.press("Escape");
    await page.waitForSelector("#needs-badge", { state: "hidden" });
  });
});
