// A process that was stopped for ten minutes (SIGSTOP, a sleeping machine): its timers are all due at once when it goes on.
import { expect, it } from "vitest";
import { noFailpoints } from "../../src/core/failpoints.ts";
import type { Channel } from "../../src/core/message.ts";
import { createDelivery } from "../../src/gateway/delivery.ts";
import { createStateFolder } from "../support/state-folder.ts";

it("[RN4] PROC-006 after a long pause each waiting chat is tried once, not once for every time that was missed", async () => {
  using folder = await createStateFolder();
  const tries: string[] = [];
  const channel: Channel = {
    ...{ name: "test", account: "a", start: async () => {}, stop: async () => {}, health: () => ({ state: "on" }), decode: () => null },
    render: () => [],
    async send({ address }) {
      tries.push(address.chat);
      return { status: "retry", reason: "busy" };
    },
  };
  const { clock, bus, log } = folder;
  const common = { ...folder.stores, clock, bus, log, failpoint: noFailpoints };
  const { db, outbox } = common;
  const delivery = createDelivery({ ...common, channel: () => channel, async recordDelivery() {} });
  await delivery.start();
  const chats = Array.from({ length: 5 }, (_, n) => `c${n}`);
  for (const chat of chats) {
    const address = { channel: "test", account: "a", chat, kind: "dm" } as const;
    await db.transaction([], (tx) => outbox.add(tx, { delivery: `reply:${chat}`, address, parts: [{ text: "hello" }] }));
  }
  await clock.advance(10_000);
  expect(tries.length).toBeGreaterThan(chats.length);
  tries.length = 0;
  await clock.leap(600_000);
  expect(tries.sort()).toEqual(chats);
  await delivery.stop();
});
