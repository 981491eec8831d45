// Asking on the page with the real process behind it: the offline model asks, somebody answers in a real browser, the gateway is
// killed in between; and a question that stands in a Telegram chat, answered on the page.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { calls, child, plan, spawns } from "../support/brain.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import { createChannelScene } from "../support/channel-scene.ts";
import { freePort } from "../support/free-port.ts";
import { createHarness, type Harness } from "../support/harness.ts";
import { waitFor } from "../support/wait.ts";

const PERSON = 42;
const tokenOf = (herald: Harness): string => readFileSync(join(herald.stateDir, "sign-in-link"), "utf8").trim().split("#token=")[1] ?? "";

describe.skipIf(!hasBrowser)(`asking on the page${BROWSER_NOTE}`, () => {
  const visit = useBrowser(1200);
  const say = async (page: Page, text: string): Promise<void> => {
    await page.fill("#text", text);
    await page.focus("#text");
    await page.keyboard.press("Enter");
  };

  it("[QA1][QA2][MO6] a sub-agent's question, open over kill -9, is answered in one tab and reads so in the other", async () => {
    await using herald = await createHarness({ config: { web: { port: await freePort() } } });
    const token = tokenOf(herald);
    const [page, other] = [await visit.open(herald.origin(), token), await visit.open(herald.origin(), token)];
    await say(page, "in the background, ask me which colour I like: red or blue?");
    await page.locator("#messages .buttons button", { hasText: "blue" }).waitFor();
    await page.locator(".run", { hasText: "waiting for an answer" }).waitFor();
    await herald.crash();
    await page.waitForSelector("#banner", { state: "visible" });
    await herald.restart();
    await page.waitForSelector("#banner", { state: "hidden" });
    await page.locator("#needs-list button", { hasText: "blue" }).click();
    for (const tab of [page, other]) {
      await tab.locator("#messages li", { hasText: "Which colour do you like?" }).locator("text=the page").waitFor();
      await tab.locator("#messages .announcement", { hasText: 'I asked "Which colour do you like?" and was told: blue' }).waitFor();
      expect(await tab.locator("#messages .buttons").count()).toBe(0);
      expect(await tab.locator("#messages li", { hasText: "Which colour do you like?" }).count()).toBe(2);
      // Each tab asks for the open questions by itself, some time after the announcement stood there.
      await waitFor("no question in the title", async () => /^(?:● )?Herald$/.test(await tab.title()));
    }
  });

  it("[QA1][MO6] the agent's own question waits in sight; a press below it answers, and the answer goes on", async () => {
    await using herald = await createHarness({ config: { web: { port: await freePort() } } });
    const page = await visit.open(herald.origin(), tokenOf(herald));
    await say(page, "ask me whether to go on, then wait 1 second");
    await page.locator("#working-text", { hasText: "Waiting for your answer…" }).waitFor();
    await waitFor("the question in the title", async () => (await page.title()) === "(1) Herald");
    await page.locator("#messages .buttons button", { hasText: "No" }).click();
    await page.locator("#messages li", { hasText: "So I stop here." }).waitFor();
    await page.waitForSelector("#needs", { state: "hidden" });
    await waitFor("no buttons", async () => (await page.locator("#messages .buttons").count()) === 0);
  });
});

describe("a question in another channel's chat", () => {
  it("[QA1][QA2] is answered on the page: its run goes on, its message there says by whom", async () => {
    await using scene = await createChannelScene({ telegram: { allowFrom: [String(PERSON)] }, slack: null });
    const { telegram, herald } = scene;
    await scene.connected();
    const asks = calls(["ask", { question: "Which colour?", options: ["Red", "Blue"] }]);
    telegram.say({ chat: PERSON, text: plan([spawns(child("painter", [asks]))]) });
    await telegram.until(() => telegram.messages(PERSON).some(({ text }) => text.includes("Which colour?")), "the question");
    const [{ id } = { id: "" }] = herald.rows<{ id: string }>("SELECT id FROM questions WHERE state = 'open'");
    const headers = { "content-type": "application/json" };
    const answer = (option: number) =>
      herald.request(`/api/questions/${id}/answer`, { method: "POST", headers, body: JSON.stringify({ option }) });
    const answers = await Promise.all([answer(2), answer(2), answer(1)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    await telegram.until(() => telegram.messages(PERSON).some(({ text }) => text.includes("Status: success")), "the announcement");
    await telegram.until(
      () => telegram.messages(PERSON).some(({ text }) => /Which colour\?[\s\S]*✅ the page: (?:Red|Blue)/.test(text)),
      "the edited question",
    );
    expect(telegram.messages(PERSON).filter(({ text }) => text.includes("asks:"))).toHaveLength(1);
  });
});
