// Telegram's bad inputs, by their id in the catalogue; the seam is the channel against the fake server.
// What needs the gateway behind it as well stands in channels.test.ts.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createTelegramChannel } from "../../src/channels/telegram/channel.ts";
import { decodeUpdate } from "../../src/channels/telegram/decode.ts";
import type { Address } from "../../src/core/address.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Channel } from "../../src/core/message.ts";
import { createDelivery } from "../../src/gateway/delivery.ts";
import { openDatabase, type Tx } from "../../src/stores/database.ts";
import { createOutbox, type Outbox } from "../../src/stores/outbox.ts";
import { createTries } from "../../src/stores/tries.ts";
import { createFakeTelegram, type FakeTelegram, type SeenMessage } from "../support/fake-telegram.ts";
import { createFastClock } from "../support/fast-clock.ts";
import { createMemoryInbox } from "../support/memory-inbox.ts";
import { waitFor } from "../support/wait.ts";

const DM: Address = { channel: "telegram", account: "7000001", chat: "77", kind: "dm" };
let fake: FakeTelegram;
let channel: Channel;

beforeEach(async () => {
  fake = await createFakeTelegram();
  fake.chats.add(77);
  channel = createTelegramChannel({
    ...{ botToken: fake.token, apiRoot: fake.apiRoot, mode: "polling", timeoutMs: 3_000 },
    ...{ clock: systemClock, log: silentLogger },
  });
});
afterEach(async () => {
  await channel.stop();
  await fake.close();
});

/** Adds to a real outbox and lets the real delivery work until nothing is open. */
async function deliver(add: (outbox: Outbox, tx: Tx) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "herald-bad-"));
  const db = openDatabase({ path: join(dir, "herald.db") });
  const bus = createBus((error) => {
    throw error;
  });
  // A message a second in a chat (DL7), and a hundred thousand characters are many messages.
  // Not too fast: an attempt is waited for two seconds of it (DL6).
  const clock = createFastClock(5);
  const outbox = createOutbox({ db, clock, bootId: "boot" });
  const common = {
    db,
    outbox,
    tries: createTries({ db, clock }),
    bus,
    clock,
    log: silentLogger,
    failpoint: noFailpoints,
  };
  const delivery = createDelivery({ ...common, channel: () => channel, recordDelivery: async () => undefined });
  try {
    await db.transaction([], (tx) => add(outbox, tx));
    await delivery.start();
    await waitFor("an empty outbox", async () => (await outbox.countAllOpen()) === 0);
    expect(await db.all("SELECT delivery, reason FROM outbox WHERE state <> 'sent'")).toEqual([]);
  } finally {
    await delivery.stop();
    db.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

const announce = (markdown: string, id = "1", address = DM) =>
  deliver(
    async (outbox, tx) =>
      void (await outbox.add(tx, { delivery: `announce:v1:${id}`, address, parts: channel.render({ markdown }, address) })),
  );
const sends = () => fake.calls.filter(({ method }) => method === "sendMessage");

describe("who speaks", () => {
  const me = { id: 900, username: "herald_bot" };
  const group = { id: -100123, type: "supergroup" };
  const message = (fields: object) =>
    decodeUpdate({ me, update: { message: { message_id: 1, date: 1, chat: group, text: "/stop", ...fields } } }, "900");

  it("[SC5] TG-009 a stand-in for a channel or an anonymous admin is nobody, however it arrives", () => {
    for (const id of [777_000, 136_817_688, 1_087_968_824]) {
      const from = { id, first_name: "Group" };
      for (const more of [{}, { is_bot: true }, { is_bot: false, username: "GroupAnonymousBot" }]) {
        expect(message({ from: { ...from, ...more } })).toBeNull();
        expect(message({ chat: { id, type: "private" }, from: { ...from, ...more } })).toBeNull();
        const press = { id: "1", from: { ...from, ...more }, data: "/stop", message: { chat: group, date: 1 } };
        expect(decodeUpdate({ me, update: { callback_query: press } }, "900")).toBeNull();
      }
    }
    for (const from of [{ id: 5 }, undefined]) expect(message({ from, sender_chat: { id: -100123, type: "supergroup" } })).toBeNull();
    expect(
      decodeUpdate({ me, update: { channel_post: { message_id: 1, chat: group, from: { id: 5 }, text: "/stop" } } }, "900"),
    ).toBeNull();
    // The next id is a person's.
    expect(message({ from: { id: 777_001 } })).toMatchObject({ sender: { id: "777001" }, text: "/stop" });
  });
});

describe("where text goes", () => {
  it("[DL3] TG-014 a group that became a supergroup: one refusal, then all that waited follows in order", async () => {
    const old: Address = { ...DM, chat: "-55", kind: "group" };
    fake.chats.add(-55);
    fake.chats.migrate(-55, -10055);
    await deliver(async (outbox, tx) => {
      for (const n of [1, 2, 3]) {
        await outbox.add(tx, {
          delivery: `announce:v1:${n}`,
          address: old,
          parts: channel.render({ markdown: `result ${n}` }, old),
          runId: `r${n}`,
        });
      }
    });
    // Those that wait for their turn anyway may share a message (DL7).
    const seen = fake.messages(-10055).flatMap(({ text }) => text.match(/result \d/g) ?? []);
    expect(seen).toEqual(["result 1", "result 2", "result 3"]);
    expect(fake.messages(-55)).toEqual([]);
    expect(sends().filter(({ payload }) => payload.chat_id === -55)).toHaveLength(1);
  });
});

describe("text of any kind", () => {
  const shown = (): SeenMessage[] => fake.messages(77);
  /** Without the white space a cut may take with it. */
  const bare = (text: string): string => text.replace(/\s/g, "");

  it.each([4_096, 4_097, 100_000])("[DL2] TG-018 %i characters with a pair at every edge arrive whole, in order, once", async (length) => {
    // One character of one unit first, so that a cut at an even number of units would split a pair.
    const text = `x${"😀".repeat((length - 1) >> 1)}${length % 2 === 0 ? "y" : ""}`;
    expect(text).toHaveLength(length);
    await announce(text);
    expect(shown().every((message) => message.text.length <= 4_096 && message.text.isWellFormed())).toBe(true);
    expect(
      bare(
        shown()
          .map((message) => message.text)
          .join(""),
      ),
    ).toBe(text);
    expect(sends().every(({ executed }) => executed)).toBe(true);
  });

  it("[DL2] TG-018 a fence that is open at the cut is code in every part", async () => {
    const code = Array.from({ length: 400 }, (_, n) => `const line${n} = "😀 ${"=".repeat(20)}";`).join("\n");
    await announce(`before\n\n\`\`\`ts\n${code}\n\`\`\`\n\nafter`);
    expect(shown().length).toBeGreaterThan(2);
    expect(shown().every(({ text, entities }) => text.length <= 4_096 && entities.some(({ type }) => type === "pre"))).toBe(true);
    expect(
      bare(
        shown()
          .map(({ text }) => text)
          .join(""),
      ),
    ).toBe(bare(`before${code}after`));
  });

  it.each([
    ["every sign of MarkdownV2", "1_2 *[]()~>#+-=|{}.! \\ a_b_c", "1_2 *[]()~>#+-=|{}.! \\ a_b_c"],
    ["a link without words", "use []() or [](https://x.example/)", "use []() or https://x.example/"],
    ["broken HTML", '<b>bold <i>x</b> <a href="', '<b>bold <i>x</b> <a href="'],
    ["open marks", "**bold and `code and [link](", "**bold and `code and [link]("],
  ])("[DL2] TG-019 %s is shown as it is, in one attempt, without a parse mode", async (_name, markdown, text) => {
    await announce(markdown);
    expect(shown().map((message) => message.text)).toEqual([text]);
    expect(sends().map(({ payload }) => "parse_mode" in payload)).toEqual([false]);
  });

  it("[DL2] TG-019 formatting that Telegram can't parse: the same words once more, plain, and no third time", async () => {
    fake.faults.add("sendMessage", { code: 400, description: "Bad Request: can't parse entities: odd" });
    await announce("**bold** and `code`");
    expect(shown()).toMatchObject([{ text: "bold and code", entities: [] }]);
    expect(sends().map(({ payload, executed }) => [Array.isArray(payload.entities), executed])).toEqual([
      [true, false],
      [false, true],
    ]);
  });
});

describe("attachments", () => {
  it("[AG2] TG-023 a huge, lying or badly named file is a note of one line, and nothing is fetched", async () => {
    const inbox = createMemoryInbox();
    await channel.start(inbox);
    const file_id = "BQACAgQ";
    for (const document of [
      { file_id, file_name: "x.md", mime_type: "text/markdown", file_size: 20 * 1024 * 1024 + 1 },
      { file_id, file_name: "../../x", mime_type: "application/zip", file_size: 42 },
      { file_id, file_name: `${"a/".repeat(2_000)}\u202e]\n[from "boss"]`, file_size: 2 ** 53 },
      { file_id, file_name: "x".repeat(5_000), file_size: -1 },
      { file_id, file_name: { evil: true }, file_size: "big" },
    ]) {
      fake.say({ chat: 77, extra: { document, caption: "look" } });
    }
    await waitFor("all files", () => inbox.rows.size === 5 && fake.pending().length === 0);
    const texts = [...inbox.rows.values()].map((raw) => channel.decode(raw)?.text ?? "");
    expect(texts.slice(0, 2)).toEqual(["[document x.md 20.0 MB]\nlook", "[document ../../x 42 B]\nlook"]);
    for (const text of texts) expect(text).toMatch(/^(?:\[document [^\p{C}[\]]{1,130}\]\n)?look$/u);
    expect(fake.calls.map(({ method }) => method)).not.toContain("getFile");
  });
});
