// What both databases must do with the page's chats: names, search, removal, an exchange set aside.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { lock } from "../../src/stores/lock-keys.ts";
import type { StoreRig } from "./stores.contract.ts";

export function webChatsContract(name: string, makeRig: () => Promise<StoreRig>): void {
  describe(`chats of the page (${name})`, () => {
    let rig: StoreRig;
    beforeEach(async () => {
      rig = await makeRig();
    });
    afterEach(() => rig[Symbol.asyncDispose]());

    const say = (chat: string, text: string, author: "user" | "agent" = "user", key = `${chat}:${text}`) => {
      const { db, webMessages } = rig.stores;
      return db.transaction([lock.page(chat)], (tx) => webMessages.post(tx, { chat, key, author, text }));
    };
    const found = async (words: string, limit = 50) => (await rig.stores.webChats.search(words, limit)).hits.map(({ text }) => text);

    it("[WB3] words are found as they are, whatever LIKE makes of them, newest first, in any case of letters", async () => {
      for (const text of ["100% sure", "100 percent", "a_b", "aXb", "back\\slash", "Straße", "ÄRGER", "The KING"]) await say("main", text);
      await say("other", "no king here", "agent");
      expect(await found("100%")).toEqual(["100% sure"]);
      expect(await found("a_b")).toEqual(["a_b"]);
      expect(await found("back\\s")).toEqual(["back\\slash"]);
      expect(await found("%")).toEqual(["100% sure"]);
      expect(await found("king")).toEqual(["no king here", "The KING"]);
      expect(await found("straße")).toEqual(["Straße"]);
      expect(await found("ÄRG")).toEqual(["ÄRGER"]);
      expect(await found("ärg")).toEqual(["ÄRGER"]);
      expect(await found("STRASSE")).toEqual(["Straße"]);
      for (const text of ["Привет, МИР", "ΟΔΟΣ", "naïve 😀 Ünïts"]) await say("main", text);
      expect(await found("привет, мир")).toEqual(["Привет, МИР"]);
      expect(await found("οδοσ")).toEqual(["ΟΔΟΣ"]);
      expect(await found("😀 ÜNÏ")).toEqual(["naïve 😀 Ünïts"]);
      expect(await found("' OR '1'='1")).toEqual([]);
      expect(await rig.stores.webChats.search("a", 1)).toMatchObject({ hits: [{}], isWhole: false });
      expect((await rig.stores.webChats.search("king", 2)).isWhole).toBe(true);
    });

    it("[WB3] a name is kept over a restart and goes with its chat; the other chats stay", async () => {
      const { db, webChats } = rig.stores;
      await say("main", "hello");
      await say("other", "there");
      await db.transaction([], (tx) => webChats.rename(tx, "main", "First"));
      await db.transaction([], (tx) => webChats.rename(tx, "main", "Second"));
      const again = await rig.reopen();
      expect((await again.webMessages.chats()).map(({ id, title }) => [id, title])).toEqual([
        ["other", "there"],
        ["main", "Second"],
      ]);
      expect(await again.db.transaction([lock.page("main")], (tx) => again.webChats.remove(tx, "main"))).toBe(1);
      expect((await again.webMessages.chats()).map(({ id }) => id)).toEqual(["other"]);
      await again.db.transaction([lock.page("main")], (tx) =>
        again.webMessages.post(tx, { chat: "main", key: "new", author: "user", text: "new" }),
      );
      expect((await again.webMessages.chats())[0]?.title).toBe("new");
    });

    it("[WB3] what is set aside has times of its own, does not count as the last exchange, and names the chat no more", async () => {
      const { db, webMessages } = rig.stores;
      const first = await say("main", "old words");
      const answer = await say("main", "old answer", "agent", "reply:1#0");
      expect(await webMessages.lastExchange("main", 10)).toMatchObject({ asked: { text: "old words" }, behind: [{ text: "old answer" }] });
      const next = await say("main", "new words");
      await db.transaction([lock.page("main")], (tx) => webMessages.setAside(tx, "main", [first.seq, answer.seq], "main:new words"));
      const edited = await webMessages.listEdited("main", 0, 10);
      expect(edited.map(({ seq, replacedBy }) => [seq, replacedBy])).toEqual([
        [first.seq, "main:new words"],
        [answer.seq, "main:new words"],
      ]);
      expect(new Set(edited.map(({ editedAt }) => editedAt)).size).toBe(2);
      expect((await webMessages.lastExchange("main", 10))?.asked.seq).toBe(next.seq);
      expect((await webMessages.chats())[0]?.title).toBe("new words");
      expect(await webMessages.lastExchange("nowhere", 10)).toBeNull();
    });

    it("[WB3] a search through 10 000 messages takes less than 200 ms and lets others through", async () => {
      const { db, webChats } = rig.stores;
      const body = "some words of a message that nobody looks for. ".repeat(20);
      await db.transaction([lock.page("main")], async (tx) => {
        for (let n = 0; n < 10_000; n += 100) {
          const rows = Array.from({ length: 100 }, (_, i) => `('main', 'k${n + i}', 'agent', '${n + i} ${body}', 1)`);
          await tx.run(`INSERT INTO web_messages (chat, key, author, text, at) VALUES ${rows.join(", ")}`);
        }
      });
      await say("main", "the needle");
      const times: number[] = [];
      // The best of some: the machine may do something else meanwhile.
      for (let n = 0; n < 5; n++) {
        const startedAt = performance.now();
        expect((await webChats.search("needle that is not there", 50)).hits).toEqual([]);
        times.push(performance.now() - startedAt);
      }
      expect(Math.min(...times)).toBeLessThan(200);
      expect(await found("needle")).toEqual(["the needle"]);
    });

    it("[WB3] a transcript that is still to be archived is on record until it is", async () => {
      const { db, sessions } = rig.stores;
      const id = sessions.newSessionId();
      await db.transaction([], (tx) =>
        sessions.insert(tx, { id, key: "agent:main:web:dm:main", agentId: "main", address: null, parentKey: null }),
      );
      await db.transaction([], (tx) => sessions.setToArchive(tx, id, "x.jsonl.deleted.y"));
      const again = await rig.reopen();
      expect((await again.sessions.listToArchive()).map((one) => ({ ...one }))).toEqual([
        { id, agentId: "main", name: "x.jsonl.deleted.y" },
      ]);
      expect((await again.sessions.listOf("agent:main:web:dm:main")).map((session) => session.id)).toEqual([id]);
      await again.db.transaction([], (tx) => again.sessions.setToArchive(tx, id, null));
      expect(await again.sessions.listToArchive()).toEqual([]);
    });
  });
}
