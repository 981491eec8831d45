import { execFile } from "node:child_process";
import { request } from "node:http";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createTelegramChannel, type TelegramOptions } from "../../../src/channels/telegram/channel.ts";
import type { Clock } from "../../../src/core/clock.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { type Logger, silentLogger } from "../../../src/core/logger.ts";
import type { Channel } from "../../../src/core/message.ts";
import { createFakeTelegram, type FakeTelegram } from "../../support/fake-telegram.ts";
import { freePort } from "../../support/free-port.ts";
import { createMemoryInbox, type MemoryInbox } from "../../support/memory-inbox.ts";
import { waitFor } from "../../support/wait.ts";

const DAY_MS = 24 * 3_600_000;
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

/** Waits are cut short and noted; the watchdog's is left as it is. */
function quickClock(): Clock & { waits: number[] } {
  const waits: number[] = [];
  return {
    waits,
    now: systemClock.now,
    sleep(ms, signal) {
      if (ms === 90_000) return systemClock.sleep(ms, signal);
      waits.push(ms);
      return systemClock.sleep(Math.min(ms, 20), signal);
    },
  };
}

async function start(options: Partial<TelegramOptions> = {}, sink = inbox): Promise<Channel> {
  const channel = createTelegramChannel({
    botToken: fake.token,
    apiRoot: fake.apiRoot,
    mode: "polling",
    clock: quickClock(),
    log: silentLogger,
    timeoutMs: 5_000,
    ...options,
  });
  started.push(channel);
  await channel.start(sink);
  return channel;
}

const texts = (channel: Channel, sink = inbox) => [...sink.rows.values()].map((raw) => channel.decode(raw)?.text);
const polls = () => fake.calls.filter((call) => call.method === "getUpdates").map((call) => call.payload);

describe("polling", () => {
  it("[RC3] goes on after a restart exactly where the stored offset is: nothing lost, nothing twice", async () => {
    const first = await start();
    fake.say({ chat: 77, text: "one" });
    await waitFor("the first update", () => inbox.rows.size === 1);
    await first.stop();
    fake.say({ chat: 77, text: "two" });
    const second = await start();
    await waitFor("the second update", () => inbox.rows.size === 2);
    expect(texts(second)).toEqual(["one", "two"]);
    await waitFor("the confirmation", () => fake.pending().length === 0);
  });

  it("[RC3] an offset older than five days is not sent: Telegram may have gone on at a lower id", async () => {
    const cursor = inbox.cursor;
    inbox.cursor = async () => (await cursor()) ?? { value: "900000", at: Date.now() - 6 * DAY_MS };
    fake.say({ chat: 77, text: "after the holidays" });
    const channel = await start();
    await waitFor("the update", () => inbox.rows.size === 1);
    expect(texts(channel)).toEqual(["after the holidays"]);
    expect(polls()[0]).not.toHaveProperty("offset");
  });

  it("[RC3] asks only for what it understands, and says who it is in each row", async () => {
    const channel = await start();
    fake.edit({ id: 5, chat: 77, text: "/stop" });
    fake.say({ chat: -100500, text: "@herald_test_bot hi", from: 77 });
    await waitFor("the message", () => inbox.rows.size === 1);
    expect(polls()[0]?.allowed_updates).toEqual(["message", "callback_query", "stopped_message_generation"]);
    const [raw] = inbox.rows.values();
    expect(channel.decode(raw)).toMatchObject({ text: "hi", mentioned: true });
    const offline = createTelegramChannel({
      botToken: fake.token,
      apiRoot: "http://127.0.0.1:9",
      mode: "polling",
      clock: systemClock,
      log: silentLogger,
    });
    expect(offline.decode(raw)).toEqual(channel.decode(raw));
  });

  it("[RC3] an update of an odd shape is recorded and passed by: it can't stop the ones behind it", async () => {
    const channel = await start();
    for (const odd of [
      { message: {} },
      { message: { media_group_id: "g" } },
      { callback_query: { id: "1" } },
      { message: null },
      { callback_query: null },
    ])
      fake.inject(odd);
    fake.say({ chat: 77, text: "behind" });
    await waitFor("the update behind", () => texts(channel).includes("behind") && fake.pending().length === 0);
    expect(texts(channel).filter((text) => text !== undefined)).toEqual(["behind"]);
  });

  it("[RC3] TG-024 an album of pictures is one message", async () => {
    const channel = await start();
    await waitFor("the channel", () => channel.health().state === "on");
    const extra = { media_group_id: "g1", photo: [{}] };
    for (let n = 0; n < 10; n++) fake.say({ chat: 77, extra: n === 3 ? { ...extra, caption: "all ten" } : extra });
    await waitFor("the album", () => inbox.rows.size > 0 && fake.pending().length === 0);
    expect(texts(channel).filter((text) => text?.includes("all ten"))).toHaveLength(1);
    expect(texts(channel).join("\n").split("[photo]")).toHaveLength(11);
    expect(texts(channel).filter((text) => text !== undefined)).toHaveLength(1);
  });

  it("[RC3] 500, cut and lost answers, HTML and flood waits on the poll lose nothing", async () => {
    const clock = quickClock();
    const channel = await start({ clock });
    for (const fault of ["500", "drop_after", "truncate_after", "html", "drop"] as const) fake.faults.add("getUpdates", fault);
    fake.faults.add("getUpdates", "429", { retryAfter: 13 });
    for (let n = 0; n < 5; n++) fake.say({ chat: 77, text: `m${n}` });
    await waitFor("all five", () => inbox.rows.size === 5 && fake.pending().length === 0);
    expect(texts(channel)).toEqual(["m0", "m1", "m2", "m3", "m4"]);
    await waitFor("the flood wait", () => clock.waits.includes(13_000));
    await waitFor("recovery", () => channel.health().state === "on");
  });

  it("[OB1] another instance on the same token is waited for, reported after five times, and recovered from", async () => {
    fake.faults.add("getUpdates", "409", { times: 7 });
    const clock = quickClock();
    const channel = await start({ clock });
    await waitFor("the report", () => channel.health().detail === "another instance polls with this bot token");
    await waitFor("recovery", () => channel.health().state === "on");
    expect(clock.waits.every((ms) => ms <= 30_000)).toBe(true);
  });

  it("[SC4] TG-030 a revoked token: the channel is failed, keeps trying slowly, and neither health nor log shows the token", async () => {
    const lines: string[] = [];
    const log: Logger = { ...silentLogger, warn: (fields, message) => void lines.push(JSON.stringify(fields) + message), child: () => log };
    fake.revoke();
    const clock = quickClock();
    const channel = await start({ clock, log });
    await waitFor("the failure", () => channel.health().state === "failed");
    expect(channel.health().detail).toContain("auth failed");
    expect(clock.waits[0]).toBe(300_000);
    fake.revoke(false);
    await waitFor("recovery", () => channel.health().state === "on");
    expect(lines.join("\n")).not.toContain(fake.token.split(":")[1]);
    expect(lines.length).toBeGreaterThan(0);
  });

  it("[RC3] a poll that is silent for longer than any poll may be is given up", async () => {
    fake.faults.add("getUpdates", "hang", { skip: 1 });
    // The watchdog's wait passes at once, the client's own timeout does not.
    const clock: Clock = { now: systemClock.now, sleep: (ms, signal) => systemClock.sleep(ms === 90_000 ? 300 : Math.min(ms, 20), signal) };
    const channel = await start({ clock });
    await waitFor("a poll after the dead one", () => polls().length >= 3);
    fake.say({ chat: 77, text: "alive" });
    await waitFor("an update", () => texts(channel).includes("alive"));
  });

  it("[CM9][LV4] TG-022 a press is ended without a word when nobody answers it in time, an old one at once with one, and both are recorded", async () => {
    fake.chats.add(77);
    const waits: number[] = [];
    const clock: Clock = {
      now: systemClock.now,
      sleep: (ms, signal) => {
        if (ms === 4_000) waits.push(ms);
        return systemClock.sleep(Math.min(ms, 20), signal);
      },
    };
    const channel = await start({ clock });
    const [part] = channel.render(
      { markdown: "x", buttons: [{ label: "Stop", command: "/subagents stop 12345678" }] },
      { channel: "telegram", account: "7000001", chat: "77", kind: "dm" },
    );
    const sent = await channel.send({
      address: { channel: "telegram", account: "7000001", chat: "77", kind: "dm" },
      part: part!,
      key: "k#0",
      repeated: false,
    });
    const message = sent.status === "sent" ? Number(sent.ref) : 0;
    fake.press({ chat: 77, message, label: "Stop" });
    fake.press({ chat: 77, message, label: "Stop", old: true });
    await waitFor("both presses", () => inbox.rows.size === 2);
    expect(texts(channel)).toEqual(["/subagents stop 12345678", undefined]);
    const answers = () =>
      fake.calls.filter((call) => call.method === "answerCallbackQuery" && call.executed).map((call) => call.payload.text);
    await waitFor("both answers", () => answers().length === 2);
    expect(answers().sort()).toEqual(["This button is too old.", undefined]);
    expect(waits).toEqual([4_000]);
  });

  it("[AG4] shows typing in the topic, in General by its id, and a receipt, none of which can fail a turn", async () => {
    const channel = await start();
    const message = fake.say({ chat: -100500, thread: 42, text: "hi" });
    await waitFor("the update", () => inbox.rows.size === 1);
    const base = { channel: "telegram", account: "7000001", chat: "-100500", kind: "group" as const };
    await channel.status?.({ ...base, thread: "42" }, "working");
    await channel.status?.(base, "working");
    await channel.status?.({ ...base, chat: "1" }, "working");
    await channel.status?.(base, "idle");
    await channel.receipt?.({ ...base, thread: "42" }, String(message));
    await waitFor("the receipt", () => fake.history(-100500)[0]?.reactions[0] === "👀");
    await waitFor("the typing signs", () => fake.actions.length === 2);
    expect(fake.actions.map((action) => action.thread).sort()).toEqual([1, 42]);
  });

  it("[AG4] a flood wait on typing silences typing only", async () => {
    const failed: object[] = [];
    const log: Logger = { ...silentLogger, debug: (fields) => void failed.push(fields), child: () => log };
    const channel = await start({ log });
    fake.chats.add(77);
    const dm = { channel: "telegram", account: "7000001", chat: "77", kind: "dm" as const };
    fake.faults.add("sendChatAction", "429", { retryAfter: 60 });
    await channel.status?.(dm, "working");
    await waitFor("the refused sign", () => failed.length === 1);
    await channel.status?.(dm, "working");
    const [part] = channel.render({ markdown: "x" }, dm);
    for (const key of ["a#0", "b#0"])
      expect(await channel.send({ address: dm, part: part!, key, repeated: false })).toMatchObject({ status: "sent" });
    expect(fake.calls.filter((call) => call.method === "sendChatAction")).toHaveLength(1);
  });

  it("[RN4] stop() leaves nothing open: a process that did no more ends by itself", async () => {
    const url = (path: string) => JSON.stringify(new URL(`../../../${path}`, import.meta.url).href);
    const script = `
      import { createTelegramChannel } from ${url("src/channels/telegram/channel.ts")};
      import { systemClock } from ${url("src/core/clock.ts")};
      import { silentLogger } from ${url("src/core/logger.ts")};
      const options = ${JSON.stringify({ botToken: fake.token, apiRoot: fake.apiRoot, mode: "polling" })};
      const channel = createTelegramChannel({ ...options, clock: systemClock, log: silentLogger });
      await new Promise((resolve) => void channel.start({ put: () => resolve(), cursor: () => null }));
      await channel.stop();
      process.stdout.write("stopped");
    `;
    fake.say({ chat: 77, text: "x" });
    const child = promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script], { timeout: 25_000 });
    expect((await child).stdout).toBe("stopped");
  });

  it("[CM1] offers its commands to Telegram's menu", async () => {
    await start();
    await waitFor("the commands", () => fake.commands().length > 0);
    expect(fake.commands()).toContainEqual(expect.objectContaining({ command: "subagents" }));
  });
});

describe("webhook", () => {
  const secret = "a-secret-of-some-length";

  async function startHook() {
    const port = await freePort();
    const channel = await start({ mode: "webhook", webhook: { url: `http://127.0.0.1:${port}/hook`, port, secret } });
    await waitFor("the webhook", () => channel.health().state === "on");
    return { channel, port };
  }

  /** Sends headers only: the answer must come without the body. */
  const knock = (port: number, headers: Record<string, string>, path = "/hook", body = "") =>
    new Promise<number>((resolve, reject) => {
      const call = request({ port, host: "127.0.0.1", path, method: "POST", headers }, (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
        call.destroy();
      });
      call.on("error", reject);
      if (body === "") call.flushHeaders();
      else call.end(body);
    });

  it("[SC5] TG-001 refuses a missing, empty or wrong secret before any body arrives", async () => {
    const { port } = await startHook();
    const length = { "content-length": "100" };
    expect(await knock(port, length)).toBe(401);
    expect(await knock(port, { ...length, "x-telegram-bot-api-secret-token": "" })).toBe(401);
    expect(await knock(port, { ...length, "x-telegram-bot-api-secret-token": `${secret}x` })).toBe(401);
    expect(inbox.rows.size).toBe(0);
  });

  it("[SC5] refuses other paths, bodies that are too large and what is no update", async () => {
    const { port } = await startHook();
    const headers = { "x-telegram-bot-api-secret-token": secret };
    expect(await knock(port, headers, "/other", "{}")).toBe(404);
    expect(await knock(port, { ...headers, "content-length": String(2 * 1024 * 1024) })).toBe(413);
    expect(await knock(port, headers, "/hook", "{")).toBe(400);
    expect(await knock(port, headers, "/hook", '{"update_id":"x"}')).toBe(400);
    expect(await knock(port, headers, "/hook", '{"update_id":1}')).toBe(200);
  });

  it("[RC3] answers 500 while the disk refuses, so that Telegram calls again", async () => {
    const { channel, port } = await startHook();
    inbox.broken = true;
    expect(await knock(port, { "x-telegram-bot-api-secret-token": secret }, "/hook", '{"update_id":1}')).toBe(500);
    fake.say({ chat: 77, text: "later" });
    await waitFor("a refused call", () => inbox.refused > 1);
    inbox.broken = false;
    await waitFor("the call again", () => texts(channel).includes("later"));
  });

  it("[RN2] a port that is taken is an error that names the setting", async () => {
    const { port } = await startHook();
    await expect(start({ mode: "webhook", webhook: { url: `http://127.0.0.1:${port}/hook`, port, secret } })).rejects.toThrow(
      /webhook\.port/,
    );
    started.pop();
  });
});
