// All views of the page together, in a real browser against the whole process: their addresses, what a screen reader would stumble
// over, what is loaded and from where.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import axe from "axe-core";
import type { Page, Request } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { calls, child, spawns } from "../support/brain.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import { createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

const visit = useBrowser(1400);
let scene: Scene;
let run = "";
let chat = "";
beforeAll(async () => {
  if (!hasBrowser) return;
  scene = await createScene({ config: { budgets: { perDay: { tokens: 90_000_000 } } } });
  const talk = scene.chat("main");
  await talk.act([
    spawns(
      child("reader", [calls(["list", { path: "." }]), { text: "# Found\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n```js\nconst a = 1;\n```" }]),
      child("broken", [{ text: "", status: 400 }]),
      child("slow", [{ text: "late", hold: "slow" }]),
    ),
  ]);
  await talk.announced("reader");
  run = talk.run("reader").id;
  chat = talk.id;
});
afterAll(async () => {
  scene?.release("slow");
  await scene?.[Symbol.asyncDispose]();
});

const origin = (): string => scene.herald.origin();
const tokenOf = (): string => readFileSync(join(scene.herald.stateDir, "sign-in-link"), "utf8").trim().split("#token=")[1] ?? "";
const addresses = (): string[] => [
  `#/chat/${chat}`,
  `#/chat/${chat}?run=${run}`,
  "#/runs",
  "#/runs?view=timeline",
  "#/runs?q=nobody-has-this-name",
  `#/run/${run}`,
  "#/usage",
  "#/setup",
  ...["model", "telegram", "slack", "mcp", "agents", "budgets", "people"].map((section) => `#/setup/${section}`),
];

async function go(page: Page, address: string): Promise<void> {
  await page.goto(`${origin()}/${address}`);
  await page.locator("#app").waitFor();
  await page.locator("main:visible h1, #panel:visible h2").first().waitFor();
  if (address.includes(run)) await page.locator("#panel:not(.loading)").waitFor();
  // What was asked for is here, and drawn.
  await waitFor("all answers", () => asked.size === 0);
  await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))");
}

/** Requests that are not answered yet, but for the stream, which never is. */
const asked = new Set<Request>();
async function open(): Promise<Page> {
  asked.clear();
  const page = await visit.open(origin(), tokenOf());
  page.on("request", (request) => !request.url().includes("/api/events") && asked.add(request));
  for (const end of ["requestfinished", "requestfailed"] as const) page.on(end as "requestfinished", (request) => asked.delete(request));
  return page;
}

/** What would keep somebody from using it, with the element it is about. */
async function barriers(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = (await page.evaluate("axe.run()")) as axe.AxeResults;
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return grave.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}

describe.skipIf(!hasBrowser)(`all views${BROWSER_NOTE}`, () => {
  for (const [name, width, colorScheme] of [
    ["light", 1400, "light"],
    ["dark", 1400, "dark"],
    ["a phone", 390, "light"],
  ] as const) {
    it(`[WB2] axe finds nothing serious on any view: ${name}`, async () => {
      const page = await open();
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      const found: string[] = [];
      for (const address of addresses()) {
        await go(page, address);
        for (const barrier of await barriers(page)) found.push(`${address} ${barrier}`);
        // Nothing to be shoved sideways.
        const excess = Number(await page.evaluate("document.documentElement.scrollWidth - innerWidth"));
        if (excess > 0) found.push(`${address} is ${excess} px too wide`);
      }
      expect(found).toEqual([]);
    }, 120_000);
  }

  it("[WB2] every view: nothing from another host, at most 150 KB of scripts, each under the strict policy", async () => {
    const sizes = new Map<string, Promise<number>>();
    visit.context.on("response", (response) => {
      const { pathname } = new URL(response.url());
      if (pathname.endsWith(".js") && !sizes.has(pathname))
        sizes.set(
          pathname,
          response.body().then((body) => gzipSync(body).length),
        );
    });
    const page = await open();
    for (const address of addresses()) await go(page, address);
    expect(visit.requested.filter((url) => !url.startsWith(origin()) && !/^(?:blob|data):/.test(url))).toEqual([]);
    const bytes = (await Promise.all(sizes.values())).reduce((sum, size) => sum + size, 0);
    expect(sizes.size).toBeGreaterThan(20);
    expect(bytes).toBeLessThan(150 * 1024);
    const { headers } = await scene.herald.request("/");
    expect(headers.get("content-security-policy")).toContain("require-trusted-types-for 'script'");
    // The policy is kept, not only sent: text is no HTML.
    expect(await page.evaluate("try { document.body.innerHTML = '<p>'; 'taken' } catch (error) { error.name }")).toBe("TypeError");
  }, 60_000);

  it("[WB4][WB5] each view has an address; back and forward go through them, old links lead there, nonsense leads to the chat", async () => {
    const page = await open();
    const where = (): Promise<unknown> => page.evaluate("document.body.dataset.view");
    for (const view of ["runs", "usage", "setup", "chat"]) {
      await page.locator(`#to-${view}`).click();
      await page.locator(`#view-${view}`).waitFor();
      expect(await page.locator("main:visible").count()).toBe(1);
      expect(await page.locator(`#to-${view}`).getAttribute("aria-current")).toBe("page");
    }
    for (const view of ["setup", "usage", "runs"]) {
      await page.goBack();
      await waitFor(`the view ${view}`, async () => (await where()) === view);
    }
    await page.goForward();
    await waitFor("the view usage", async () => (await where()) === "usage");
    // Over whatever was there; closing it leads back to that.
    await page.goto(`${origin()}/#/usage?run=${run}`);
    await page.locator("#panel:not(.loading)").waitFor();
    await page.keyboard.press("Escape");
    await page.locator("#panel").waitFor({ state: "hidden" });
    expect(await where()).toBe("usage");
    await page.goto(`${origin()}/#chat=${chat}&run=${run}`);
    await page.locator("#panel:not(.loading)").waitFor();
    expect(await where()).toBe("chat");
    for (const nonsense of ["#/nowhere", "#/run/nobody", `#${"x".repeat(100_000)}`, "#/chat/..%2f?run=__proto__", "#/setup/<b>"]) {
      // The page was the first to listen: it has followed when this is over.
      await page.evaluate(
        `new Promise((heard) => { addEventListener("hashchange", () => heard(), { once: true }); location.hash = ${JSON.stringify(nonsense)}; })`,
      );
      await page.locator("main:visible").waitFor();
      expect(await page.locator("#panel").isHidden()).toBe(true);
    }
  }, 60_000);

  it("[WB2] by keyboard alone from view to view: the places are links in the order of the menu, and each head can be read", async () => {
    const page = await open();
    for (const [view, title] of [
      ["runs", "Runs"],
      ["usage", "Usage"],
      ["setup", "Set-up"],
    ]) {
      await page.locator(`#to-${view}`).focus();
      await page.keyboard.press("Enter");
      await page.locator("main:visible h1", { hasText: title }).waitFor();
    }
  });
});
