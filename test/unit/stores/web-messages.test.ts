import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { openDatabase, type SqliteDatabase } from "../../../src/stores/database.ts";
import { createWebMessages, type WebMessages } from "../../../src/stores/web-messages.ts";
import { createManualClock } from "../../support/manual-clock.ts";

let dir: string;
let db: SqliteDatabase;
let messages: WebMessages;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-messages-"));
  db = openDatabase({ path: join(dir, "herald.db") });
  messages = createWebMessages({ db, clock: systemClock });
});

afterEach(() => {
  db.close();
  rmSync(dir, { recursive: true, force: true });
});

const post = (chat: string, key: string, text = key, author: "user" | "agent" = "agent") =>
  db.transaction([], (tx) => messages.post(tx, { chat, key, author, text }));

it("[DL4] PROC-003 the same key again adds nothing and gives the first number", async () => {
  const first = await post("main", "a", "one");
  const again = await post("main", "a", "one");
  expect(first.status).toBe("inserted");
  expect(again).toEqual({ seq: first.seq, status: "known" });
  expect(await post("main", "a", "two")).toEqual({ seq: first.seq, status: "other" });
  expect((await messages.list("main", { limit: 10 })).map((m) => m.text)).toEqual(["one"]);
  expect((await messages.findByKey("a"))?.text).toBe("one");
  expect(await messages.findByKey("b")).toBeNull();
});

it("[WB2] lists forward from a cursor and backward from a message, oldest first, one chat only", async () => {
  for (let n = 1; n <= 10; n++) await post(n % 2 === 0 ? "even" : "odd", `k${n}`);
  const texts = async (range: Parameters<WebMessages["list"]>[1]) => (await messages.list("odd", range)).map((m) => m.text);
  expect(await texts({ limit: 3 })).toEqual(["k5", "k7", "k9"]);
  const k5 = (await messages.findByKey("k5"))?.seq ?? 0;
  expect(await texts({ afterSeq: k5, limit: 1 })).toEqual(["k7"]);
  expect(await texts({ afterSeq: k5, limit: 9 })).toEqual(["k7", "k9"]);
  expect(await texts({ beforeSeq: k5, limit: 9 })).toEqual(["k1", "k3"]);
  expect(await messages.lastSeq("even")).toBe((await messages.findByKey("k10"))?.seq);
  expect(await messages.lastSeq("odd")).toBe((await messages.findByKey("k9"))?.seq);
});

it("[WB1] names a chat after the person's first words, most recent chat first", async () => {
  expect(await messages.chats()).toEqual([]);
  await post("main", "hello", "Welcome", "agent");
  await post("main", "q", "Plan a trip", "user");
  await post("main", "q2", "Something else", "user");
  await post("b", "only-agent", "Hi");
  const [first, second, ...rest] = await messages.chats();
  expect(first).toMatchObject({ id: "b", title: null });
  expect(second).toMatchObject({ id: "main", title: "Plan a trip", lastSeq: (await messages.findByKey("q2"))?.seq });
  expect(rest).toEqual([]);
  await post("main", "q3");
  expect((await messages.chats()).map((chat) => chat.id)).toEqual(["main", "b"]);
});

it("[WB2] keeps what a part carries beside its text", async () => {
  const extra = { kind: "announcement", buttons: [{ label: "Stop", command: "/stop" }] };
  await db.transaction([], (tx) => messages.post(tx, { chat: "main", key: "x", author: "agent", text: "t", extra }));
  expect((await messages.findByKey("x"))?.extra).toEqual(extra);
  expect((await messages.findByKey("x"))?.at).toBeGreaterThan(0);
});

it("[WB2] reads by index, whatever the number of messages", async () => {
  const plan = async (sql: string, ...params: string[]) =>
    (await db.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...params)).map((row) => row.detail).join(" ");
  expect(await plan("SELECT seq FROM web_messages WHERE chat = ? AND seq > 5 ORDER BY seq LIMIT 10", "main")).toMatch(
    /USING (COVERING )?INDEX web_messages_chat/,
  );
  expect(await plan("SELECT MIN(chat) FROM web_messages WHERE chat > ?", "main")).toMatch(/SEARCH .*INDEX web_messages_chat/);
});

const edit = (chat: string, seq: number, text: string) =>
  db.transaction([], (tx) => messages.edit(tx, chat, seq, { text, extra: { quiet: true } }));

it("[WB2] a message that is changed keeps its number and its place, and comes behind every change before it", async () => {
  const clock = createManualClock(1_000);
  messages = createWebMessages({ db, clock });
  const [one, two] = [await post("main", "a"), await post("main", "b")];
  expect(await messages.lastEdit("main")).toBe(0);
  // Twice in one millisecond, then with a clock that was set back.
  expect([await edit("main", two.seq, "b2"), await edit("main", one.seq, "a2")]).toEqual([true, true]);
  const first = await messages.listEdited("main", 0, 10);
  expect(first.map(({ text, editedAt }) => [text, editedAt])).toEqual([
    ["b2", 1_000],
    ["a2", 1_001],
  ]);
  clock.set(1);
  await edit("main", two.seq, "b3");
  expect(await messages.lastEdit("main")).toBe(1_002);
  expect((await messages.listEdited("main", 1_001, 10)).map(({ text, extra }) => [text, extra])).toEqual([["b3", { quiet: true }]]);
  expect((await messages.list("main", { limit: 10 })).map(({ seq, text }) => [seq, text])).toEqual([
    [one.seq, "a2"],
    [two.seq, "b3"],
  ]);
});

it("[LV3] what is not there, stands in another chat or is a person's own is not changed", async () => {
  const { seq } = await post("main", "a");
  const own = await post("main", "q", "my words", "user");
  expect([await edit("main", 999, "x"), await edit("other", seq, "x"), await edit("main", own.seq, "x")]).toEqual([false, false, false]);
  expect(await messages.listEdited("main", 0, 10)).toEqual([]);
});
