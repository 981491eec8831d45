// After a restart, against the real process: queued runs start, running ones resume from their transcripts or are given
// up and say so, lists know earlier starts.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { calls, child, spawns, whoAsks } from "../support/brain.ts";
import { isShared } from "../support/nodes.ts";
import { createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

const RESUMED = "- The gateway restarted while this ran; the work was resumed from its transcript.";
const bounce = async (): Promise<void> => {
  await scene.herald.crash();
  await scene.herald.restart();
};

/** Every test finds it running, leaves it running, and has a chat of its own. */
let scene: Scene;
beforeAll(async () => {
  scene = await createScene({ subagents: { maxConcurrent: 1, maxSpawnDepth: 2 }, config: { tools: { exec: { unsandboxed: true } } } });
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

const sleeping = (text: string) => ({ ...calls(["exec", { command: ["sleep", "600"], timeoutSeconds: 600 }]), text });

describe("a crash", () => {
  it("[RC2] a queued run starts again, a running one resumes and its open tool call is answered with an unknown outcome", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("in a tool", [sleeping("Now I wait.")]), child("behind it", "my turn at last"))]);
    await waitFor("the tool to run", () => scene.herald.rows("SELECT 1 FROM runs WHERE doing LIKE 'exec%'").length === 1);
    await bounce();
    const resumed = await chat.announced("in a tool");
    expect(resumed).toContain("Status: success");
    expect(resumed).toContain("The gateway restarted while this tool ran. Whether it took effect is unknown");
    expect(resumed).toContain(RESUMED);
    const queued = await chat.announced("behind it");
    expect(queued).toContain("my turn at last");
    expect(queued).not.toContain(RESUMED);
    expect(await chat.announcements()).toHaveLength(2);
    // Asked once in each life, never twice for what stood in the transcript already.
    expect(scene.model.calls.filter((call) => whoAsks(call) === "child" && call.messages[0]?.text.includes("Now I wait."))).toHaveLength(2);
  });

  it("[RC2] a second crash in the same run ends it interrupted: Status unknown, with the text it had", async () => {
    const chat = scene.chat();
    const steps = [{ ...calls(["list", { path: "." }]), text: "I have looked around." }, { hang: true as const }];
    await chat.act([spawns(child("unlucky", steps))]);
    const atWork = () => scene.model.calls.filter((call) => whoAsks(call) === "child" && call.messages.length > 1 && call.endedAt === null);
    await waitFor("its second step", () => atWork().length === 1);
    await bounce();
    await waitFor("its second step again", () => atWork().length === 1);
    expect(await chat.announcements()).toEqual([]);
    await bounce();
    const text = await chat.announced("unlucky");
    expect(text).toContain("Status: unknown\n\nResult:\nI have looked around.\n");
    expect(text).toContain("It was interrupted (the gateway ended twice while it ran); this is what it had until then.");
    expect(chat.run("unlucky").state).toBe("interrupted");
    // The requester's model can take it up again.
    await chat.ask("and?");
    expect(scene.model.calls.at(-1)?.messages.find((message) => message.text.startsWith("[Sub-agent"))?.text).toContain(
      "was interrupted by a restart",
    );
  });

  it("[SP10] kill -9 gives a run no more time: its limit runs out when it would have without", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("short of time", [{ hang: true }], { runTimeoutSeconds: 3 }))]);
    await waitFor("it to work", () => scene.model.open === 1);
    await bounce();
    const upAt = Date.now();
    expect(await chat.announced("short of time")).toContain("Status: timeout");
    const { started_at, ended_at } = chat.run("short of time");
    // The start may take longer than what was left, and what was left is looked for a moment later: but never another three seconds.
    expect(ended_at).toBeLessThan(isShared ? upAt + 2_900 : Math.max((started_at ?? 0) + 4_500, upAt + 2_000));
  });

  it("[RC2] with onRestart interrupt a running run is given up at once, a queued one still starts", async () => {
    await using _settings = await scene.configure({ subagents: { onRestart: "interrupt", maxConcurrent: 1 } });
    const chat = scene.chat();
    await chat.act([spawns(child("running", [{ hang: true }]), child("queued", "started later"))]);
    await chat.reached("running", "running");
    await bounce();
    const text = await chat.announced("running");
    expect(text).toContain("Status: unknown\n\nResult:\n(not available)\n");
    expect(text).toContain("It was interrupted (the gateway restarted)");
    expect(await chat.announced("queued")).toContain("started later");
  });
});

it("[RC2] a parent and its own children are both taken up again; the parent is woken and announces once", async () => {
  const chat = scene.chat();
  const grandchild = child("grandchild", [{ text: "from below", hold: "below" }]);
  await chat.act([spawns(child("parent", [spawns(grandchild), { text: "sent one further" }, { text: "woken after all" }]))]);
  await waitFor("the grandchild to work", () => scene.herald.rows("SELECT 1 FROM runs WHERE depth = 2 AND state = 'running'").length === 1);
  await bounce();
  scene.release("below");
  const text = await chat.announced("parent");
  expect(text).toContain("woken after all");
  // Among several what waits has lost nothing: no process had it.
  expect(text.includes(RESUMED)).toBe(!isShared);
  expect(await chat.announcements()).toHaveLength(1);
  expect(chat.runs()).toMatchObject([{ label: "parent", state: "done" }]);
  expect(scene.herald.rows("SELECT label, state FROM runs WHERE requester_key = ?", chat.run("parent").child_key)).toEqual([
    { label: "grandchild", state: "done" },
  ]);
});

it("[RC2][RN4] a graceful stop puts runs aside: taken up again however often, never counted as a crash, announced once", async () => {
  const chat = scene.chat();
  await chat.act([
    spawns(
      child("patient", [
        { ...calls(["list", { path: "." }]), text: "begun" },
        { text: "finished", hold: "restarted" },
      ]),
    ),
  ]);
  for (let i = 0; i < 2; i++) {
    await waitFor("it to work", () => scene.model.open === 1);
    expect(await scene.herald.stop()).toBe(0);
    await scene.herald.restart();
  }
  scene.release("restarted");
  const text = await chat.announced("patient");
  expect(text).toContain("Status: success\n\nResult:\nfinished\n");
  expect(text).toContain(RESUMED);
  expect(await chat.announcements()).toHaveLength(1);
  expect(scene.herald.rows("SELECT state, crashes FROM runs WHERE requester_key = ?", chat.key)).toEqual([{ state: "done", crashes: 0 }]);
});

it("[RU3] lists show this start's runs and all unfinished ones; all shows earlier ones, marked", async () => {
  await using _settings = await scene.configure({ subagents: { maxConcurrent: 2 } });
  const chat = scene.chat();
  await chat.act([spawns(child("old one", "x"), child("still going", [{ hang: true }]))]);
  await chat.announced("old one");
  const before = chat.run("old one").boot_id;
  await bounce();
  await chat.act([spawns(child("new one", "y"))]);
  await chat.announced("new one");
  expect(chat.run("new one").boot_id).not.toBe(before);
  // RU1: what was on record is unchanged by the restart.
  expect(chat.run("old one")).toMatchObject({ boot_id: before, state: "done", delivery: "delivered" });
  const list = await chat.ask("/subagents list");
  expect(list).toContain("Active: 1 · Done: 1");
  expect(list).not.toContain("old one");
  expect(list).toContain("still going");
  const all = await chat.ask("/subagents all");
  expect(await chat.ask("/subagents list all")).toContain("(earlier start)");
  expect(all).toMatch(/· old one · .*\(earlier start\)$/m);
  expect(all).not.toMatch(/· (new one|still going) · .*\(earlier start\)/);
  await chat.ask("/stop");
});
