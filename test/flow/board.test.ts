// The board and the open run in a real browser: against the page's server alone, and once against the whole process.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newId } from "../../src/core/ids.ts";
import type { EntryBody } from "../../src/stores/transcript-entry.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import { createChannelScene } from "../support/channel-scene.ts";
import { createHarness } from "../support/harness.ts";
import { waitFor } from "../support/wait.ts";
import { aRun, startWeb, type WebFixture } from "../support/web-server.ts";

const ATTACK = "<script>window.pwned=1</script><img src=x onerror='window.pwned=1'>";
const said = (id: string, text: string): EntryBody & { id: string } => ({
  id,
  type: "message",
  role: "assistant",
  text,
  model: "m",
  calls: 0,
});
const ann = {
  ...{ channel: "telegram", account: "bot", senderId: "42", senderName: "Ann" },
  address: { channel: "telegram", account: "bot", chat: "42", kind: "dm" },
} as const;

const BRIEF = { from: "agent:main:web:dm:main", isOurs: false, at: 1, mission: "Mind it.", sharedMemory: [], constraints: [] };

const visit = useBrowser(1400);

const focused = (page: Page) => page.evaluate("document.activeElement.id || document.activeElement.className");
const widths = (page: Page) => page.evaluate("[document.documentElement.scrollWidth, document.getElementById('panel-scroll').scrollWidth]");

describe.skipIf(!hasBrowser)(`the board${BROWSER_NOTE}`, () => {
  let web: WebFixture;
  beforeEach(async () => {
    web = await startWeb();
  });
  afterEach(async () => {
    await web.close();
  });
  const start = () => visit.open(web.url, web.token);
  const changed = (runId: string) => web.bus.emit({ type: "run.changed", runId, state: "running" });

  it("[AP1][WB1] a result that is held for a digest says when it goes out", async () => {
    const digestAt = new Date().setHours(23, 59, 0, 0);
    const ended = { state: "done", endedAt: 1, delivery: "pending" } as const;
    web.runs.push(aRun({ label: "held", ...ended, digestAt }), aRun({ label: "on its way", ...ended }));
    const page = await start();
    await page
      .locator(".run", { hasText: "held" })
      .getByText(/^goes out with the digest at (?:23:59|11:59 PM)$/)
      .waitFor();
    await page.locator(".run", { hasText: "on its way" }).getByText("announcement pending").waitFor();
  });

  it("[WB1] shows trees under their requester, those that need a person first, with what each does and cost", async () => {
    const parent = aRun({ label: "parent", doing: "read a.md", step: "2/5 Read", tokens: 11_200, costUsd: 0.12 });
    web.runs.push(
      parent,
      aRun({ label: "child", parentId: parent.id, state: "queued", startedAt: null, position: 3, depth: 2 }),
      aRun({ label: "stuck", state: "done", endedAt: 61_001, delivery: "blocked" }),
      aRun({ label: "far away", chat: null, origin: "telegram 5551", state: "done", endedAt: 1, delivery: "delivered" }),
    );
    const page = await start();
    await page.locator(".run").nth(3).waitFor();
    const shown = "[...document.querySelectorAll('#runs > li')].map((node) => (node.querySelector('.run-label') ?? node).textContent)";
    expect(await page.evaluate(shown)).toEqual(["Needs you", "stuck", "Main chat", "parent", "child", "Telegram 5551", "far away"]);
    const lines = (label: string) =>
      page
        .locator(".run", { has: page.locator(`.run-label:text-is("${label}")`) })
        .locator(".run-line span")
        .allInnerTexts();
    expect(await lines("parent")).toEqual(["running · 2/5 Read · read a.md", "11.2k tokens · $0.12"]);
    expect((await lines("child"))[0]).toBe("queued, number 3");
    expect(await lines("stuck")).toEqual(["done in 1m01s", "not delivered"]);
    expect((await lines("far away"))[1]).toBe("delivered");
    // A line for the name and one for the rest.
    expect((await page.locator(".run", { hasText: "parent" }).boundingBox())?.height).toBeLessThan(60);
    expect(await page.locator(".run[data-level='1']").count()).toBe(1);
    expect(await page.locator(".run-actions:visible button:visible").allInnerTexts()).toEqual(["Retry"]);
  });

  it("[WB1] a run opens by keyboard, has an address without a token, and Esc goes back to where it was opened", async () => {
    const run = aRun({ label: "Count lines" });
    web.runs.push(run);
    web.details.set(run.id, {
      task: "count the lines",
      briefing: { briefs: [{ ...BRIEF, mission: "count *honestly*" }], version: 1, isOpen: true },
      plan: [
        { title: "Read", status: "done" },
        { title: "Count", status: "doing" },
      ],
      sections: { summary: "It is **42**", changes: "None.", evidence: null, risks: null, blockers: null },
      checks: [
        { name: "exists out.md", passed: true, why: "it is there", output: "" },
        { name: "command npm test", passed: false, why: "exit code 1", output: "1 failed" },
      ],
      data: "| total | 7 |\n|---|---|",
      trace: [{ agent: "agent:main:web:dm:main", action: "Delegated it", timestamp: "2026-01-01T00:00:00.000Z" }],
    });
    const page = await start();
    await page.focus(".run-label");
    await page.keyboard.press("Enter");
    await page.locator("#panel-task", { hasText: "count the lines" }).waitFor();
    expect(page.url()).toBe(`${web.url}/#/chat/main?run=${run.id}`);
    expect(await focused(page)).toBe("panel-title");
    expect(await page.locator("#panel-plan li").allInnerTexts()).toEqual(["Read", "Count"]);
    expect(await page.textContent("#panel-sections")).toBe("summaryIt is 42changesNone.");
    expect(await page.locator("#panel-checks li").allInnerTexts()).toEqual([
      "Passed: exists out.md\nit is there",
      "Failed: command npm test\nexit code 1\n1 failed",
    ]);
    expect(await page.locator("#panel-data th").allInnerTexts()).toEqual(["total", "7"]);
    expect(await page.textContent("#panel-brief .words")).toBe("count *honestly*");
    expect(await page.textContent("#panel-trace")).toContain("Delegated it");
    await page.locator("#fold-facts summary").press("Enter");
    expect(await page.textContent("#panel-facts")).toContain(`Run${run.id}`);
    await page.keyboard.press("Escape");
    await page.waitForSelector("#panel", { state: "hidden" });
    expect(page.url()).toBe(`${web.url}/#/`);
    expect(await focused(page)).toBe("run-label");
    await page.goBack();
    await page.waitForSelector("#panel", { state: "visible" });
    await page.reload();
    await page.locator("#panel-title", { hasText: "Count lines" }).waitFor();
    await page.click("#panel-close");
    await page.waitForSelector("#panel", { state: "hidden" });
    expect(visit.requested.filter((url) => new URL(url).origin !== web.url)).toEqual([]);
  });

  it("[WB1] opening a run leaves the chat as it is, in another chat too", async () => {
    const run = aRun({ label: "Count" });
    web.runs.push(run);
    const chat = newId();
    await web.say("words of the other chat", { chat });
    const page = await start();
    await page.goto(`${web.url}/#/chat/${chat}`);
    await page.locator("#messages .body", { hasText: "words of the other chat" }).waitFor();
    await page.fill("#text", "half a thought");
    await page.click(".run-label");
    await page.waitForSelector("#panel", { state: "visible" });
    expect(page.url()).toBe(`${web.url}/#/chat/${chat}?run=${run.id}`);
    await web.say("later", { chat });
    await page.locator("#messages .body", { hasText: "later" }).waitFor();
    expect(await page.inputValue("#text")).toBe("half a thought");
    expect(visit.requested.filter((url) => url.includes(`/api/chats/${chat}/messages`))).toHaveLength(1);
  });

  it("[WB1] [OB2] the transcript grows while it runs and pages back; what the person opened stays open", async () => {
    const run = aRun({ label: "Count" });
    web.runs.push(run);
    web.log(run.id, { id: "task", type: "message", role: "user", from: "agent:main:web:dm:main", text: "count" });
    web.log(run.id, ...Array.from({ length: 60 }, (_, n) => said(`s${n}`, `step ${n}`)));
    web.log(run.id, { id: "c", type: "tool_result", callId: "1", name: "read", text: "first line\nsecond line", isError: false });
    const page = await start();
    await page.click(".run-label");
    await page.locator("#panel-log li").nth(39).waitFor();
    await page.locator("#panel-log summary").press("Enter");
    await page.locator("#panel-log pre", { hasText: "second line" }).waitFor();
    await page.evaluate("document.getElementById('panel-scroll').scrollTop = 1e6");
    web.runs.splice(0, 1, { ...run, doing: "exec wc" });
    web.log(run.id, { id: "d", type: "tool_call", callId: "2", name: "exec", args: { command: "wc" } });
    await page.locator("#panel-log .tool-entry", { hasText: /exec\s+wc/ }).waitFor();
    await page.locator("#panel-state", { hasText: "running · exec wc" }).waitFor();
    expect(await page.isVisible("#panel-log pre")).toBe(true);
    // It was read at its end, so the end stays in sight.
    await waitFor(
      "the end in sight",
      async () =>
        ((await page.evaluate(
          "(({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight)(document.getElementById('panel-scroll'))",
        )) as number) < 5,
    );
    await page.click("#panel-earlier");
    await page.waitForSelector("#panel-earlier", { state: "hidden" });
    expect(await page.locator("#panel-log .said .body").allInnerTexts()).toEqual(Array.from({ length: 60 }, (_, n) => `step ${n}`));
    expect(await page.locator("#panel-log li").count()).toBe(63);
    // More than a page at once: the end is shown whole, and what came before can be had again.
    web.log(run.id, ...Array.from({ length: 90 }, (_, n) => said(`t${n}`, `later ${n}`)));
    await page.locator("#panel-log .said", { hasText: "later 89" }).waitFor();
    await page.waitForSelector("#panel-earlier", { state: "visible" });
    expect(await page.locator("#panel-log li").count()).toBe(40);
  });

  it("[WB1] [WB4] Stop and Send reach the run, Retry delivers again; an update does not take the words away", async () => {
    const run = aRun({ label: "Count" });
    web.runs.push(run);
    const page = await start();
    await page.click(".run-label");
    await page.waitForSelector("#panel-send", { state: "visible" });
    await page.focus("#panel-text");
    await page.keyboard.type("hurry ");
    web.runs.splice(0, 1, { ...run, doing: "step 2" });
    changed(run.id);
    await page.locator("#panel-state", { hasText: "step 2" }).waitFor();
    await page.keyboard.type("up");
    await page.keyboard.press("Enter");
    await waitFor("the words", () => web.steered.length === 1);
    await page.click("#panel-stop");
    await waitFor("the stop", () => web.steered.length === 2);
    web.runs.splice(0, 1, { ...run, state: "done", endedAt: 2, delivery: "blocked" });
    web.details.set(run.id, { reason: "the disk is full" });
    changed(run.id);
    await page.locator("#panel-why", { hasText: "the disk is full" }).waitFor();
    expect(await page.isVisible("#panel-stop")).toBe(false);
    await page.click("#panel-retry");
    await waitFor("the next try", () => web.redelivered.length === 1);
    expect(web.redelivered).toEqual([run.id]);
    expect(web.steered).toEqual([
      ["send", run.id, "hurry up"],
      ["stop", run.id],
    ]);
    expect(await web.inbox()).toEqual([]);
    // Words that were not sent wait for their run.
    await page.fill("#panel-text", "one more thing");
    await page.keyboard.press("Escape");
    await page.click(".run-label");
    expect(await page.inputValue("#panel-text")).toBe("one more thing");
  });

  it("[WB1] [WB4] a run of another channel is watched and steered like any other; an unknown one is said to be unknown", async () => {
    const run = aRun({ label: "far away", chat: null, origin: "telegram 5551", requesterKey: "agent:main:telegram:dm:5551" });
    web.runs.push(run);
    web.log(run.id, said("a", "working on it"));
    const page = await start();
    await page.click(".run-label");
    await page.locator("#panel-log .said", { hasText: "working on it" }).waitFor();
    await page.locator("#panel-elsewhere", { hasText: "Asked for in Telegram 5551; what comes of it is announced there." }).waitFor();
    for (const id of ["panel-send", "panel-stop", "panel-again"]) expect(await page.isVisible(`#${id}`)).toBe(true);
    await page.click("#panel-stop");
    await waitFor("the stop", () => web.steered.length === 1);
    expect(web.steered).toEqual([["stop", run.id]]);
    await page.evaluate(`location.hash = 'run=${newId()}'`);
    await page.locator("#panel-problem", { hasText: "There is no such run on record" }).waitFor();
    expect(await page.textContent("#panel-title")).toBe("Sub-agent");
    expect(await page.isVisible("#panel-task")).toBe(false);
  });

  it("[WB1] what needs a person can be done here, whatever channel it is of; the plan of what has ended stands still", async () => {
    const far = { chat: null, origin: "telegram 5551", requesterKey: "agent:main:telegram:dm:5551" };
    const run = aRun({ label: "far away", ...far, state: "stopped", endedAt: 2, delivery: "blocked" });
    web.runs.push(run);
    const plan = [{ title: "Read", status: "done" } as const, { title: "Count", status: "doing" } as const];
    web.details.set(run.id, { plan });
    const page = await start();
    await page.locator(".run", { hasText: "far away" }).getByRole("button", { name: "Retry" }).click();
    await page.locator("#toast", { hasText: "Its announcement is on its way again." }).waitFor();
    await page.click(".run-label");
    await page.locator("#panel-plan li").nth(1).waitFor();
    expect(await page.evaluate("[...document.querySelectorAll('#panel-plan li')].map((node) => node.dataset.status)")).toEqual([
      "done",
      "left",
    ]);
    await page.click("#panel-retry");
    await waitFor("both tries", () => web.redelivered.length === 2);
    expect(web.redelivered).toEqual([run.id, run.id]);
    web.runs.splice(0, 1, { ...run, state: "running", endedAt: null, delivery: "none" });
    changed(run.id);
    await page.waitForSelector("#panel-plan [data-status='doing']");
    expect(await web.inbox()).toEqual([]);
  });

  it("[WB2] [WB4] of a hundred runs the first are beside the chat, as one stop of the Tab key; those with one name are told apart", async () => {
    web.runs.push(...Array.from({ length: 100 }, (_, n) => aRun({ label: n < 3 ? "compare" : `run ${n}`, createdAt: 1000 - n })));
    web.runs.push(...Array.from({ length: 5 }, (_, n) => aRun({ label: `ended ${n}`, state: "done", endedAt: n })));
    for (let n = 0; n < 20; n++) await web.channel.accept({ id: newId(), chat: newId(), text: `chat ${n}`, kind: "message" });
    const page = await start();
    await page.locator(".run").nth(22).waitFor();
    await page.locator(".chat-link").nth(20).waitFor();
    expect(await page.locator(".run").count()).toBe(23);
    expect((await page.locator(".run-label").allInnerTexts()).slice(20)).toEqual(["ended 2", "ended 3", "ended 4"]);
    expect(await page.locator(".run-id:visible").allInnerTexts()).toEqual(web.runs.slice(0, 3).map((run) => run.shortId));
    await page.focus("#skip");
    const stops: unknown[] = [];
    for (let isInChat = false; !isInChat && stops.length < 20; ) {
      await page.keyboard.press("Tab");
      isInChat = (await page.evaluate("document.activeElement.closest('main.chat') !== null")) as boolean;
      if (!isInChat)
        stops.push(await page.evaluate("document.activeElement.id || document.activeElement.className || document.activeElement.tagName"));
    }
    const places = ["to-chat", "to-runs", "to-usage", "to-setup", "new-chat", "search", "chat-link", "icon chat-more", "SUMMARY"];
    expect(stops).toEqual([...places, "run-label", "all-runs", "notify", "open-shortcuts", "open-browsers"]);
    await page.focus(".run-label");
    const label = () => page.evaluate("document.activeElement.textContent");
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    expect(await label()).toMatch(/^ended/);
    // A change of the list leaves the focus where it is.
    changed(web.runs[0]?.id ?? "");
    await page.keyboard.press("Home");
    await page.keyboard.press("Enter");
    await page.locator("#panel-numbers", { hasText: web.runs[0]?.shortId ?? "?" }).waitFor();
    await page.keyboard.press("Escape");
    await page.locator("#all-runs", { hasText: "All runs, 80 more at work" }).click();
    await page.locator("#view-runs h1").waitFor();
  });

  it("[WB2] no button of a run lies over the head of the list when it is scrolled", async () => {
    web.runs.push(...Array.from({ length: 18 }, (_, n) => aRun({ label: `run ${n}`, state: "done", endedAt: 1, delivery: "blocked" })));
    const page = await start();
    await page.locator(".run").nth(17).waitFor();
    const covered = `(() => {
      const [sidebar, button] = [document.getElementById("sidebar"), document.querySelector(".run-actions button:not([hidden])")];
      const head = document.querySelector(".sidebar-head").getBoundingClientRect();
      sidebar.scrollTop += button.getBoundingClientRect().top - head.top - 12;
      const { left, top, width, height } = button.getBoundingClientRect();
      return [top < head.bottom, document.elementFromPoint(left + width / 2, top + height / 2).closest(".sidebar-head") !== null];
    })()`;
    expect(await page.evaluate(covered)).toEqual([true, true]);
  });

  it("[WB1] KEY-014 hostile labels, tasks, plans, traces and transcripts are shown as text and run nothing", async () => {
    const run = aRun({ label: ATTACK, doing: ATTACK, step: ATTACK, origin: ATTACK, chat: null });
    web.runs.push(run);
    web.details.set(run.id, {
      ...{
        task: ATTACK,
        reason: ATTACK,
        briefing: { briefs: [{ ...BRIEF, from: ATTACK, mission: ATTACK, constraints: [ATTACK] }], version: 1, isOpen: true },
      },
      plan: [{ title: ATTACK, status: "doing" }],
      checks: [{ name: ATTACK, passed: false, why: ATTACK, output: ATTACK }],
      data: ATTACK,
      sections: { summary: `${ATTACK}\n\n![x](https://evil.example/?q=1)`, changes: ATTACK, evidence: null, risks: null, blockers: null },
      trace: [{ agent: ATTACK, action: ATTACK, timestamp: "2026-01-01T00:00:00.000Z" }],
    });
    web.log(
      run.id,
      { id: "task", type: "message", role: "user", from: ATTACK, text: ATTACK },
      { id: "m", type: "message", role: "user", from: ATTACK, text: ATTACK },
      said("a", `${ATTACK}\n\n![x](https://evil.example/?q=2)\n\n\`\`\`html\n${ATTACK}\n\`\`\``),
      { id: "b", type: "tool_call", callId: "1", name: ATTACK, args: { a: ATTACK } },
      { id: "c", type: "tool_result", callId: "1", name: ATTACK, text: `${ATTACK}\n${ATTACK}`, isError: true },
      { id: "d", type: "note", text: ATTACK },
      { id: "e", type: "compaction", summary: ATTACK, keptFrom: null },
    );
    await web.db.transaction([], (tx) => web.pairing.request(tx, { ...ann, senderName: ATTACK }));
    const page = await start();
    await page.locator("#pairing .person-name", { hasText: "<script>" }).waitFor();
    await page.click(".run-label");
    await page.locator("#panel-log li").nth(5).waitFor();
    for (const id of [
      "panel-title",
      "panel-task",
      "panel-plan",
      "panel-checks",
      "panel-data",
      "panel-sections",
      "panel-brief",
      "panel-trace",
      "panel-log",
      "panel-why",
    ])
      expect(await page.textContent(`#${id}`), id).toContain("<script>");
    expect(await page.locator("#panel script, #panel img, #sidebar script, #runs img, #pairing img").count()).toBe(0);
    expect(await page.evaluate("window.pwned")).toBeUndefined();
    expect(visit.requested.filter((url) => new URL(url).origin !== web.url)).toEqual([]);
  });

  it("[WB2] fills a phone's screen and no more, whatever is written; the drawer leads to it and closes first", async () => {
    const run = aRun({ label: "wide".repeat(50), doing: "doing".repeat(50) });
    web.runs.push(run);
    web.details.set(run.id, {
      task: "task".repeat(100),
      sections: { summary: `\`\`\`\n${"code ".repeat(100)}\n\`\`\``, changes: null, evidence: null, risks: null, blockers: null },
    });
    web.log(run.id, said("a", `${"word".repeat(100)}\n\n| ${"cell | ".repeat(30)}\n|${"---|".repeat(30)}`));
    web.log(run.id, { id: "b", type: "tool_call", callId: "1", name: "tool".repeat(20), args: { a: "x".repeat(500) } });
    const page = await start();
    await page.setViewportSize({ width: 360, height: 700 });
    await page.click("#open-sidebar");
    await page.locator(".run-label").click();
    await page.locator("#panel-log li").nth(1).waitFor();
    for (const summary of await page.locator("#panel summary:visible").all()) await summary.click();
    expect(await widths(page)).toEqual([360, 360]);
    expect(await page.isVisible("#sidebar")).toBe(false);
    // What lies under it is out of reach of the Tab key.
    expect(await page.isVisible("#text")).toBe(false);
    await page.keyboard.press("Escape");
    await page.waitForSelector("#panel", { state: "hidden" });
    expect(await focused(page)).toBe("open-sidebar");
    expect(await page.isVisible("#text")).toBe(true);
  });

  it("[WB2] after a lost connection the open run is up to date again", async () => {
    const run = aRun({ label: "Count" });
    web.runs.push(run);
    web.log(run.id, said("a", "before"));
    const page = await start();
    await page.click(".run-label");
    await page.locator("#panel-log .said", { hasText: "before" }).waitFor();
    await web.server.close();
    await page.waitForSelector("#banner", { state: "visible" });
    web.log(run.id, said("b", "missed"));
    await web.restart();
    await page.locator("#panel-log .said", { hasText: "missed" }).waitFor();
    await page.waitForSelector("#panel-problem", { state: "hidden" });
    expect(await page.locator("#panel-log .said .body").allInnerTexts()).toEqual(["before", "missed"]);
  });

  it("[SC1] who waits to be let in is shown while they wait, and let in by a press", async () => {
    const page = await start();
    await page.waitForSelector("#runs-empty", { state: "visible" });
    expect(await page.isVisible("#pairing")).toBe(false);
    const code = (await web.db.transaction([], (tx) => web.pairing.request(tx, ann))) ?? "";
    await web.db.transaction([], (tx) => web.pairing.request(tx, { ...ann, senderId: "43", senderName: "" }));
    await page.locator("#pairing .person").nth(1).waitFor();
    const first = page.locator("#pairing .person").first();
    expect(await first.textContent()).toBe(`Anntelegram 42${code}RefuseApprove`);
    await first.getByRole("button", { name: "Approve" }).press("Enter");
    await page.locator("#toast", { hasText: "Ann may talk to Herald now and is told so." }).waitFor();
    await waitFor("one to be gone", async () => (await page.locator("#pairing .person").count()) === 1);
    expect([await web.pairing.isPaired("telegram", "bot", "42"), await web.pairing.isPaired("telegram", "bot", "43")]).toEqual([
      true,
      false,
    ]);
    // Let in elsewhere meanwhile: it goes away here too.
    await web.pairing.approve((await web.pairing.listPending())[0]?.code ?? "");
    await page.waitForSelector("#pairing", { state: "hidden" });
  });

  it("[SC1] somebody is refused by a press; who was let in or refused is listed, and that can be taken back", async () => {
    const page = await start();
    for (const { channel, account, senderId } of await web.pairing.listPeople()) await web.pairing.revoke({ channel, account, senderId });
    await page.waitForSelector("#people", { state: "hidden" });
    await web.pairing.approve((await web.db.transaction([], (tx) => web.pairing.request(tx, ann))) ?? "");
    await web.db.transaction([], (tx) => web.pairing.request(tx, { ...ann, senderId: "43", senderName: "Bob" }));
    await page.locator("#pairing .person").getByRole("button", { name: "Refuse" }).click();
    await page.locator("#toast", { hasText: "Bob is not let in and is told so once." }).waitFor();
    await page.waitForSelector("#pairing", { state: "hidden" });
    await page.locator("#people summary", { hasText: "People 2" }).press("Enter");
    const person = (name: string) => page.locator("#people-list .person", { hasText: name });
    expect(await person("Bob").textContent()).toMatch(/^Bobtelegram 43, refused .*Let them ask again$/);
    await person("Ann").getByRole("button", { name: "Revoke" }).press("Enter");
    await person("Ann").waitFor({ state: "detached" });
    expect(await web.pairing.isPaired("telegram", "bot", "42")).toBe(false);
    await person("Bob").getByRole("button", { name: "Let them ask again" }).click();
    await page.waitForSelector("#people", { state: "hidden" });
    expect(await web.pairing.listPeople()).toEqual([]);
  });
});

describe.skipIf(!hasBrowser)(`the board of a running gateway${BROWSER_NOTE}`, () => {
  it("[WB1] [OB2] a run is watched as it works, told something, stopped from its panel; a finished one shows its sections", async () => {
    await using herald = await createHarness();
    await herald.say("in the background, wait 50 seconds");
    await waitFor("the run", () => herald.rows<{ state: string }>("SELECT state FROM runs")[0]?.state === "running");
    const page = await visit.open(herald.origin(), readFileSync(join(herald.stateDir, "web-token"), "utf8").trim());
    await page.click(".run-label");
    await page.locator("#panel-state", { hasText: "running" }).waitFor();
    await page.locator("#panel-log .task", { hasText: "wait 50 seconds" }).waitFor();
    await page.fill("#panel-text", "never mind");
    await page.keyboard.press("Enter");
    await page.locator("#toast", { hasText: "Sent to" }).waitFor();
    await page.click("#panel-stop");
    await page.locator("#panel-state", { hasText: "stopped" }).waitFor();
    await page.locator("#toast", { hasText: "Stopped 1 sub-agent" }).waitFor();
    await herald.say("in the background, summarise README.md");
    await page.locator(".run-label", { hasText: "summarise README.md" }).click();
    await page.locator("#panel-state", { hasText: "done" }).waitFor();
    await page.locator("#panel-log .said").first().waitFor();
    await page.locator("#panel-sections h4", { hasText: "summary" }).waitFor();
    await page.locator("#panel-facts dd", { hasText: "agent:main:subagent:" }).first().waitFor({ state: "attached" });
    await page.locator("#panel-log .tool-entry").first().waitFor();
    // The announce step is the runtime talking to the child: not shown.
    expect(await page.textContent("#panel-log")).not.toContain("ANNOUNCE_SKIP");
  });
});

describe("pairing on the page", () => {
  it("[SC1] a person approved there is told so in their chat, once, and answered from then on", async () => {
    await using scene = await createChannelScene({ telegram: { allowFrom: ["1"] }, slack: null });
    const { telegram, herald } = scene;
    await scene.connected();
    telegram.say({ chat: 77, text: "let me in" });
    await telegram.until(() => telegram.messages(77).some(({ text }) => text.includes("pairing code")), "the code");
    const waiting = async () =>
      ((await (await herald.request("/api/pairing")).json()) as { waiting: { code: string; senderId: string }[] }).waiting;
    const [person] = await waiting();
    expect(person?.senderId).toBe("77");
    const approve = () => herald.request("/api/pairing", { method: "POST", body: JSON.stringify({ code: person?.code }) });
    expect((await approve()).status).toBe(200);
    await telegram.until(() => telegram.messages(77).some(({ text }) => text.startsWith("Welcome!")), "the good news");
    expect([(await approve()).status, await waiting()]).toEqual([404, []]);
    telegram.say({ chat: 77, text: "hello again" });
    await telegram.until(() => telegram.messages(77).some(({ text }) => text === "heard: hello again"), "an answer");
    expect(telegram.messages(77)).toHaveLength(3);
  });

  it("[SC1] revoked there they are a stranger who gets a code again; refused they are told once and hear nothing more, until they may ask again", async () => {
    await using scene = await createChannelScene({ telegram: { allowFrom: ["1"] }, slack: null });
    const { telegram, herald } = scene;
    await scene.connected();
    interface People {
      readonly waiting: readonly { code: string }[];
      readonly people: readonly { channel: string; account: string; senderId: string; state: string }[];
    }
    const people = async (): Promise<People> => (await (await herald.request("/api/pairing")).json()) as People;
    const post = async (path: string, body: object): Promise<number> =>
      (await herald.request(path, { method: "POST", body: JSON.stringify(body) })).status;
    const said = (): string[] => telegram.messages(77).map(({ text }) => text);
    const asks = async (text: string, codes: number): Promise<string> => {
      telegram.say({ chat: 77, text });
      await telegram.until(() => said().filter((one) => one.includes("pairing code")).length === codes, "a code");
      return (await people()).waiting[0]?.code ?? "";
    };
    const decided = async () => (await people()).people.map(({ senderId, state }) => `${senderId} ${state}`);
    const revoke = async (): Promise<number> => {
      const [{ channel, account, senderId } = { channel: "", account: "", senderId: "" }] = (await people()).people;
      return post("/api/pairing/revoke", { channel, account, senderId });
    };
    expect(await post("/api/pairing", { code: await asks("let me in", 1), decision: "approve" })).toBe(200);
    await telegram.until(() => said()[1]?.startsWith("Welcome!"), "the welcome");
    expect(await decided()).toEqual(["77 paired"]);
    expect(await revoke()).toBe(200);
    expect(await decided()).toEqual([]);
    expect(await post("/api/pairing", { code: await asks("still here?", 2), decision: "refuse" })).toBe(200);
    await telegram.until(() => said()[3]?.includes("has decided not to let you in"), "the refusal");
    expect(await decided()).toEqual(["77 refused"]);
    telegram.say({ chat: 77, text: "please" });
    telegram.say({ chat: 1, text: "a round trip" });
    await telegram.until(() => telegram.messages(1).length === 1, "the answer to somebody else, who came later");
    expect(said()).toHaveLength(4);
    expect(await revoke()).toBe(200);
    await asks("may I?", 3);
    expect(said()).toHaveLength(5);
  });
});
