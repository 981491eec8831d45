// Where a slash command without a thread is sent to: how many conversations of a chat's threads are at work, on real stores.

import { expect, it } from "vitest";
import type { CommandContext } from "../../../src/gateway/commands.ts";
import { threadHint } from "../../../src/gateway/threads.ts";
import type { Tx } from "../../../src/stores/database.ts";
import { newRun } from "../../support/runs.ts";
import { createStateFolder } from "../../support/state-folder.ts";

const KEY = "agent:main:slack:channel:c1";
const context = { sessionKey: KEY, inbound: { address: { kind: "channel" } } } as CommandContext;

it("[CM2] counts the threads at work, whatever is at work in them, and no more of them than anybody reads", async () => {
  using folder = await createStateFolder();
  const { inbox, runs, db } = folder.stores;
  const hint = (): Promise<string | null> => threadHint({ inbox, runs }, context, "stop");
  const spawnIn = (tx: Tx, thread: number, label: string): Promise<void> =>
    runs.insert(tx, newRun(label, { requesterKey: `${KEY}:thread:${thread}` }));
  const spawn = (thread: number, label: string): Promise<void> => db.transaction([], (tx) => spawnIn(tx, thread, label));
  expect(await hint()).toBeNull();
  await spawn(1, "a");
  await spawn(1, "b");
  await spawn(2, "c");
  expect(await hint()).toBe("At work in threads of this chat: 2 conversations. Write `!stop` there.");
  await db.transaction([], async (tx) => {
    for (let n = 0; n < 500; n++) await spawnIn(tx, 1_000 + n, `many ${n}`);
  });
  expect(await hint()).toBe("At work in threads of this chat: more than 100 conversations. Write `!stop` there.");
});
