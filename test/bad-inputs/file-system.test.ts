// A database that can't be written for a while: a clear error after a short wait, few tries, and nothing lost or doubled.
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { isStorageError } from "../../src/core/errors.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import type { Channel } from "../../src/core/message.ts";
import { createDelivery } from "../../src/gateway/delivery.ts";
import { createStateFolder } from "../support/state-folder.ts";

const ADDRESS = { channel: "test", account: "a", chat: "home", kind: "dm" } as const;

it("[RC4] FS-011 locked for a minute: a try now and then, nothing sent unrecorded, and the message goes out once", async () => {
  using folder = await createStateFolder();
  const sent: unknown[] = [];
  const channel: Channel = {
    ...{ name: "test", account: "a", start: async () => {}, stop: async () => {}, health: () => ({ state: "on" }), decode: () => null },
    render: () => [],
    async send({ part }) {
      sent.push(part.text);
      return { status: "sent", ref: "x" };
    },
  };
  const { db, outbox } = folder.stores;
  await db.get("PRAGMA busy_timeout=1");
  const common = { ...folder.stores, clock: folder.clock, bus: folder.bus, log: folder.log, failpoint: noFailpoints };
  const { clock } = common;
  let isOn = false;
  const find = () => (isOn ? channel : null);
  const delivery = createDelivery({ ...common, channel: find, async recordDelivery() {} });
  await delivery.start();
  await db.transaction([], (tx) => outbox.add(tx, { delivery: "reply:1", address: ADDRESS, parts: [{ text: "hello" }] }));
  const other = new DatabaseSync(join(folder.stateDir, "herald.db"));
  other.exec("BEGIN IMMEDIATE");
  isOn = true;
  await clock.advance(60_000);
  const tries = folder.lines.filter((line) => line.msg === "delivery is paused").length;
  expect(tries).toBeGreaterThan(10);
  expect(tries).toBeLessThanOrEqual(61);
  expect(sent).toEqual([]);
  other.exec("ROLLBACK");
  other.close();
  await clock.advance(2_000);
  expect(sent).toEqual(["hello"]);
  expect(await outbox.get(1)).toMatchObject({ state: "sent" });
  await delivery.stop();
});

it("[RC4] FS-011 a database that has become read-only refuses in words that name the disk, and takes writes again afterwards", async () => {
  using folder = await createStateFolder();
  const { db, scratchpad } = folder.stores;
  await db.get("PRAGMA query_only=ON");
  try {
    await scratchpad.write("s", "notes", "lost");
    expect.unreachable();
  } catch (error) {
    expect(isStorageError(error)).toBe(true);
    expect(String(error)).toMatch(/readonly|read-only/);
  }
  await db.get("PRAGMA query_only=OFF");
  await scratchpad.write("s", "notes", "kept");
  expect(await scratchpad.read("s", "notes")).toBe("kept");
});
