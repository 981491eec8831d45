// The whole way of somebody who has never edited a file, with the mouse: a model and a bot connected, a person let in, a sub-agent sent
// out, watched as it writes, asked by it, answered, stopped, run again, and the two held against each other.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { calls, whoAsks } from "../support/brain.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import type { FakeRequest, Script } from "../support/fake-model-server.ts";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import { createFakeTelegram } from "../support/fake-telegram.ts";
import { freePort } from "../support/free-port.ts";
import { createHarness } from "../support/harness.ts";

const ANN = 42;
const TASK = "Paint the fence.";
const ask = calls(["ask", { question: "Which colour?", options: ["Red", "Blue"] }]);

/** Its first words are seen as it writes them: it waits for that. */
const seen = Promise.withResolvers<void>();

/** Asks first; painting red takes for ever, blue no time at all. */
function respond(request: FakeRequest): Script {
  const answers = request.messages.filter(({ role }) => role === "tool").map(({ text }) => text);
  const who = whoAsks(request);
  if (who === "announce") return { text: "Result:\nThe fence is blue." };
  if (who === "child") {
    const last = answers.at(-1);
    if (last === undefined) return { ...ask, pieces: ["I look ", "at the ", "fence first."], pause: async (n) => n === 2 && seen.promise };
    return last.includes("Red")
      ? { pieces: new Array<string>(200).fill("One more board is red. "), pieceMs: 300 }
      : { text: "The fence is blue." };
  }
  if (!request.messages.some(({ text }) => text.includes("Send somebody out"))) return { text: "I am the fake provider." };
  return answers.length > 0 ? { text: "Somebody is on the way." } : calls(["sessions_spawn", { task: TASK, label: "painter" }]);
}

const press = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).click();
const say = async (page: Page, words: string): Promise<void> => {
  await page.fill("#text", words);
  await press(page, "Send");
};
async function section(page: Page, name: string): Promise<void> {
  await page.locator("#to-setup").click();
  await page.locator(".setup-nav a", { hasText: name }).click();
  await page.locator("#setup-section-title", { hasText: name }).waitFor();
}

describe.skipIf(!hasBrowser)(`a newcomer${BROWSER_NOTE}`, () => {
  const visit = useBrowser(1400);

  it("[WB3][WB4][WB5][WB7] from nothing to two runs side by side, with the mouse and no file edited", async () => {
    const model = await createFakeOpenAi({ respond });
    const telegram = await createFakeTelegram();
    try {
      await using herald = await createHarness({
        config: { web: { port: await freePort() }, gateway: { drainSeconds: 0 } },
        leavesUnsent: true,
      });
      const token = readFileSync(join(herald.stateDir, "sign-in-link"), "utf8").trim().split("#token=")[1] ?? "";
      const page = await visit.open(herald.origin(), token);

      await page.locator("#no-model a").click();
      await page.getByLabel("Provider").selectOption("compatible");
      await page.getByLabel("Address").fill(model.url);
      await page.locator(".setup-form").getByLabel("Model").fill("fake-1");
      await press(page, "Save");
      await page.locator(".setup-result", { hasText: "It counts from now on." }).waitFor();

      await section(page, "Telegram");
      await page.getByText("Advanced").click();
      await page.getByLabel("Bot API address").fill(telegram.apiRoot);
      await page.getByLabel("Bot token").fill(telegram.token);
      await press(page, "Save");
      await press(page, "Restart now");
      await page.locator("#toast", { hasText: "started anew" }).waitFor();
      await telegram.until(() => telegram.calls.some(({ method }) => method === "setMyCommands"), "the bot to be on");
      telegram.say({ chat: ANN, text: "hello" });
      await section(page, "People");
      await page.getByRole("button", { name: /^Let in: / }).click();
      await page.locator(".setup-group", { hasText: "Let in" }).locator(".setup-line").waitFor();
      telegram.say({ chat: ANN, text: "hello again" });
      await telegram.until(() => telegram.messages(ANN).some(({ text }) => text.includes("I am the fake provider.")), "its answer");

      await page.locator("#to-chat").click();
      await say(page, "Send somebody out.");
      await page.locator("#messages li", { hasText: "Somebody is on the way." }).waitFor();
      await page.locator("#runs .run-label", { hasText: "painter" }).click();
      await page.locator("#panel-draft", { hasText: "I look at the" }).waitFor();
      seen.resolve();
      await page.locator("#panel-questions button", { hasText: "Red" }).click();
      await page.locator("#panel-draft", { hasText: "One more board is red." }).waitFor();
      await page.locator("#panel-stop").click();
      await page.locator("#panel-state", { hasText: "stopped" }).waitFor();

      await page.locator("#panel-again").click();
      await page.locator("#again").getByRole("button", { name: "Run again" }).click();
      await page.locator("#panel-repetitions a", { hasText: "painter" }).click();
      await page.locator("#panel-questions button", { hasText: "Blue" }).click();
      await page.locator("#panel-state", { hasText: "done" }).waitFor();
      await page.locator("#messages .announcement", { hasText: "The fence is blue." }).waitFor();

      await page.locator("#panel-compare").click();
      await page.locator("#compare a", { hasText: "painter" }).first().click();
      const steps = page.locator('.compare-row:has([role="rowheader"]:text-is("Status"))').getByRole("cell");
      await steps.nth(1).waitFor();
      expect((await steps.allInnerTexts()).sort()).toEqual(["done", "stopped"]);
    } finally {
      await Promise.all([model.close(), telegram.close()]);
    }
  }, 120_000);
});
