// The view "Runs" in a real browser against the page's server, with runs as rows of its database: what is listed in which order, searching,
// filters in the address, trees, groups, bars over time, thousands of runs, the keyboard alone and a phone. Steering: page-steering.test.ts.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newId } from "../../src/core/ids.ts";
import { type BoardRun, putRuns } from "../support/board-runs.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import { waitFor } from "../support/wait.ts";
import { aRun, startWeb, type WebFixture } from "../support/web-server.ts";

const visit = useBrowser(1400);
const ATTACK = `"><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`;
const asks = { state: "waiting", doing: "waits for an answer", waits: [{ for: "answer", id: "q", since: 1, until: 2 }] } as const;
const telegram = {
  address: { channel: "telegram", account: "bot", chat: "5551", kind: "dm" },
  requesterKey: "agent:main:telegram:dm:5551",
} as const;
const MAIN = "agent:main:web:dm:main";

describe.skipIf(!hasBrowser)(`the view Runs${BROWSER_NOTE}`, () => {
  let web: WebFixture;
  beforeEach(async () => {
    web = await startWeb();
  });
  afterEach(async () => {
    await web.close();
  });
  const put = (...runs: BoardRun[]) => putRuns(web.db, runs);
  const changed = (runId: string) => web.bus.emit({ type: "run.changed", runId, state: "running" });
  async function open(address = "#/runs", width = 1400): Promise<Page> {
    const page = await visit.open(web.url, web.token);
    await page.setViewportSize({ width, height: 800 });
    await page.goto(`${web.url}/${address}`);
    await page.locator("#view-runs .runs-foot").waitFor();
    return page;
  }
  const row = (page: Page, label: string) => page.locator(".runs-row", { has: page.getByText(label, { exact: true }) });
  /** Headings and runs from top to bottom. */
  const shown = async (page: Page): Promise<string[]> =>
    page.evaluate(`[...document.querySelectorAll("[role=row]")]
      .sort((one, other) => one.ariaRowIndex - other.ariaRowIndex)
      .map((node) => (node.querySelector(".runs-label") ?? node.querySelector("bdi")).textContent)`) as Promise<string[]>;
  const settled = (page: Page, wanted: readonly string[]) =>
    waitFor(`rows ${wanted.join(", ")}`, async () => (await shown(page)).join() === wanted.join());
  /** The list measures itself when it is drawn, and is drawn anew with the next frame. */
  const drawn = (page: Page) => page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
  const focusedRow = (page: Page) => page.evaluate("document.activeElement.querySelector('.runs-label, bdi')?.textContent");

  const chosen = (page: Page, name: string) => page.locator("#view-runs").getByLabel(name, { exact: true });
  const at = (page: Page, label: string) => waitFor(`the focus on ${label}`, async () => (await focusedRow(page)) === label);

  it("[WB4] what needs a person first, then what is at work, then what ended; failed and timed out differ, and failures give their reason", async () => {
    const [parent = ""] = await put({ label: "parent", state: "waiting", waits: [{ for: "children" }], doing: "waits for 2 sub-agents" });
    const below = { requesterRunId: parent, requesterKey: `child-${parent}`, rootKey: MAIN, depth: 2 };
    await put(
      { label: "worn out", state: "timeout", reason: "It ran for 10 minutes." },
      { label: "broken", state: "error", reason: "The model refused.", tokens: 11_200, costUsd: 0.12 },
      { label: "asking child", ...below, ...asks },
      { label: "calm child", ...below, doing: "read a.md" },
      { label: "undelivered", state: "done", delivery: "blocked", deliveryReason: "the bot was blocked", ...telegram },
      { label: "alone", doing: "search the web" },
    );
    const page = await open();
    const order = ["Needs you", "parent", "asking child", "calm child", "undelivered", "At work", "alone", "Ended", "broken", "worn out"];
    await settled(page, order);
    expect(await row(page, "broken").locator(".cell-state, .cell-now, .cell-spent").allInnerTexts()).toEqual([
      "failed",
      "The model refused.",
      "11.2k tokens · $0.12",
    ]);
    expect(await row(page, "worn out").locator(".cell-state").innerText()).toBe("timed out");
    expect(await row(page, "asking child").locator(".cell-state").innerText()).toBe("asks you");
    expect(await row(page, "undelivered").locator(".cell-now, .cell-where").allInnerTexts()).toEqual([
      "not delivered: the bot was blocked",
      "Telegram 5551",
    ]);
    const dot = (label: string) =>
      page.evaluate(
        `getComputedStyle([...document.querySelectorAll(".runs-row")].find((node) => node.textContent.includes("${label}")).querySelector(".dot")).backgroundColor`,
      );
    expect(await dot("broken")).not.toBe(await dot("worn out"));
    expect(await row(page, "calm child").getAttribute("aria-level")).toBe("3");
    // A tree is shut by a press, and a heading with all below it.
    await row(page, "parent").getByRole("button", { name: "Fold" }).click();
    await settled(page, ["Needs you", "parent", "undelivered", "At work", "alone", "Ended", "broken", "worn out"]);
    await page.locator(".runs-head", { hasText: "Ended" }).click();
    await settled(page, ["Needs you", "parent", "undelivered", "At work", "alone", "Ended"]);
  });

  it("[WB4] only what changed is asked for again: a run that ends moves to its place, a new one appears", async () => {
    const [first = ""] = await put({ label: "first" }, { label: "old", state: "done" });
    const page = await open();
    await settled(page, ["At work", "first", "Ended", "old"]);
    await web.db.transaction([], (tx) => tx.run("UPDATE runs SET state = 'done', ended_at = ? WHERE id = ?", Date.now(), first));
    const [second = ""] = await put({ label: "second", doing: "begins" });
    const before = visit.requested.length;
    for (let n = 0; n < 20; n++) for (const id of [first, second]) changed(id);
    await settled(page, ["At work", "second", "Ended", "old", "first"]);
    const asked = visit.requested.slice(before).filter((url) => url.includes("/api/board?"));
    expect(asked.length).toBeGreaterThan(0);
    expect(asked.every((url) => url.includes("ids="))).toBe(true);
  });

  it("[WB4] search and filters stand in the address: typing replaces it, a chip is a step back undoes, a link brings all of it back", async () => {
    await put(
      { label: "count lines", state: "done", task: "Count all of it" },
      { label: "write report", state: "error" },
      { label: "count words", ...telegram, costUsd: 3 },
    );
    const page = await open();
    await settled(page, ["At work", "count words", "Ended", "write report", "count lines"]);
    const steps = (await page.evaluate("history.length")) as number;
    await page.locator("#runs-search").pressSequentially("COUNT");
    await settled(page, ["At work", "count words", "Ended", "count lines"]);
    // Typed slowly, a part of it finds the same.
    await waitFor("all of it in the address", () => page.url() === `${web.url}/#/runs?q=COUNT`);
    expect(await page.evaluate("history.length")).toBe(steps);
    await page.getByRole("button", { name: /^Done 1/ }).click();
    await settled(page, ["Ended", "count lines"]);
    expect(page.url()).toBe(`${web.url}/#/runs?state=done&q=COUNT`);
    await page.goBack();
    await settled(page, ["At work", "count words", "Ended", "count lines"]);
    expect(await page.inputValue("#runs-search")).toBe("COUNT");
    await page.locator(".runs-more summary").click();
    await chosen(page, "Channel").selectOption("telegram");
    await settled(page, ["At work", "count words"]);
    await chosen(page, "Cost").selectOption("1");
    await chosen(page, "Time").selectOption("1h");
    await chosen(page, "Chat").selectOption(telegram.requesterKey);
    await chosen(page, "Agent").selectOption("main");
    await chosen(page, "Model").selectOption("offline/rules");
    await waitFor("the address", () => page.url().includes("model=offline"));
    await page.reload();
    await settled(page, ["At work", "count words"]);
    expect(await chosen(page, "Cost").inputValue()).toBe("1");
    await page.getByRole("button", { name: "Clear all" }).click();
    await settled(page, ["At work", "count words", "Ended", "write report", "count lines"]);
    expect(page.url()).toBe(`${web.url}/#/runs`);
  });

  it("[WB4] PAGE-010 what makes no sense in the address is left out and named, the rest is searched for literally; nothing found leads back", async () => {
    await put({ label: "aaaa" }, { label: "(a+)+$ as a label" });
    const page = await open("#/runs?q=(a%2B)%2B$&state=__proto__&cost=NaN&time=-1e99&constructor=1&view=upside");
    await settled(page, ["At work", "(a+)+$ as a label"]);
    const note = page.locator(".runs-note");
    await note.getByText("view=upside, state=__proto__, cost=NaN, time=-1e99, constructor=1").waitFor();
    await note.getByRole("button", { name: "Take it out" }).click();
    await note.waitFor({ state: "detached" });
    expect(page.url()).toBe(`${web.url}/#/runs?q=%28a%2B%29%2B%24`);
    await page.fill("#runs-search", "not to be found");
    await page.getByRole("heading", { name: "Nothing found" }).waitFor();
    await page.getByRole("button", { name: "Clear search and filters" }).click();
    await settled(page, ["At work", "(a+)+$ as a label", "aaaa"]);
    const begun = performance.now();
    await page.evaluate("location.hash = '#/runs?q=' + 'x'.repeat(50_000) + '&agent=' + '%25'.repeat(17_000)");
    await note.getByText(/Left out of the address.*q=x{40}…/).waitFor();
    expect(performance.now() - begun).toBeLessThan(15_000);
    await settled(page, ["At work", "(a+)+$ as a label", "aaaa"]);
  });

  it("[WB4] PAGE-008 hostile labels, models, reasons and chats are text in tree, groups, chats and timeline, and run nothing", async () => {
    const hostile = { label: ATTACK, model: ATTACK, agentId: ATTACK, doing: ATTACK };
    await put({ ...hostile }, { ...hostile, state: "error", reason: ATTACK, address: { ...telegram.address, chat: ATTACK } });
    const page = await open(`#/runs?agent=${encodeURIComponent(ATTACK)}`);
    for (const view of ["Tree", "Groups", "Chats", "Timeline"]) {
      await page.getByRole("button", { name: view, exact: true }).click();
      await page.getByRole("button", { name: view, exact: true, pressed: true }).waitFor();
      await page.locator(".runs-label").nth(1).waitFor();
      expect(await page.locator(".runs-label").allInnerTexts(), view).toEqual([ATTACK, ATTACK]);
    }
    await page.getByRole("button", { name: "What can be done" }).first().click();
    await page.getByRole("menuitem", { name: /Tell it something/ }).click();
    expect(await page.locator("#runs-sheet-title").innerText()).toContain("<img");
    expect(await page.locator("#view-runs img, #view-runs script, .runs-sheet img").count()).toBe(0);
    expect(await page.evaluate("window.pwned")).toBeUndefined();
    expect(visit.requested.filter((url) => new URL(url).origin !== web.url)).toEqual([]);
  });

  it("[WB4] by group and by chat: each with its count, those at work first", async () => {
    await web.db.transaction([], (tx) =>
      tx.run(
        `INSERT INTO run_groups (id, name, root_key, requester_key, requester_session_id, address, announce, wakes, state, created_at)
         VALUES ('g1', 'three frameworks', ?, ?, 's', '{}', 'each', 0, 'open', 1)`,
        ...[MAIN, MAIN],
      ),
    );
    await put(
      { label: "lit", groupId: "g1" },
      { label: "preact", groupId: "g1", state: "done" },
      { label: "alone", state: "done", ...telegram },
    );
    const page = await open("#/runs?view=groups");
    await settled(page, ["three frameworks", "lit", "preact", "Without a group", "alone"]);
    expect(await page.locator(".runs-head").first().innerText()).toMatch(/three frameworks 2 · 1 at work/);
    await page.getByRole("button", { name: "Chats", exact: true }).click();
    await settled(page, ["Main chat", "lit", "preact", "Telegram 5551", "alone"]);
    expect(page.url()).toBe(`${web.url}/#/runs?view=chats`);
  });

  it("[WB4] as bars over time: as long as they took, live ones grow, and the range can be chosen", async () => {
    const at = Date.now();
    await put(
      { label: "long ago", state: "done", createdAt: at - 5 * 3_600_000, endedAt: at - 4 * 3_600_000 },
      { label: "half", state: "done", createdAt: at - 3_000_000, endedAt: at - 1_200_000 },
      { label: "live", createdAt: at - 60_000 },
    );
    const page = await open("#/runs?view=timeline");
    await settled(page, ["live", "half"]);
    const width = async (label: string) => (await row(page, label).locator(".bar").boundingBox())?.width ?? 0;
    const track = (await page.locator(".bar-track").first().boundingBox())?.width ?? 0;
    // 30 of 60 minutes.
    expect((await width("half")) / track).toBeCloseTo(0.5, 1);
    expect(await row(page, "half").locator(".bar-text").innerText()).toBe("done · 30m00s");
    const before = await width("live");
    await waitFor("the bar to grow", async () => (await width("live")) > before);
    await page.getByRole("button", { name: "6 hours" }).click();
    await settled(page, ["live", "half", "long ago"]);
    expect(page.url()).toContain("zoom=6h");
    await page.getByRole("button", { name: "15 min" }).click();
    await settled(page, ["live"]);
  });

  it("[WB4] five thousand runs: a few dozen rows in the document wherever one is, and every one is reached", async () => {
    await put(...Array.from({ length: 5_000 }, (_, n) => ({ label: `run ${n}`, state: "done" as const, createdAt: 1_000 + n })));
    const page = await open();
    await row(page, "run 4999").waitFor();
    await page.getByRole("button", { name: /^Done 5000/ }).waitFor();
    const rows = () => page.locator("[role=row]").count();
    let most = 0;
    await waitFor(
      "the oldest",
      async () => {
        await page.evaluate("document.querySelector('.runs-scroll').scrollTop = 1e9");
        await drawn(page);
        most = Math.max(most, await rows());
        return row(page, "run 0").isVisible();
      },
      90_000,
    );
    expect(most).toBeLessThan(60);
    expect(await page.getAttribute("[role=treegrid]", "aria-rowcount")).toBe("5001");
    expect(await row(page, "run 0").getAttribute("aria-rowindex")).toBe("5001");
    // A step of the wheel is drawn within a frame or two, as long as those are on this machine in this moment.
    const [idle, step] = (await page.evaluate(`(async () => {
      const node = document.querySelector(".runs-scroll");
      const taken = async (work) => {
        const begun = performance.now();
        work();
        await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        return performance.now() - begun;
      };
      const times = [[], []];
      for (let n = 0; n < 60; n++) {
        times[0].push(await taken(() => {}));
        times[1].push(await taken(() => (node.scrollTop -= 700)));
      }
      return times.map((list) => list.sort((one, other) => one - other)[30]);
    })()`)) as [number, number];
    expect(step).toBeLessThan(Math.max(100, 4 * idle));
    // What comes in at the top leaves what one reads where it is.
    const first = await page.evaluate(`document.elementFromPoint(700, 400).closest("[role=row]").dataset.key`);
    const [late = ""] = await put({ label: "late" });
    changed(late);
    await waitFor("one more", async () => (await page.getAttribute("[role=treegrid]", "aria-rowcount")) === "5003");
    await waitFor(
      "the same row",
      async () => (await page.evaluate(`document.elementFromPoint(700, 400).closest("[role=row]")?.dataset.key`)) === first,
    );
  });

  it("[WB4] by keyboard alone: one stop of the Tab key, arrows, folding, search, menu, opening and back", async () => {
    const [parent = ""] = await put({ label: "parent" });
    await put(
      { label: "child", requesterRunId: parent, requesterKey: `child-${parent}`, rootKey: MAIN, depth: 2 },
      ...Array.from({ length: 40 }, (_, n) => ({ label: `done ${n}`, state: "done" as const })),
    );
    web.runs.push(aRun({ id: parent, label: "parent" }));
    const page = await open();
    await row(page, "parent").waitFor();
    await page.focus("#runs-search");
    await page.keyboard.press("Tab");
    for (let n = 0; n < 12 && (await page.evaluate("document.activeElement.role")) !== "row"; n++) await page.keyboard.press("Tab");
    await at(page, "At work");
    await page.keyboard.press("ArrowDown");
    await at(page, "parent");
    await page.keyboard.press("ArrowLeft");
    await waitFor("it is shut", async () => (await row(page, "parent").getAttribute("aria-expanded")) === "false");
    await page.keyboard.press("ArrowRight");
    await row(page, "child").waitFor();
    await page.keyboard.press("ArrowDown");
    await at(page, "child");
    await page.keyboard.press("ArrowLeft");
    await at(page, "parent");
    await page.keyboard.press("End");
    await at(page, "done 0");
    expect(await row(page, "done 0").isVisible()).toBe(true);
    // Scrolled away it is still the one the arrows go on from.
    await page.evaluate("document.querySelector('.runs-scroll').scrollTop = 0");
    await row(page, "parent").waitFor();
    await page.keyboard.press("ArrowUp");
    await at(page, "done 1");
    await page.keyboard.press("x");
    await page.getByText("1 selected").waitFor();
    await page.keyboard.press("Escape");
    await page.getByText("1 selected").waitFor({ state: "detached" });
    await page.keyboard.press("s");
    await page.locator("#toast", { hasText: "It has ended." }).waitFor();
    await page.keyboard.press(".");
    await page.getByRole("menuitem", { name: /Open/ }).waitFor();
    await page.keyboard.press("End");
    await waitFor(
      "the last item",
      () => page.evaluate("document.activeElement.textContent.trim().startsWith('Select')") as Promise<boolean>,
    );
    await page.keyboard.press("Escape");
    await waitFor("back on the row", async () => (await focusedRow(page)) === "done 1");
    await page.keyboard.press("/");
    expect(await page.evaluate("document.activeElement.id")).toBe("runs-search");
    // Gone there in the moment in which the menu closes, and with it the focus comes back to the list.
    await row(page, "done 1").focus();
    await page.keyboard.press(".");
    await page.getByRole("menuitem", { name: /Open/ }).waitFor();
    await page.evaluate(
      `new Promise((over) => {
        const menu = document.querySelector(".runs-menu");
        menu.addEventListener("toggle", () => requestAnimationFrame(() => requestAnimationFrame(over)), { once: true });
        menu.hidePopover();
        document.getElementById("runs-search").focus();
      })`,
    );
    expect(await page.evaluate("document.activeElement.id")).toBe("runs-search");
    await page.evaluate("document.querySelector('.runs-scroll').scrollTop = 0");
    await row(page, "parent").focus();
    await page.keyboard.press("Enter");
    await page.locator("#panel-title", { hasText: "parent" }).waitFor();
    expect(page.url()).toBe(`${web.url}/#/runs?run=${parent}`);
    await page.keyboard.press("Escape");
    await page.locator("#panel").waitFor({ state: "hidden" });
    await at(page, "parent");
    expect(page.url()).toBe(`${web.url}/#/runs`);
  });

  it("[WB4][DL3] an announcement that did not arrive is sent again by t", async () => {
    const [id = ""] = await put({ label: "undelivered", state: "done", delivery: "blocked", ...telegram });
    web.runs.push(aRun({ id, label: "undelivered", state: "done", endedAt: 1, delivery: "blocked" }));
    const page = await open("#/runs?state=needs");
    await row(page, "undelivered").focus();
    await page.keyboard.press("t");
    await page.locator("#toast", { hasText: "Its announcement is on its way again." }).waitFor();
    expect(web.redelivered).toEqual([id]);
  });

  it("[WB4] two runs are compared with c on each; the address names both", async () => {
    const [one = "", other = ""] = await put({ label: "one", state: "done" }, { label: "other", state: "done" });
    const page = await open();
    await row(page, "other").focus();
    await page.keyboard.press("c");
    await page.getByText(/Comparing other: choose the other one/).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("c");
    await waitFor("the address", () => page.url() === `${web.url}/#/runs?run=${other}&with=${one}`);
  });

  it("[WB4][WB2] on a phone: two lines a run, nothing wider than the screen, its menu by touch", async () => {
    await put({ label: "wide".repeat(60), doing: "doing ".repeat(60) }, { label: "narrow", state: "error", reason: "why ".repeat(90) });
    const page = await open("#/runs", 390);
    await row(page, "narrow").waitFor();
    await drawn(page);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    const box = await row(page, "narrow").boundingBox();
    expect([box?.width, box?.height]).toEqual([390, 64]);
    const menu = row(page, "narrow").getByRole("button", { name: /What can be done/ });
    const target = await menu.boundingBox();
    expect([target?.width, target?.height]).toEqual([44, 44]);
    await menu.click();
    const item = await page.getByRole("menuitem", { name: /Run again/ }).boundingBox();
    expect(item?.height).toBeGreaterThanOrEqual(44);
    expect((item?.x ?? 999) + (item?.width ?? 999)).toBeLessThanOrEqual(390);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Timeline" }).click();
    await page.locator(".bar").first().waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
  });

  it("[WB4] a screen reader finds roles, names and enough contrast in tree and timeline, light and dark", async () => {
    const [parent = ""] = await put({ label: "parent", doing: "waits" });
    await put(
      { label: "child", requesterRunId: parent, requesterKey: `child-${parent}`, rootKey: MAIN, depth: 2, ...asks },
      { label: "broken", state: "error", reason: "The model refused." },
      { label: "late", state: "timeout", delivery: "blocked", deliveryReason: "gone" },
    );
    const page = await open("#/runs?cost=NaN");
    await page.evaluate(readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
    for (const [view, colorScheme] of [["Tree", "light"] as const, ["Timeline", "dark"] as const]) {
      await page.emulateMedia({ colorScheme });
      await page.getByRole("button", { name: view, exact: true }).click();
      await page.getByRole("button", { name: view, exact: true, pressed: true }).waitFor();
      await page.locator(".runs-label").nth(1).waitFor();
      const { violations } = (await page.evaluate("axe.run('#view-runs')")) as { violations: { id: string; nodes: { html: string }[] }[] };
      expect(violations.map(({ id, nodes }) => `${view} ${colorScheme}: ${id} ${nodes[0]?.html}`)).toEqual([]);
    }
  });

  it("[WB4] without a run it says how to send one out, and puts an example into the message box", async () => {
    const page = await open();
    await page.getByRole("heading", { name: "No runs yet" }).waitFor();
    await page.getByRole("button", { name: /In the background, summarise/ }).click();
    await page.locator("#view-chat").waitFor();
    expect(await page.inputValue("#text")).toContain("In the background, summarise");
    expect(await page.evaluate("document.activeElement.id")).toBe("text");
  });

  it("[WB4] after a lost connection it is up to date again", async () => {
    await put({ label: "before" });
    const page = await open();
    await settled(page, ["At work", "before"]);
    await web.server.close();
    await page.waitForSelector("#banner", { state: "visible" });
    await put({ label: "missed", id: newId() });
    await web.restart();
    await settled(page, ["At work", "missed", "before"]);
  });

  it("[WB4] a lost connection leaves whoever scrolled down where they are: in place, in focus, with all that was loaded", async () => {
    await put(...Array.from({ length: 700 }, (_, n) => ({ label: `run ${n}`, state: "done" as const })));
    const page = await open();
    await row(page, "run 699").focus();
    const height = (lines: number) =>
      waitFor(
        `${lines} lines`,
        async () => Number(await page.evaluate("document.querySelector('.runs-grid').offsetHeight")) === lines * 44,
      );
    for (const lines of [401, 601, 701]) {
      await page.keyboard.press("End");
      await height(lines);
    }
    await page.keyboard.press("End");
    await at(page, "run 0");
    await page.keyboard.press("PageUp");
    await waitFor("another line", async () => (await focusedRow(page)) !== "run 0");
    const top = async () => Number(await page.evaluate("document.querySelector('.runs-scroll').scrollTop"));
    const [before, focused] = [await top(), await focusedRow(page)];
    await web.server.close();
    await page.waitForSelector("#banner", { state: "visible" });
    await put({ label: "missed", state: "done" });
    await web.restart();
    await height(702);
    // What came in above pushes nothing away.
    await waitFor("its place", async () => (await top()) === before + 44);
    expect(await focusedRow(page)).toBe(focused);
  });

  it("[WB4] what is picked in a row's menu keeps the focus it takes: the run that is opened, not the list", async () => {
    await put({ label: "picked" });
    const page = await open();
    await row(page, "picked").focus();
    await page.keyboard.press(".");
    await page.getByRole("menuitem", { name: "Open" }).press("Enter");
    await waitFor("the panel", async () => (await page.evaluate("document.activeElement.id")) === "panel-title");
    // The menu says that it is closed a moment later.
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))");
    expect(await page.evaluate("document.activeElement.id")).toBe("panel-title");
  });

  it.each([1280, 1920])("[WB4] at %i px the columns have room: nothing wider than the list, the name the widest", async (width) => {
    await put({
      label: "Summarise the quarterly report",
      model: "anthropic/claude-sonnet-5",
      doing: "read a.md",
      tokens: 11_200,
      costUsd: 0.12,
    });
    const page = await open("#/runs", width);
    const line = row(page, "Summarise the quarterly report");
    await line.waitFor();
    await drawn(page);
    const widths = (await line.evaluate((node) =>
      [...node.children].map((cell) => [cell.className, cell.clientWidth, cell.scrollWidth - cell.clientWidth]),
    )) as [string, number, number][];
    const shown = widths.filter(([, size]) => size > 0);
    expect(shown.filter(([name, , over]) => over > 0 && name !== "cell-name")).toEqual([]);
    expect(Math.max(...shown.map(([, size]) => size))).toBe(shown.find(([name]) => name === "cell-name")?.[1]);
    expect(await line.evaluate((node) => node.scrollWidth <= node.clientWidth)).toBe(true);
  });
});
