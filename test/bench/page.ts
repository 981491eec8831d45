// The page in a real Chromium beside a busy gateway: thousands of runs on record, sixty that stream, three tabs looked at in turn. How
// long a key takes until its effect is painted, how long the gateway's event loop keeps others waiting, what the tabs hold after ten
// minutes, what is loaded, how soon there is something to see.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { gzipSync } from "node:zlib";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { signInUrl } from "../../src/web/token.ts";
import { hasBrowser, launchBrowser } from "../support/browser.ts";
import { createHarness, type Harness } from "../support/harness.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { waitFor } from "../support/wait.ts";
import { fillRuns } from "./filled-runs.ts";
import { below, median, type Row, type Topic, told } from "./measure.ts";
import type { Streaming } from "./streaming-worker.ts";

const ON_RECORD = 5_000;
const MINUTES = Number(process.env.HERALD_BENCH_PAGE_MINUTES ?? 10);
/** Half of them would have ended at the average: all speak until the last look. */
const STREAMING: Streaming = { children: 60, seconds: MINUTES * 60 * 1.5 + 60, piecesPerSecond: 10 };
const KEY_EVERY_MS = 150;
const KEYS_IN_A_ROW = 40;
const PAINTS = 7;
const WORDS = "the quick brown fox jumps over the lazy dog ";

export const page: Topic = { name: "page", run: measurePage };

async function measurePage(): Promise<Row[]> {
  if (!hasBrowser) return [told("the page in a browser", "not measured", "there is no Chromium here")];
  const worker = new Worker(new URL("./streaming-worker.ts", import.meta.url), { workerData: STREAMING });
  // Listened for before anything else is waited for: it says it once.
  const ready = once(worker, "message") as Promise<[string]>;
  const browser = await launchBrowser();
  try {
    const [url] = await ready;
    const subagents = { maxConcurrent: STREAMING.children, maxChildrenPerSession: STREAMING.children, runTimeoutSeconds: 0 };
    await using harness = await createHarness({
      config: scriptedConfig(url, { subagents }, { gateway: { drainSeconds: 0 } }),
      leavesUnsent: true,
    });
    await harness.stop();
    fillRuns(join(harness.stateDir, "herald.db"), ON_RECORD);
    await harness.restart();
    const context = await browser.newContext({ viewport: { width: 1400, height: 900 } });
    const shipped = watchScripts(context);
    const paint = await firstPaint(context, harness);
    await harness.say("Send them all out.", { chat: "main" });
    await waitFor("all of them to speak", () => streaming(harness).length === STREAMING.children, 60_000);
    const [live = ""] = streaming(harness);
    const tabs = await openTabs(context, harness, live);
    await delayOf(harness);
    const delays = await useThem(tabs);
    const loop = await delayOf(harness);
    const memory = await memoryOf(browser);
    return rowsOf({ delays, loop, memory, paint, shipped: await shipped() });
  } finally {
    await browser.close();
    await worker.terminate();
  }
}

interface Figures {
  readonly delays: readonly number[];
  readonly loop: { p99: number; max: number };
  readonly memory: readonly number[];
  readonly paint: number;
  readonly shipped: { files: number; bytes: number };
}

function rowsOf({ delays, loop, memory, paint, shipped }: Figures): Row[] {
  const sorted = delays.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  const scene = `${ON_RECORD} runs on record, ${STREAMING.children} that stream ${STREAMING.piecesPerSecond} pieces a second, 3 tabs, ${MINUTES} minutes`;
  return [
    below(
      "page: a key until its effect is painted, p95",
      at(0.95),
      100,
      "ms",
      `${sorted.length} keys in chat and board; middle ${Math.round(at(0.5))} ms; ${scene}`,
    ),
    below("page: event-loop delay of the gateway, p99", loop.p99, 50, "ms", `longest ${Math.round(loop.max)} ms; the same minutes`),
    below(
      "page: memory of a tab",
      Math.max(...memory),
      150,
      "MB",
      `the largest of ${memory.length} tabs' processes, what is theirs alone; ${memory.map(Math.round).join(", ")} MB`,
    ),
    below("page: first paint", paint, 300, "ms", `first contentful paint on loopback, middle of ${PAINTS}`),
    below("page: JavaScript shipped", shipped.bytes / 1024, 150, "KB", `gzipped, libraries included, of all views: ${shipped.files} files`),
  ];
}

const streaming = (harness: Harness): string[] =>
  harness.rows<{ id: string }>("SELECT id FROM runs WHERE state = 'running' AND label LIKE 'speaker %'").map(({ id }) => id);

const tokenOf = ({ stateDir }: Harness): string => readFileSync(join(stateDir, "sign-in-link"), "utf8").trim().split("#token=")[1] ?? "";

/** All scripts that were asked for until the end, each counted once. */
function watchScripts(context: BrowserContext): () => Promise<{ files: number; bytes: number }> {
  const sizes = new Map<string, Promise<number>>();
  context.on("response", (response) => {
    const { pathname } = new URL(response.url());
    if (pathname.endsWith(".js") && !sizes.has(pathname))
      sizes.set(
        pathname,
        response.body().then((body) => gzipSync(body).length),
      );
  });
  return async () => {
    const all = await Promise.all(sizes.values());
    return { files: all.length, bytes: all.reduce((sum, size) => sum + size, 0) };
  };
}

async function firstPaint(context: BrowserContext, harness: Harness): Promise<number> {
  const first = await context.newPage();
  await first.goto(signInUrl(harness.origin(), tokenOf(harness)));
  await first.waitForSelector("#app", { state: "visible" });
  await first.close();
  const times: number[] = [];
  for (let n = 0; n < PAINTS; n++) {
    const tab = await context.newPage();
    await tab.goto(harness.origin());
    await tab.waitForSelector("#app", { state: "visible" });
    times.push(Number(await tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")));
    await tab.close();
  }
  return median(times);
}

/** From the key to the frame that shows what it did. */
const WATCH_KEYS = `addEventListener("keydown", ({ timeStamp }) => requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => (window.delays ??= []).push(performance.now() - timeStamp);
  channel.port2.postMessage(0);
}), true)`;

interface Tab {
  readonly page: Page;
  /** Where one types. */
  readonly field: string;
}

async function openTabs(context: BrowserContext, harness: Harness, run: string): Promise<Tab[]> {
  const open = async (address: string, field: string): Promise<Tab> => {
    const page = await context.newPage();
    await page.goto(`${harness.origin()}/${address}`);
    await page.locator(field).waitFor();
    await page.evaluate(WATCH_KEYS);
    return { page, field };
  };
  return [
    await open(`#/chat/main?run=${run}`, "#text"),
    await open("#/runs", "#view-runs input[type=search]"),
    await open(`#/runs?view=timeline&run=${run}`, "#view-runs input[type=search]"),
  ];
}

/** Types in one after the other, as long as it takes; what was typed is taken back, so that no search stays. */
async function useThem(tabs: readonly Tab[]): Promise<number[]> {
  const until = performance.now() + MINUTES * 60_000;
  for (let n = 0; performance.now() < until; n++) {
    const { page, field } = tabs[n % tabs.length] as Tab;
    await page.bringToFront();
    await page.locator(field).focus();
    for (let key = 0; key < KEYS_IN_A_ROW; key++) {
      await page.keyboard.press(WORDS[key % WORDS.length] === " " ? "Space" : (WORDS[key % WORDS.length] ?? "a"));
      await new Promise((resolve) => setTimeout(resolve, KEY_EVERY_MS));
    }
    await page.locator(field).fill("");
  }
  const found = await Promise.all(tabs.map(({ page }) => page.evaluate("window.delays ?? []") as Promise<number[]>));
  return found.flat();
}

/** In ms, since the look before. */
async function delayOf(harness: Harness): Promise<{ p99: number; max: number }> {
  const text = await (await harness.request("/metrics")).text();
  const quantile = (name: string): number =>
    Number(new RegExp(`^herald_event_loop_delay_seconds\\{quantile="${name}"\\} (\\S+)$`, "m").exec(text)?.[1]) * 1000;
  return { p99: quantile("0.99"), max: quantile("1") };
}

/** MB of each tab's process that no other process shares. */
async function memoryOf(browser: Browser): Promise<number[]> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  const privateKb = (pid: number): number =>
    [...readFileSync(`/proc/${pid}/smaps_rollup`, "utf8").matchAll(/^Private_\w+:\s+(\d+) kB$/gm)].reduce(
      (sum, [, kb]) => sum + Number(kb),
      0,
    );
  return processInfo.filter(({ type }) => type === "renderer").map(({ id }) => privateKb(id) / 1024);
}
