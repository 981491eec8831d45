// A real browser for the page's tests: playwright-core drives the system's Chromium ($CHROMIUM or the usual place).
// Without one the tests are skipped and say why.
import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";

const PATH = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** False when there is no browser: pass to describe.skipIf(!…). */
export const hasBrowser = existsSync(PATH);
export const BROWSER_NOTE = hasBrowser ? "" : ` (skipped: no Chromium at ${PATH}; set CHROMIUM)`;

export const launchBrowser = (): Promise<Browser> =>
  // No sandbox: test machines and containers often forbid user namespaces, and the page under test is our own.
  chromium.launch({ executablePath: PATH, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"] });
