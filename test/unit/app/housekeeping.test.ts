// The hourly chores on real stores, with a clock the test drives.
import { expect, it } from "vitest";
import { keepHouse } from "../../../src/app/housekeeping.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { APPROVE, createApprovalRig } from "../../support/approval-rig.ts";
import { createManualClock, type ManualClock } from "../../support/manual-clock.ts";
import { ADDRESS } from "../../support/runs.ts";
import { createStage, okReply } from "../../support/stage.ts";
import { waitFor } from "../../support/wait.ts";

const attaching = { sweep: async () => {} };

/** Hour by hour: the chores take real time, and a leap wakes nobody who is still at them. */
const done = (clock: ManualClock, fits: () => Promise<boolean>): Promise<boolean> =>
  waitFor("the chores", async () => {
    await clock.leap(3_600_000);
    return fits();
  });

it("[AN5] mail that was read is forgotten after some days, unread mail stays", async () => {
  const clock = createManualClock();
  await using stage = await createStage({ clock, call: async () => okReply("x"), idle: true });
  const { mail, db, sessions } = stage.stores;
  const ended = sessions.newSessionId();
  await db.transaction([], (tx) =>
    sessions.insert(tx, { id: ended, key: "agent:main:subagent:1", agentId: "main", address: ADDRESS, parentKey: null }),
  );
  await db.transaction([], (tx) => sessions.end(tx, ended));
  const over = new AbortController();
  const house = keepHouse({ stores: stage.stores, clock, log: silentLogger, attaching }, over.signal);
  for (const about of ["run:1", "run:2"]) await db.transaction([], (tx) => mail.addNote(tx, "session", about, about));
  await db.transaction([], (tx) => mail.sendToRun(tx, "run", "Ann", "hello"));
  await db.transaction([], async (tx) =>
    mail.takeNotes(
      tx,
      (await mail.listNotes("session")).slice(0, 1).map((note) => note.id),
    ),
  );
  await db.transaction([], async (tx) =>
    mail.takeForRun(
      tx,
      (await mail.listForRun("run")).map((one) => one.id),
    ),
  );
  const left = async () =>
    (await db.all<{ text: string }>("SELECT text FROM notes UNION ALL SELECT text FROM run_messages")).map((row) => row.text);
  await clock.leap(5 * 24 * 3_600_000);
  expect(await left()).toEqual(["run:1", "run:2", "hello"]);
  await clock.leap(2 * 24 * 3_600_000);
  await done(clock, async () => (await left()).length === 1);
  expect(await left()).toEqual(["run:2"]);
  // Its session was archived long ago and goes on all the same.
  await db.transaction([], (tx) => mail.addNote(tx, ended, "run:3", "run:3"));
  await clock.leap(2 * 3_600_000);
  expect(await left()).toEqual(["run:2", "run:3"]);
  await clock.leap(7 * 24 * 3_600_000);
  await done(clock, async () => (await left()).length === 1);
  expect(await left()).toEqual(["run:2"]);
  over.abort();
  await house;
});

it("[QA4] settled questions and what was allowed for a run are forgotten after some days; open ones and rules of a chat stay", async () => {
  const clock = createManualClock();
  await using stage = await createStage({ clock, call: async () => okReply("x"), idle: true, config: { tools: { approve: APPROVE } } });
  const rig = createApprovalRig(stage);
  const run = await stage.spawn();
  const over = new AbortController();
  const house = keepHouse({ stores: stage.stores, clock, log: silentLogger, attaching }, over.signal);
  for (const [tool, words] of [
    ["deed", "run"],
    ["look", "always"],
  ] as const) {
    const caller = rig.caller(run);
    await caller.step([tool, { n: 1 }]);
    for (const question of await rig.open()) await rig.press(question, words);
    await caller.resume();
  }
  await rig.caller(run).step(["edit_it", { n: 1 }]);
  const left = async () => ({
    questions: (await stage.stores.db.all<{ tool: string }>("SELECT tool FROM questions ORDER BY tool")).map(({ tool }) => tool),
    rules: (await stage.stores.db.all<{ tool: string }>("SELECT tool FROM approval_rules ORDER BY tool")).map(({ tool }) => tool),
  });
  await clock.leap(5 * 24 * 3_600_000);
  expect(await left()).toEqual({ questions: ["deed", "edit_it", "look"], rules: ["deed", "look"] });
  await clock.leap(2 * 24 * 3_600_000);
  await done(clock, async () => (await left()).rules.length === 1);
  expect(await left()).toEqual({ questions: ["edit_it"], rules: ["look"] });
  over.abort();
  await house;
});

it("[LV3][QA3] closed messages, settled questions and the approvals of what is over are forgotten after some days, open ones stay", async () => {
  const clock = createManualClock();
  await using stage = await createStage({ clock, call: async () => okReply("x"), idle: true });
  const { db, live, questions, rules } = stage.stores;
  const asked = (callKey: string) =>
    db.transaction([], (tx) =>
      questions.put(tx, {
        ...{ callKey, kind: "ask", rootKey: "root", sessionId: "s", runId: null, generation: 1, turnId: "turn:1", address: ADDRESS },
        ...{ asker: "Ann", text: "?", options: [], tool: null, digest: null, expiresAt: clock.now() + 1e9 },
      }),
    );
  const [over, open] = [await asked("one"), await asked("two")];
  await db.transaction([], async (tx) => {
    await questions.close(tx, over.question.id, "void");
    for (const id of ["status:over", "status:open"]) await live.open(tx, id, ADDRESS);
    await rules.put(tx, "run:1:1", "exec", { id: "ann" });
  });
  await live.end("status:over", "closed");
  const signal = new AbortController();
  const house = keepHouse({ stores: stage.stores, clock, log: silentLogger, attaching }, signal.signal);
  await clock.leap(5 * 24 * 3_600_000);
  expect(await live.get("status:over")).not.toBeNull();
  await clock.leap(2 * 24 * 3_600_000);
  await done(clock, async () => (await rules.list("run:1:1")).length === 0);
  expect([await live.get("status:over"), await questions.get(over.question.id), await rules.list("run:1:1")]).toEqual([null, null, []]);
  expect(await live.listOpen()).toEqual(["status:open"]);
  expect((await questions.get(open.question.id))?.state).toBe("open");
  signal.abort();
  await house;
});
