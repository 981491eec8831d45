// An album in webhook mode (TG-024). Telegram calls with the next picture of a chat only once the last one is confirmed,
// and so do these tests.
import { afterEach, beforeEach, expect, it } from "vitest";
import { createTelegramChannel, type TelegramOptions } from "../../../src/channels/telegram/channel.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { Channel } from "../../../src/core/message.ts";
import { createFakeTelegram, type FakeTelegram } from "../../support/fake-telegram.ts";
import { freePort } from "../../support/free-port.ts";
import { createManualClock } from "../../support/manual-clock.ts";
import { createMemoryInbox, type MemoryInbox } from "../../support/memory-inbox.ts";
import { waitFor } from "../../support/wait.ts";

const QUIET_MS = 1_000;
const SECRET = "a-secret-of-some-length";
const clock = createManualClock();
let fake: FakeTelegram;
let inbox: MemoryInbox;
const started: Channel[] = [];

beforeEach(async () => {
  fake = await createFakeTelegram();
  inbox = createMemoryInbox();
});
afterEach(async () => {
  for (const channel of started.splice(0)) await channel.stop();
  await fake.close();
});

async function start(options: Pick<TelegramOptions, "mode" | "clock" | "webhook">): Promise<Channel> {
  const channel = createTelegramChannel({ botToken: fake.token, apiRoot: fake.apiRoot, log: silentLogger, timeoutMs: 5_000, ...options });
  started.push(channel);
  await channel.start(inbox);
  return channel;
}

async function startHook(): Promise<{ channel: Channel; port: number }> {
  const port = await freePort();
  const channel = await start({ mode: "webhook", clock, webhook: { url: `http://127.0.0.1:${port}/hook`, port, secret: SECRET } });
  await waitFor("the webhook", () => channel.health().state === "on");
  return { channel, port };
}

async function call(port: number, update: object): Promise<number> {
  const headers = { "x-telegram-bot-api-secret-token": SECRET };
  return (await fetch(`http://127.0.0.1:${port}/hook`, { method: "POST", headers, body: JSON.stringify(update) })).status;
}

async function post(port: number, updates: readonly object[]): Promise<void> {
  for (const update of updates) expect(await call(port, update)).toBe(200);
}

/** Ten pictures as Telegram delivers them. */
const pictures = (more: (n: number) => object = () => ({}), firstId = 100): object[] =>
  Array.from({ length: 10 }, (_, n) => ({
    update_id: firstId + n,
    message: {
      ...{ message_id: firstId + n, date: 1, chat: { id: 77, type: "private" }, from: { id: 77, first_name: "Ann" } },
      ...{ media_group_id: "g1", photo: [{}], ...more(n) },
    },
  }));

const said = (channel: Channel): string[] => [...inbox.rows.values()].flatMap((raw) => channel.decode(raw)?.text ?? []);
const album = (text = ""): string => Array(10).fill("[photo]").join("\n") + (text === "" ? "" : `\n${text}`);

it("[AG1] TG-024 ten calls in a direct chat are one message with ten pictures; none delivered again is another", async () => {
  const { channel, port } = await startHook();
  await post(port, pictures());
  await post(port, pictures().slice(3, 5));
  expect(said(channel)).toEqual([]);
  await clock.advance(QUIET_MS);
  expect(said(channel)).toEqual([album()]);
  for (const again of [pictures().slice(9), pictures().slice(0, 1), pictures().slice(2, 8), pictures()]) {
    await post(port, again);
    await clock.advance(QUIET_MS);
    expect(said(channel)).toEqual([album()]);
  }
});

it("[AG1] TG-024 in a group the words on the first picture speak for all ten", async () => {
  const { channel, port } = await startHook();
  await post(
    port,
    pictures((n) => ({ chat: { id: -100500, type: "supergroup" }, ...(n === 0 ? { caption: "@herald_test_bot what is this?" } : {}) })),
  );
  await clock.advance(QUIET_MS);
  const inbound = [...inbox.rows.values()].map((raw) => channel.decode(raw)).filter((one) => one !== null);
  expect(inbound).toMatchObject([{ mentioned: true, text: album("what is this?"), ref: "100" }]);
});

it("[RC3] what was confirmed outlives the process, also where the next one polls", async () => {
  const { channel, port } = await startHook();
  await post(port, pictures());
  await channel.stop();
  expect(said(channel)).toEqual([]);
  const next = await startHook();
  await clock.advance(QUIET_MS);
  expect(said(next.channel)).toEqual([album()]);
  await post(
    next.port,
    pictures(() => ({ media_group_id: "g2" }), 200),
  );
  await next.channel.stop();
  const polling = await start({ mode: "polling", clock: systemClock });
  await waitFor("the second album", () => said(polling).length === 2);
  expect(said(polling)).toEqual([album(), album()]);
});

it("[AG1] words that follow in the same chat come after the pictures, and another chat's don't cut the album", async () => {
  const { channel, port } = await startHook();
  const [first, ...others] = pictures();
  const text = (id: number, chat: number, words: string) => ({
    update_id: id,
    message: { message_id: id, date: 1, chat: { id: chat, type: "private" }, from: { id: chat, first_name: "B" }, text: words },
  });
  await post(port, [first as object, text(300, 88, "hi"), ...others, text(301, 77, "which is best?")]);
  expect(said(channel)).toEqual(["hi", album(), "which is best?"]);
});

it("[RC3] a picture that comes late is a message of its own, also when an early one comes again with it", async () => {
  const { channel, port } = await startHook();
  await post(port, pictures().slice(0, 9));
  await clock.advance(QUIET_MS);
  await post(port, pictures().slice(8));
  await clock.advance(QUIET_MS);
  expect(said(channel)).toHaveLength(2);
  expect(said(channel)[1]).toContain("[photo]");
});

it("[RC3] a full disk: the picture is refused, or the album waits for the disk", async () => {
  const { channel, port } = await startHook();
  await post(port, pictures().slice(0, 9));
  inbox.broken = true;
  expect(await call(port, pictures()[9] as object)).toBe(500);
  await clock.advance(QUIET_MS);
  expect(said(channel)).toEqual([]);
  inbox.broken = false;
  await post(port, pictures().slice(9));
  await clock.advance(QUIET_MS);
  expect(said(channel)).toEqual([album()]);
});
