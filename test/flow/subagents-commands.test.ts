// /subagents and its actions against the real process: what each says, which run a target means, and steering.
import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { calls, child, plan, spawns, whoAsks } from "../support/brain.ts";
import { isShared } from "../support/nodes.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await createScene({ subagents: { maxConcurrent: 2, maxChildrenPerSession: 6 } });
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

async function finished(chat: Chat, ...labels: string[]): Promise<void> {
  for (const label of labels) {
    await chat.act([spawns(child(label, `result of ${label}`))]);
    await chat.announced(label);
  }
}

describe("list", () => {
  it("[CM2] shows head, counts and numbered runs, newest first, and the numbers hold until the next list", async () => {
    const chat = scene.chat();
    expect(await chat.ask("/subagents")).toMatch(/^🧭 Subagents \(current session\)\nActive: 0 · Done: 0\n/);
    await finished(chat, "first", "second");
    const list = await chat.ask("/subagents list");
    const [first, second] = [chat.run("first"), chat.run("second")];
    expect(list.split("\n").slice(0, 2)).toEqual(["🧭 Subagents (current session)", "Active: 0 · Done: 2"]);
    expect(list).toMatch(new RegExp(`^1\\) ✅ done · second · \\d+s, \\d+s ago · ${second.id.slice(0, 8)} · \`${second.child_key}\``, "m"));
    expect(list).toMatch(new RegExp(`^2\\) ✅ done · first · .*${first.id.slice(0, 8)}`, "m"));
    await finished(chat, "third");
    // A third run is newer, but number 1 still means what the last list showed.
    expect(await chat.ask("/subagents info 1")).toContain(`**Run:** ${second.id}`);
    expect(await chat.ask("/subagents info #2")).toContain(`**Run:** ${first.id}`);
    await chat.ask("/subagents list");
    expect(await chat.ask("/subagents info 1")).toContain("**Label:** third");
  });

  it("[CM2] a queued run shows its place", async () => {
    const chat = scene.chat();
    await chat.act([spawns(...["a", "b", "c", "d"].map((label) => child(label, [{ hang: true }])))]);
    await waitFor("two to run", () => chat.runs().filter((run) => run.state === "running").length === 2);
    const list = await chat.ask("/subagents list");
    expect(list).toContain("Active: 4 · Done: 0");
    expect(list).toMatch(/⏳ queued \(place 1\) · c · age/);
    expect(list).toMatch(/⏳ queued \(place 2\) · d · age/);
    await chat.ask("/subagents stop c");
    expect(await chat.ask("/subagents list")).toMatch(/⏳ queued \(place 1\) · d · age/);
    expect(await chat.ask("/subagents stop all")).toBe("⚙️ Stopped 3 sub-agents.");
  });
});

describe("targets", () => {
  it("[CM3] a number, last, a run-id prefix, a label and a full key all mean the run", async () => {
    const chat = scene.chat();
    await finished(chat, "alpha", "Beta Two");
    await chat.ask("/subagents list");
    const { id, child_key } = chat.run("Beta Two");
    for (const target of ["1", "#1", "last", "LAST", id.slice(0, 8), id, "beta two", "Beta Two", child_key]) {
      expect(await chat.ask(`/subagents info ${target}`), target).toContain(`**Run:** ${id}`);
    }
  });

  it("[CM3] unknown, ambiguous, out of range and missing each have their own words", async () => {
    const chat = scene.chat();
    expect(await chat.ask("/subagents info 1")).toBe("The numbers come from `/subagents list`: call it first.");
    expect(await chat.ask("/subagents info last")).toBe("There are no sub-agents in this session yet.");
    await finished(chat, "twin", "twin");
    await chat.ask("/subagents list");
    expect(await chat.ask("/subagents info 7")).toBe("There is no number 7: the last list went from 1 to 2.");
    expect(await chat.ask("/subagents info 0")).toBe("There is no number 0: the last list went from 1 to 2.");
    expect(await chat.ask("/subagents info twin")).toMatch(/^"twin" fits 2 sub-agents: [0-9a-f]{8} \("twin"\), [0-9a-f]{8} \("twin"\)\./);
    expect(await chat.ask("/subagents info nobody")).toBe('There is no sub-agent "nobody" in this session. `/subagents list` shows them.');
    expect(await chat.ask("/subagents info ../../../etc/passwd")).toMatch(/^There is no sub-agent/);
    expect(await chat.ask("/subagents info")).toMatch(/^Which sub-agent\?/);
  });

  it("[CM3] another chat's run is answered like one that does not exist", async () => {
    const [mine, other] = [scene.chat(), scene.chat()];
    await finished(other, "theirs");
    const { id, child_key } = other.run("theirs");
    const nobody = randomUUID();
    for (const action of ["info", "log", "stop", "send"]) {
      const words = action === "send" ? " hello" : "";
      const foreign = await mine.ask(`/subagents ${action} ${id}${words}`);
      const absent = await mine.ask(`/subagents ${action} ${nobody}${words}`);
      expect(foreign.replace(id, "X")).toBe(absent.replace(nobody, "X"));
    }
    expect(await mine.ask(`/subagents info ${child_key}`)).toMatch(/^There is no sub-agent/);
    expect(other.run("theirs")).toMatchObject({ state: "done", generation: 1 });
  });
});

describe("stop", () => {
  it("[CM4] ends one or all, says how many, and names one that has already ended", async () => {
    const chat = scene.chat();
    await finished(chat, "over");
    expect(await chat.ask("/subagents stop over")).toMatch(/^"over" \([0-9a-f]{8}\) has already ended \(done\)\.$/);
    await chat.act([spawns(child("one", [{ hang: true }]), child("two", [{ hang: true }]), child("three", [{ hang: true }]))]);
    expect(await chat.ask("/subagents stop two")).toMatch(/^⚙️ Stopped 1 sub-agent: "two" \([0-9a-f]{8}\)\.$/);
    expect(chat.run("two").state).toBe("stopped");
    expect(await chat.ask("/subagents stop all")).toBe("⚙️ Stopped 2 sub-agents.");
    expect(await chat.ask("/subagents stop all")).toBe("⚙️ Stopped 0 sub-agents.");
  });
});

describe("log and info", () => {
  it("[CM5] log shows the last messages, tool calls only when asked, at most as many as asked", async () => {
    const chat = scene.chat();
    const steps = [...Array.from({ length: 3 }, (_, n) => ({ ...calls(["list", { path: "." }]), text: `step ${n}` })), { text: "the end" }];
    await chat.act([spawns(child("logged", steps))]);
    await chat.announced("logged");
    const log = await chat.ask("/subagents log logged");
    expect(log).toMatch(/^🧭 Log of "logged" \([0-9a-f]{8}\), done/);
    for (const words of ["step 0", "step 2", "the end"]) expect(log).toContain(words);
    expect(log).not.toContain("→ list");
    expect(await chat.ask("/subagents log logged tools")).toMatch(/→ list[\s\S]*← list/);
    const two = await chat.ask("/subagents log logged 2");
    expect(two).toContain("the end");
    expect(two).not.toContain("step 1");
    expect(await chat.ask("/subagents log logged 100000000 tools")).toContain("step 0");
  });

  it("[CM6] info tells all about a run", async () => {
    const chat = scene.chat();
    await finished(chat, "told");
    await waitFor("it to be delivered", () => chat.run("told").delivery === "delivered");
    const info = await chat.ask("/subagents info told");
    const fields = Object.fromEntries([...info.matchAll(/^- \*\*(.+?):\*\* (.*)$/gm)].map((match) => [match[1], match[2]]));
    const run = chat.run("told");
    expect(fields).toMatchObject({
      Status: "done",
      Label: "told",
      Run: run.id,
      "Session key": run.child_key,
      "Session id": run.session_id,
      Transcript: isShared
        ? expect.stringContaining(`/#/run/${run.id}`)
        : `${scene.herald.stateDir}/agents/main/sessions/${run.session_id}.jsonl`,
      Model: "scripted/model-1 (thinking off)",
      "Answered by": "scripted/model-1",
      Usage: "tokens n/a",
      Cleanup: "keep",
      Delivery: "delivered",
    });
    for (const name of ["Created", "Started", "Ended"]) expect(fields[name]).toMatch(/^\d{4}-.*Z \(\d+s ago\)$/);
    expect(fields.Archive).toMatch(/^\d{4}-.*Z \((59m\d\ds|1h00m) from now\)$/);
    expect(fields.Task).toContain("result of told");
  });
});

describe("send", () => {
  const heard = (words: string) =>
    scene.model.calls.filter((call) => whoAsks(call) === "child" && call.messages.some((message) => message.text === words));

  it("[CM7] to a running run: durable, read at its next step, and the answer says so", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("busy", [{ ...calls(["list", { path: "." }]), hold: "sent" }, { text: "heard you" }]))]);
    await chat.reached("busy", "running");
    expect(await chat.ask("/subagents send busy mind the gap")).toMatch(
      /^📨 Sent to "busy" \([0-9a-f]{8}\); it reads it at its next step\.$/,
    );
    scene.release("sent");
    await chat.announced("busy");
    expect(heard("mind the gap").length).toBeGreaterThan(0);
    expect(chat.run("busy").generation).toBe(1);
  });

  it("[CM7] to a queued run: it is read when it starts", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("h1", [{ hang: true }]), child("h2", [{ hang: true }]), child("waiting", "done waiting"))]);
    await waitFor("two to run", () => chat.runs().filter((run) => run.state === "running").length === 2);
    expect(await chat.ask("/subagents send waiting think of me")).toContain("it is still queued and reads it when it starts.");
    await chat.ask("/subagents stop h1");
    await chat.announced("waiting");
    expect(heard("think of me").length).toBeGreaterThan(0);
    await chat.ask("/stop");
  });

  it("[CM7] to a finished run: the same session goes on as a new generation and announces again", async () => {
    const chat = scene.chat();
    await finished(chat, "twice");
    const before = chat.run("twice");
    expect(await chat.ask(`/subagents send twice ${plan([{ text: "second answer" }])}`)).toContain(
      "it goes on with your message in the same session",
    );
    await waitFor("the second announcement", async () => (await chat.announcements()).length === 2);
    const [first, second] = (await chat.announcements()).map((message) => message.text);
    expect(first).toContain("result of twice");
    expect(second).toContain("Result:\nsecond answer");
    const after = chat.run("twice");
    expect(after).toMatchObject({
      id: before.id,
      child_key: before.child_key,
      session_id: before.session_id,
      generation: 2,
      state: "done",
    });
    expect(await chat.ask("/subagents send twice")).toContain("What should it be told?");
  });
});

describe("the others", () => {
  it("[CM1] an unknown action prints the help, and /subagents alone is list", async () => {
    const chat = scene.chat();
    for (const words of ["/subagents nonsense", "/subagents constructor", "/subagents __proto__ x"]) {
      const help = await chat.ask(words);
      for (const action of [
        "list",
        "stop <id|#|group|all>",
        "log <id|#> [limit] [tools]",
        "info <id|#>",
        "send <id|#> <message>",
        "spawn",
        "retry",
      ]) {
        expect(help).toContain(`/subagents ${action}`);
      }
    }
    expect(await chat.ask("!subagents")).toMatch(/^🧭 Subagents \(current session\)/);
  });

  it("[CM8] spawn sends one out, retry says when nothing is blocked, help and status and usage answer", async () => {
    const chat = scene.chat();
    const answer = await chat.ask(`/subagents spawn ${plan([{ text: "from a command" }])}`);
    expect(answer).toMatch(/^🧭 Sent out ".*" \([0-9a-f]{8}\)\. Its result will be announced here\.$/);
    await waitFor("it", async () => (await chat.announcements()).some((message) => message.text.includes("from a command")));
    expect(await chat.ask("/subagents spawn")).toContain("What should it do?");
    await waitFor("it to be delivered", () => chat.runs()[0]?.delivery === "delivered");
    expect(await chat.ask("/subagents retry last")).toContain("is not blocked (delivered)");
    expect(await chat.ask("/help")).toMatch(/\*\*Commands\*\*[\s\S]*\/stop[\s\S]*\/status/);
    expect(await chat.ask("/status")).toMatch(/subagent/);
    expect(await chat.ask("/usage")).toContain("Its sub-agents (1)");
    expect(await chat.ask("/nonsense")).toBe("There is no command /nonsense. /help lists them.");
  });

  it("[CM9] commands answer while the agent and its lane are busy", async () => {
    const chat = scene.chat();
    await chat.say(plan([spawns(...["a", "b", "c"].map((label) => child(label, [{ hang: true }]))), { hang: true }]));
    await waitFor("everything to hang", () => scene.model.open >= 3);
    const askedAt = performance.now();
    expect(await chat.ask("/subagents list")).toContain("Active: 3");
    // 300 ms are promised; a loaded machine gets more, but no command may wait for the work.
    expect(performance.now() - askedAt).toBeLessThan(20_000);
    expect(await chat.ask("/stop")).toBe("⚙️ Agent was aborted. Stopped 3 sub-agents.");
  });

  it("[SE5] /new stops the running sub-agents of the old conversation, and the new one knows nothing of it", async () => {
    const chat = scene.chat();
    await finished(chat, "earlier");
    await chat.act([spawns(child("going", [{ hang: true }]))]);
    expect(await chat.ask("/new")).toMatch(
      /^✨ New conversation\. Stopped 1 sub-agent\. The old one is kept: \S+(?:\.jsonl| in PostgreSQL)$/,
    );
    expect(chat.run("going").state).toBe("stopped");
    await chat.ask("what do you know?");
    expect(JSON.stringify(scene.model.calls.at(-1)?.messages)).not.toContain("earlier");
  });
});

it("[SE5] with session.reset.subagents keep, a kept run announces into the chat but not into the new conversation's context", async () => {
  await using keeping = await createScene({ config: { session: { reset: { subagents: "keep" } } } });
  const chat = keeping.chat();
  await chat.act([spawns(child("kept", [{ text: "kept words", hold: "new" }]))]);
  expect(await chat.ask("/new")).toMatch(/^✨ New conversation\. The old one is kept/);
  keeping.release("new");
  expect(await chat.announced("kept")).toContain("kept words");
  await chat.ask("what do you know?");
  expect(JSON.stringify(keeping.model.calls.at(-1)?.messages)).not.toContain("kept words");
});
