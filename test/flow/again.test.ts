// A run once more and two side by side, against the real process: what comes along, what can be changed, what is said of the difference.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { calls, child, plan, spawns } from "../support/brain.ts";
import { createScene, type RunRow, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await createScene();
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

interface Repeated extends RunRow {
  readonly rerun_of: string | null;
  readonly params: string;
  readonly timeout_ms: number;
  readonly max_iterations: number;
}

const repeatedOf = (first: RunRow): Promise<Repeated> =>
  waitFor("the run that repeats it to end", () =>
    scene.herald.rows<Repeated>("SELECT * FROM runs WHERE rerun_of = ? AND ended_at IS NOT NULL", first.id).at(-1),
  );
const taskOf = ({ session_id }: RunRow): string => {
  const [text = ""] = scene.transcripts("main", session_id);
  return (JSON.parse(text.split("\n")[1] ?? "{}") as { text: string }).text;
};

describe("rerun", () => {
  it("[RP1] the same task, context, brief and parameters as a new run, linked to the first", async () => {
    const chat = scene.chat();
    const brief = { mission: "count honestly", sharedMemory: [], constraints: ["no guessing"] };
    const more = { briefing: "## Task\nnot this one", role: "explore", runTimeoutSeconds: 600, maxIterations: 7, brief };
    await chat.act([spawns(child("counter", "forty-two", more))]);
    await chat.announced("counter");
    const first = chat.run("counter");
    expect(await chat.ask("/subagents rerun counter")).toMatch(/^🧭 Sent out "counter" once more \([0-9a-f]{8}, after [0-9a-f]{8}\)\./);
    const again = await repeatedOf(first);
    expect(again).toMatchObject({ state: "done", timeout_ms: 600_000, max_iterations: 7, label: "counter" });
    expect(JSON.parse(again.params)).toMatchObject({ role: "explore", briefing: "## Task\nnot this one" });
    expect(taskOf(again)).toBe(taskOf(first));
    expect(await chat.ask(`/subagents brief ${again.id}`)).toContain("count honestly");
    expect(await chat.ask(`/subagents info ${again.id}`)).toContain(`**Once more after:** ${first.id}`);
    const announced = async () => (await chat.announcements()).filter(({ text }) => text.includes("forty-two")).length;
    await waitFor("the second announcement", async () => (await announced()) === 2);
  });

  it("[RP1] with another task and model: context and given name stay, an unusable model is said", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("teller", "one", { briefing: "the context" }))]);
    await chat.announced("teller");
    const first = chat.run("teller");
    const said = await chat.ask(`/subagents rerun teller model=nowhere ${plan([{ text: "two" }])}`);
    expect(said).toMatch(/⚠️ .*nowhere/);
    const again = await repeatedOf(first);
    expect(taskOf(again)).toMatch(/^## Context\nthe context\n\n## Task\n!plan .*two/);
    expect(taskOf(again)).not.toContain('"one"');
    expect(again.label).toBe("teller");
  });

  it("[RP1] a name made of the task is made of the other task", async () => {
    const chat = scene.chat();
    const task = String(child("", "one").task);
    await chat.act([spawns({ task })]);
    const first = await waitFor("it to end", () => chat.runs().find((run) => run.ended_at !== null));
    expect(task.startsWith(first.label.slice(0, -1))).toBe(true);
    const other = plan([{ text: "two, which is another" }]);
    await chat.ask(`/subagents rerun ${first.id} ${other}`);
    const again = await repeatedOf(first);
    expect(again.label).not.toBe(first.label);
    expect(other.startsWith(again.label.slice(0, -1))).toBe(true);
    await chat.ask(`/subagents rerun ${first.id}`);
    expect((await waitFor("the same once more", () => chat.runs().find((run) => run.id !== first.id && run.id !== again.id))).label).toBe(
      first.label,
    );
  });

  it("[RP1][SP6] it obeys today's limits, and one of another chat is not there", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("mine", "done"))]);
    await chat.announced("mine");
    await using _ = await scene.configure({ subagents: { maxChildrenPerSession: 1 } });
    await chat.act([spawns(child("busy", [{ text: "late", hold: "busy" }]))]);
    expect(await chat.ask("/subagents rerun mine")).toMatch(/^⚠️ .*maxChildrenPerSession/);
    expect(await scene.chat().ask(`/subagents rerun ${chat.run("mine").id}`)).toMatch(/^There is no sub-agent/);
    scene.release("busy");
  });
});

describe("diff", () => {
  it("[RP2] parameters, steps, tools, figures, and the difference of their results", async () => {
    const chat = scene.chat();
    const looks = calls(["list", { path: "." }]);
    await chat.act([
      spawns(child("left", [looks, { text: "first\nsame\nred" }]), child("right", "first\nsame\nblue", { maxIterations: 3 })),
    ]);
    await Promise.all([chat.announced("left"), chat.announced("right")]);
    const text = await chat.ask("/subagents diff left right");
    expect(text).toMatch(/\| Tools \| list 1× \| none \|/);
    expect(text).toMatch(/\| Steps \| 2 \| 1 \|/);
    expect(text).toMatch(/\| Most steps, longest time \| 20, no limit \| 3, no limit \|/);
    expect(text).toMatch(/```diff[\s\S]* first\n same\n-red\n\+blue\n```/);
    expect(await chat.ask("/subagents diff left left")).toBe("That is one and the same run.");
    expect(await chat.ask("/subagents diff left")).toContain("Which two?");
  });
});
