// Groups and dependencies against the real process: all or none, one announcement, one waking, who is stopped, what waits for what.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { calls, child, plan, type Step, spawns, whoAsks } from "../support/brain.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await createScene({ subagents: { maxConcurrent: 20, maxChildrenPerSession: 30, maxSpawnDepth: 2 } });
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

const task = (label: string, work: string | readonly Step[], more: Record<string, unknown> = {}) => child(label, work, more);
const tasks = (all: readonly Record<string, unknown>[], group?: Record<string, unknown>): Step =>
  calls(["sessions_spawn", { tasks: all, ...(group === undefined ? {} : { group }) }]);
// biome-ignore lint/suspicious/noThenProperty: SPEC's word, and nobody awaits it.
const waking = (name: string): Record<string, unknown> => ({ name, then: "wake" });
const groupRows = (chat: Chat) =>
  scene.herald.rows<{ id: string; name: string; state: string }>("SELECT * FROM run_groups WHERE requester_key = ?", chat.key);
const said = async (chat: Chat, start: string): Promise<string[]> =>
  (await chat.announcements()).map(({ text }) => text).filter((text) => text.startsWith(start));
/** What the model of a chat was asked with after its group was through. */
const wakings = (name: string) =>
  scene.model.calls.filter((call) => whoAsks(call) === "main" && call.messages.at(-1)?.text.includes(`the group "${name}" of sub-agents`));
const replies = async (chat: Chat, text: string): Promise<number> =>
  (await scene.herald.replies(chat.id)).filter((message) => message.text.includes(text)).length;

describe("several in one call", () => {
  it("[GR1] one call sends all out, in its order; fields beside tasks hold for each, a task's own come first", async () => {
    const chat = scene.chat();
    const [answer] = await chat.act([
      calls(["sessions_spawn", { tasks: [task("a", "one"), task("b", "two", { role: "explore" })], role: "verifier", thinking: "low" }]),
    ]);
    const { status, runs } = JSON.parse(answer ?? "{}") as { status: string; runs: { label: string }[] };
    expect([status, runs.map(({ label }) => label)]).toEqual(["accepted", ["a", "b"]]);
    expect(await chat.announced("a")).toContain("one");
    expect(await chat.announced("b")).toContain("two");
    const params = scene.herald.rows<{ label: string; params: string; thinking: string }>(
      "SELECT label, params, thinking FROM runs WHERE requester_key = ? ORDER BY seq",
      chat.key,
    );
    expect(params.map((row) => [row.label, JSON.parse(row.params).role, row.thinking])).toEqual([
      ["a", "verifier", "low"],
      ["b", "explore", "low"],
    ]);
  });

  it.each([
    [
      "a task that is refused",
      [task("x1", "1"), task("x2", "2", { role: "wizard" })],
      undefined,
      /Task 2 of 2: .*wizard.*Nobody was sent out/,
    ],
    ["more than a session may have", Array.from({ length: 20 }, (_, n) => task(`m${n}`, "m")), undefined, /maxChildrenPerSession 12/],
    ["a group that waits for more than there are", [task("g1", "1")], { name: "g", wait: 2 }, /wait for 2 of 1/],
  ])("[GR1] all or none: %s leaves no row", async (_, all, group, words) => {
    await using _settings = await scene.configure({ subagents: { maxConcurrent: 20, maxChildrenPerSession: 12 } });
    const chat = scene.chat();
    const [answer] = await chat.act([tasks(all, group)]);
    expect(answer).toMatch(words);
    expect(chat.runs()).toEqual([]);
    expect(groupRows(chat)).toEqual([]);
  });

  it("[GR1] twenty-one are too many, and task beside tasks is refused", async () => {
    const chat = scene.chat();
    const many = Array.from({ length: 21 }, (_, n) => task(`t${n}`, "x"));
    const [first, second, third] = await chat.act([
      tasks(many),
      calls(["sessions_spawn", { task: "x", tasks: [task("a", "x")] }]),
      calls(["sessions_spawn", { label: "nothing" }]),
    ]);
    expect(first).toMatch(/tasks/);
    expect(second).toMatch(/give task or tasks, not both/);
    expect(third).toMatch(/task is required/);
    expect(chat.runs()).toEqual([]);
  });
});

describe("a group", () => {
  it("[GR3] together: nothing is posted until all ended, then one announcement with everybody's status, result and the sums", async () => {
    const chat = scene.chat();
    await chat.act([
      tasks([task("north", "cold"), task("south", [{ hold: "south", text: "warm" }]), task("east", [{ status: 400 }])], {
        name: "weather",
      }),
    ]);
    await chat.reached("north", "done");
    await chat.reached("east", "error");
    expect(await chat.announcements()).toEqual([]);
    expect(await chat.ask("/subagents list")).toMatch(/👥 weather · ▶ 1 · ✓ 1 · ✗ 1 · waits for all/);
    expect(chat.run("north").delivery).toBe("pending");
    scene.release("south");
    await waitFor("the announcement", async () => (await chat.announcements()).length > 0);
    const [text, ...more] = (await chat.announcements()).map((one) => one.text);
    expect(more).toEqual([]);
    expect(text).toMatch(/^\*{0,2}Group weather\*{0,2}: ✓ 2 · ✗ 1/);
    for (const part of [
      /north[\s\S]*?Status: success[\s\S]*?cold/,
      /south[\s\S]*?Status: success[\s\S]*?warm/,
      /east[\s\S]*?Status: error/,
    ])
      expect(text).toMatch(part);
    expect(text?.match(/Stats:/g)).toHaveLength(1);
    await waitFor("all to be delivered", () => chat.runs().every((run) => run.delivery === "delivered" && run.settled_at !== null));
    expect(groupRows(chat)).toMatchObject([{ state: "complete" }]);
  });

  it("[GR3] each: as without a group, and a last line when it is complete", async () => {
    const chat = scene.chat();
    await chat.act([tasks([task("e1", "first"), task("e2", "second")], { name: "pair", announce: "each" })]);
    expect(await chat.announced("e1")).toContain("first");
    expect(await chat.announced("e2")).toContain("second");
    await waitFor("the last line", async () => (await replies(chat, "is complete: ✓ 2")) === 1);
  });

  it.each([
    ["any", 1],
    [2, 2],
  ])("[GR3] wait %s: the rest is stopped when it holds, a failed one doesn't count", async (wait, enough) => {
    const chat = scene.chat();
    const all = ["w1", "w2", "w3", "w4"].map((label) => task(label, [{ hold: `${label}-${enough}`, text: `from ${label}` }]));
    await chat.act([tasks([...all, task("broken", [{ status: 400 }])], { name: "race", wait })]);
    await chat.reached("broken", "error");
    for (const label of ["w2", "w3"].slice(0, enough)) scene.release(`${label}-${enough}`);
    await waitFor("the announcement", async () => (await chat.announcements()).length > 0);
    const states = Object.fromEntries(chat.runs().map((run) => [run.label, run.state]));
    const stopped = ["w1", "w2", "w3", "w4"].filter((label) => !["w2", "w3"].slice(0, enough).includes(label));
    for (const label of stopped) expect(states[label]).toBe("stopped");
    const [text] = (await chat.announcements()).map((one) => one.text);
    expect(text).toContain(`✓ ${enough} · ✗ 1 · ⏹ ${stopped.length}`);
    expect(text).toContain("Status: stopped (its group is complete without it)");
    for (const label of stopped) expect(text).not.toContain(`from ${label}`);
  });

  it("[GR3] any: when all failed it is complete as well, and says so", async () => {
    const chat = scene.chat();
    await chat.act([tasks([task("f1", [{ status: 400 }]), task("f2", [{ status: 400 }])], { name: "luckless", wait: "any" })]);
    await waitFor(
      "the announcement",
      async () => (await said(chat, "**Group luckless")).length + (await said(chat, "Group luckless")).length === 1,
    );
    expect((await chat.announcements())[0]?.text).toContain("✗ 2");
  });

  it("[GR4] then wake: the requester gets one turn with all results as data and answers in the chat; no note repeats them", async () => {
    const chat = scene.chat();
    await chat.act([tasks([task("k1", "alpha"), task("k2", "beta")], waking("wakers"))]);
    await waitFor(
      "the answer",
      async () => wakings("wakers").length === 1 && (await replies(chat, "no plan")) + (await replies(chat, "results:")) > 1,
    );
    const [request] = wakings("wakers");
    const words = request?.messages.at(-1)?.text ?? "";
    expect(words).toMatch(/alpha[\s\S]*beta[\s\S]*\[The gateway: the group "wakers" of sub-agents you sent out is complete \(✓ 2\)/);
    expect(words).toMatch(/<untrusted /);
    expect(scene.herald.rows("SELECT 1 FROM notes WHERE text LIKE '%alpha%' AND text LIKE '%runtime status%'")).toEqual([]);
    expect(await chat.announcements()).toHaveLength(1);
    expect(wakings("wakers")).toHaveLength(1);
  });

  it("[GR4] a requester that is a sub-agent itself reads one note of all", async () => {
    const chat = scene.chat();
    const middle = [tasks([task("g1", "gamma"), task("g2", "delta")], waking("below")), { text: "sent" }, { text: "summed up" }];
    await chat.act([spawns(child("middle", middle))]);
    expect(await chat.announced("middle")).toContain("summed up");
    const asked = scene.model.calls.filter(
      (call) => whoAsks(call) === "child" && call.messages.some(({ text }) => text.includes('the group "below" of sub-agents')),
    );
    expect(asked.length).toBeGreaterThan(0);
    expect(asked[0]?.messages.find(({ text }) => text.includes('the group "below"'))?.text).toMatch(/gamma[\s\S]*delta/);
    expect(await chat.announcements()).toHaveLength(1);
  });

  it("[GR5] GRP-005 stop <group> stops it: a group whose runs were all stopped says nothing and wakes nobody", async () => {
    const chat = scene.chat();
    await chat.act([tasks([task("s1", [{ hold: "never" }]), task("s2", [{ hold: "never" }])], waking("My group"))]);
    await chat.reached("s1", "running");
    expect(await chat.ask('/subagents stop "My group"')).toBe('⚙️ Stopped the group "My group": 2 sub-agents.');
    expect(await chat.ask("/subagents stop my group")).toBe('The group "My group" has ended already.');
    expect(groupRows(chat)).toMatchObject([{ state: "complete" }]);
    expect(await chat.announcements()).toEqual([]);
    expect(wakings("My group")).toEqual([]);
    expect(scene.herald.rows("SELECT 1 FROM inbox WHERE external_id LIKE 'wake:%' AND session_key = ?", chat.key)).toEqual([]);
  });

  it("[GR3] GRP-005 together: a success, a timeout, one interrupted by a second crash, one stopped: each with the runtime's status, the stopped one without its text", async () => {
    const chat = scene.chat();
    const busy = (words: string): Step[] => [{ ...calls(["list", { path: "." }]), text: words }, { hold: "never" }];
    await chat.act([
      tasks(
        [
          task("good", "well done"),
          task("slow", busy("slow words"), { runTimeoutSeconds: 5 }),
          task("unwanted", busy("unwanted words")),
          task("unlucky", busy("unlucky words")),
        ],
        { name: "mixed" },
      ),
    ]);
    await chat.reached("good", "done");
    await chat.reached("unwanted", "running");
    await chat.ask("/subagents stop unwanted");
    await chat.reached("slow", "timeout");
    // Its second step hangs, and is asked for again by whoever takes it up: only then the next crash is one of it.
    const asked = (): number =>
      scene.model.calls.filter((call) => whoAsks(call) === "child" && call.messages.some(({ text }) => text.includes("unlucky words")))
        .length;
    for (const times of [2, 3]) {
      await waitFor(`it to be at work (${times})`, () => asked() >= times);
      await scene.herald.crash();
      await scene.herald.restart();
    }
    await waitFor("the announcement", async () => (await chat.announcements()).length > 0);
    const text = (await chat.announcements())[0]?.text ?? "";
    expect(text).toMatch(/✓ 1 · ✗ 2 · ⏹ 1/);
    for (const part of [
      /good[\s\S]*?Status: success[\s\S]*?well done/,
      /slow[\s\S]*?Status: timeout[\s\S]*?slow words/,
      /unwanted[\s\S]*?Status: stopped \(by \/subagents stop\)/,
      /unlucky[\s\S]*?Status: unknown[\s\S]*?unlucky words/,
    ])
      expect(text).toMatch(part);
    expect(text).not.toContain("unwanted words");
    expect(await chat.announcements()).toHaveLength(1);
  });

  it("[ST2] one that has ended and is held is stopped by name: the group says nothing of it", async () => {
    const chat = scene.chat();
    await chat.act([tasks([task("early", "secret words"), task("late", [{ hold: "late-one", text: "late words" }])], { name: "partly" })]);
    await chat.reached("early", "done");
    expect(await chat.ask("/subagents stop early")).toContain("its announcement had not been sent yet and is left out");
    scene.release("late-one");
    await waitFor("the announcement", async () => (await chat.announcements()).length > 0);
    const text = (await chat.announcements())[0]?.text ?? "";
    expect(text).toContain("late words");
    expect(text).not.toContain("secret words");
  });
});

describe("one after the other", () => {
  it("[GR2] a diamond: each waits without a slot for what it comes after and reads its results, quoted, before its first step", async () => {
    const chat = scene.chat();
    await chat.act([
      tasks([
        task("base", [{ hold: "base", text: "the base" }]),
        task("left", "the left", { after: ["base"] }),
        task("right", "the right", { after: ["base"] }),
        task("top", "the top", { after: ["left", "right"] }),
      ]),
    ]);
    await chat.reached("base", "running");
    expect(chat.runs().map(({ label, state }) => [label, state])).toEqual(
      expect.arrayContaining([
        ["left", "waiting"],
        ["right", "waiting"],
        ["top", "waiting"],
      ]),
    );
    expect(await chat.ask("/subagents list")).toMatch(/waiting · top .*waiting for left, right/);
    scene.release("base");
    await chat.announced("top");
    const first = (label: string) =>
      scene.model.calls.find((call) => whoAsks(call) === "child" && call.messages.some(({ text }) => text.includes(`"the ${label}"`)));
    expect(
      first("left")
        ?.messages.map(({ text }) => text)
        .join("\n"),
    ).toMatch(/<untrusted [\s\S]*the base/);
    expect(
      first("top")
        ?.messages.map(({ text }) => text)
        .join("\n"),
    ).toMatch(/the left[\s\S]*the right/);
  });

  it("[GR2] one that failed ends what comes after it, naming it; ifFailed run begins anyway", async () => {
    const chat = scene.chat();
    await chat.act([
      tasks([
        task("bad", [{ status: 400 }]),
        task("strict", "never said", { after: ["bad"] }),
        task("stricter", "never said", { after: ["strict"] }),
        task("lenient", "made do", { after: ["bad"], ifFailed: "run" }),
      ]),
    ]);
    expect(await chat.announced("strict")).toMatch(/Status: error[\s\S]*it was to begin after "bad" \(error\), which did not succeed/);
    expect(await chat.announced("stricter")).toMatch(/Status: error[\s\S]*"strict" \(error\)/);
    expect(await chat.announced("lenient")).toContain("made do");
    expect(chat.run("strict").started_at).toBeNull();
  });

  it("[GR2] it may come after one of an earlier call, by its label or the start of its id, running or ended", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("older", "found it"))]);
    await chat.announced("older");
    const { id } = chat.run("older");
    await chat.act([spawns(child("by-label", "A", { after: ["older"] }), child("by-id", "B", { after: [id.slice(0, 8)] }))]);
    expect(await chat.announced("by-label")).toContain("A");
    expect(await chat.announced("by-id")).toContain("B");
    const request = scene.model.calls.find((call) => whoAsks(call) === "child" && call.messages.some(({ text }) => text.includes('"A"')));
    expect(request?.messages.map(({ text }) => text).join("\n")).toContain("found it");
  });

  it("[GR2] GRP-001 cycles, unknown and shared names and another chat's id are refused as a whole: no row", async () => {
    const other = scene.chat();
    await other.act([spawns(child("theirs", "x"))]);
    await other.announced("theirs");
    const chat = scene.chat();
    const foreign = other.run("theirs").id;
    const refusals = await chat.act([
      tasks([task("A", "a", { after: ["B"] }), task("B", "b", { after: ["A"] })]),
      tasks([task("A", "a", { after: ["A"] })]),
      tasks([task("A", "a", { after: ["nowhere"] })]),
      tasks([task("twin", "1"), task("twin", "2"), task("C", "c", { after: ["twin"] })]),
      tasks([task("A", "a", { after: [foreign] })]),
      tasks([task("A", "a", { after: ["theirs"] })]),
    ]);
    expect(refusals[0]).toMatch(/goes round in a circle: \\"A\\" → \\"B\\" → \\"A\\"/);
    expect(refusals[1]).toMatch(/goes round in a circle: \\"A\\" → \\"A\\"/);
    expect(refusals[2]).toMatch(/\\"nowhere\\", and you have no sub-agent of that name/);
    expect(refusals[3]).toMatch(/\\"twin\\", which fits 2 sub-agents/);
    expect(refusals[4]).toMatch(/and you have no sub-agent of that name/);
    expect(refusals[5]).toMatch(/and you have no sub-agent of that name/);
    expect(chat.runs()).toEqual([]);
  });

  it("[GR2][ST2] /stop ends what waits to begin as well", async () => {
    const chat = scene.chat();
    await chat.act([tasks([task("first", [{ hold: "never" }]), task("second", "no", { after: ["first"] })])]);
    await chat.reached("first", "running");
    await chat.ask("/stop");
    await waitFor("both to be stopped", () => chat.runs().every((run) => run.state === "stopped"));
    expect(await chat.announcements()).toEqual([]);
  });
});

describe("kill -9", () => {
  it("[GR4] GRP-003 the requester is in the middle of a turn, the process is killed right after the last end: one announcement, one waking behind that turn, with both results", async () => {
    const chat = scene.chat();
    await chat.act([tasks([task("q1", [{ hold: "q", text: "from q1" }]), task("q2", [{ hold: "q", text: "from q2" }])], waking("quiz"))]);
    await chat.reached("q1", "running");
    await chat.say(plan([{ hold: "turn", text: "still here" }]));
    await waitFor("its turn", () => scene.model.calls.some((call) => call.messages.at(-1)?.text.includes("still here")));
    scene.release("q");
    await waitFor("the group to be complete", () => groupRows(chat)[0]?.state === "complete");
    await scene.herald.crash();
    scene.release("turn");
    await scene.herald.restart();
    await waitFor("the waking", () => wakings("quiz").length > 0);
    await waitFor(
      "its answer",
      () => scene.herald.rows("SELECT 1 FROM inbox WHERE state <> 'done' AND session_key = ?", chat.key).length === 0,
    );
    await waitFor(
      "all of it to be sent",
      () => scene.herald.rows("SELECT 1 FROM outbox WHERE state IN ('queued', 'sending', 'unknown')").length === 0,
    );
    const texts = wakings("quiz").map((call) => call.messages.map(({ text }) => text).join("\n"));
    expect(texts[0]).toMatch(/from q1[\s\S]*from q2/);
    expect(await replies(chat, "still here")).toBeGreaterThanOrEqual(1);
    expect(scene.herald.rows("SELECT 1 FROM inbox WHERE external_id LIKE 'wake:%' AND session_key = ?", chat.key)).toHaveLength(1);
    expect(await said(chat, "**Group quiz")).toHaveLength(1);
  });

  it("[GR2] GRP-007 a chain of 20 at maxConcurrent 1, killed after each third: no deadlock, in order, each announced once", async () => {
    await using _settings = await scene.configure({ subagents: { maxConcurrent: 1, maxChildrenPerSession: 30 } });
    const chat = scene.chat();
    const names = Array.from({ length: 20 }, (_, n) => `link${n}`);
    await chat.act([tasks(names.map((label, n) => task(label, `did ${label}`, n === 0 ? {} : { after: [`link${n - 1}`] })))]);
    for (let ended = 3; ended < 20; ended += 3) {
      await waitFor(`${ended} to end`, () => chat.runs().filter((run) => run.ended_at !== null).length >= ended);
      await scene.herald.crash();
      await scene.herald.restart();
    }
    await waitFor("all to be announced", async () => (await chat.announcements()).length === 20, 30_000);
    const ends = [...chat.runs()].sort((a, b) => (a.ended_at ?? 0) - (b.ended_at ?? 0)).map(({ label }) => label);
    expect(ends).toEqual(names);
    for (const label of names) expect((await chat.announcements()).filter(({ text }) => text.includes(`did ${label}\n`))).toHaveLength(1);
  }, 120_000);
});
