// Set-up in a real browser with a real process behind it: what stays untouched in the files, two tabs and an editor at once, the keyboard
// alone, and callers from elsewhere.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import axe from "axe-core";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import { createHarness, type Harness } from "../support/harness.ts";
import { waitFor } from "../support/wait.ts";

const tokenOf = (herald: Harness): string => readFileSync(join(herald.stateDir, "sign-in-link"), "utf8").trim().split("#token=")[1] ?? "";

const go = async (page: Page, section: string): Promise<void> => {
  await page.locator("#to-setup").click();
  await page.locator(".setup-nav a", { hasText: section }).click();
  await page.locator("#setup-section-title", { hasText: section }).waitFor();
};
const press = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).click();
const result = (page: Page, text: string) => page.locator(".setup-result", { hasText: text }).waitFor();

describe.skipIf(!hasBrowser)(`set-up and who else writes or calls${BROWSER_NOTE}`, () => {
  const visit = useBrowser(1200);
  let herald: Harness;
  const open = (): Promise<Page> => visit.open(herald.origin(), tokenOf(herald));
  const settings = (): string => readFileSync(join(herald.dir, "config/herald.json5"), "utf8");

  beforeAll(async () => {
    herald = await createHarness({ config: { gateway: { drainSeconds: 0 } } });
  });
  afterAll(() => herald[Symbol.asyncDispose]());

  it("[WB7] what is typed stays while other sections are looked at; two tabs and an editor never write over each other", async () => {
    const [page, other] = [await open(), await open()];
    for (const tab of [page, other]) await go(tab, "Budgets");
    await page.getByLabel("All of Herald, in a day").fill("5");
    await go(page, "Agents");
    await page.locator(".setup-dot").waitFor();
    const asked = page.waitForEvent("dialog");
    await page.close({ runBeforeUnload: true });
    await (await asked).dismiss();
    await go(page, "Budgets");
    expect(await page.getByLabel("All of Herald, in a day").inputValue()).toBe("5");
    await other.getByLabel("All of Herald, in a month").fill("50");
    await press(other, "Save");
    await result(other, "It counts from now on.");
    await press(page, "Save");
    await result(page, "changed elsewhere meanwhile");
    expect(await page.getByLabel("All of Herald, in a month").inputValue()).toBe("50");
    await press(page, "Save");
    await result(page, "It counts from now on.");
    expect(settings()).toMatch(/perMonth.*50/s);
    // By hand, with comments: they stay to the last byte.
    const before = `// mine\n{\n\tweb: { port: 0 }, /* keep */\n\tgateway: { drainSeconds: 0 }, // fast\n}\n`;
    writeFileSync(join(herald.dir, "config/herald.json5"), before);
    await page.getByLabel("One message").fill("0.5");
    await press(page, "Save");
    await result(page, "changed elsewhere meanwhile");
    await press(page, "Save");
    await result(page, "Saved.");
    expect(settings()).toBe(before.replace("// fast\n", "// fast\n\tbudgets: {\n\t\tmessage: {\n\t\t\tusd: 0.5,\n\t\t},\n\t},\n"));
    expect(readFileSync(join(herald.dir, "config/herald.json5.bak"), "utf8")).toBe(before);
    await page.getByLabel("One message").fill("much");
    await press(page, "Save");
    await page.locator(".field-problem", { hasText: "is not a number" }).waitFor();
  });

  it("[WB7] by keyboard alone: a link, a field, Enter; the place is kept, and what is wrong gets the focus", async () => {
    const page = await open();
    await page.locator("#to-setup").focus();
    await page.keyboard.press("Enter");
    await page.locator('.setup-nav a[href="#/setup/limits"]').focus();
    await page.keyboard.press("Enter");
    await page.locator("#setup-section-title", { hasText: "Budgets" }).waitFor();
    const focused = () => page.evaluate<string>('document.activeElement?.id ?? ""');
    for (let n = 0; n < 10 && (await focused()) !== "setup-limits-limits-perDay"; n++) await page.keyboard.press("Tab");
    await page.keyboard.type("many");
    await page.keyboard.press("Enter");
    await page.locator(".field-problem", { hasText: "is not a number" }).waitFor();
    await waitFor("the focus on it", async () => (await focused()) === "setup-limits-limits-perDay" || null);
    await page.keyboard.press("Control+A");
    await page.keyboard.type("7");
    await page.keyboard.press("Enter");
    await result(page, "It counts from now on.");
    expect(await focused()).toBe("setup-limits-limits-perDay");
    await page.evaluate(axe.source);
    for (const section of ["model", "mcp", "people"]) {
      await page.goto(`${herald.origin()}/#/setup/${section}`);
      await page.locator(`.setup-nav a[aria-current][href="#/setup/${section}"]`).waitFor();
      const found = await page.evaluate(async () =>
        (await (globalThis as unknown as { axe: typeof axe }).axe.run("#view-setup")).violations.map(({ id }) => id),
      );
      expect([section, found]).toEqual([section, []]);
    }
  });

  it("[WB7] PAGE-006 from another port, a sandboxed frame or as plain text: 403, nothing tried and nothing written", async () => {
    const page = await open();
    await go(page, "Model");
    const before = settings();
    // As if nothing stood in its way: it would be written, and whoever it names would be called.
    const { version } = (await (await herald.request("/api/setup")).json()) as { version: string };
    const [save, test] = ["save", "test"].map((name) => `${herald.origin()}/api/setup/${name}`) as [string, string];
    const touched = () => ({
      ...{ section: "model", item: "model" },
      values: { provider: "compatible", "address:compatible": `http://127.0.0.1:${evilPort()}/v1`, "model:compatible": "m" },
    });
    const body = () => JSON.stringify({ ...touched(), version, isInsisted: true });
    const script = () => `const send = (target, body, type, mode) =>
        fetch(target, { method: "POST", mode, credentials: "include", headers: { "content-type": type }, body }).catch(() => {});
      for (const [target, body] of ${JSON.stringify([
        [save, body()],
        [test, JSON.stringify(touched())],
      ])}) { send(target, body, "text/plain", "no-cors"); send(target, body, "application/json", "cors"); }`;
    let tried = 0;
    const evil = createServer((request, response) => {
      if (request.url?.startsWith("/v1")) tried++;
      if (request.url === "/evil.js")
        return void response.writeHead(200, { "content-type": "text/javascript", "access-control-allow-origin": "*" }).end(script());
      const frame = `<iframe sandbox="allow-scripts" srcdoc="<script src='http://127.0.0.1:${evilPort()}/evil.js'></script>"></iframe>`;
      response.writeHead(200, { "content-type": "text/html" }).end(`<script src="/evil.js"></script>${frame}`);
    });
    const evilPort = (): number => (evil.address() as AddressInfo).port;
    await new Promise<void>((resolve) => evil.listen(0, "127.0.0.1", resolve));
    const ended: string[] = [];
    const other = await visit.context.newPage();
    // What the browser doesn't show to the page that asked counts as failed.
    for (const event of ["requestfailed", "requestfinished"] as const)
      other.on(
        event as "requestfailed",
        (request) => request.url().includes("/api/setup/") && ended.push(request.headers()["content-type"] ?? ""),
      );
    await other.goto(`http://127.0.0.1:${evilPort()}/`);
    await waitFor("page and frame to have tried in both ways", () => ended.length >= 8 || null);
    // The cookie alone, from wherever: the key of the page's own storage is missing.
    const cookies = await visit.context.cookies(save);
    const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
    const direct = (more: Record<string, string>) =>
      fetch(save, { method: "POST", body: body(), headers: { "content-type": "application/json", cookie, ...more } });
    for (const origin of [`http://127.0.0.1:${new URL(other.url()).port}`, "null"]) {
      for (const type of ["text/plain", "application/json"]) {
        const refused = await direct({ origin, "content-type": type });
        expect([origin, type, refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([origin, type, 403, null]);
      }
    }
    expect((await direct({})).status).toBe(403);
    expect((await direct({ origin: herald.origin() })).status).toBe(401);
    // Nor is the token of a script enough.
    expect((await herald.request("/api/setup/save", { method: "POST", body: body() })).status).toBe(403);
    expect([settings(), existsSync(join(herald.dir, ".env")), tried]).toEqual([before, false, 0]);
    // The same from the page itself is taken.
    const key = await page.evaluate<string>('JSON.parse(localStorage.getItem("herald.key"))');
    expect((await direct({ origin: herald.origin(), "x-herald-key": key })).status).toBe(200);
    expect(settings()).toContain("compatible/m");
    await new Promise((resolve) => evil.close(resolve));
  });

  it("[WB7] a settings file that can't be read is said so, and nothing is written to it", async () => {
    const page = await open();
    const good = settings();
    writeFileSync(join(herald.dir, "config/herald.json5"), "{ web: ");
    await go(page, "Budgets");
    await page.locator(".setup-notice.bad", { hasText: "not valid JSON5" }).waitFor();
    await page.getByLabel("One message").fill("3");
    await press(page, "Save");
    await result(page, "not valid JSON5");
    expect(settings()).toBe("{ web: ");
    writeFileSync(join(herald.dir, "config/herald.json5"), good);
    await waitFor("the good settings", () => herald.output().includes("were not taken") || null);
  });
});
