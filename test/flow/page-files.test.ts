// Files on the page in a real browser: the button, pasting, dropping, the chips, sending, pictures and saving (WB3, CH2).
import { randomUUID } from "node:crypto";
import type { Page } from "playwright-core";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Address } from "../../src/core/address.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import { inPieces, LIMITS, png } from "../support/files.ts";
import { waitFor } from "../support/wait.ts";
import { startWeb, type WebFixture } from "../support/web-server.ts";

const MAIN: Address = { channel: "web", account: "local", chat: "main", kind: "dm" };
const PHOTO = { name: "photo.png", mimeType: "image/png", buffer: png(60, 40) };
const NOTES = { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("hello") };

describe.skipIf(!hasBrowser)(`files on the page${BROWSER_NOTE}`, () => {
  const visit = useBrowser(1200);
  let web: WebFixture;
  beforeEach(async () => {
    web = await startWeb();
  });
  afterEach(() => web.close());
  const chips = (page: Page) => page.locator(".file-strip .file-name").allInnerTexts();
  const done = (page: Page, count: number) =>
    page
      .locator(".file-strip .file-chip.done")
      .nth(count - 1)
      .waitFor();
  const rawOf = async () =>
    (await web.db.all<{ raw: string }>("SELECT raw FROM inbox ORDER BY id")).map(
      ({ raw }) => JSON.parse(raw) as { text: string; files?: string[] },
    );
  const widthOf = (page: Page, selector: string) => page.evaluate(`document.querySelector("${selector}").naturalWidth`);
  /** What a browser hands over when somebody pastes or drops. */
  const hand = (page: Page, kind: "paste" | "drop", selector: string) =>
    page.evaluate(
      `(() => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array([104, 105])], "${kind}.txt", { type: "text/plain" }));
        const event = "${kind}" === "paste"
          ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })
          : new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
        document.querySelector("${selector}").dispatchEvent(event);
      })()`,
    );

  it("[WB3] chosen, pasted and dropped files become chips, one is taken away, the rest goes with the message", async () => {
    const page = await visit.open(web.url, web.token);
    // The first question for the limits is answered last: files keep the order they came in.
    const handed = Promise.withResolvers<void>();
    let questions = 0;
    await visit.context.route("**/api/files", async (route) => {
      if (questions++ === 0) await handed.promise;
      await route.fallback();
    });
    await page.locator("#composer input[type=file]").setInputFiles([PHOTO, NOTES]);
    await hand(page, "paste", "#text");
    await hand(page, "drop", "#messages");
    await page.evaluate("new Promise((resolve) => setTimeout(resolve, 100))");
    handed.resolve();
    await done(page, 4);
    expect(await chips(page)).toEqual(["photo.png", "notes.txt", "paste.txt", "drop.txt"]);
    await waitFor("its picture", async () => (await widthOf(page, ".file-strip img")) === 60);
    await page.getByRole("button", { name: "Remove notes.txt" }).click();
    await waitFor("its end", async () => (await web.db.all("SELECT 1 FROM attachments")).length === 3);
    await page.fill("#text", "Look at these");
    await page.keyboard.press("Enter");
    await page.locator("#messages .message.user .files li").nth(2).waitFor();
    expect(await chips(page)).toEqual([]);
    const [posted] = await rawOf();
    expect(posted?.files).toHaveLength(3);
    const image = page.locator("#messages .picture img");
    await waitFor("the picture", async () => (await widthOf(page, "#messages .picture img")) === 60);
    expect(await image.getAttribute("alt")).toBe("photo.png");
  });

  it("[WB3] what is uploaded but not sent survives a reload, and a failed send keeps its files", async () => {
    const page = await visit.open(web.url, web.token);
    await page.locator("#composer input[type=file]").setInputFiles([NOTES]);
    await done(page, 1);
    await page.reload();
    await page.locator(".file-strip .file-name", { hasText: "notes.txt" }).waitFor();
    await visit.context.route("**/api/chats/main/messages", (route) =>
      route.request().method() === "POST" ? route.abort() : route.fallback(),
    );
    await page.fill("#text", "with notes");
    await page.keyboard.press("Enter");
    await page.locator("#pending .failed", { hasText: "notes.txt" }).waitFor();
    await visit.context.unroute("**/api/chats/main/messages");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator("#messages .message.user", { hasText: "notes.txt" }).waitFor();
    expect((await rawOf())[0]?.files).toHaveLength(1);
  });

  it("[WB3] FILE-007 500 files at once, an empty and a large one: a word each, and the rest stays out", async () => {
    web.files.limits = { ...LIMITS, fileBytes: 1_000 };
    const page = await visit.open(web.url, web.token);
    const many = Array.from({ length: 500 }, (_, n) => ({ ...NOTES, name: `${n}.txt` }));
    await page.locator("#composer input[type=file]").setInputFiles(many);
    await page.locator("#toast", { hasText: "A message may have 10 files: 490 were left out." }).waitFor();
    await done(page, 10);
    await page.getByRole("button", { name: "Remove 0.txt" }).click();
    await page.locator("#composer input[type=file]").setInputFiles([{ ...NOTES, name: "big.txt", buffer: Buffer.alloc(2_000, 65) }]);
    await page.locator("#toast", { hasText: "“big.txt” has 2 KB; files may have at most 1000 B." }).waitFor();
    await page.locator("#composer input[type=file]").setInputFiles([{ ...NOTES, name: "none.txt", buffer: Buffer.of() }]);
    await page.locator("#toast", { hasText: "“none.txt” is empty" }).waitFor();
    expect(await chips(page)).toHaveLength(9);
  });

  it("[CH2] FILE-001 what the agent sends is saved under its name, and of an SVG or a page nothing runs", async () => {
    const page = await visit.open(web.url, web.token);
    const svg = Buffer.from('<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><script>window.pwned=1</script></svg>');
    const files = [
      ...[["photo.png", png(60, 40)] as const, ["logo.svg", svg] as const, ["bomb.png", png(30_000, 30_000)] as const],
      ...[["page.png", Buffer.from("<script>window.pwned=1</script>")] as const],
    ];
    for (const [n, [name, bytes]] of files.entries()) {
      const taken = await web.files.intake.take({ origin: randomUUID(), chat: "x", message: "m", name, pieces: inPieces(bytes) });
      if ("refused" in taken) return expect.unreachable(taken.refused);
      const [part = {}] = web.channel.render({ markdown: name, file: taken.file }, MAIN);
      await web.channel.send({ address: MAIN, part, key: `file:${n}#0`, repeated: false });
      const answer = await fetch(`${web.url}/api/files/${taken.file.id}`, { headers: { authorization: `Bearer ${web.token}` } });
      const isShown = name === "photo.png" || name === "bomb.png";
      expect(answer.headers.get("content-type")).toBe(isShown ? "image/png" : "application/octet-stream");
      expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
      expect(answer.headers.get("content-security-policy")).toContain("sandbox");
      expect((await fetch(`${web.url}/api/files/${taken.file.id}`)).status).toBe(401);
    }
    await page.getByRole("button", { name: "Save page.png, 31 B" }).waitFor();
    // Too many pixels for a browser to unpack unasked, and no picture at all: chips, all of them.
    expect(await page.locator("#messages .files .file-name").allInnerTexts()).toEqual(["logo.svg", "bomb.png", "page.png"]);
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: /^Save logo.svg/ }).click()]);
    expect(download.suggestedFilename()).toBe("logo.svg");
    expect(await page.evaluate("window.pwned")).toBeUndefined();
  });
});
