// /stop against the real process: the answer comes at once, the model's connections close, processes are gone, nothing
// starts afterwards and nothing is announced later, not even after a restart.
import { readdirSync, readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { calls, child, plan, type Step, spawns } from "../support/brain.ts";
import { openEvents } from "../support/event-stream.ts";
import { isShared } from "../support/nodes.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { SCRIPTED_KEY } from "../support/scripted-model.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
beforeAll(async () => {
  // On a host without a sandbox the one command of this test, sleep, runs without one.
  scene = await createScene({
    subagents: { maxConcurrent: 2 },
    config: { tools: { exec: { unsandboxed: true } }, agents: { list: [{ id: "main" }] } },
  });
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

/** Processes whose command line has this text, our own test runner excepted. */
function processes(text: string): number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  return pids.filter((pid) => commandLine(pid).includes(text)).map(Number);
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return ""; // it ended meanwhile
  }
}

/** Answers of a stop are promised within a second; a loaded machine gets more, and must still not wait for the work. */
const SOON_MS = 20_000;

describe("/stop", () => {
  it.skipIf(process.platform !== "linux")("[ST2] PROC-015 ends a long tool and three children, one of them queued, for good", async () => {
    const chat = scene.chat();
    const seconds = 4_000 + Math.floor(Math.random() * 1_000_000) / 1_000;
    const sleeping = `sleep ${seconds}`;
    const long = [calls(["exec", { command: ["sleep", String(seconds)], timeoutSeconds: 600 }])];
    await chat.say(plan([spawns(child("in a tool", long), child("in the model", [{ hang: true }]), child("queued", "never")), ...long]));
    await chat.say("a message that waits");
    await waitFor("both sleeps", () => processes(sleeping).length >= 2);
    await waitFor("the hanging model call", () => scene.model.open === 1);
    expect(chat.runs().map((run) => run.state)).toEqual(["running", "running", "queued"]);

    const askedAt = performance.now();
    expect(await chat.ask("/stop", SOON_MS)).toBe("⚙️ Agent was aborted. Stopped 3 sub-agents.");
    const answeredAt = performance.now();
    const callsAtAnswer = scene.model.calls.length;
    expect(answeredAt - askedAt).toBeLessThan(SOON_MS);
    await waitFor("the model's connection to close", () => scene.model.open === 0, SOON_MS);
    expect(scene.model.calls.some((call) => call.clientClosed)).toBe(true);
    await waitFor("the processes to be gone", () => processes(sleeping).length === 0, SOON_MS);

    expect(chat.runs().map((run) => run.state)).toEqual(["stopped", "stopped", "stopped"]);
    await scene.herald.crash();
    await scene.herald.restart();
    // A turn of another chat shows that the new process works; nothing of the stopped chat moved.
    expect(await scene.chat().ask("still there?")).toBe("no plan");
    expect(scene.model.calls.length).toBe(callsAtAnswer + 1);
    expect(processes(sleeping)).toEqual([]);
    expect(await chat.announcements()).toEqual([]);
    expect((await scene.herald.replies(chat.id)).map((message) => message.text)).toEqual(["⚙️ Agent was aborted. Stopped 3 sub-agents."]);
  });

  it("[ST1] the bare words stop, abort and esc do the same, a sentence with /stop in it does not", async () => {
    const chat = scene.chat();
    for (const word of ["stop", "Abort", "esc", "/STOP", "/stop\u200b"]) {
      await chat.act([spawns(child(`before ${word}`, [{ hang: true }]))]);
      expect(await chat.ask(word)).toBe("⚙️ Agent was aborted. Stopped 1 sub-agent.");
    }
    expect(await chat.ask("please do not /stop now")).toMatch(/^results:/);
    expect(await chat.ask("/stop")).toBe("⚙️ Agent was aborted. Stopped 0 sub-agents.");
  });

  it("[ST1] with nothing at work it is answered too, each time", async () => {
    const chat = scene.chat();
    for (let n = 0; n < 6; n++) expect(await chat.ask("/stop")).toBe("⚙️ Agent was aborted. Stopped 0 sub-agents.");
  });

  it("[ST1] stops only this chat's runs, with everything below them", async () => {
    const [mine, other] = [scene.chat(), scene.chat()];
    await other.act([spawns(child("theirs", [{ text: "theirs goes on", hold: "stopped" }]))]);
    await mine.act([spawns(child("mine", [{ hang: true }]))]);
    expect(await mine.ask("/stop")).toBe("⚙️ Agent was aborted. Stopped 1 sub-agent.");
    scene.release("stopped");
    expect(await other.announced("theirs")).toContain("theirs goes on");
  });

  it("[MO5] PROV-006 within moments of /stop the provider sees the connection closed, also that of the main turn", async () => {
    const chat = scene.chat();
    await chat.say(plan([{ text: "half of this and", hang: "after-text" }]));
    await waitFor("the hanging call", () => scene.model.open === 1);
    await chat.ask("/stop");
    await waitFor("the connection to close", () => scene.model.open === 0, SOON_MS);
    expect(scene.model.calls.at(-1)?.clientClosed).toBe(true);
    expect(scene.model.calls.at(-1)?.messages.at(-1)?.text).toContain("half of this and");
  });

  it("[AN6] a stopped run doesn't announce, and the requester's model hears that it was stopped", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("halted", [{ text: "words before", hang: "after-text" }]))]);
    await chat.reached("halted", "running");
    await chat.ask("/subagents stop halted");
    await chat.ask("what became of it?");
    expect(lastTold()).toContain("was stopped (by /subagents stop) before it finished. It announces nothing.");
    expect(await chat.announcements()).toEqual([]);
  });
});

describe("a stop button", () => {
  // Ends in what no secret begins with: a last letter that the page's token of this run may begin with is held back (SC4).
  const half = (...before: Step[]): string =>
    plan([...before, { pieces: ["half of this and\n\n```js\nlet x = [", "1];"], hang: "after-text" }]);
  const press = (chat: Chat): Promise<string> => scene.herald.say("/stop answer", { chat: chat.id, kind: "button" });
  const said = async (chat: Chat): Promise<string[]> =>
    (await scene.herald.replies(chat.id)).filter((message) => message.kind !== "announcement").map((message) => message.text);
  /** Without the tags that colour code. */
  const textOf = (html: unknown): string => String(html).replace(/<[^>]*>/g, "");
  /** Resolves when the words of the answer are on the page. */
  const written = async (chat: Chat): Promise<void> => {
    await using stream = await openEvents(scene.herald, `chat=${chat.id}`);
    await waitFor("the draft", () => stream.of("draft").some(({ data }) => textOf(data.html).includes("let x")));
  };

  it("[ST3] ends the answer being written and nothing else; its words stay, the next press ends the rest", async () => {
    const chat = scene.chat();
    const before = scene.model.calls.length;
    await chat.say(half(spawns(child("helper", [{ hang: true }]), child("quick", [{ text: "quick result", hold: "pressed" }]))));
    await chat.say(plan([{ text: "the next answer" }]));
    await written(chat);
    await press(chat);
    await waitFor("the answer to the message that waited", async () => (await said(chat)).length === 2);
    // The code it was in the middle of is closed, so that the note is none of it.
    const stopped = "half of this and\n\n```js\nlet x = [\n```\n\n_Stopped here. 2 sub-agents go on._";
    expect(await said(chat)).toEqual([stopped, "the next answer"]);
    await waitFor("the model's connection to close", () => scene.model.calls.slice(before).some((call) => call.clientClosed), SOON_MS);
    scene.release("pressed");
    expect(await chat.announced("quick")).toContain("quick result");
    expect(chat.run("helper").state).toBe("running");

    await chat.say(half());
    await written(chat);
    await press(chat);
    await waitFor("the stopped answer", async () => (await said(chat)).length === 3);
    expect((await said(chat)).at(-1)).toMatch(/_Stopped here\. 1 sub-agent goes on\._$/);
    await press(chat);
    await waitFor("the stop of the rest", async () => (await said(chat)).at(-1) === "⚙️ Agent was aborted. Stopped 1 sub-agent.");
    expect(chat.run("helper").state).toBe("stopped");
  });

  it("[ST3] [SC4] an answer stopped in the middle of a secret ends before it, in the chat and on disk", async () => {
    const chat = scene.chat();
    await chat.say(plan([{ pieces: [`half of this and let x be ${SCRIPTED_KEY.slice(0, -1)}`], hang: "after-text" }]));
    await written(chat);
    await press(chat);
    await waitFor("the stopped answer", async () => (await said(chat)).length === 1);
    expect((await said(chat))[0]).toMatch(/^half of this and let x be\n\n_Stopped here/);
    await waitFor("the turn's end", () => scene.model.open === 0, SOON_MS);
    const answersOn = (): string[] => scene.transcripts("main").filter((text) => text.includes('"partial":true'));
    // Whoever wrote it may be another process than the one that took the press.
    const isOnDisk = (): boolean => answersOn().join("").includes("half of this and let x be");
    await waitFor("what was written to be on disk", isOnDisk, SOON_MS);
    const answers = answersOn();
    for (const text of answers) expect(text).not.toMatch(new RegExp(`"role":"assistant"[^\n]*${SCRIPTED_KEY.slice(0, 10)}`));
  });

  it("[ST3] a press that comes when the answer is complete ends nothing", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("helper", [{ text: "helper result", hold: "late press" }]))]);
    await press(chat);
    await press(chat);
    expect(await chat.ask("/usage")).toContain("Usage");
    expect(chat.run("helper").state).toBe("running");
    scene.release("late press");
    expect(await chat.announced("helper")).toContain("helper result");
  });

  // Among others only the one dies that had the press; its work is taken over when its lease is over (nodes.test.ts).
  it.skipIf(isShared)(
    "[ST3] [RC1] killed the moment the press is on record: what was written is said once, and nothing is taken up again",
    async () => {
      const chat = scene.chat();
      await scene.herald.crash();
      await scene.herald.restart({ failpoint: "command.committed" });
      await chat.say(half());
      await written(chat);
      // The page repeats a press that nobody confirmed, under the same id.
      const pressed = press(chat);
      await scene.herald.exited();
      const asked = scene.model.calls.length;
      await scene.herald.restart();
      await pressed;
      await waitFor("the answer", async () => (await said(chat)).length === 1);
      expect(await chat.ask("/usage")).toContain("Usage");
      expect(await said(chat)).toEqual([expect.stringMatching(/^half of this and[\s\S]*_Stopped here\._$/), expect.any(String)]);
      expect(scene.model.calls.length).toBe(asked);
    },
  );
});

const lastTold = (): string => scene.model.calls.at(-1)?.messages.find((message) => message.text.startsWith("[Sub-agent"))?.text ?? "";
