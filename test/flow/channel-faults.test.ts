// What goes wrong between delivery and a platform: the real delivery and the real channels against the fakes, with
// minutes of back-off on a fast clock.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type App, createApp } from "../../src/app/app.ts";
import { createSlackChannel } from "../../src/channels/slack/channel.ts";
import { createTelegramChannel } from "../../src/channels/telegram/channel.ts";
import { loadConfig } from "../../src/config/config.ts";
import type { Address } from "../../src/core/address.ts";
import { createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Channel } from "../../src/core/message.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { createDelivery } from "../../src/gateway/delivery.ts";
import { openDatabase } from "../../src/stores/database.ts";
import { createOutbox } from "../../src/stores/outbox.ts";
import { createDoor, newestWords, obey } from "../support/channel-scene.ts";
import type { FakeModelServer } from "../support/fake-model-server.ts";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import { createFakeSlack, type FakeSlack } from "../support/fake-slack.ts";
import { createFakeTelegram, type FakeTelegram, type Fault } from "../support/fake-telegram.ts";
import { createFastClock } from "../support/fast-clock.ts";
import { createMemoryAccounts } from "../support/memory-accounts.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { waitFor } from "../support/wait.ts";

const FACTOR = 300;
const clock = createFastClock(FACTOR);
const SEND_TIMEOUT_MS = 1_000;
const PERSON = 42;

let dir: string;
let telegram: FakeTelegram;
let slack: FakeSlack;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "herald-faults-"));
  [telegram, slack] = await Promise.all([createFakeTelegram(), createFakeSlack({ ackTimeoutMs: 300, now: clock.now })]);
});
afterEach(() => {
  telegram.faults.clear();
  slack.faults.clear();
});
afterAll(async () => {
  await Promise.all([telegram.close(), slack.close()]);
  rmSync(dir, { recursive: true, force: true });
});

/** Three parts, A, B and C, through outbox and delivery; resolves when all are settled. */
async function deliverThree(channel: Channel, address: Address, delivery: string): Promise<void> {
  const bus = createBus((error) => {
    throw error;
  });
  const db = openDatabase({ path: join(dir, `${delivery.replaceAll(":", "-")}.db`), onEvent: (event) => bus.emit(event) });
  const outbox = createOutbox({ db, clock, bootId: "boot" });
  const common = { db, outbox, clock, bus, log: silentLogger, failpoint: noFailpoints };
  const sender = createDelivery({ ...common, channel: () => channel, recordDelivery: async () => undefined });
  const size = channel.name === "telegram" ? 3_900 : 9_000;
  const markdown = ["A", "B", "C"].map((letter) => `${letter.repeat(49)} `.repeat(size / 50)).join("\n\n");
  await sender.start();
  try {
    const kind = delivery.startsWith("announce:") ? { kind: "announcement" as const } : {};
    await db.transaction([], (tx) => outbox.add(tx, { delivery, address, parts: channel.render({ markdown, ...kind }, address) }));
    await waitFor("all parts to be settled", async () => (await outbox.countAllOpen()) === 0);
    expect(await db.all("SELECT state FROM outbox WHERE state <> 'sent'")).toEqual([]);
  } finally {
    await sender.stop();
    db.close();
  }
}

/** `A`, `B`, `B (may be repeated)`: enough to tell them apart. */
const shorten = (text: string): string =>
  text
    .replace(/\s+/g, " ")
    .replace(/([ABC])(?:\1| )+/g, "$1")
    .trim();

describe("[DL4] each fault on part 2 of 3", () => {
  const BEFORE: Fault[] = ["429", "500", "html", "drop", "hang", "slow", "409", "401"];
  const AFTER: Fault[] = ["500_after", "drop_after", "truncate_after", "hang_after"];
  const MARKED = "(may be repeated) B";

  const telegramChannel = (announce: "plain" | "reserved"): Channel =>
    createTelegramChannel({
      ...{ botToken: telegram.token, apiRoot: telegram.apiRoot, mode: "polling", announce },
      ...{ clock, log: silentLogger, timeoutMs: SEND_TIMEOUT_MS },
    });
  const topic = (thread: number): Address => {
    telegram.chats.add(-1005, { forum: true });
    telegram.chats.addTopic(-1005, thread);
    return { channel: "telegram", account: String(telegram.botId), chat: "-1005", thread: String(thread), kind: "group" };
  };

  it.each(BEFORE)("[DL4] Telegram, %s before it is done: three messages", async (fault) => {
    const thread = 100 + BEFORE.indexOf(fault);
    telegram.faults.add("sendMessage", fault, { skip: 1 });
    await deliverThree(telegramChannel("plain"), topic(thread), `reply:${thread}`);
    const seen = telegram.messages(-1005, thread).map(({ text }) => shorten(text));
    const certain = fault === "429" || fault === "409" || fault === "401" || fault === "slow";
    expect(seen).toEqual(["A", certain ? "B" : MARKED, "C"]);
  });

  it.each(AFTER)("[DL4] TG-017 Telegram, %s: four messages, the repeated one marked", async (fault) => {
    const thread = 200 + AFTER.indexOf(fault);
    telegram.faults.add("sendMessage", fault, { skip: 1 });
    await deliverThree(telegramChannel("plain"), topic(thread), `reply:${thread}`);
    expect(telegram.messages(-1005, thread).map(({ text }) => shorten(text))).toEqual(["A", "B", MARKED, "C"]);
  });

  it.each(["sendMessage", "editMessageText"] as const)(
    "[DL4] Telegram with a reserved place, every fault of %s: each part once",
    async (method) => {
      // A silent line ends like a cut one, only later.
      const faults = [...BEFORE, ...AFTER].filter((fault) => !String(fault).startsWith("hang"));
      for (const [n, fault] of faults.entries()) {
        const thread = (method === "sendMessage" ? 300 : 400) + n;
        telegram.faults.add(method, fault, { skip: 1 });
        await deliverThree(telegramChannel("reserved"), topic(thread), `announce:v1:${thread}`);
        const seen = telegram.messages(-1005, thread).map(({ text }) => shorten(text));
        expect(
          seen.filter((text) => !text.startsWith("⏳")),
          String(fault),
        ).toEqual(["A", "B", "C"]);
        expect(seen.filter((text) => text.startsWith("⏳")).length, `${fault}: a status line alone`).toBeLessThanOrEqual(1);
      }
    },
  );

  it("[DL4] Telegram, a reserved place somebody deleted and then a lost answer: the second message is marked", async () => {
    const gone = { code: 400, description: "Bad Request: message to edit not found" };
    telegram.faults.add("editMessageText", gone, { times: 2 });
    telegram.faults.add("sendMessage", "drop_after", { skip: 1 });
    await deliverThree(telegramChannel("reserved"), topic(500), "announce:v1:500");
    const seen = telegram.messages(-1005, 500).map(({ text }) => shorten(text));
    expect(seen.filter((text) => !text.startsWith("⏳"))).toEqual(["A", "(may be repeated) A", "B", "C"]);
  });

  it.each([
    ...(["429", "429_bare", "500", "html", "html_200", "drop", "hang", "slow", { error: "fatal_error" }] as const),
    ...(["500_after", "drop_after", "truncate_after", "cut_json_after", "hang_after"] as const),
  ])("[DL4] SL-019 SL-023 Slack, %s: exactly three messages", async (fault) => {
    const channel = await createSlackChannel({
      accounts: createMemoryAccounts(),
      ...{ botToken: slack.botToken, appToken: slack.appToken, apiUrl: slack.apiUrl, mode: "socket" },
      ...{ clock, log: silentLogger, timeoutMs: SEND_TIMEOUT_MS, settleMs: 15_000 },
    });
    const root = slack.say({ channel: "C0FAULTS", text: "the root", extra: { subtype: "channel_topic" } });
    slack.faults.add("chat.postMessage", fault, { skip: 1 });
    const address: Address = { channel: "slack", account: channel.account, chat: "C0FAULTS", thread: root, kind: "channel" };
    await deliverThree(channel, address, `reply:${root}`);
    expect(slack.messages("C0FAULTS", root).map(({ text }) => shorten(text))).toEqual(["A", "B", "C"]);
    expect(slack.messages("C0FAULTS", null)).toEqual([]);
  });
});

describe("minutes in a moment", () => {
  const door = createDoor();
  let app: App;
  let model: FakeModelServer;
  beforeAll(async () => {
    model = await createFakeOpenAi({
      respond: async (request, call) => {
        if (newestWords(request).includes("take your time")) await door.opened;
        return obey(request, call);
      },
    });
    const config = scriptedConfig(
      model.url,
      {},
      {
        web: { enabled: false },
        channels: {
          telegram: { botToken: telegram.token, apiRoot: telegram.apiRoot, allowFrom: [String(PERSON)], progress: "lines" },
          slack: {
            ...{ botToken: slack.botToken, appToken: slack.appToken, apiUrl: slack.apiUrl, allowFrom: ["U0PERSON"] },
            progress: "lines",
          },
        },
      },
    );
    mkdirSync(join(dir, "config"));
    writeFileSync(join(dir, "config/herald.json5"), JSON.stringify(config), { mode: 0o600 });
    const loaded = loadConfig({ env: { HERALD_STATE_DIR: join(dir, "state"), HOME: dir }, cwd: dir });
    app = await createApp({ loaded, version: "0.0.0", clock, log: silentLogger, secrets: createSecrets(), failpoint: noFailpoints });
    await app.start();
  });
  afterAll(async () => {
    await app.stop();
    await model.close();
  });

  it("[DL3][AN4] ten minutes of server errors: an announcement is delivered once in the end, and no model is asked meanwhile", async () => {
    let ended = 0;
    const settled: string[] = [];
    app.bus.on((event) => {
      if (event.type === "run.ended" && event.state === "done") ended++;
      if (event.type === "outbox.settled" && event.delivery.startsWith("announce:")) settled.push(event.channel);
    });
    telegram.say({ chat: PERSON, text: "/subagents spawn look around" });
    slack.say({ channel: "D0PERSON", text: "!subagents spawn look around" });
    // The started line and the answer pass.
    telegram.faults.add("sendMessage", "500", { skip: 2, times: Number.POSITIVE_INFINITY });
    slack.faults.add("chat.postMessage", "500", { skip: 2, times: Number.POSITIVE_INFINITY });
    await waitFor("both runs to end", () => ended === 2);
    const until = clock.now() + 10 * 60_000;
    const asked = model.calls.length;
    await waitFor("ten minutes to pass", () => clock.now() > until);
    const tries = telegram.calls.filter(
      ({ method, payload, executed }) => method === "sendMessage" && payload.chat_id === PERSON && !executed,
    ).length;
    expect(tries).toBeGreaterThan(4);
    expect(tries).toBeLessThan(20);
    expect(settled).toEqual([]);
    telegram.faults.clear();
    slack.faults.clear();
    await waitFor("both announcements", () => settled.length === 2);
    expect(settled.sort()).toEqual(["slack", "telegram"]);
    const isAnnouncement = ({ text }: { text: string }): boolean => text.includes("Stats: runtime");
    expect(telegram.messages(PERSON).filter(isAnnouncement)).toHaveLength(1);
    expect(slack.messages("D0PERSON").filter(isAnnouncement)).toHaveLength(1);
    expect(model.calls).toHaveLength(asked);
  });

  it("[AG4] the typing sign is shown again every few seconds while a turn works, and not after it", async () => {
    const { actions } = telegram;
    const before = actions.length;
    const startedAt = clock.now();
    telegram.say({ chat: PERSON, text: "take your time" });
    await waitFor("the sign to be shown several times", () => actions.length - before >= 5);
    expect(actions.length - before).toBeLessThan((clock.now() - startedAt) / 4_000 + 2);
    door.open();
    await waitFor("the reply", () => telegram.messages(PERSON).some(({ text }) => text === "heard: take your time"));
    const pass = async (ms: number): Promise<void> => {
      const until = clock.now() + ms;
      await waitFor("time to pass", () => clock.now() > until);
    };
    // One may have been on its way.
    await pass(60_000);
    const after = actions.length;
    await pass(60_000);
    expect(actions).toHaveLength(after);
  });
});
