// What was used, on the page, in a real browser against the whole process: the numbers of plots, tables and `/usage` are the same, told
// apart as the address says, by keyboard alone and on a phone; names that are markup are text.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dayOf } from "../../src/core/clock.ts";
import type { UsageView } from "../../src/web/usage.ts";
import { child, spawns } from "../support/brain.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import type { Harness } from "../support/harness.ts";
import { createScene, type Scene } from "../support/scene.ts";
import { SCRIPTED_KEY } from "../support/scripted-model.ts";
import { waitFor } from "../support/wait.ts";
import { startWeb } from "../support/web-server.ts";

const visit = useBrowser(1400);
const BAD = `'"><img src=x onerror=alert(1)>`;
const USAGE = { input: 10_700, output: 516 };
let scene: Scene;
beforeAll(async () => {
  scene = await createScene({
    config: { budgets: { perDay: { tokens: 90_000_000 }, agentPerDay: { usd: 50 }, personPerDay: { usd: 20, tokens: 5_000_000 } } },
  });
});
afterAll(async () => scene[Symbol.asyncDispose]());

const home = (): Harness => scene.herald.members[0] ?? scene.herald;
const tokenOf = (): string => readFileSync(join(home().stateDir, "sign-in-link"), "utf8").trim().split("#token=")[1] ?? "";
async function openUsage(query = "", width = 1400): Promise<Page> {
  const page = await visit.open(home().origin(), tokenOf());
  await page.setViewportSize({ width, height: 800 });
  await page.goto(`${home().origin()}/#/usage${query}`);
  await page.locator(".usage[aria-busy='false']").waitFor();
  return page;
}
async function read(query: string): Promise<UsageView> {
  const answer = await fetch(`${home().origin()}/api/usage${query}`, { headers: { authorization: `Bearer ${tokenOf()}` } });
  return (await answer.json()) as UsageView;
}
/** A table's rows, each cell as it is read. */
const cells = (page: Page, table: string): Promise<string[][]> =>
  page
    .locator(`${table} tr`)
    .evaluateAll((rows) =>
      rows.map((row) => [...row.querySelectorAll("th, td")].map((cell) => (cell as unknown as { innerText: string }).innerText.trim())),
    );
/** As /usage and the page shorten it. */
const short = (count: number): string => (count < 1_000 ? String(count) : `${(count / 1_000).toFixed(1).replace(/\.0$/, "")}k`);
const priced = () => ({
  models: {
    providers: {
      scripted: {
        ...{ api: "openai-compatible", baseUrl: scene.model.url, apiKey: SCRIPTED_KEY },
        models: [{ id: "model-1", contextWindow: 128_000, cost: { input: 1, output: 2 } }],
      },
    },
  },
});

describe.skipIf(!hasBrowser)(`usage${BROWSER_NOTE}`, () => {
  it("[WB6] before anything was used it says what will stand here; an address nobody made is taken as far as it makes sense", async () => {
    const page = await openUsage("?range=__proto__&by=(a%2B)%2B$");
    await page.locator(".usage-empty h2", { hasText: "Nothing was used in these 30 days" }).waitFor();
    expect(await page.inputValue("#usage-by")).toBe("all");
    for (const bad of ["?days=8", "?days=-1", "?by=__proto__", "?days=7&by="])
      expect((await fetch(`${home().origin()}/api/usage${bad}`, { headers: { authorization: `Bearer ${tokenOf()}` } })).status).toBe(400);
  });

  it("[WB6] the numbers of the plot, of the table and of /usage are one; budgets say what is left", async () => {
    await using _prices = await scene.configure({
      config: { ...priced(), budgets: { perDay: { tokens: 90_000_000 }, agentPerDay: { usd: 50 }, personPerDay: { usd: 20 } } },
    });
    const chat = scene.chat();
    await chat.act([
      { ...spawns(child("one", [{ text: "done", usage: USAGE }]), child("two", [{ text: "done", usage: USAGE }])), usage: USAGE },
    ]);
    await chat.announced("one");
    await chat.announced("two");
    const said = await chat.ask("/usage");
    const total = /Today, everything: tokens (\S+) \(in (\S+) \/ out (\S+)\) • est (\$\S+)/.exec(said);
    const view = await read("?days=7&by=model");
    const page = await openUsage("?range=7&by=model");
    await page.locator(".plot canvas").first().waitFor();
    expect(await page.locator(".totals").innerText()).toContain(`${total?.[1]} (in ${total?.[2]}, out ${total?.[3]})`);
    expect(await page.locator(".totals").innerText()).toContain(total?.[4]);
    expect(view.total.runs).toBe(2);
    const sums = await cells(page, "[aria-label='Together']");
    expect(sums[0]).toEqual(["Model ", "Tokens ↓", "In", "Out", "Cost", "Runs", "Calls"].map((text) => text.replace(/ ↓$|\s$/, "")));
    expect(sums[1]?.slice(0, 2)).toEqual(["scripted/model-1", (view.total.input + view.total.output).toLocaleString("en-US")]);
    await page.locator(".numbers summary").first().click();
    const days = await cells(page, "[aria-label='Tokens by day']");
    expect(days[1]).toEqual([dayOf(Date.now()), short(view.total.input + view.total.output)]);
    expect(days).toHaveLength(1 + 7 + 1);
    expect(days.at(-1)).toEqual(["All", short(view.total.input + view.total.output)]);
    // What the pointer meets is the same number once more.
    const box = await page.locator(".plot canvas").first().boundingBox();
    await page.mouse.move((box?.x ?? 0) + (box?.width ?? 0) - 40, (box?.y ?? 0) + 100);
    await page.locator(".plot-said", { hasText: `${dayOf(Date.now())} · ${short(view.total.input + view.total.output)}` }).waitFor();
    const budgets = await page.locator(".usage-budgets").innerText();
    expect(budgets).toMatch(/Everything today\s+\d+k? of 90M tokens; [\d.]+M tokens left/);
    expect(budgets).toMatch(/The agent main today\s+\$0\.\d+ of \$50\.00; \$4\d\.\d\d left/);
    expect(budgets).toMatch(/today\s+\$0\.\d+ of \$20\.00/);
  });

  it("[WB6] by keyboard: another range, told apart otherwise, sorted; back undoes a choice", async () => {
    const page = await openUsage("?range=7&by=model");
    await page.focus("#usage-by");
    await page.keyboard.press("ArrowDown");
    await waitFor("the address", () => page.url().includes("by=agent"));
    await page.locator("[aria-label='Together'] tbody th", { hasText: "main" }).waitFor();
    await page.focus("#usage-range");
    await page.keyboard.press("End");
    await waitFor("the address", () => page.url().includes("range=90"));
    await page.locator(".numbers summary").first().press("Enter");
    await waitFor("ninety days", async () => (await cells(page, "[aria-label='Tokens by day']")).length === 92);
    const newest = page.locator("[aria-label='Tokens by day'] tbody tr").first();
    expect(await newest.innerText()).toContain(dayOf(Date.now()));
    await page.locator("[aria-label='Tokens by day'] button", { hasText: "Day" }).press("Enter");
    await waitFor("the oldest first", async () => !(await newest.innerText()).includes(dayOf(Date.now())));
    expect(await page.locator("[aria-label='Tokens by day'] th").first().getAttribute("aria-sort")).toBe("ascending");
    await page.goBack();
    await waitFor("the range before", async () => (await page.inputValue("#usage-range")) === "7");
    expect(await page.inputValue("#usage-by")).toBe("agent");
  });

  it("[WB6] on a phone nothing is wider than it, in light and dark; people and channels are told apart", async () => {
    const page = await openUsage("?range=90&by=person", 390);
    await page.locator(".plot canvas").first().waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
    expect(await page.locator("[aria-label='Together'] tbody th").allInnerTexts()).toEqual([expect.stringContaining("(web)")]);
    await page.emulateMedia({ colorScheme: "dark" });
    await page.locator(".plot canvas").first().waitFor();
    await page.selectOption("#usage-by", "channel");
    await page.locator("[aria-label='Together'] tbody th", { hasText: "web" }).waitFor();
  });

  it("[WB6] PAGE-008 names that are markup are text in plots, tables and budgets, and nothing is asked of other hosts", async () => {
    const sum = { input: 900, output: 100, calls: 2, runs: 1, costUsd: 0.5, unpriced: 1 };
    const series = [BAD, `${BAD} too`].map((name) => ({ name, label: name, total: sum, days: [sum] }));
    const budgets = [{ name: BAD, usd: "$1 of $2", tokens: null, share: 0.5, left: "$1" }];
    const web = await startWeb({
      desks: { usage: { read: async () => ({ by: "person", days: ["2026-01-31"], series, others: 0, total: sum, budgets }) } },
    });
    try {
      const page = await visit.open(web.url, web.token);
      await page.goto(`${web.url}/#/usage?by=person`);
      await page.locator(".plot canvas").first().waitFor();
      await page.locator("[aria-label='Together'] tbody th", { hasText: BAD }).first().waitFor();
      for (const summary of await page.locator(".numbers summary").all()) await summary.click();
      for (const place of [".legend", ".usage-budgets", "[aria-label='Cost by day'] thead"])
        expect(await page.innerText(place), place).toContain(BAD);
      // One of two calls had no price: the sum says that it is not all.
      expect(await page.innerText(".totals")).toContain("$0.50 +");
      expect(await page.locator("#view-usage :is(img, script, [onerror])").count()).toBe(0);
      expect(visit.requested.filter((url) => !/^http:\/\/(?:127\.0\.0\.1|localhost)/.test(url))).toEqual([]);
    } finally {
      await web.close();
    }
  });
});
