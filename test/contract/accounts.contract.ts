// Two accounts of one platform (CH1) and rooms whose ids hold signs of ours, whatever database stands behind it: nothing of one is found by
// who asks for the other. stores.test.ts runs it.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Address, addressKey } from "../../src/core/address.ts";
import { chatKey } from "../../src/core/ids.ts";
import type { Tx } from "../../src/stores/database.ts";
import { liveDelivery } from "../../src/stores/live-messages.ts";
import { newRun } from "../support/runs.ts";
import type { StoreRig } from "./stores.contract.ts";

/** The same bot, person and chat in all but the account's name: only that can tell them apart. */
const FIRST: Address = { channel: "telegram", account: "7", chat: "42", kind: "dm" };
const WORK: Address = { ...FIRST, channel: "telegram@work" };
const ROOMS = ["!AbC:x", "!abc:x", "!a:b", "!a%3Ab", "!a", "!a/b:x", "!a/../b:x", "%", "😀".repeat(63), "x".repeat(255)];
const room = (chat: string, more: Partial<Address> = {}): Address => ({
  channel: "matrix",
  account: "@bot:x",
  chat,
  kind: "group",
  ...more,
});

export function accountContract(name: string, makeRig: () => Promise<StoreRig>): void {
  describe(`accounts (${name})`, () => {
    let rig: StoreRig;
    beforeEach(async () => {
      rig = await makeRig();
    });
    afterEach(() => rig[Symbol.asyncDispose]());
    const write = <T>(work: (tx: Tx) => Promise<T>): Promise<T> => rig.stores.db.transaction([], work);
    const say = (address: Address, text: string) =>
      write((tx) => rig.stores.outbox.add(tx, { delivery: text, address, parts: [{ text }] }));

    it("[CH1][SC1] who is paired, refused or waits at one account is a stranger at the other", async () => {
      const { pairing } = rig.stores;
      const asks = ({ channel, account }: Address, address = FIRST) =>
        write((tx) => pairing.request(tx, { channel, account, senderId: "42", senderName: "Ann", address }));
      const [first, work] = [await asks(FIRST), await asks(WORK, WORK)];
      expect(first).not.toBe(work);
      expect(await pairing.approve(work ?? "")).toMatchObject({ channel: "telegram@work", address: WORK });
      const isPaired = ({ channel, account }: Address) => pairing.isPaired(channel, account, "42");
      expect([await isPaired(FIRST), await isPaired(WORK)]).toEqual([false, true]);
      expect(await pairing.refuse(first ?? "")).toMatchObject({ channel: "telegram" });
      expect([await isPaired(FIRST), await isPaired(WORK)]).toEqual([false, true]);
      const again = (await rig.reopen()).pairing;
      expect(await again.revoke({ channel: "telegram@work", account: "7", senderId: "42" })).toBe(true);
      expect((await again.listPeople()).map(({ channel, state }) => [channel, state])).toEqual([["telegram", "refused"]]);
    });

    it("[CH1][RC3] the same update of two accounts is two messages, and each has a cursor of its own", async () => {
      const { inbox } = rig.stores;
      for (const [n, { channel, account }] of [FIRST, WORK].entries())
        await inbox.sink(channel, account).put([{ externalId: "1", raw: channel }], String(n));
      expect((await inbox.listNew(0, 10)).map((row) => [row.channel, row.raw])).toEqual([
        ["telegram", "telegram"],
        ["telegram@work", "telegram@work"],
      ]);
      expect((await inbox.sink("telegram", "7").cursor())?.value).toBe("0");
      expect((await inbox.sink("telegram@work", "7").cursor())?.value).toBe("1");
    });

    it("[CH1][DL5] what waits for one account, or for one room, is found there and nowhere else", async () => {
      const { outbox } = rig.stores;
      const places = [FIRST, WORK, ...ROOMS.map((chat) => room(chat)), ...ROOMS.map((chat) => room("!a", { thread: chat }))];
      for (const [n, place] of places.entries()) await say(place, String(n));
      for (const [n, place] of places.entries())
        expect(await outbox.head(addressKey(place))).toMatchObject({ delivery: String(n), address: place });
      expect(new Set(await outbox.openAddresses()).size).toBe(places.length);
    });

    it("[CH1][LV2] a whole chat is asked for with its threads, never with another chat whose id begins like it", async () => {
      const { outbox } = rig.stores;
      await say(room("!a/b:x"), "one");
      await say(room("!AbC:x", { thread: "/" }), "two");
      const waiting = await Promise.all(["!a", "!a/b:x", "!abc:x", "!AbC:x", "!"].map((chat) => outbox.hasWaiting(room(chat))));
      expect(waiting).toEqual([false, true, false, true, false]);
    });

    it("[CH1][LV3] a message that changes is found by its place: the same number at another account is another message", async () => {
      const { live } = rig.stores;
      for (const address of [FIRST, WORK]) {
        await write((tx) => live.open(tx, address.channel, address));
        await write((tx) => live.markPosted(tx, address.channel, "shown"));
        await write((tx) => live.place(tx, liveDelivery(address.channel), "1001", address));
      }
      for (const address of [FIRST, WORK]) expect((await live.findByRef(address, "1001"))?.id).toBe(address.channel);
    });

    it("[CH1][SE1] rooms have sessions and runs of their own, up to ids of 255 bytes", async () => {
      const { sessions, runs } = rig.stores;
      for (const [n, chat] of ROOMS.entries()) {
        const address = room(chat, { thread: chat });
        const key = chatKey("main", address);
        await write((tx) => sessions.insert(tx, { id: `s${n}`, key, agentId: "main", address, parentKey: null }));
        await write((tx) => runs.insert(tx, newRun(`r${n}`, { requesterKey: key, address })));
      }
      for (const [n, chat] of ROOMS.entries()) {
        const key = chatKey("main", room(chat, { thread: chat }));
        expect((await sessions.find(key))?.id).toBe(`s${n}`);
        expect((await runs.unfinishedBelow(key)).map(({ id }) => id)).toEqual([`r${n}`]);
      }
      const found = await rig.stores.runSearch.page({ channel: "matrix" }, null, 50);
      expect(found.found).toHaveLength(ROOMS.length);
      expect((await rig.stores.runSearch.page({ channel: "matrix@home" }, null, 50)).found).toEqual([]);
    });
  });
}
