// Everything the product tells people to type, typed in after a first start without a key: the examples of README and docs/, of
// the page, of the workspace it makes, of the offline model and of /help. All are taken from where they stand, so that a
// new one is tried too.
import { randomUUID } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createHarness, type Harness } from "../support/harness.ts";
import { waitFor } from "../support/wait.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const readText = (path: string): string => readFileSync(join(ROOT, path), "utf8");
const all = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map((match) => match[1] ?? "");
/** What stands between back-ticks; in a table a bar is written \|. */
const spans = (text: string): string[] => all(text, /`([^`]+)`/g).map((span) => span.replaceAll("\\|", "|"));

const README = readText("README.md");
const TRY = /\bTry `([^`]+)`/g;
const page = globSync("src/web/page/*.js", { cwd: ROOT }).map(readText).join("\n");
/** By where they are shown. */
const SHOWN: Readonly<Record<string, readonly string[]>> = {
  "the README's first exchange": all(README, /^you +(.+)$/gm),
  "the README's steps": all(README, TRY),
  "docs/": globSync("docs/*.md", { cwd: ROOT }).flatMap((path) => all(readText(path), TRY)),
  "the page": all(page, /const EXAMPLES = (\[[^\]]+\])/g).flatMap((list) => all(list, /"([^"]+)"/g)),
  "the first workspace": spans(readText("config/workspace/README.md").split("## Things to say to it")[1] ?? ""),
};

/** The table "What you can type": of the words behind `/subagents` only the first has the command before it. */
const TYPED = all(README.split("\n## What you can type\n")[1]?.split("\n## ")[0] ?? "", /^\| +(`[^|]*(?:\\\|[^|]*)*)\|/gm).flatMap(
  (cell) => {
    const words = spans(cell);
    const isSubagents = words[0]?.startsWith("/subagents") === true;
    return words.map((word) => (isSubagents && !word.startsWith("/") ? `/subagents ${word}` : word));
  },
);

/** A usage as a person would fill it in. */
const filledIn = (usage: string): string =>
  usage
    .replace(/<id\|#(?:\|group)?(?:\|all)?>/g, "last")
    .replace(/<task>/, "list the files here")
    .replace(/<(?:text|message)>/, "hello")
    .replace(/\[(?:n|limit)\]/, "5")
    .replace(/ \[[^\]]*\]/g, "");

let herald: Harness;
beforeAll(async () => {
  const fastTime = new URL("../support/fast-time.ts", import.meta.url).href;
  herald = await createHarness({ env: { NODE_OPTIONS: `--import=${fastTime}`, FAST_TIME_FACTOR: "20" } });
});
afterAll(() => herald[Symbol.asyncDispose]());

const newChat = (): string => randomUUID();

const isQuestion = (text: string): boolean => text.startsWith("❓");

/** Whoever asks for an answer in this chat gets the first option, as on the page. */
async function answerQuestions(chat: string): Promise<void> {
  const sql = "SELECT id FROM questions WHERE state = 'open' AND json_extract(address, '$.chat') = ?";
  const headers = { "content-type": "application/json" };
  for (const { id } of herald.rows<{ id: string }>(sql, chat))
    expect((await herald.request(`/api/questions/${id}/answer`, { method: "POST", headers, body: '{"option":1}' })).status).toBe(200);
}

async function ask(text: string, chat = newChat()): Promise<{ chat: string; answer: string }> {
  const replies = async () => (await herald.replies(chat)).filter((reply) => !isQuestion(reply.text));
  const before = (await replies()).length;
  await herald.say(text, { chat });
  const answer = await waitFor(`an answer to "${text}"`, async () => (await replies())[before]?.text);
  return { chat, answer };
}

const FAILED = /I have no rule|The tool `\w+` failed|not offered here|not allowed:|refused:|⚠️|There is no/;

/** Asks, and when sub-agents were sent out answers what they ask and waits for what all of them announced. */
async function tryOut(example: string): Promise<void> {
  const { chat, answer } = await ask(example);
  expect(answer, example).not.toMatch(FAILED);
  if (answer.includes("I sent out a group")) return tryGroup(chat, answer);
  const sent = all(answer, /^- \*\*(.+)\*\*: run `/gm);
  const announced = await waitFor(`the results of "${example}"`, async () => {
    await answerQuestions(chat);
    const texts = (await herald.announcements(chat)).map(({ text }) => text);
    return texts.length === sent.length ? texts : null;
  });
  for (const text of announced) expect(text, example).toContain("Status: success");
  expect(new Set(sent).size).toBe(sent.length);
  expect(announced.every((text) => sent.some((label) => text.includes(`Sub-agent: ${label}`)))).toBe(true);
}

/** All of them in one announcement, and the agent comes back to it. */
async function tryGroup(chat: string, answer: string): Promise<void> {
  const labels = all(answer, /^- \*\*(.+)\*\*$/gm);
  expect(labels.length).toBeGreaterThan(1);
  const [text = "", ...more] = await waitFor(`the results of a group`, async () => {
    const texts = (await herald.announcements(chat)).map((one) => one.text);
    return texts.length > 0 ? texts : null;
  });
  expect(more).toEqual([]);
  for (const label of labels) expect(text).toMatch(new RegExp(`Sub-agent: ${label}[\\s\\S]*?Status: success`));
  await herald.reply(/^The group ".+" is complete: ✓/, chat);
}

describe("what people are told to type", () => {
  it("is found where it is shown", () => {
    expect(Object.entries(SHOWN).map(([where, examples]) => [where, examples.length > 0])).toEqual(
      Object.keys(SHOWN).map((where) => [where, true]),
    );
    expect(TYPED.length).toBeGreaterThan(10);
    expect(SHOWN["the first workspace"]).toHaveLength(4);
  });

  it.for(Object.entries(SHOWN).flatMap(([where, examples]) => examples.map((example) => [example, where] as const)))(
    "[MO6][RN2] %s (%s)",
    async ([example]) => tryOut(example),
  );

  it("[MO6] the examples the offline model gives", async () => {
    const examples = all((await ask("help")).answer, /^- "(.+)"$/gm);
    expect(examples.length).toBeGreaterThan(2);
    await Promise.all(examples.map(tryOut));
  });

  it("[CM8] every command that the README, /help and /subagents help list; docs/commands.md lists the same", async () => {
    const listed = [...spans((await ask("/help")).answer), ...spans((await ask("/subagents help")).answer)].filter((word) =>
      /^\/\w+/.test(word),
    );
    expect(listed.length).toBeGreaterThan(15);
    const documented = readText("docs/commands.md").split("<!-- generated:chat -->")[1]?.split("<!-- /generated:chat -->")[0] ?? "";
    expect(
      all(documented, /^\| (`.+`) \|/gm)
        .flatMap(spans)
        .sort(),
    ).toEqual(listed.toSorted());
    const { chat } = await ask("in the background, list the files here");
    await herald.reply(/Status: success/, chat);
    const typed = new Set([...TYPED, ...listed]);
    // It says nothing itself: the answer that it ends does (ST3).
    expect(typed.delete("/stop answer")).toBe(true);
    for (const usage of typed) {
      const isAboutRuns = usage.startsWith("/subagents");
      const { answer } = await ask(filledIn(usage), isAboutRuns ? chat : newChat());
      expect(answer, usage).not.toMatch(/There is no (?:command|sub-agent)|I have no rule|⚠️/);
      if (isAboutRuns) expect(answer, usage).not.toMatch(/^\*\*\/subagents\*\*/);
    }
  });
});
