// A stop in the middle of a group, against the real process: what it ended stays ended, and the agent knows of it without being woken.
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { calls, child, plan, type Step, whoAsks } from "../support/brain.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await createScene({ subagents: { maxConcurrent: 20 } });
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

const waking = (name: string, ...tasks: readonly Record<string, unknown>[]): Step =>
  // biome-ignore lint/suspicious/noThenProperty: SPEC's word, and nobody awaits it.
  calls(["sessions_spawn", { tasks, group: { name, then: "wake" } }]);
const wakings = (name: string) =>
  scene.model.calls.filter((call) => whoAsks(call) === "main" && call.messages.at(-1)?.text.includes(`the group "${name}" of sub-agents`));
/** What the agent is sent with the next thing that is said there. */
async function readsNext(chat: Chat, words: string): Promise<string> {
  await chat.ask(plan([{ text: words }]));
  const request = scene.model.calls.findLast((call) => call.messages.at(-1)?.text.includes(words));
  return request?.messages.map(({ text }) => text).join("\n") ?? "";
}
const wakeRows = (chat: Chat) =>
  scene.herald.rows<{ state: string }>("SELECT state FROM inbox WHERE external_id LIKE 'wake:%' AND session_key = ?", chat.key);

it.each(["/stop", "/new"])("[ST1][ST2][GR4] %s in the middle of a group wakes nobody: what had ended is announced, once", async (stop) => {
  const name = `half ${stop.slice(1)}`;
  const chat = scene.chat();
  await chat.act([waking(name, child("early", "early words"), child("late", [{ hold: "never" }]))]);
  await chat.reached("early", "done");
  await chat.reached("late", "running");
  await chat.ask(stop);
  await waitFor("the announcement", async () => (await chat.announcements()).length === 1);
  const read = await readsNext(chat, `after ${name}`);
  expect(wakings(name)).toEqual([]);
  expect(wakeRows(chat).filter(({ state }) => state !== "done")).toEqual([]);
  // Another conversation knows nothing of it; this one must not go on with it by itself.
  if (stop === "/new") expect(read).not.toContain("early words");
  else expect(read).toMatch(/<untrusted [^>]*>\nearly words[\s\S]*the person ended the request above with \/stop/);
});

it("[ST4][AN5] a waking that /stop drops before it began: the next turn reads the results, and that the person ended it", async () => {
  const chat = scene.chat();
  await chat.act([waking("dropped", child("one", "first words"), child("two", [{ hold: "two", text: "second words" }]))]);
  await chat.say(plan([{ hold: "turn", text: "never said" }]));
  await waitFor("its turn", () => scene.model.calls.some((call) => call.messages.at(-1)?.text.includes("never said")));
  scene.release("two");
  await waitFor("the waking to wait", () => wakeRows(chat).length === 1);
  await chat.ask("/stop");
  scene.release("turn");
  const read = await readsNext(chat, "after dropped");
  expect(wakings("dropped")).toEqual([]);
  expect(read).toMatch(
    /<untrusted [^>]*>\nfirst words[\s\S]*<untrusted [^>]*>\nsecond words[\s\S]*the person ended the request above with \/stop/,
  );
});

it("[ST4][AN5] a group that was stopped as a whole wakes nobody, and the next turn reads that it was stopped", async () => {
  const chat = scene.chat();
  await chat.act([waking("whole", child("left", [{ hold: "never" }]), child("right", [{ hold: "never" }]))]);
  await chat.reached("left", "running");
  await chat.ask("/subagents stop whole");
  const read = await readsNext(chat, "after whole");
  expect(read).toMatch(/the group "whole" of sub-agents you sent out was stopped[^\n]*"left", "right"/);
  expect(wakeRows(chat)).toEqual([]);
});
