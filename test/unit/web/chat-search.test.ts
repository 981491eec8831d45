// What stands around a hit, as it was written, where letters change their number with their case.
import { afterEach, beforeEach, expect, it } from "vitest";
import { lock } from "../../../src/stores/lock-keys.ts";
import { searchChats } from "../../../src/web/chat-search.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";

let folder: StateFolder;
beforeEach(async () => {
  folder = await createStateFolder();
});
afterEach(() => folder[Symbol.dispose]());

async function hit(text: string, words: string): Promise<string[]> {
  const { db, webMessages, webChats } = folder.stores;
  await db.transaction([lock.page("main")], (tx) => webMessages.post(tx, { chat: "main", key: text, author: "user", text }));
  const { hits } = await searchChats({ messages: webMessages, webChats }, words);
  return hits.map(({ before, hit, after }) => `${before}[${hit}]${after}`);
}

it.each([
  ["Did you see the kingFISHER?", "Kingfisher", "Did you see the [kingFISHER]?"],
  ["Große Straße, große Freude", "STRASSE,", "Große [Straße,] große Freude"],
  ["ﬁne ÄRGER here", "ärger", "ﬁne [ÄRGER] here"],
  ["😀ß😀 мир", "МИР", "😀ß😀 [мир]"],
  ["ΟΔΟΣ", "οδός".normalize("NFD").replace(/\p{M}/gu, ""), "[ΟΔΟΣ]"],
])("[WB3] %s is found by %s", async (text, words, shown) => {
  expect(await hit(text, words)).toEqual([shown]);
});

it("[WB3] a chat is found by its name in any case of letters, too", async () => {
  const { db, webMessages, webChats } = folder.stores;
  await hit("x", "nothing");
  await db.transaction([lock.page("main")], (tx) => webChats.rename(tx, "main", "Пляж"));
  expect((await searchChats({ messages: webMessages, webChats }, "ПЛЯ")).chats).toEqual([{ id: "main", title: "Пляж" }]);
});
