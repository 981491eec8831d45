// People are told what was decided about them: real stores, a clock the test drives, and decisions from elsewhere.
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Channel } from "../../../src/core/message.ts";
import { createIntroductions } from "../../../src/gateway/introductions.ts";
import { openDatabase } from "../../../src/stores/database.ts";
import { createPairing } from "../../../src/stores/pairing.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";

let folder: StateFolder;
let over: AbortController;
let running: Promise<void>;
let isOn: boolean;
beforeEach(async () => {
  folder = await createStateFolder();
  isOn = true;
});
afterEach(async () => {
  over.abort();
  await running;
  folder[Symbol.dispose]();
});

const channel = { render: ({ markdown }: { markdown: string }) => [{ text: markdown }] } as unknown as Channel;

function start(): void {
  over = new AbortController();
  const { db, pairing, outbox } = folder.stores;
  const { clock, bus, log } = folder;
  running = createIntroductions({ db, pairing, outbox, clock, bus, log, channel: () => (isOn ? channel : null) }).run(over.signal);
}

const ask = async (senderId: string): Promise<string> =>
  (await folder.stores.db.transaction([], (tx) =>
    folder.stores.pairing.request(tx, {
      ...{ channel: "test", account: "a", senderId, senderName: "Ann" },
      address: { channel: "test", account: "a", chat: senderId, kind: "dm" },
    }),
  )) ?? "";
const told = async (): Promise<string[]> =>
  (await folder.stores.db.all<{ part: string; address_key: string }>("SELECT part, address_key FROM outbox ORDER BY id")).map(
    ({ part, address_key }) => `${address_key.split("/")[2]}: ${(JSON.parse(part) as { text: string }).text.split(" ")[0]}`,
  );

/** As `npm run pair` does: another connection, nobody rings. */
async function elsewhere(decide: (pairing: ReturnType<typeof createPairing>) => Promise<unknown>): Promise<void> {
  const db = openDatabase({ path: join(folder.stateDir, "herald.db") });
  await decide(createPairing({ db, clock: folder.clock }));
  db.close();
}

it("[SC1] somebody let in or refused is told so once, at once", async () => {
  start();
  const [ann, bob] = [await ask("ann"), await ask("bob")];
  await folder.stores.pairing.approve(ann);
  await folder.clock.advance(0);
  expect(await told()).toEqual(["ann: Welcome!"]);
  await folder.stores.pairing.refuse(bob);
  await folder.clock.advance(3_600_000);
  expect(await told()).toEqual(["ann: Welcome!", "bob: Thank"]);
});

it("[SC1] decided in another process: told within a second, and the page hears of it; nobody looks while no code waits", async () => {
  start();
  const code = await ask("ann");
  await folder.clock.advance(500);
  const before = folder.events.length;
  await elsewhere((pairing) => pairing.approve(code));
  expect(await told()).toEqual([]);
  await folder.clock.advance(1_000);
  expect(await told()).toEqual(["ann: Welcome!"]);
  expect(folder.events.slice(before)).toContainEqual({ type: "pairing.changed" });
});

it("[SC1] decided while the gateway was off, or its channel: told when both are on", async () => {
  const code = await ask("ann");
  await elsewhere((pairing) => pairing.approve(code));
  isOn = false;
  start();
  await folder.clock.advance(10_000);
  expect(await told()).toEqual([]);
  over.abort();
  await running;
  isOn = true;
  start();
  await folder.clock.advance(0);
  expect(await told()).toEqual(["ann: Welcome!"]);
  over.abort();
  await running;
  start();
  await folder.clock.advance(10_000);
  expect(await told()).toHaveLength(1);
});

it("[SC1] let in, revoked and let in again: welcomed again", async () => {
  start();
  for (let round = 0; round < 2; round++) {
    await folder.stores.pairing.approve(await ask("ann"));
    await folder.clock.advance(1_000);
    await folder.stores.pairing.revoke({ channel: "test", account: "a", senderId: "ann" });
  }
  expect(await told()).toEqual(["ann: Welcome!", "ann: Welcome!"]);
});
