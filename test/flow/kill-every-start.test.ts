// Work that ends the process whenever it is tried, kill -9 at the same point in every start: after a few of them the
// gateway gives that piece of work up, says so where somebody waits for it, and serves everybody else.
import { expect, it } from "vitest";
import type { Failpoint } from "../../src/core/failpoints.ts";
import { child, spawns } from "../support/brain.ts";
import type { Harness } from "../support/harness.ts";
import { createScene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

const MOST_STARTS = 6;

/** Starts it, armed each time, until a start lives to see `isSettled`; returns how many starts died. */
async function startUntil(herald: Harness, failpoint: Failpoint, isSettled: () => boolean): Promise<number> {
  await herald.exited();
  for (let died = 1; died <= MOST_STARTS; died++) {
    await herald.restart({ failpoint });
    await waitFor("it to die or to be done with it", () => !herald.isRunning() || isSettled());
    if (herald.isRunning()) return died;
  }
  throw new Error(`every one of ${MOST_STARTS} starts died`);
}

it("[RC4][RC1] a command that ends the process is given up in words, however often the words were killed, and the next one is answered", {
  timeout: 60_000,
}, async () => {
  await using scene = await createScene({ failpoint: "command.before-commit" });
  const { herald } = scene;
  const chat = scene.chat();
  // Accepted or not, as far as its sender can tell: the process ends before the answer.
  chat.say("/status").catch(() => {});
  await herald.exited();
  for (let died = 1; died < MOST_STARTS; died++) {
    await herald.restart({ failpoint: "command.before-commit" });
    await herald.exited();
  }
  expect(herald.rows("SELECT 1 FROM inbox WHERE state <> 'done'")).toHaveLength(1);
  await herald.restart();
  const answers = async (): Promise<string[]> => (await herald.replies(chat.id)).map(({ text }) => text);
  await waitFor("the answer", async () => (await answers()).length > 0);
  expect(await answers()).toEqual([expect.stringContaining(`This was not carried out: the gateway ended ${MOST_STARTS} times`)]);
  expect(await chat.ask("/help")).toContain("**Commands**");
});

it("[RC4][RC2][AN1] a run whose very end ends the process is announced without a look at what it wrote, which the chat can ask for", {
  timeout: 60_000,
}, async () => {
  await using scene = await createScene({ failpoint: "run.before-end" });
  const { herald } = scene;
  const chat = scene.chat();
  await chat.act([spawns(child("poison", [{ text: "the result", hold: "answered" }]))]);
  scene.release("answered");
  await startUntil(herald, "run.before-end", () => herald.rows("SELECT 1 FROM runs WHERE ended_at IS NULL").length === 0);
  const text = await chat.announced("poison");
  expect(text).toContain("Status: unknown");
  expect(text).toContain("the gateway ended 4 times at its end");
  expect(text).not.toContain("the result");
  expect(chat.run("poison")).toMatchObject({ state: "interrupted" });
  expect(await chat.ask("/subagents log poison")).toContain("the result");
});

it("[RC4][AN1] a run whose announce step ends the process is announced with its last words", { timeout: 60_000 }, async () => {
  await using scene = await createScene({ failpoint: "run.announced" });
  const { herald } = scene;
  const chat = scene.chat();
  await chat.act([spawns(child("poison", [{ text: "the result", hold: "answered" }]))]);
  scene.release("answered");
  await startUntil(herald, "run.announced", () => herald.rows("SELECT 1 FROM runs WHERE ended_at IS NULL").length === 0);
  const text = await chat.announced("poison");
  expect(text).toContain("Status: success\n\nResult:\nthe result");
  expect(text).toContain("The gateway ended 3 times while this was announced");
});
