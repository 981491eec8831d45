import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { splitMarkdown } from "../../../src/channels/split.ts";
import { createWebChannel, WEB, type WebChannel } from "../../../src/channels/web/channel.ts";
import type { Address } from "../../../src/core/address.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { type AppEvent, createBus } from "../../../src/core/events.ts";
import { noFailpoints } from "../../../src/core/failpoints.ts";
import { chatKey, newId } from "../../../src/core/ids.ts";
import { createAttachments } from "../../../src/stores/attachments.ts";
import { openDatabase, type SqliteDatabase, type Tx } from "../../../src/stores/database.ts";
import { createInbox } from "../../../src/stores/inbox.ts";
import { createWebMessages, type WebMessages } from "../../../src/stores/web-messages.ts";
import { createWebPosts } from "../../../src/stores/web-posts.ts";

const MAIN: Address = { channel: "web", account: "local", chat: "main", kind: "dm" };

let dir: string;
let db: SqliteDatabase;
let messages: WebMessages;
let channel: WebChannel;
let events: AppEvent[];

const SECRET = "hunter2hunter2";

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "herald-web-channel-"));
  events = [];
  const bus = createBus((error) => {
    throw error;
  });
  db = openDatabase({ path: join(dir, "herald.db"), redact: (text) => text.replaceAll(SECRET, "[KEY]"), onEvent: bus.emit });
  messages = createWebMessages({ db, clock: systemClock });
  bus.on((event) => events.push(event));
  const inbox = createInbox({ db, clock: systemClock, bootId: "boot", failpoint: noFailpoints });
  channel = createWebChannel({
    posts: createWebPosts({ db, inbox, webMessages: messages, attachments: createAttachments({ db, clock: systemClock }) }, WEB),
    bus,
    split: splitMarkdown,
  });
  await channel.start(inbox.sink(WEB.channel, WEB.account));
});

afterEach(() => {
  db.close();
  rmSync(dir, { recursive: true, force: true });
});

const inboxRows = () => db.all<{ external_id: string; raw: string }>("SELECT external_id, raw FROM inbox ORDER BY id");
const shown = () => messages.list("main", { limit: 100 });

describe("receiving", () => {
  it("[RC3] a post is in the inbox and in the chat, and its retry changes nothing", async () => {
    const post = { id: newId(), chat: "main", text: "hello", kind: "message" } as const;
    expect(await channel.accept(post)).toBe("accepted");
    expect(await channel.accept(post)).toBe("known");
    expect((await inboxRows()).map((row) => row.external_id)).toEqual([post.id]);
    expect(await shown()).toMatchObject([{ author: "user", text: "hello", key: `in:${post.id}` }]);
    expect(events.filter((event) => event.type === "web.posted")).toHaveLength(1);
  });

  it("[RC3][SC4] the retry of a post with a secret in it is known, too", async () => {
    const post = { id: newId(), chat: "main", text: `it is ${SECRET}`, kind: "message" } as const;
    expect(await channel.accept(post)).toBe("accepted");
    expect(await channel.accept(post)).toBe("known");
    expect(await shown()).toMatchObject([{ text: "it is [KEY]" }]);
  });

  it("[RC3] an id that comes back with other words is refused, not swallowed", async () => {
    const id = newId();
    await channel.accept({ id, chat: "main", text: "hello", kind: "message" });
    expect(await channel.accept({ id, chat: "main", text: "other", kind: "message" })).toBe("conflict");
    expect(await inboxRows()).toHaveLength(1);
  });

  it("[RC4] when the inbox can't be written, the chat shows nothing either", async () => {
    await db.transaction([], (tx) => tx.run("CREATE TRIGGER full BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'disk full'); END"));
    await expect(() => channel.accept({ id: newId(), chat: "main", text: "hello", kind: "message" })).rejects.toThrow("disk full");
    expect(await shown()).toEqual([]);
    expect(events).toEqual([]);
  });

  it("[WB1] a pressed button reaches the gateway without a bubble", async () => {
    const id = newId();
    await channel.accept({ id, chat: "main", text: "/subagents stop 1", kind: "button" });
    expect(await shown()).toEqual([]);
    const [row] = await inboxRows();
    expect(channel.decode(JSON.parse(row?.raw ?? "null"))).toMatchObject({ kind: "button", text: "/subagents stop 1", address: MAIN });
  });

  it("[SC1] decodes to the one local sender, addressed to the bot, with a key for each chat", () => {
    const chat = newId();
    const inbound = channel.decode({ id: newId(), chat, text: "hi", kind: "message" });
    expect(inbound).toMatchObject({ kind: "message", sender: { id: "local" }, mentioned: true, text: "hi" });
    expect(inbound && chatKey("main", inbound.address)).toBe(`agent:main:web:dm:${chat}`);
  });

  it.each([null, "x", 7, {}, { chat: "main" }, { chat: "../x", id: "1", text: "t" }, { chat: "MAIN", id: "1", text: "t" }])(
    "[SE1] %j is nobody's message",
    (raw) => {
      expect(channel.decode(raw)).toBeNull();
    },
  );

  it("[RN4] takes nothing after stop", async () => {
    await channel.stop();
    expect(await channel.accept({ id: newId(), chat: "main", text: "hello", kind: "message" })).toBe("off");
    expect(channel.health().state).toBe("off");
    expect(await shown()).toEqual([]);
  });
});

describe("sending", () => {
  const send = (text: string, key: string) => channel.send({ address: MAIN, part: { text }, key, repeated: false });

  it("[DL4] the same key twice shows one message", async () => {
    const first = await send("hi", "reply:1#0");
    const again = await send("hi", "reply:1#0");
    expect(first).toMatchObject({ status: "sent" });
    expect(again).toEqual(first);
    expect(await shown()).toHaveLength(1);
    expect(events.filter((event) => event.type === "web.posted")).toHaveLength(1);
  });

  it("[DL4] posted and recorded are one: what is recorded fails, and nothing is shown", async () => {
    const post = async (tx: Tx) => channel.postIn?.(tx, { address: MAIN, part: { text: "hi" }, key: "reply:1#0" });
    const failing = db.transaction([], async (tx) => {
      await post(tx);
      throw new Error("disk full");
    });
    await expect(failing).rejects.toThrow("disk full");
    expect([await shown(), events.filter((event) => event.type === "web.posted")]).toEqual([[], []]);
    const refs: unknown[] = [];
    for (let n = 0; n < 2; n++) refs.push(await db.transaction([], post));
    expect((await shown()).map(({ text, seq }) => [text, [String(seq), String(seq)]])).toEqual([["hi", refs]]);
    expect(events.filter((event) => event.type === "web.posted")).toHaveLength(1);
  });

  it("[LV3] a message is changed where it stands, buttons and all; one that is not there is gone", async () => {
    const [part = {}] = channel.render({ markdown: "Which?", buttons: [{ label: "Red", command: "/x" }] }, MAIN);
    const sent = await channel.send({ address: MAIN, part, key: "live:q#0", repeated: false });
    const ref = sent.status === "sent" ? sent.ref : "";
    const edit = (to: string) => channel.edit?.({ address: MAIN, ref: to, part: { text: "Which? Red" } });
    expect([await edit(ref), await edit(ref)]).toEqual([{ status: "shown" }, { status: "shown" }]);
    expect((await shown()).map(({ text, extra, seq }) => [text, extra, String(seq)])).toEqual([["Which? Red", {}, ref]]);
    expect(events.filter((event) => event.type === "web.edited")).toEqual(
      Array(2).fill({ type: "web.edited", chat: "main", seq: Number(ref) }),
    );
    for (const other of ["999", "x", ""]) expect(await edit(other)).toMatchObject({ status: "gone" });
    // Sent again after a crash, it does not bring the first words back.
    expect(await channel.send({ address: MAIN, part, key: "live:q#0", repeated: false })).toEqual({ status: "sent", ref });
    expect((await shown()).map(({ text }) => text)).toEqual(["Which? Red"]);
  });

  it("[RC4] a disk that refuses is a retry, never a throw", async () => {
    await db.transaction([], (tx) => tx.run("ALTER TABLE web_messages RENAME TO gone"));
    expect(await send("hi", "reply:1#0")).toMatchObject({ status: "retry" });
    expect(await channel.edit?.({ address: MAIN, ref: "1", part: { text: "x" } })).toMatchObject({ status: "retry" });
    await db.transaction([], (tx) => tx.run("ALTER TABLE gone RENAME TO web_messages"));
  });

  it("[AN3] an announcement is marked as one", async () => {
    const parts = channel.render({ markdown: "Status: success", kind: "announcement" }, MAIN);
    for (const part of parts) await channel.send({ address: MAIN, part, key: "k#0", repeated: false });
    await send("a reply", "reply:1#0");
    expect((await shown()).map(({ extra }) => extra?.kind)).toEqual(["announcement", undefined]);
  });

  it("[DL2] text within the limit stays whole; longer text is cut, buttons under the last part", () => {
    const buttons = [{ label: "Stop", command: "/stop" }];
    expect(channel.render({ markdown: "short", buttons }, MAIN)).toEqual([{ text: "short", buttons }]);
    expect(channel.render({ markdown: "" }, MAIN)).toEqual([{ text: "" }]);
    const parts = channel.render({ markdown: "word ".repeat(6000), buttons }, MAIN);
    expect(parts.length).toBeGreaterThan(2);
    expect(parts.every((part) => String(part.text).length <= 12_000)).toBe(true);
    expect(parts.map((part) => "buttons" in part)).toEqual([...Array(parts.length - 1).fill(false), true]);
  });
});
