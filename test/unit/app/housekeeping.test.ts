// The hourly chores on real stores, with a clock the test drives.
import { expect, it } from "vitest";
import { keepHouse } from "../../../src/app/housekeeping.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createManualClock } from "../../support/manual-clock.ts";
import { ADDRESS } from "../../support/runs.ts";
import { createStage, okReply } from "../../support/stage.ts";

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
  const house = keepHouse(stage.stores, clock, silentLogger, over.signal);
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
  expect(await left()).toEqual(["run:2"]);
  // Its session was archived long ago and goes on all the same.
  await db.transaction([], (tx) => mail.addNote(tx, ended, "run:3", "run:3"));
  await clock.leap(2 * 3_600_000);
  expect(await left()).toEqual(["run:2", "run:3"]);
  await clock.leap(7 * 24 * 3_600_000);
  expect(await left()).toEqual(["run:2"]);
  over.abort();
  await house;
});
