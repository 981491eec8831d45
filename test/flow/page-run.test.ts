// One run on the page, in a real browser against the whole process: what it writes and thinks as it does, its calls with all they hold,
// what else is on record, by mouse, by keyboard alone and on a phone; and that nothing of it is ever more than text.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { calls, child, createBrain, type Step, spawns } from "../support/brain.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import type { Harness } from "../support/harness.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { hasPostgres } from "../support/shared-folder.ts";
import { waitFor } from "../support/wait.ts";

const visit = useBrowser(1400);
const brain = createBrain();
/** A model that says its first piece, and the rest when it is let. */
let speaks = Promise.withResolvers<void>();
let scene: Scene;
beforeAll(async () => {
  scene = await createScene({ respond });
});
/** As the brain says; what it says in pieces, in its own time. */
async function respond(request: Parameters<typeof brain.respond>[0]) {
  const script = await brain.respond(request, { n: 0 } as never);
  if (script.pieces === undefined) return script;
  const pieces = script.pieces.map((piece) => piece.replace("@begins", tokenOf().slice(0, 12)).replace("@ends", tokenOf().slice(12)));
  return { ...script, pieces, pause: (n: number) => (n === 1 ? speaks.promise : Promise.resolve()) };
}
afterEach(async () => {
  speaks.resolve();
  await scene.calm();
  speaks = Promise.withResolvers<void>();
});
afterAll(async () => scene[Symbol.asyncDispose]());

const home = (): Harness => scene.herald.members[0] ?? scene.herald;
const tokenOf = (at: Harness = home()): string => readFileSync(join(at.stateDir, "sign-in-link"), "utf8").trim().split("#token=")[1] ?? "";
async function openRun(run: string, { chat = "main", width = 1400, alone = false } = {}): Promise<Page> {
  const page = await visit.open(home().origin(), tokenOf());
  await page.setViewportSize({ width, height: 800 });
  await page.goto(`${home().origin()}/#/${alone ? `run/${run}` : `chat/${chat}?run=${run}`}`);
  await page.locator("#panel:not(.loading)").waitFor();
  return page;
}
async function begun(chat: Chat, label: string, steps: readonly Step[], more: Record<string, unknown> = {}): Promise<string> {
  await chat.act([spawns(child(label, steps, more))]);
  return chat.run(label).id;
}
async function ended(chat: Chat, label: string, steps: readonly Step[], more: Record<string, unknown> = {}): Promise<string> {
  const id = await begun(chat, label, steps, more);
  await chat.announced(label);
  return id;
}
const focused = (page: Page) => page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()");

describe.skipIf(!hasBrowser)(`a run as it happens${BROWSER_NOTE}`, () => {
  it("[WB5] its words and thoughts stand there while it writes, for who comes in the middle, too; the entry takes their place", async () => {
    const chat = scene.chat();
    const steps: Step[] = [
      { ...calls(["list", { path: "." }]), reasoning: "First I look around." },
      { pieces: ["The **first** half", " and the rest."], reasoning: "I weigh <both> sides." },
    ];
    const id = await begun(chat, "writer", steps);
    const page = await openRun(id, { chat: chat.id });
    await page.locator("#panel-draft .body strong", { hasText: "first" }).waitFor();
    // Folded, and text.
    await page.locator("#panel-draft summary").click();
    expect(await page.innerText("#panel-draft .thinking .words")).toBe("I weigh <both> sides.");
    // Somebody who comes later sees what was written before.
    const late = await openRun(id, { alone: true });
    await late.locator("#panel-draft .body strong", { hasText: "first" }).waitFor();
    // Of the step before, the thoughts are on record: the provider wants them back.
    await late.locator("#panel-log .thinking summary").click();
    expect(await late.innerText("#panel-log .thinking .words")).toBe("First I look around.");
    speaks.resolve();
    for (const tab of [page, late]) {
      await tab.locator("#panel-log .said .body", { hasText: "The first half and the rest." }).waitFor();
      await tab.locator("#panel-draft").waitFor({ state: "hidden" });
    }
    expect(await late.locator("#panel-log .said", { hasText: "first half" }).count()).toBe(1);
  });

  it("[WB5] nothing of a draft stays when the run is stopped, or the stream comes back", async () => {
    const chat = scene.chat();
    const id = await begun(chat, "halted", [{ pieces: ["half a thought", " never said"] }]);
    const page = await openRun(id, { chat: chat.id });
    await page.locator("#panel-draft .body", { hasText: "half a thought" }).waitFor();
    await visit.context.setOffline(true);
    await visit.context.setOffline(false);
    await page.click("#panel-stop");
    await page.locator("#panel-state", { hasText: "stopped" }).waitFor();
    await page.locator("#panel-draft").waitFor({ state: "hidden" });
  });

  it("[WB5] a secret is in no draft, not even by its beginning", async () => {
    const chat = scene.chat();
    const secret = tokenOf();
    const id = await begun(chat, "leaky", [{ pieces: ["It is @begins", "@ends indeed."] }]);
    const page = await openRun(id, { chat: chat.id });
    await page.locator("#panel-draft .body", { hasText: "It is" }).waitFor();
    expect(await page.textContent("#panel-draft")).not.toContain(secret.slice(0, 8));
    speaks.resolve();
    await page.locator("#panel-log .said .body", { hasText: "indeed" }).waitFor();
    expect(await page.textContent("#panel")).not.toContain(secret.slice(0, 12));
  });

  it("[WB5] what it is told is shown as not read, until it is", async () => {
    const chat = scene.chat();
    const id = await begun(chat, "listener", [{ ...calls(["list", { path: "." }]), hold: "deaf" }, { text: "heard" }]);
    const page = await openRun(id, { chat: chat.id });
    await page.fill("#panel-text", "look at the tests");
    await page.press("#panel-text", "Enter");
    await page.locator("#panel-unread .not-read", { hasText: "look at the tests" }).waitFor();
    brain.release("deaf");
    await page.locator("#panel-log .sent .words", { hasText: "look at the tests" }).waitFor();
    await page.locator("#panel-unread .not-read").waitFor({ state: "detached" });
  });
});

describe.skipIf(!hasBrowser)(`what is on record of a run${BROWSER_NOTE}`, () => {
  it("[WB5] a call and its result are one line that opens, by keyboard: the whole of what was cut, differences in colour, failures marked", async () => {
    const chat = scene.chat();
    const long = "line of a long file\n".repeat(2_000);
    const id = await ended(chat, "worker", [
      calls(["write", { path: "long.txt", content: long }]),
      calls(["edit", { path: "small.txt", oldText: "nowhere", newText: "there" }]),
      calls(["write", { path: "small.txt", content: "red\nblue\n" }]),
      calls(["edit", { path: "small.txt", oldText: "red", newText: "green" }]),
      { text: "written" },
    ]);
    const page = await openRun(id, { chat: chat.id });
    const tools = page.locator("#panel-log .tool-entry");
    await waitFor("four calls", async () => (await tools.count()) === 4);
    expect(await tools.nth(0).locator("summary").innerText()).toMatch(
      /✓\s*write\s*long\.txt\s*(?:done\s*)?\d+(?:\.\d)?m?s\s*\d\d:\d\d:\d\d/,
    );
    expect(await tools.nth(1).getAttribute("class")).toContain("failed");
    await tools.nth(0).locator("summary").focus();
    await page.keyboard.press("Enter");
    const whole = tools.nth(0).getByRole("button", { name: /Show all 4\d.\d+ characters/ });
    await whole.waitFor();
    expect((await tools.nth(0).locator("pre").first().innerText()).length).toBeLessThan(5_000);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    expect(await focused(page)).toMatch(/^Show all/);
    await page.keyboard.press("Enter");
    await tools.nth(0).getByRole("button", { name: "Show more" }).press("Enter");
    await waitFor(
      "all of it",
      async () => (await tools.nth(0).locator("pre").first().textContent())?.split("+line of a long file").length === 2_001,
    );
    await tools.nth(3).locator("summary").click();
    const [change, result] = await tools.nth(3).locator("pre").all();
    expect(await change?.locator(".diff-removed").innerText()).toBe("-red\n");
    expect(await result?.locator(".diff-added").innerText()).toBe("+green\n");
  });

  it("[WB5] those it sent out, its documents to read and keep, its cost step by step; on a page of its own beside its transcript", async () => {
    const chat = scene.chat();
    await using _deep = await scene.configure({ subagents: { maxSpawnDepth: 2 } });
    const id = await ended(chat, "parent", [
      { ...spawns(child("grandchild", "small")), usage: { input: 900, output: 20 } },
      { text: "all done", usage: { input: 1_100, output: 30 } },
    ]);
    const page = await openRun(id, { chat: chat.id });
    await page.click("#panel-alone");
    await page.locator("body.run-alone").waitFor();
    expect(page.url()).toContain(`#/run/${id}`);
    const [record, live] = await Promise.all([page.locator(".panel-record").boundingBox(), page.locator("#panel-live").boundingBox()]);
    expect(live?.x).toBeGreaterThanOrEqual((record?.x ?? 0) + (record?.width ?? 0));
    expect(await page.innerText("#panel-spend figcaption")).toMatch(/tokens.* in \d+ steps$/);
    await page.locator("#panel-spend summary").click();
    expect(await page.locator("#panel-spend tbody tr").count()).toBeGreaterThan(1);
    await page.locator("#fold-documents > summary").press("Enter");
    const brief = page.getByRole("button", { name: /^brief-[0-9a-f]{6}\.response\.md$/ });
    await brief.press("Enter");
    await page.locator("pre.document", { hasText: "## Result" }).waitFor();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).press("Enter")]);
    expect(readFileSync(await download.path(), "utf8")).toContain("## Result");
    await page.locator("#panel-children a", { hasText: "grandchild" }).click();
    await page.locator("#panel-title", { hasText: "grandchild" }).waitFor();
  });

  it("[WB5] what is not there says what to do: no such run, no transcript any more; on a phone", async () => {
    const page = await visit.open(home().origin(), tokenOf());
    await page.setViewportSize({ width: 390, height: 800 });
    await page.goto(`${home().origin()}/#/run/${randomUUID()}`);
    await page.locator("#panel-problem", { hasText: "There is no such run on record here" }).waitFor();
    expect(await page.isVisible(".panel-record")).toBe(false);
    await page.locator("#panel-problem a", { hasText: "All runs" }).click();
    await page.locator("#view-runs").waitFor();
    expect(page.url()).toContain("#/runs");
    const chat = scene.chat();
    const id = await ended(chat, "short", [calls(["list", { path: "." }]), { text: "ended" }]);
    await page.goto(`${home().origin()}/#/run/${id}`);
    await page.locator("#panel-log .tool-entry summary").click();
    await page.locator("#panel-log .said .body", { hasText: "ended" }).waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
  });

  it("[WB5] PAGE-008 markup in labels, tools, arguments, differences, thoughts and names is text, everywhere on the run", async () => {
    const chat = scene.chat();
    const bad = `'"><img src=x onerror=alert(1)>`;
    const steps: Step[] = [
      { ...calls(["write", { path: `${bad}.txt`, content: bad }]), reasoning: `${bad} [x](javascript:alert(1))` },
      calls([bad, { [bad]: bad }], ["exec", { command: bad }]),
      { pieces: [`${bad} [x](javascript:alert(1)) <svg onload=alert(1)>`, " end"], reasoning: bad },
    ];
    await chat.act([spawns(child(bad, steps))]);
    const { id } = chat.runs().at(-1) ?? { id: "" };
    const page = await openRun(id, { alone: true });
    await page.locator("#panel-draft .body", { hasText: "onerror" }).waitFor();
    speaks.resolve();
    await page.locator("#panel-log .said .body", { hasText: "end" }).waitFor();
    for (const summary of await page.locator("#panel-log details > summary").all()) await summary.click();
    await page.locator("#fold-documents > summary").click();
    await page.locator("#panel-documents button").first().click();
    await page.locator("pre.document").waitFor();
    expect(await page.innerText("#panel-title")).toContain("<img src=x");
    expect(await page.locator("#panel :is(img, script, svg[onload], [onerror], [href^='javascript:'])").count()).toBe(0);
    expect(visit.requested.filter((url) => !/^(?:blob:)?http:\/\/(?:127\.0\.0\.1|localhost)/.test(url))).toEqual([]);
  });
});

describe.skipIf(!hasBrowser || !hasPostgres())(`a run at work on another machine${BROWSER_NOTE}`, () => {
  it("[WB5] is seen as it writes all the same, and nothing of it stays when that machine is gone", async () => {
    await using several = await createScene({ nodes: [{ args: ["--role", "gateway"] }, { args: ["--role", "worker"] }], respond });
    const [front, worker] = several.herald.members;
    const chat = several.chat();
    const id = await begun(chat, "far", [{ pieces: ["words from **afar**", " and the rest"] }]);
    const page = await visit.open(front?.origin() ?? "", tokenOf(front));
    await page.goto(`${front?.origin()}/#/run/${id}`);
    await page.locator("#panel-draft .body strong", { hasText: "afar" }).waitFor();
    await worker?.crash();
    await chat.ask("/stop");
    await page.locator("#panel-draft").waitFor({ state: "hidden" });
  });
});
