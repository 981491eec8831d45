// What a person does with runs on the page, in a real browser against the whole process: what is spent of limits, going on, once more,
// two side by side.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { calls, child, spawns } from "../support/brain.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import type { Harness } from "../support/harness.ts";
import { createScene, type RunRow as Row, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

interface RunRow extends Row {
  readonly params: string;
}

const visit = useBrowser(1400);
let scene: Scene;
beforeAll(async () => {
  scene = await createScene({ config: { budgets: { perDay: { tokens: 90_000_000 } } } });
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

const looks = (path: string) => calls(["list", { path }]);
/** Of several processes always the same one: a browser is signed in at one address. */
const home = (): Harness => scene.herald.members[0] ?? scene.herald;
const tokenOf = (): string => readFileSync(join(home().stateDir, "sign-in-link"), "utf8").trim().split("#token=")[1] ?? "";
/** The page with this chat and run open. */
async function openRun(chat: string, run: string, width = 1400): Promise<Page> {
  const page = await visit.open(home().origin(), tokenOf());
  await page.setViewportSize({ width, height: 800 });
  await page.goto(`${home().origin()}/#/chat/${chat}?run=${run}`);
  await page.locator("#panel:not(.loading)").waitFor();
  return page;
}

describe.skipIf(!hasBrowser)(`limits on the page${BROWSER_NOTE}`, () => {
  it("[BG5] shows what a run has spent of its limit while it works, and the installation of its day", async () => {
    const chat = scene.chat();
    const steps = [looks("."), { text: "late", hold: "spending" }];
    await chat.act([spawns(child("spending", steps, { budget: { tokens: 300_000 } }))]);
    const { id } = chat.run("spending");
    const page = await openRun(chat.id, id);
    // A call is paid for, and the run has not ended.
    await page.locator("#panel-numbers", { hasText: /[1-9]\d*k? of 300k tokens/ }).waitFor();
    await page.locator("#panel-state", { hasText: "running" }).waitFor();
    await page.locator(`.run:has([href="#/run/${id}"]) .run-line`, { hasText: /[1-9]\d*k? of 300k tokens/ }).waitFor();
    await page.locator("#budgets-list", { hasText: /^Everything today: \d+k? of 90M tokens$/ }).waitFor();
    expect(await page.locator("#panel-spent").isVisible()).toBe(true);
    await page.locator("#fold-facts summary").click();
    expect(await page.textContent("#panel-facts")).toMatch(/Budget\d+k? of 300k tokens/);
    scene.release("spending");
  });

  it("[BG6] one that ended for want of its budget goes on by a press, once; the second press is told, on a phone above the run", async () => {
    const chat = scene.chat();
    const steps = Array.from({ length: 12 }, (_, n) => looks(`./page-${n}`));
    await chat.act([spawns(child("short", [...steps, { text: "at last" }], { budget: { tokens: 60_000 }, maxIterations: 50 }))]);
    await chat.announced("short");
    const { id } = chat.run("short");
    const page = await openRun(chat.id, id, 390);
    const goOn = page.locator("#panel-go-on");
    expect(await goOn.innerText()).toBe("Go on, +60k tokens");
    // Twice in one moment: a slow hand finds no button any more.
    await goOn.evaluate((button) => {
      for (let n = 0; n < 2; n++) (button as unknown as { click(): void }).click();
    });
    await page.locator("#toast", { hasText: "Already raised by the page." }).waitFor();
    await waitFor("the next generation to end", () => {
      const run = chat.run("short");
      return run.generation === 2 && run.ended_at !== null;
    });
    await goOn.waitFor({ state: "hidden" });
    await page.locator("#panel-numbers", { hasText: "of 120k tokens" }).waitFor();
    // Once, not twice.
    const [row] = scene.herald.rows<{ budget: string }>("SELECT budget FROM runs WHERE id = ?", id);
    expect(JSON.parse(row?.budget ?? "{}")).toMatchObject({ tokens: 120_000 });
  });
});

const focused = (page: Page) => page.evaluate("document.activeElement.id");
const rerunsOf = (id: string): RunRow[] => scene.herald.rows<RunRow>("SELECT * FROM runs WHERE rerun_of = ? ORDER BY seq", id);
const taskOf = ({ session_id }: Row): string => {
  const [text = ""] = scene.transcripts("main", session_id);
  return (JSON.parse(text.split("\n")[1] ?? "{}") as { text: string }).text;
};

describe.skipIf(!hasBrowser)(`a run once more, on the page${BROWSER_NOTE}`, () => {
  it("[RP1] the same again by keyboard; the two lead to each other", async () => {
    const chat = scene.chat();
    const brief = { mission: "count honestly", sharedMemory: [], constraints: [] };
    await chat.act([spawns(child("counter", "forty-two", { role: "explore", brief }))]);
    await chat.announced("counter");
    const first = chat.run("counter");
    const page = await openRun(chat.id, first.id);
    await page.focus("#panel-again");
    await page.keyboard.press("Enter");
    await waitFor("the task", async () => (await page.inputValue("#again-task")) === taskOf(first));
    expect(await focused(page)).toBe("again-title");
    expect(await page.getAttribute("#again-model", "placeholder")).toBe(first.model);
    await page.locator("#again").getByRole("button", { name: "Run again" }).press("Enter");
    await page.waitForSelector("#again", { state: "hidden" });
    expect(await focused(page)).toBe("panel-again");
    await page.locator("#panel-repetitions", { hasText: /^Repeated as counter .* done/ }).waitFor();
    const [again] = rerunsOf(first.id);
    expect(taskOf(again as RunRow)).toBe(taskOf(first));
    expect(JSON.parse(again?.params ?? "{}")).toMatchObject({ role: "explore" });
    await page.locator("#panel-repetitions a").click();
    await page.locator("#panel-repetitions", { hasText: /^It repeats counter/ }).waitFor();
    expect(page.url()).toContain(`#/chat/${chat.id}?run=${again?.id}`);
    await page.locator("#panel-repetitions a").click();
    await page.locator("#panel-repetitions", { hasText: /^Repeated as counter/ }).waitFor();
  });

  it("[RP1] with another model and task, whatever it begins with; what was wrong is said and what was written stays", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("teller", "one"))]);
    await chat.announced("teller");
    const first = chat.run("teller");
    const page = await openRun(chat.id, first.id, 390);
    await page.click("#panel-again");
    await waitFor("the task", async () => (await page.inputValue("#again-task")) !== "");
    const send = page.locator("#again").getByRole("button", { name: "Run again" });
    await page.fill("#again-task", " ");
    await send.click();
    await page.locator("#again-problem", { hasText: "Say what it should do." }).waitFor();
    await page.fill("#again-task", "model=red or blue?\nAnd why.");
    await page.fill("#again-model", "two words");
    await send.click();
    await page.locator("#again-problem", { hasText: "has no blanks" }).waitFor();
    await page.keyboard.press("Escape");
    await page.waitForSelector("#again", { state: "hidden" });
    expect(await page.isVisible("#panel")).toBe(true);
    await page.click("#panel-again");
    expect(await page.inputValue("#again-task")).toBe("model=red or blue?\nAnd why.");
    await page.fill("#again-model", "");
    await send.click();
    await page.locator("#toast", { hasText: 'Sent out "teller" once more' }).waitFor();
    const again = await waitFor("the run that repeats it", () => rerunsOf(first.id).find(({ ended_at }) => ended_at !== null));
    expect(taskOf(again)).toBe("model=red or blue?\nAnd why.");
    expect(again.model).toBe(first.model);
  });
});

describe.skipIf(!hasBrowser)(`two runs side by side${BROWSER_NOTE}`, () => {
  it("[RP2] chosen from a list, under an address of their own: parameters, figures, the difference of their results", async () => {
    const chat = scene.chat();
    await chat.act([
      spawns(child("left", [looks("."), { text: "first\nsame\nred" }]), child("right", "first\nsame\nblue", { maxIterations: 3 })),
    ]);
    await Promise.all([chat.announced("left"), chat.announced("right")]);
    const [left, right] = [chat.run("left"), chat.run("right")];
    const page = await openRun(chat.id, left.id);
    await page.focus("#panel-compare");
    await page.keyboard.press("Enter");
    await page.locator("#compare h3", { hasText: "Other runs of this chat" }).waitFor();
    await page.locator("#compare a", { hasText: "right" }).press("Enter");
    const row = (name: string) => page.locator(`.compare-row:has([role="rowheader"]:text-is("${name}"))`);
    await row("Steps").waitFor();
    expect(page.url()).toContain(`#/chat/${chat.id}?run=${left.id}&with=${right.id}`);
    const cells = async (name: string) => row(name).getByRole("cell").allInnerTexts();
    expect(await cells("Steps")).toEqual(["2", "1"]);
    expect(await cells("Tools")).toEqual(["list 1×", "none"]);
    expect(await cells("Most steps, longest time")).toEqual(["20, no limit", "3, no limit"]);
    for (const name of ["Model", "Tokens", "Cost", "Time"]) expect(await cells(name), name).toHaveLength(2);
    expect(await row("Model").getAttribute("data-differs")).toBe("false");
    expect(await row("Steps").getAttribute("data-differs")).toBe("true");
    expect(await page.locator("#compare .diff-removed").allInnerTexts()).toEqual(["-red\n"]);
    expect(await page.locator("#compare .diff-added").allInnerTexts()).toEqual(["+blue"]);
    await page.keyboard.press("Escape");
    await page.waitForSelector("#compare", { state: "hidden" });
    // A window says that it is closed a moment later.
    await waitFor("the address without it", () => !page.url().includes("with="));
    expect([await focused(page), await page.isVisible("#panel")]).toEqual(["panel-compare", true]);
    await page.goBack();
    await row("Steps").waitFor();
    await page.goForward();
    await page.waitForSelector("#compare", { state: "hidden" });
  });

  it("[RP2][WB2] on a phone they stand one below the other and nothing is wider; two that are not there are said to be so", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("one", `${"long".repeat(80)}\nred`), child("two", `${"long".repeat(80)}\nblue`))]);
    await Promise.all([chat.announced("one"), chat.announced("two")]);
    const page = await openRun(chat.id, `${chat.run("one").id}&with=${chat.run("two").id}`, 390);
    await page.locator(".compare-row").nth(5).waitFor();
    expect(await page.evaluate("[document.documentElement.scrollWidth, document.getElementById('compare-body').scrollWidth]")).toEqual([
      390, 390,
    ]);
    const [first, second] = await page.locator(".compare-row").nth(3).getByRole("cell").all();
    const [above, below] = [await first?.boundingBox(), await second?.boundingBox()];
    expect(below?.y).toBeGreaterThan((above?.y ?? 0) + (above?.height ?? 0) - 1);
    await page.click("#compare-close");
    await page.goto(`${home().origin()}/#/chat/${chat.id}?run=${chat.run("one").id}&with=${randomUUID()}`);
    await page.locator("#compare [role=alert]", { hasText: "One of the two runs is not there." }).waitFor();
  });
});

describe.skipIf(!hasBrowser)(`a run's brief on the page${BROWSER_NOTE}`, () => {
  const given = { mission: "count honestly", sharedMemory: [{ tier: "AGENT", reason: "style" }], constraints: ["no guessing"] };
  const seen = (words: string): number => scene.model.calls.filter((call) => JSON.stringify(call.body).includes(words)).length;

  it("[BF1][BF3][WB5] is edited while it works, what is too long is said, and the child reads it at its next step", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("briefed", [{ ...looks("."), hold: "briefed" }, { text: "done" }], { brief: given }))]);
    const { id } = chat.run("briefed");
    const page = await openRun(chat.id, id, 390);
    await page.locator("#fold-brief > summary").click();
    expect((await page.innerText("#panel-brief")).replace(/\n+/g, "\n")).toMatch(
      /^From its requester · Today .*\ncount honestly\nMemory it may read\nAGENT: style\nConstraints\nno guessing\nEdit…\nRevoke…$/,
    );
    await page.locator("#panel-brief").getByRole("button", { name: "Edit…" }).click();
    const sheet = page.locator("#brief-sheet");
    await sheet.getByLabel("Mission").fill("ä".repeat(251));
    await page.locator("#brief-mission-hint.over", { hasText: "502 of 500 bytes." }).waitFor();
    await sheet.getByRole("button", { name: "Save" }).click();
    await page.locator("#brief-problem", { hasText: "mission has 502 bytes; the cap is 500 bytes" }).waitFor();
    await sheet.getByLabel("Mission").fill("count the tests only");
    await sheet.getByLabel("Constraints").fill("no guessing\n\nno lines twice\n");
    await sheet.getByRole("button", { name: "Add a reference" }).click();
    await sheet.getByLabel("Memory", { exact: true }).last().selectOption("pins");
    await sheet.getByLabel("Entry").last().fill("api");
    await sheet.getByLabel("Why it needs it").last().fill("its names");
    expect(await page.evaluate("document.getElementById('brief-form').scrollWidth <= 390")).toBe(true);
    await sheet.getByRole("button", { name: "Save" }).click();
    await page.locator("#toast", { hasText: "It reads this brief from its next step on." }).waitFor();
    await page
      .locator("#panel-brief", { hasText: /From you, on the page.*count the tests only.*pins\/api: its names.*no lines twice/s })
      .waitFor();
    expect(seen("count the tests only")).toBe(0);
    scene.release("briefed");
    await chat.announced("briefed");
    expect(seen("count the tests only")).toBeGreaterThan(0);
    // It has ended: there is nothing left to change, and all that was is still told.
    await page.locator("#panel-state", { hasText: "done" }).waitFor();
    await page.locator("#panel-brief button").first().waitFor({ state: "detached" });
    await page.locator("#brief-history > summary").click();
    await page.locator("#brief-history-list li").nth(1).waitFor();
    expect(await page.locator("#brief-history-list p").allInnerTexts()).toEqual([
      expect.stringMatching(/^the page put a brief in the place of that of its requester Today /),
      expect.stringMatching(/^its requester gave a brief Today /),
    ]);
    expect(await page.locator("#brief-history-list .diff-removed").allInnerTexts()).toContain("-count honestly\n");
    await chat.ask(`/subagents rerun ${id}`);
    const again = await waitFor("the run that repeats it", () => rerunsOf(id)[0]);
    expect(await chat.ask(`/subagents brief ${again.id}`)).toContain("count the tests only");
  });

  it("[BF3][WB5] is taken back by keyboard after a second word, and written where there is none", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("revoked", [{ ...looks("."), hold: "revoked" }, { text: "done" }], { brief: given }))]);
    const { id } = chat.run("revoked");
    const page = await openRun(chat.id, id);
    await page.locator("#fold-brief > summary").click();
    const brief = page.locator("#panel-brief");
    await brief.getByRole("button", { name: "Revoke…" }).press("Enter");
    // A second Enter by mistake keeps it.
    await page.keyboard.press("Enter");
    await brief.getByRole("button", { name: "Revoke…" }).waitFor();
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Revoke…");
    await page.keyboard.press("Enter");
    await brief.getByRole("button", { name: "Take it back", exact: true }).press("Enter");
    await page.locator("#toast", { hasText: "From its next step on it sees nothing of this brief." }).waitFor();
    await page.locator("#fold-brief > summary", { hasText: "Brief none" }).waitFor();
    expect(await chat.ask(`/subagents brief ${id}`)).toContain("has no brief");
    expect(await page.evaluate("document.activeElement.tagName")).toBe("SUMMARY");
    await page.locator("#brief-write").press("Enter");
    await page.locator("#brief-sheet").getByLabel("Mission").fill("look twice");
    await page.locator("#brief-sheet").getByRole("button", { name: "Save" }).press("Enter");
    await brief.locator(".words", { hasText: "look twice" }).waitFor();
    // Changed elsewhere while the form is open: nothing is lost, and it is said.
    await brief.getByRole("button", { name: "Edit…" }).press("Enter");
    await page.locator("#brief-sheet").getByLabel("Mission").fill("look three times");
    await chat.ask(`/subagents brief ${id} clear`);
    await page.locator("#brief-sheet").getByRole("button", { name: "Save" }).press("Enter");
    await page
      .locator("#brief-problem", { hasText: "changed meanwhile. Look at them again. Now: there is none. Save once more" })
      .waitFor();
    expect(await page.inputValue("#brief-mission")).toBe("look three times");
    await page.locator("#brief-sheet").getByRole("button", { name: "Save" }).press("Enter");
    await brief.locator(".words", { hasText: "look three times" }).waitFor();
    scene.release("revoked");
  });
});
