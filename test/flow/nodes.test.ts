// Several real processes on one PostgreSQL: the limit and the order that hold for all of them together, stops and streamed text from one
// to the other, and whoever dies or freezes. What one process alone promises is in the other suites, which run over two as well
// (vitest.config.ts, `nodes`).
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { calls, child, plan, spawns, whoAsks } from "../support/brain.ts";
import { openEvents } from "../support/event-stream.ts";
import { mostAtOnce } from "../support/fake-model-server.ts";
import type { Harness } from "../support/harness.ts";
import { createScene, type Scene } from "../support/scene.ts";
import { hasPostgres } from "../support/shared-folder.ts";
import { waitFor } from "../support/wait.ts";

/** Default lease 10 s: dead is noticed then, and taken up at the next looks (SO3). */
const TAKEN_OVER_MS = 15_000;

const middle = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
const isChild = (call: { system: string; messages: { text: string }[] }): boolean => whoAsks(call) === "child";

describe.skipIf(!hasPostgres())("three processes", () => {
  let scene: Scene;
  beforeAll(async () => {
    scene = await createScene({ nodes: [{}, {}, {}], mainConcurrent: 8, subagents: { maxConcurrent: 4, maxChildrenPerSession: 60 } });
  }, 90_000);
  afterEach(async () => scene.calm());
  afterAll(async () => scene[Symbol.asyncDispose]());

  it("[SO2] [LN2] never more than maxConcurrent run on all of them; a chat with fifty waiting does not hold back another's first", async () => {
    const [busy, quiet] = [scene.chat(), scene.chat()];
    const before = scene.model.calls.length;
    const fifty = Array.from({ length: 50 }, (_, n) => child(`busy ${n}`, [{ text: `work ${n}`, hold: "all spawned", delayMs: 40 }]));
    await busy.ask(plan([spawns(...fifty), { text: "sent fifty" }]), 60_000);
    await waitFor("four to work", () => scene.model.open === 4);
    await quiet.act([spawns(child("quiet", "one only"))]);
    scene.release("all spawned");
    const workers = new Set<string | null>();
    await waitFor(
      "all announcements",
      async () => {
        for (const { state, owner } of busy.runs()) if (state === "running") workers.add(owner);
        return (await busy.announcements()).length === 50;
      },
      90_000,
    );
    await quiet.announced("quiet");
    expect(mostAtOnce(scene.model.calls.slice(before).filter((call) => whoAsks(call) !== "main"))).toBe(4);
    // Behind those that had a place already, and at most the four that were next.
    const earlier = busy.runs().filter((run) => (run.started_at ?? 0) < (quiet.run("quiet").started_at ?? 0));
    expect(earlier.length).toBeLessThanOrEqual(8);
    const heads = (await busy.announcements()).map(({ text }) => text.split("\n")[0]).sort();
    expect(heads).toEqual(fifty.map((one) => `**Sub-agent: ${one.label}**`).sort());
    expect(workers.size, "one process did all the work").toBeGreaterThan(1);
  }, 180_000);

  it("[SO2] [SP6] twenty spawns at once from everywhere against a cap of five: five", async () => {
    await using _settings = await scene.configure({ subagents: { maxConcurrent: 4, maxChildrenPerSession: 5 } });
    const chat = scene.chat();
    const held = plan([{ text: "x", hold: "counted" }]);
    const ten = Array.from({ length: 10 }, (_, n) => child(`tool ${n}`, [{ text: "x", hold: "counted" }]));
    const turn = chat.say(plan([spawns(...ten), { text: "asked for ten" }]));
    const commands = Array.from({ length: 10 }, (_, n) => scene.herald.members[n % 3]?.say(`/subagents spawn ${held}`, { chat: chat.id }));
    await Promise.all([turn, ...commands]);
    await waitFor("all twenty to be answered", async () => {
      const answers = (await scene.herald.replies(chat.id)).filter(({ kind }) => kind !== "announcement");
      return answers.length === 11;
    });
    expect(chat.runs()).toHaveLength(5);
    scene.release("counted");
    await waitFor("five announcements", async () => (await chat.announcements()).length === 5);
  }, 60_000);

  it("[SO5] streamed text of a turn on any process reaches the tabs of all", async () => {
    const chat = scene.chat();
    await using first = await openEvents(scene.herald.members[0] as Harness, `chat=${chat.id}`);
    await using second = await openEvents(scene.herald.members[1] as Harness, `chat=${chat.id}`);
    await using third = await openEvents(scene.herald.members[2] as Harness, `chat=${chat.id}`);
    const tabs = [first, second, third];
    const pieces = Array.from({ length: 40 }, (_, n) => `piece ${n} `);
    await chat.say(plan([{ pieces, pieceMs: 50, hang: "after-text" }]));
    // The half of it that comes before it hangs.
    const drafted = (tab: (typeof tabs)[number]): boolean => tab.of("draft").some(({ data }) => String(data.html).includes("piece 19"));
    await waitFor("the draft in every tab", () => tabs.every(drafted));
    // It grew there, as it was written.
    for (const tab of tabs) expect(new Set(tab.of("draft").map(({ data }) => data.html)).size).toBeGreaterThan(1);
    await chat.ask("/stop");
  });

  it("[SO5] /stop on one process ends what others work on, in under a second", async () => {
    const took: number[] = [];
    for (let n = 0; n < 5; n++) {
      const chat = scene.chat();
      const before = scene.model.calls.length;
      await chat.act([spawns(...[0, 1, 2].map((k) => child(`hangs ${n}.${k}`, [{ hang: true }])))]);
      await waitFor(
        "three to hang",
        () => scene.model.calls.slice(before).filter((call) => isChild(call) && call.endedAt === null).length === 3,
      );
      const owners = new Set(chat.runs().map((run) => run.owner));
      const askedAt = performance.now();
      const member = scene.herald.members[n % 3] as Harness;
      await member.say("/stop", { chat: chat.id });
      await waitFor("the connections to close", () => scene.model.calls.slice(before).every((call) => call.endedAt !== null));
      took.push(performance.now() - askedAt);
      expect(chat.runs().map((run) => run.state)).toEqual(["stopped", "stopped", "stopped"]);
      expect(await chat.announcements(), [...owners].join()).toEqual([]);
    }
    // One of them may meet a loaded machine; that it waits for a sweep would show in all.
    expect(middle(took)).toBeLessThan(1_000);
  }, 60_000);

  it("[AR3] [SO3] a run is archived once by whoever looks after that, and all of them find its transcript", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("away", "kept words", { cleanup: "delete" }))]);
    await chat.announced("away");
    await waitFor("it to be archived", () => chat.run("away").archived_at !== null);
    const { session_id, archive_name } = chat.run("away");
    expect(scene.herald.rows("SELECT archive_name FROM transcripts WHERE session_id = ?", session_id)).toEqual([{ archive_name }]);
    for (const member of scene.herald.members) {
      const before = (await scene.herald.replies(chat.id)).length;
      await member.say("/subagents log away", { chat: chat.id });
      const answer = await waitFor("the log", async () => (await scene.herald.replies(chat.id))[before]);
      expect(answer.text).toContain("kept words");
    }
    // A message brings it back, wherever it is worked on.
    await chat.ask(`/subagents send away ${plan([{ text: "one more" }])}`);
    await waitFor("its second announcement", async () => (await chat.announcements()).length === 2);
  });
});

describe.skipIf(!hasPostgres())("one of two", () => {
  it("[SO3] [SO5] killed: its run and its duties are the other's within 15 s, and everything is said once", async () => {
    await using scene = await createScene({ nodes: [{ node: "first" }], subagents: { maxConcurrent: 4 } });
    const chat = scene.chat();
    await chat.act([spawns(child("orphan", [calls(["sessions_list", {}]), { text: "carried on", hold: "taken over" }]))]);
    await waitFor("it to work", () => scene.model.calls.filter(isChild).length === 2);
    const second = await scene.join({ node: "second" });
    const [first] = scene.herald.members as [Harness];
    await first.crash();
    const killedAt = performance.now();
    await second.say(plan([{ text: "answered by the other" }]), { chat: chat.id });
    await scene.herald.reply(/^answered by the other$/, chat.id);
    const answeredMs = performance.now() - killedAt;
    await waitFor("the run to go on", () => scene.model.calls.filter(isChild).length === 3);
    expect(performance.now() - killedAt).toBeLessThan(TAKEN_OVER_MS);
    expect(answeredMs).toBeLessThan(TAKEN_OVER_MS);
    scene.release("taken over");
    expect(await chat.announced("orphan")).toContain("carried on");
    expect(await chat.announcements()).toHaveLength(1);
    expect(scene.herald.rows("SELECT name FROM nodes")).toEqual([{ name: "second" }]);
  }, 90_000);

  it("[SO4] frozen for longer than its lease: it begins anew when it wakes, and nothing is said or done twice", async () => {
    await using scene = await createScene({ nodes: [{ node: "first" }], subagents: { maxConcurrent: 4 } });
    const chat = scene.chat();
    const [first] = scene.herald.members as [Harness];
    await chat.act([spawns(child("in the ice", [{ text: "said once", hold: "both" }]))]);
    await waitFor("it to work", () => scene.model.calls.filter(isChild).length === 1);
    await chat.say(plan([{ text: "answered once", hold: "both" }]));
    await waitFor("the turn to ask its model", () => scene.model.open === 2);
    const known = scene.herald.rows<{ id: string }>("SELECT id FROM nodes")[0]?.id;
    await scene.join({ node: "second" });
    process.kill(first.pid(), "SIGSTOP");
    try {
      // The other asks for both again: the child's step and the turn's.
      await waitFor("both to be taken over", () => scene.model.open === 4, 30_000);
    } finally {
      // Answers for both of them lie ready when it wakes.
      scene.release("both");
      process.kill(first.pid(), "SIGCONT");
    }
    await waitFor("it to begin anew", () => /frozen, or cut off/.test(first.output()));
    const names = (): string[] => scene.herald.rows<{ name: string }>("SELECT name FROM nodes ORDER BY name").map(({ name }) => name);
    await waitFor("it to be back", () => names().join() === "first,second" && first.origin() !== "");
    expect(scene.herald.rows("SELECT 1 FROM nodes WHERE id = ?", known ?? "")).toEqual([]);
    expect(await chat.announced("in the ice")).toContain("said once");
    await scene.herald.reply(/^answered once$/, chat.id);
    await waitFor("nothing to wait any more", () => scene.herald.rows("SELECT 1 FROM lane_jobs").length === 0);
    expect(await chat.announcements()).toHaveLength(1);
    expect((await scene.herald.replies(chat.id)).filter(({ text }) => text === "answered once")).toHaveLength(1);
    // It works again.
    expect(await chat.ask(plan([{ text: "both are here" }]))).toBe("both are here");
  }, 120_000);

  it("[SO4][RN4] told to stop while it is frozen: it ends when it wakes, and does not begin anew", async () => {
    await using scene = await createScene({ nodes: [{ node: "first", env: { HERALD_TEST_LEASE_MS: "2000" } }] });
    const [first] = scene.herald.members as [Harness];
    await scene.join({ node: "second", env: { HERALD_TEST_LEASE_MS: "2000" } });
    const pid = first.pid();
    process.kill(pid, "SIGSTOP");
    await waitFor("it to be given up", () => scene.herald.rows("SELECT 1 FROM nodes WHERE name = 'first'").length === 0, 30_000);
    // As systemd does it: the signal lies there when it goes on.
    process.kill(pid, "SIGTERM");
    process.kill(pid, "SIGCONT");
    await first.exited();
    expect(scene.herald.rows("SELECT name FROM nodes")).toEqual([{ name: "second" }]);
  }, 90_000);
});
