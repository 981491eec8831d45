// Groups and dependencies where something else comes between, against the real process: runs further down, runs that go on, names that
// mean two things, announcements that nobody sees.
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { calls, child, type Step, spawns, whoAsks } from "../support/brain.ts";
import { createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await createScene({ subagents: { maxConcurrent: 20, maxChildrenPerSession: 30, maxSpawnDepth: 2 } });
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

const group = (options: Record<string, unknown>, ...tasks: readonly Record<string, unknown>[]): Step =>
  calls(["sessions_spawn", { tasks, group: options }]);
// biome-ignore lint/suspicious/noThenProperty: SPEC's word, and nobody awaits it.
const waking = (name: string): Record<string, unknown> => ({ name, then: "wake" });
const stateOf = (id: string) => scene.herald.rows<{ state: string }>("SELECT state FROM runs WHERE id = ?", id)[0]?.state;

it("[GR2] one that comes after a run further down, by its id, begins when that one ended", async () => {
  const chat = scene.chat();
  await chat.act([
    spawns(child("middle", [spawns(child("deep", [{ hold: "deep", text: "deep words" }])), { text: "sent" }, { text: "sum" }])),
  ]);
  const deep = () => scene.herald.rows<{ id: string }>("SELECT id FROM runs WHERE label = 'deep' AND state = 'running'")[0];
  await waitFor("the one further down", () => deep() !== undefined);
  await chat.act([spawns(child("above", "above words", { after: [deep()?.id ?? ""] }))]);
  expect(chat.run("above").state).toBe("waiting");
  scene.release("deep");
  expect(await chat.announced("above")).toContain("above words");
});

it("[GR2] what it comes after goes on before its own turn in the lane came: it waits for that, too, and reads what came of it", async () => {
  await using _ = await scene.configure({ subagents: { maxConcurrent: 1, maxChildrenPerSession: 30 } });
  const chat = scene.chat();
  await chat.act([spawns(child("first", [{ text: "first words" }, { text: "second thoughts" }]))]);
  await chat.announced("first");
  await chat.act([spawns(child("blocker", [{ hold: "blocker", text: "out of the way" }]))]);
  await chat.reached("blocker", "running");
  await chat.act([spawns(child("next", "next words", { after: ["first"] }))]);
  expect(chat.run("next").state).toBe("queued");
  expect(await chat.ask("/subagents send first think again")).toContain("goes on");
  scene.release("blocker");
  expect(await chat.announced("next")).toMatch(/Status: success[\s\S]*next words/);
  const request = scene.model.calls.find(
    (call) => whoAsks(call) === "child" && call.messages.some(({ text }) => text.includes('"next words"')),
  );
  expect(request?.messages.map(({ text }) => text).join("\n")).toContain("second thoughts");
});

it("[GR3] each: one that was announced is not said to be left out when somebody stops it late", async () => {
  const chat = scene.chat();
  await chat.act([group({ name: "each", announce: "each" }, child("said", "said words"), child("at work", [{ hold: "each", text: "x" }]))]);
  await chat.announced("said");
  await waitFor("it to be delivered", () => chat.run("said").delivery === "delivered");
  expect(await chat.ask("/subagents stop said")).toMatch(/has already ended \(done\)\.$/);
  expect(chat.run("said").delivery).toBe("delivered");
  scene.release("each");
});

it("[CM3][GR5] a group that is called like a number of the list, `last` or a run's id takes nobody's place", async () => {
  const chat = scene.chat();
  await chat.act([
    group({ name: "1" }, child("a", [{ hold: "never" }])),
    group({ name: "last" }, child("b", [{ hold: "never" }])),
    spawns(child("c", [{ hold: "never" }]), child("d", [{ hold: "never" }])),
  ]);
  for (const label of ["a", "b", "c", "d"]) await chat.reached(label, "running");
  await chat.ask("/subagents list");
  expect(await chat.ask("/subagents stop 1")).toContain('"d"');
  expect(await chat.ask("/subagents stop last")).toContain('"d"');
  expect(["a", "b", "c", "d"].map((label) => chat.run(label).state)).toEqual(["running", "running", "running", "stopped"]);
  const { id } = chat.run("c");
  await chat.act([group({ name: id }, child("e", [{ hold: "never" }]))]);
  expect(await chat.ask(`/subagents stop ${id}`)).toContain('"c"');
  expect([stateOf(id), chat.run("e").ended_at]).toEqual(["stopped", null]);
});

it("[GR5][CM4] a group that is over doesn't stand before a run of the same name that is at work", async () => {
  const chat = scene.chat();
  await chat.act([group({ name: "research" }, child("old", "done with it"))]);
  await waitFor("its announcement", async () => (await chat.announcements()).length === 1);
  await chat.act([spawns(child("research", [{ hold: "never" }]))]);
  await chat.reached("research", "running");
  const { id } = chat.run("research");
  expect(await chat.ask("/subagents stop research")).toMatch(/Stopped 1 sub-agent: "research"/);
  expect(stateOf(id)).toBe("stopped");
});

it("[GR4] nothing of it is posted in the chat: who is woken is told that the person has not seen it", async () => {
  await using _ = await scene.configure({ config: { agents: { list: [{ id: "main", subagents: { announce: "silent" } }] } } });
  const chat = scene.chat();
  await chat.act([group(waking("unseen"), child("quiet", "quiet words"))]);
  const woken = () =>
    scene.model.calls.find((call) => whoAsks(call) === "main" && call.messages.at(-1)?.text.includes('the group "unseen" of sub-agents'));
  await waitFor("the waking", () => woken() !== undefined);
  const words = woken()?.messages.at(-1)?.text ?? "";
  expect(words).toContain("quiet words");
  expect(words).not.toContain("don't repeat them");
  expect(words).toContain("has not seen them");
  expect(await chat.announcements()).toEqual([]);
});
