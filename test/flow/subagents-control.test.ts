// The model's own control of its children against the real process: fan-out and fan-in in one turn, every action of
// `subagents`, and children of children that report to their parent.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { withoutFences } from "../../src/core/fence.ts";
import { calls, child, plan, type Step, spawns, whoAsks } from "../support/brain.ts";
import { createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
beforeAll(async () => {
  // One slot only: whoever waits for somebody else must have given it back.
  scene = await createScene({ subagents: { maxConcurrent: 1, maxSpawnDepth: 2, maxChildrenPerSession: 10 } });
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

const control = (args: Record<string, unknown>): Step => calls(["subagents", args]);
/** Behind the fence, or bare; our own sentences stand below it. */
const parse = (text: string | undefined) => JSON.parse(withoutFences(text ?? "null").split("\n")[0] ?? "");
interface Waited {
  complete: boolean;
  runs: { label: string; state: string; result?: string }[];
}

describe("wait", () => {
  /** Its turn waits as a row: it has spawned, the message is back in the inbox, and no try of it counts. */
  const waits = (key: string) =>
    waitFor("the chat's turn to wait", () => {
      const sql = "SELECT 1 FROM inbox WHERE state = 'waiting' AND attempts = 0 AND EXISTS (SELECT 1 FROM runs WHERE requester_key = ?)";
      return scene.herald.rows(sql, key).length === 1;
    });
  const waiting = plan([
    spawns(child("long", [{ text: "at last", hold: "long" }])),
    control({ action: "wait", ids: ["last"], timeoutSeconds: 600 }),
    { text: "waited for it" },
  ]);

  it("[ST1][ST2] a /stop ends a turn that waits, once and at once, and the next message is answered", async () => {
    const chat = scene.chat();
    await chat.say(waiting);
    await waits(chat.key);
    expect(await chat.ask("/stop")).toBe("⚙️ Agent was aborted. Stopped 1 sub-agent.");
    expect(await chat.ask("/status")).toContain("main 0 running, 0 waiting");
    expect(await chat.ask(plan([{ text: "here I am" }]))).toBe("here I am");
    expect((await scene.herald.replies(chat.id)).some(({ text }) => text.includes("waited for it"))).toBe(false);
  });

  it("[RC1] kill -9 while a chat's turn waits: it goes on waiting, and answers once", async () => {
    const chat = scene.chat();
    await chat.say(waiting);
    await waits(chat.key);
    await scene.herald.crash();
    await scene.herald.restart();
    scene.release("long");
    await scene.herald.reply(/^waited for it$/, chat.id);
    expect((await scene.herald.replies(chat.id)).filter(({ text }) => text === "waited for it")).toHaveLength(1);
    expect(await chat.announced("long")).toContain("at last");
  });

  it("[TL8] fan-out and fan-in in one turn: spawns, waits for all, reads the results", async () => {
    const chat = scene.chat();
    const results = await chat.act([
      spawns(child("left", [{ text: "left half", delayMs: 100 }]), child("right", "right half")),
      control({ action: "wait", ids: ["left", "right"], timeoutSeconds: 60 }),
    ]);
    const waited: Waited = parse(results.at(-1));
    expect(waited.complete).toBe(true);
    expect(waited.runs.map((run) => [run.label, run.state, run.result])).toEqual([
      ["left", "done", "left half"],
      ["right", "done", "right half"],
    ]);
    expect(results.at(-1)).toMatch(/\n<\/untrusted [0-9a-f]{12}>\nThe sub-agent "left" \(run [0-9a-f]{8}\) completed its task\.\n/);
  });

  it("[TL8] any returns with the first; a deadline returns with what there is", async () => {
    const chat = scene.chat();
    const results = await chat.act([
      spawns(child("quick", "quick one"), child("slow", [{ hang: true }])),
      control({ action: "wait", ids: ["quick", "slow"], mode: "any", timeoutSeconds: 60 }),
      control({ action: "wait", ids: ["quick", "slow"], timeoutSeconds: 0.3 }),
      control({ action: "stop", ids: ["quick", "slow"] }),
    ]);
    const [any, deadline, stopped] = results.slice(-3).map(parse);
    expect(any.complete).toBe(true);
    expect(any.runs.map((run: { state: string }) => run.state)).toEqual(["done", expect.stringMatching(/queued|running/)]);
    expect(deadline.complete).toBe(false);
    expect(stopped).toEqual({ stopped: [chat.run("slow").id], alreadyEnded: [chat.run("quick").id] });
  });

  it("[TL8] several waits in one step hold no slot and lose none", async () => {
    const chat = scene.chat();
    const waits = (...labels: string[]): Step =>
      calls(...labels.map((label): [string, unknown] => ["subagents", { action: "wait", ids: [label], timeoutSeconds: 60 }]));
    const parent = [spawns(child("x", "x"), child("y", "y")), waits("x", "y"), { text: "both are back" }];
    await chat.act([spawns(child("parent of two", parent))]);
    expect(await chat.announced("parent of two")).toContain("both are back");
    await chat.act([spawns(child("after the waits", "the slot is free"))]);
    expect(await chat.announced("after the waits")).toContain("the slot is free");
  });
});

describe("the other actions", () => {
  it("[TL8] list, result, log, send, assign and resume act on the caller's own children", async () => {
    const chat = scene.chat();
    await chat.act([
      spawns(child("worker", "first result"), child("broken", [{ status: 400, message: "no" }, { text: "mended" }])),
      control({ action: "wait", ids: ["worker", "broken"] }),
    ]);
    const assign = plan([{ text: "second result" }]);
    const results = await chat.act([
      control({ action: "list" }),
      control({ action: "result", ids: ["worker"] }),
      control({ action: "log", ids: ["worker"], limit: 5 }),
      control({ action: "resume", ids: ["worker"] }),
      control({ action: "assign", ids: ["worker"], text: assign }),
      control({ action: "wait", ids: ["worker"] }),
      control({ action: "result", ids: ["worker"] }),
      control({ action: "resume", ids: ["broken"], text: plan([{ text: "mended" }]) }),
      control({ action: "wait", ids: ["broken"] }),
    ]);
    const [list, result, log, resumeDone, assigned, , second, resumed, mended] = results;
    expect(
      parse(list)
        .runs.map((run: { label: string; state: string }) => `${run.label} ${run.state}`)
        .sort(),
    ).toEqual(["broken error", "worker done"]);
    expect(parse(result)).toMatchObject({ state: "done", result: "first result" });
    expect(result).toMatch(/completed its task\.$/);
    expect(log).toContain("first result");
    expect(resumeDone).toMatch(/is done: only an interrupted, failed, timed-out or stopped one can be resumed\./);
    expect(parse(assigned)).toMatchObject({ status: "sent", note: expect.stringContaining("announce again") });
    expect(parse(second).result).toBe("second result");
    expect(parse(resumed)).toMatchObject({ status: "sent" });
    expect(parse(mended).runs[0]).toMatchObject({ state: "done", result: "mended" });
    expect(chat.run("worker")).toMatchObject({ generation: 2, state: "done" });
    await waitFor("four announcements", async () => (await chat.announcements()).length === 4);
  });

  it("[TL8] says what is wrong: no ids, unknown ids, still running, no text, unknown action", async () => {
    const chat = scene.chat();
    const results = await chat.act([
      spawns(child("hanging", [{ hang: true }])),
      control({ action: "wait" }),
      control({ action: "result", ids: ["nobody"] }),
      control({ action: "result", ids: ["hanging"] }),
      control({ action: "assign", ids: ["hanging"], text: "x" }),
      control({ action: "send", ids: ["hanging"] }),
      control({ action: "explode", ids: ["hanging"] }),
      control({ action: "send", ids: ["hanging"], text: "hello" }),
    ]);
    const [, noIds, nobody, running, assign, noText, unknown, sent] = results;
    expect(noIds).toBe("ids is required for this action.");
    expect(nobody).toContain('There is no sub-agent "nobody"');
    expect(running).toContain("it has no result yet.");
    expect(assign).toContain("use send.");
    expect(noText).toBe("text is required for this action.");
    expect(unknown).toMatch(/Bad arguments for subagents[\s\S]*action/);
    expect(parse(sent)).toMatchObject({ status: "sent" });
    await chat.ask("/stop");
  });
});

describe("children of children", () => {
  it("[SP5] report to their parent, not to the chat, and wake it; nothing deadlocks with one slot", async () => {
    const chat = scene.chat();
    // The parent ends its turn without waiting: it is woken by what its children report.
    const parent = [spawns(child("grandchild", "from below")), { text: "sent one further" }, { text: "woken with a result" }];
    await chat.act([spawns(child("parent", parent))]);
    const text = await chat.announced("parent");
    expect(text).toContain("woken with a result");
    expect(await chat.announcements()).toHaveLength(1);
    const below = scene.herald.rows<{ depth: number; state: string; delivery: string; requester_key: string }>(
      "SELECT * FROM runs WHERE label = 'grandchild'",
    );
    expect(below).toMatchObject([{ depth: 2, state: "done", delivery: "skipped", requester_key: chat.run("parent").child_key }]);
    const woken = scene.model.calls.filter((call) => whoAsks(call) === "child").at(-1);
    expect(woken?.messages.at(-1)?.text).toMatch(
      /^\[Sub-agent agent:main:subagent:.*runtime status: success\]\nThe sub-agent "grandchild"/,
    );
  });

  it("[SP5] at the greatest depth a child can't spawn", async () => {
    const chat = scene.chat();
    const grandchild = child("deep", [spawns(child("too deep", "no"))]);
    const parent = [spawns(grandchild), control({ action: "wait", ids: ["deep"] })];
    await chat.act([spawns(child("top", parent))]);
    expect(await chat.announced("top")).toMatch(/There is no tool [\\"]+sessions_spawn/);
    expect(scene.herald.rows("SELECT 1 FROM runs WHERE label = 'too deep'")).toEqual([]);
  });

  it("[MO2] a child of a child takes its caller's model when nothing else is set", async () => {
    const chat = scene.chat();
    const parent = [spawns(child("inherits", "on the same model")), control({ action: "wait", ids: ["inherits"] })];
    await chat.act([spawns(child("on another", parent, { model: "scripted/other" }))]);
    await chat.announced("on another");
    expect(scene.herald.rows<{ model: string }>("SELECT model FROM runs WHERE label = 'inherits'")).toEqual([{ model: "scripted/other" }]);
  });

  it("[CM4] stopping a parent stops what is below it", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("above", [spawns(child("below", [{ hang: true }])), { text: "waiting" }]))]);
    await waitFor(
      "the grandchild to run",
      () => scene.herald.rows("SELECT 1 FROM runs WHERE label = 'below' AND state = 'running'").length === 1,
    );
    expect(await chat.ask("/subagents list")).toMatch(/below/);
    expect(await chat.ask("/subagents stop above")).toMatch(/^⚙️ Stopped 2 sub-agents: /);
    expect(scene.herald.rows("SELECT state FROM runs WHERE label IN ('above', 'below')")).toEqual([
      { state: "stopped" },
      { state: "stopped" },
    ]);
    await waitFor("its connection to close", () => scene.model.open === 0);
  });
});
