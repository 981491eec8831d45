// A real browser for the page's tests: playwright-core drives the system's Chromium, $CHROMIUM or one of the usual places.
// Without one the tests are skipped and say why.
import { existsSync } from "node:fs";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { signInUrl } from "../../src/web/token.ts";

/** The shell is the same engine without windows; a tab costs it a quarter of the work. */
const PLACES = process.env.CHROMIUM ? [process.env.CHROMIUM] : ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];
const PATH = PLACES.find((path) => existsSync(path));

/** False when there is no browser: pass to describe.skipIf(!…). */
export const hasBrowser = PATH !== undefined;
export const BROWSER_NOTE = hasBrowser ? "" : ` (skipped: no Chromium at ${PLACES.join(" or ")}; set CHROMIUM)`;

/** What the present test visits the page with. */
export interface Visit {
  readonly context: BrowserContext;
  /** Every address asked for, in order. */
  readonly requested: readonly string[];
  /** A new tab, signed in, past loading and connected: what happens from now on it is told. */
  open(origin: string, token: string): Promise<Page>;
}

/** One browser for the file or describe, a context of its own for each test; an error of the page or a breach of its policy fails the test. */
export function useBrowser(width: number): Visit {
  let browser: Browser;
  let context: BrowserContext;
  let requested: string[];
  let problems: string[];
  if (hasBrowser) {
    beforeAll(async () => {
      browser = await launchBrowser();
    });
    afterAll(async () => {
      await browser.close();
    });
    beforeEach(async () => {
      context = await browser.newContext({ viewport: { width, height: 800 }, reducedMotion: "reduce" });
      context.setDefaultTimeout(45_000);
      requested = [];
      problems = [];
      context.on("request", (request) => requested.push(request.url()));
      context.on("weberror", (error) => problems.push(error.error().message));
      context.on("console", (message) => {
        if (/Content Security Policy|Uncaught/.test(message.text())) problems.push(message.text());
      });
    });
    afterEach(async () => {
      await context.close();
      expect(problems).toEqual([]);
    });
  }
  return {
    get context() {
      return context;
    },
    get requested() {
      return requested;
    },
    async open(origin, token) {
      const page = await context.newPage();
      await page.goto(signInUrl(origin, token));
      await page.waitForSelector("#app", { state: "visible" });
      // By its stream.
      await page.waitForSelector("#about:not(:empty)", { state: "attached" });
      return page;
    },
  };
}

export const launchBrowser = (): Promise<Browser> =>
  // No sandbox: test machines and containers often forbid user namespaces, and the page under test is our own.
  chromium.launch({ executablePath: PATH ?? "", args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"] });
