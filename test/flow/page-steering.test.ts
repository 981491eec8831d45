// Runs and chats of another channel steered from the page's board, in a real browser against the whole process with a fake Telegram: stop,
// send, rerun, raise, answer from the row, by keyboard and by touch; a conversation there is read, spoken in and stopped.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { calls, child, createBrain, plan, spawns, whoAsks } from "../support/brain.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import { type ChannelScene, createChannelScene, newestWords } from "../support/channel-scene.ts";
import type { Harness } from "../support/harness.ts";
import type { RunRow } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

const visit = useBrowser(1400);
/** One for each test: Telegram takes a message a second in a chat. */
const [STOPPER, TELLER, REPEATER, SPENDER, ASKER, PHONE, TALKER, READER] = [41, 42, 43, 44, 45, 46, 47, 48];
const mind = createBrain();
let scene: ChannelScene;
beforeAll(async () => {
  scene = await createChannelScene({
    telegram: { allowFrom: [STOPPER, TELLER, REPEATER, SPENDER, ASKER, PHONE, TALKER, READER].map(String) },
    slack: null,
    defaults: { subagents: { maxSpawnDepth: 2 } },
    respond: async (request, call) => {
      const words = newestWords(request);
      if (whoAsks(request) !== "main" || words.includes("!plan ")) return mind.respond(request, call);
      if (words.includes("hang")) return { text: "never", hang: true };
      return { text: `heard: ${words}` };
    },
  });
  await scene.connected();
});
afterAll(async () => scene[Symbol.asyncDispose]());

const home = (): Harness => scene.herald.members[0] ?? scene.herald;
const runs = (label: string): RunRow[] => scene.herald.rows<RunRow>("SELECT * FROM runs WHERE label = ? ORDER BY seq", label);
const reached = (label: string, state: string): Promise<RunRow> =>
  waitFor(`${label} to be ${state}`, () => runs(label).find((run) => run.state === state));
const told = (chat: number, fits: RegExp) =>
  scene.telegram.until(() => scene.telegram.messages(chat).find(({ text }) => fits.test(text)), String(fits));

const tokenOf = (): string => readFileSync(join(home().stateDir, "sign-in-link"), "utf8").trim().split("#token=")[1] ?? "";

async function open(address: string, width = 1400): Promise<Page> {
  const page = await visit.open(home().origin(), tokenOf());
  await page.setViewportSize({ width, height: 800 });
  await page.goto(`${home().origin()}/${address}`);
  return page;
}
const row = (page: Page, label: string) => page.locator(".runs-row", { has: page.getByText(label, { exact: true }) }).first();
const toast = (page: Page, words: RegExp) => page.locator("#toast", { hasText: words }).waitFor();
/** The next request there is taken, and its answer lost on the way. */
async function loseAnswer(page: Page, path: string): Promise<void> {
  await page.route(
    path,
    async (route) => {
      await route.fetch();
      await route.abort();
    },
    { times: 1 },
  );
}
const post = (path: string, body: unknown): Promise<Response> => home().request(path, { method: "POST", body: JSON.stringify(body) });

describe.skipIf(!hasBrowser)(`runs of another channel${BROWSER_NOTE}`, () => {
  it("[WB4] a stop says what it ends and wants a second press; a tree goes as a whole, and several that are selected together", async () => {
    const held = { hold: "stopped", text: "late" };
    const outer = child("outer", [spawns(child("inner", [held])), { text: "waiting" }]);
    scene.telegram.say({ chat: STOPPER, text: plan([spawns(outer, child("second", [held]), child("third", [held]))]) });
    for (const label of ["inner", "second", "third"]) await reached(label, "running");
    await reached("outer", "waiting");
    const page = await open("#/runs?state=live&channel=telegram");
    await row(page, "outer").focus();
    await page.keyboard.press("s");
    const sheet = page.locator(".runs-sheet");
    await sheet.getByText("It ends where it is; what it wrote so far stays. Stops 1 sub-agent below, too.").waitFor();
    // Enter by mistake keeps it.
    await page.keyboard.press("Enter");
    await sheet.waitFor({ state: "hidden" });
    await waitFor("the focus on the row", () => page.evaluate("document.activeElement.role === 'row'") as Promise<boolean>);
    await page.keyboard.press("s");
    await sheet.getByRole("button", { name: "Stop it" }).waitFor();
    await page.keyboard.press("s");
    await toast(page, /Stopped 2 sub-agents: /);
    await row(page, "outer").waitFor({ state: "detached" });
    expect([runs("outer")[0]?.state, runs("inner")[0]?.state, runs("second")[0]?.state]).toEqual(["stopped", "stopped", "running"]);
    for (const label of ["second", "third"]) {
      await row(page, label).focus();
      await page.keyboard.press("x");
    }
    await page.getByRole("button", { name: "Stop 2 of them…" }).click();
    await sheet.getByText("2 of them end where they are").waitFor();
    await sheet.getByRole("button", { name: "Stop them" }).click();
    await toast(page, /Stopped 2 sub-agents: /);
    await waitFor("both to end", () => ["second", "third"].every((label) => runs(label)[0]?.state === "stopped"));
    mind.release("stopped");
    await waitFor("the log", () => home().output().includes("runs were stopped from the page"));
  });

  it("[WB4] words reach a run by m; its announcement goes to the chat that asked, and one that ended goes on", async () => {
    const steps = [{ ...calls(["list", { path: "." }]), hold: "told" }, { text: "done with it" }];
    scene.telegram.say({ chat: TELLER, text: plan([spawns(child("told", steps))]) });
    const { id } = await reached("told", "running");
    const page = await open("#/runs?channel=telegram");
    await row(page, "told").focus();
    await page.keyboard.press("m");
    await page.getByLabel("Message", { exact: true }).last().fill("mind the gap");
    await page.keyboard.press("Enter");
    await toast(page, /Sent to "told" .* it reads it at its next step/);
    mind.release("told");
    await told(TELLER, /Sub-agent: told/);
    expect(scene.model.calls.some(({ messages }) => messages.some(({ text }) => text.includes("mind the gap")))).toBe(true);
    const answer = await post(`/api/runs/${id}/send`, { text: "once more" });
    expect(await answer.json()).toMatchObject({ text: expect.stringContaining("it goes on with your message") });
    await waitFor("the next generation", () => runs("told")[0]?.generation === 2 && runs("told")[0]?.ended_at !== null);
    // It has ended: a stop is told so.
    expect((await post(`/api/runs/${id}/stop`, {})).status).toBe(409);
  });

  it("[WB4] a run is sent out once more by r and announced where the first was; the same press twice is one run", async () => {
    scene.telegram.say({ chat: REPEATER, text: plan([spawns(child("repeated", "forty-two"))]) });
    const first = await reached("repeated", "done");
    await told(REPEATER, /Sub-agent: repeated/);
    const page = await open("#/runs?channel=telegram&q=repeated");
    await row(page, "repeated").focus();
    await page.keyboard.press("r");
    await waitFor("the task", async () => (await page.inputValue("#again-task")) !== "");
    await loseAnswer(page, "**/again");
    await page.locator("#again").getByRole("button", { name: "Run again" }).press("Enter");
    await page.locator("#again-problem", { hasText: "That did not work" }).waitFor();
    await page.locator("#again").getByRole("button", { name: "Run again" }).press("Enter");
    await toast(page, /Sent out "repeated" once more/);
    await scene.telegram.until(
      () => scene.telegram.messages(REPEATER).filter(({ text }) => text.includes("Sub-agent: repeated")).length === 2,
      "the second announcement",
    );
    const key = randomUUID();
    const answers = await Promise.all([1, 2].map(async () => (await post(`/api/runs/${first.id}/again`, { key })).json()));
    expect(answers[0]).toEqual(answers[1]);
    expect(runs("repeated")).toHaveLength(3);
    await scene.settled();
  });

  it("[WB4][BG6] one that ended for want of its budget goes on by b; a budget can be raised while it works, and one without is told", async () => {
    const looks = Array.from({ length: 12 }, (_, n) => calls(["list", { path: `./page-${n}` }]));
    const short = child("short", [...looks, { text: "at last" }], { budget: { tokens: 60_000 }, maxIterations: 50 });
    scene.telegram.say({ chat: SPENDER, text: plan([spawns(short, child("free", "nothing"))]) });
    await waitFor("both to end", () => [runs("short")[0], runs("free")[0]].every((run) => (run?.ended_at ?? null) !== null));
    const page = await open("#/runs?channel=telegram");
    await row(page, "free").focus();
    await page.keyboard.press("b");
    await toast(page, /It has no limit of its own/);
    await row(page, "short").focus();
    await page.keyboard.press("b");
    await toast(page, /"short" .* may spend 120k tokens now; it goes on/);
    await waitFor("the next generation to end", () => runs("short")[0]?.generation === 2 && runs("short")[0]?.ended_at !== null);
    await scene.settled();
  });

  it("[WB4][QA1] a question is answered from the row: a leads to it, and the run goes on", async () => {
    const asks = calls(["ask", { question: "Which colour?", options: ["Red", "Blue"] }]);
    scene.telegram.say({ chat: ASKER, text: plan([spawns(child("asker", [asks, { text: "painted" }]))]) });
    await reached("asker", "waiting");
    const page = await open("#/runs?state=needs");
    await row(page, "asker").focus();
    await page.keyboard.press("a");
    await waitFor("the question", () => page.evaluate("document.activeElement.closest('#needs') !== null") as Promise<boolean>);
    await page.locator("#needs").getByRole("button", { name: "Blue" }).click();
    await reached("asker", "done");
    await page.getByRole("heading", { name: "Nothing found" }).waitFor();
  });

  it("[WB4][WB2] on a phone: stopped from the menu of its row, by touch", async () => {
    scene.telegram.say({ chat: PHONE, text: plan([spawns(child("pocket", [{ hold: "pocket", text: "late" }]))]) });
    await reached("pocket", "running");
    const page = await open("#/runs?state=running", 390);
    await row(page, "pocket")
      .getByRole("button", { name: /What can be done/ })
      .click();
    await page.getByRole("menuitem", { name: "Stop…" }).click();
    const yes = page.getByRole("button", { name: "Stop it" });
    await yes.waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    await yes.click();
    await toast(page, /Stopped 1 sub-agent/);
    expect((await reached("pocket", "stopped")).reason).toBe("from the page");
    mind.release("pocket");
  });
});

describe.skipIf(!hasBrowser)(`a conversation of another channel${BROWSER_NOTE}`, () => {
  it("[WB4] is found beside the chats, read, spoken in, and stopped; the answer goes to that channel, once", async () => {
    const { telegram } = scene;
    telegram.say({ chat: TALKER, text: "hello from my phone" });
    await told(TALKER, /heard: hello from my phone/);
    const page = await open("#/");
    await page.locator("#other-chats > summary").click();
    await page.locator(".session-link", { hasText: `Telegram ${TALKER}` }).click();
    await page.locator(".session-log .words", { hasText: "hello from my phone" }).waitFor();
    await page.locator(".session-log .said .body", { hasText: "heard: hello from my phone" }).waitFor();
    const { id } = scene.herald.rows<{ id: string }>("SELECT id FROM sessions WHERE key LIKE ?", `%:telegram:dm:${TALKER}`)[0] ?? {
      id: "",
    };
    expect(page.url()).toBe(`${home().origin()}/#/session/${id}`);
    await loseAnswer(page, "**/send");
    await page.locator("#session-text").fill("and <b>from</b> the page");
    await page.keyboard.press("Enter");
    await toast(page, /That did not work/);
    await waitFor("the words in the box again", async () => (await page.inputValue("#session-text")) === "and <b>from</b> the page");
    await page.keyboard.press("Enter");
    await toast(page, /Said there/);
    await told(TALKER, /Said on the page:\s+and <b>from<\/b> the page/);
    await told(TALKER, /heard: .*and <b>from<\/b> the page/s);
    await page.locator(".session-log .said .body", { hasText: "and <b>from</b> the page" }).waitFor();
    await page.locator(".session-log .who", { hasText: "the page" }).waitFor();
    // A browser that heard no answer sends the same words again.
    const key = randomUUID();
    for (let n = 0; n < 2; n++) expect((await post(`/api/sessions/${id}/send`, { key, text: "just once" })).status).toBe(200);
    await told(TALKER, /heard: .*just once/s);
    await scene.settled();
    for (const words of ["just once", "and <b>from</b> the page"]) {
      expect(telegram.messages(TALKER).filter(({ text }) => text.includes("heard:") && text.includes(words))).toHaveLength(1);
    }
    telegram.say({ chat: TALKER, text: "now hang" });
    await waitFor("the turn", () => scene.model.calls.some(({ messages }) => messages.at(-1)?.text.includes("now hang")));
    await page.getByRole("button", { name: "Stop…" }).click();
    await page.getByRole("button", { name: "Stop the answer and 0 sub-agents?" }).click();
    await toast(page, /What it was at is ended there/);
    await scene.settled();
    expect((await post(`/api/sessions/${id}/stop`, {})).status).toBe(409);
    await page.getByRole("link", { name: "Its runs" }).click();
    await page.getByRole("heading", { name: "Nothing found" }).waitFor();
    expect(page.url()).toContain("#/runs?chat=agent%3Amain%3Atelegram");
    // A page's own chat, one that is over and one that never was are none of these.
    for (const other of [randomUUID(), "main"]) expect((await home().request(`/api/sessions/${other}`)).status).toBe(404);
  });

  it("[WB4] earlier messages are listed once however often they are asked for; signed out, it asks no more", async () => {
    scene.telegram.say({ chat: READER, text: "hello again" });
    await told(READER, /heard: hello again/);
    const { id } = scene.herald.rows<{ id: string }>("SELECT id FROM sessions WHERE key LIKE ?", `%:telegram:dm:${READER}`)[0] ?? {
      id: "",
    };
    const page = await visit.open(home().origin(), tokenOf());
    await page.clock.install();
    const early = { position: -1, kind: "user", who: "you", at: new Date(0).toISOString(), text: "long ago" };
    const asked = Promise.withResolvers<void>();
    let count = 0;
    await page.route("**/transcript*", async (route) => {
      if (!route.request().url().includes("before=")) {
        const answer = await route.fetch();
        return route.fulfill({ json: { ...(await answer.json()), before: 0 } });
      }
      count++;
      await asked.promise;
      return route.fulfill({ json: { entries: [early], before: null } });
    });
    await page.goto(`${home().origin()}/#/session/${id}`);
    await page.getByRole("button", { name: "Show earlier messages" }).dblclick();
    asked.resolve();
    await page.locator(".session-log .words", { hasText: "long ago" }).waitFor();
    await page.getByRole("button", { name: "Show earlier messages" }).waitFor({ state: "detached" });
    expect([count, await page.locator(".session-log .words", { hasText: "long ago" }).count()]).toEqual([1, 1]);
    let refused = 0;
    await page.route("**/api/sessions/**", (route) => {
      refused++;
      return route.fulfill({ status: 401, json: { error: "Sign in." } });
    });
    await page.clock.fastForward(5_000);
    await page.locator("#sign-in").waitFor();
    await waitFor("both requests", () => refused === 2);
    for (let n = 0; n < 3; n++) await page.clock.fastForward(5_000);
    await page.evaluate("fetch('/')");
    expect(refused).toBe(2);
  });
});
