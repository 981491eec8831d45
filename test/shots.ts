// `npm run shots`: the pictures of README and docs/, taken of the real page in a real Chromium beside a real gateway, light and dark. The words come
// from a scripted model, so that every run shows the same.
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { signInUrl } from "../src/web/token.ts";
import { calls, whoAsks } from "./support/brain.ts";
import { hasBrowser, launchBrowser } from "./support/browser.ts";
import type { FakeRequest, Script } from "./support/fake-model-server.ts";
import { createFakeOpenAi } from "./support/fake-openai.ts";
import { createHarness, type Harness } from "./support/harness.ts";
import { SCRIPTED_KEY, scriptedConfig } from "./support/scripted-model.ts";
import { waitFor } from "./support/wait.ts";

const FOLDER = new URL("../docs/pictures/", import.meta.url).pathname;
const SIZE = { width: 1280, height: 800 };
const QUESTION = "In the background: read the three proposals, check the licences of our packages, and draft the release notes for 2.4.";

interface Helper {
  readonly label: string;
  readonly task: string;
  readonly steps: readonly Script[];
}

const HELPERS: readonly Helper[] = [
  {
    label: "proposals",
    task: "Read the three proposals in proposals/ and say which one to take.",
    steps: [
      calls(["list", { path: "." }]),
      {
        text: "**Take the second one.** It costs a fifth more than the first and is the only one with a date for the move.\n\n| | price | ready | open |\n|---|--:|---|--:|\n| Larch | $18,400 | June | 4 |\n| Oak | $22,100 | April | 0 |\n| Yew | $31,000 | April | 1 |",
      },
    ],
  },
  {
    label: "licences",
    task: "Check the licences of all packages in package.json.",
    steps: [
      calls(["exec", { command: "cat package.json" }]),
      { text: "41 packages, 38 MIT, 3 Apache-2.0. None needs anything of us but its notice." },
    ],
  },
  {
    label: "release notes",
    task: "Draft the release notes for 2.4 from the log since 2.3.",
    steps: [
      calls([
        "plan",
        {
          steps: [
            { title: "Read the log since 2.3", status: "doing" },
            { title: "Group by what people notice", status: "pending" },
            { title: "Write", status: "pending" },
          ],
        },
      ]),
      {
        pieces: [
          "I have read the log. ",
          "Most of the changes ",
          "are about search. ",
          ..."What people will notice first: it finds words in old chats at once. ".split(/(?<= )/),
        ],
        pieceMs: 400,
        hang: "after-text",
      },
    ],
  },
];

const SPAWNS = calls(...HELPERS.map(({ label, task }): [string, unknown] => ["sessions_spawn", { label, task }]));
const SENT =
  "I sent out three helpers: one reads the proposals, one checks the licences, one drafts the notes. Each result will be announced here.";

function respond(request: FakeRequest): Script {
  const usage = { input: 6_200, output: 340 };
  const answered = request.messages.filter((message) => message.role === "tool").length;
  const who = whoAsks(request);
  if (who === "main") return { ...(answered === 0 ? SPAWNS : { text: SENT }), usage };
  const helper = HELPERS.find(({ task }) => request.messages.some(({ text }) => text.includes(task)));
  const last = helper?.steps.at(-1);
  if (who === "announce") return { text: `Result:\n${last?.text ?? ""}`, usage };
  return { ...(helper?.steps[Math.min(answered, helper.steps.length - 1)] ?? { text: "" }), usage };
}

const runOf = (harness: Harness, label: string): string =>
  harness.rows<{ id: string }>("SELECT id FROM runs WHERE label = ?", label)[0]?.id ?? "";

/** Name of the picture, and where it is taken. */
const pictures = (harness: Harness): readonly [string, string][] => [
  ["chat", "#/"],
  ["runs", "#/runs"],
  ["run", `#/run/${runOf(harness, "release notes")}`],
];

async function take(browser: Browser, harness: Harness, colorScheme: "light" | "dark"): Promise<void> {
  const context = await browser.newContext({ viewport: SIZE, colorScheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  const token = readFileSync(join(harness.stateDir, "sign-in-link"), "utf8").trim().split("#token=")[1] ?? "";
  await page.goto(signInUrl(harness.origin(), token));
  await page.locator("#app").waitFor();
  for (const [name, address] of pictures(harness)) {
    await page.goto(`${harness.origin()}/${address}`);
    await page.locator("main:visible h1, #panel:visible h2").first().waitFor();
    if (address.startsWith("#/run/")) await page.locator("#panel:not(.loading)").waitFor();
    await page.evaluate("document.fonts.ready.then(() => new Promise((drawn) => setTimeout(drawn, 700)))");
    await page.screenshot({ path: join(FOLDER, `${name}-${colorScheme}.png`) });
  }
  await context.close();
}

if (!hasBrowser) throw new Error("There is no Chromium here: install chromium-headless-shell, or set CHROMIUM.");
mkdirSync(FOLDER, { recursive: true });
const model = await createFakeOpenAi({ respond });
const browser = await launchBrowser();
try {
  const scripted = { api: "openai-compatible", baseUrl: model.url, apiKey: SCRIPTED_KEY };
  const models = {
    providers: { scripted: { ...scripted, models: [{ id: "model-1", contextWindow: 128_000, cost: { input: 3, output: 15 } }] } },
  };
  const rest = { gateway: { drainSeconds: 0 }, budgets: { perDay: { usd: 5 } }, models };
  await using harness = await createHarness({ config: scriptedConfig(model.url, {}, rest), leavesUnsent: true });
  await harness.say(QUESTION, { chat: "main" });
  await waitFor("two of three to be announced", async () => (await harness.announcements("main")).length === 2, 30_000);
  for (const scheme of ["light", "dark"] as const) await take(browser, harness, scheme);
} finally {
  await browser.close();
  await model.close();
}
