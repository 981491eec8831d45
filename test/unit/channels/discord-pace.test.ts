// Many channels to read after an outage: how often Discord is asked, and how often the disk is written.
import { describe, expect, it } from "vitest";
import { type Logger, silentLogger } from "../../../src/core/logger.ts";
import { createDiscordRig, type DiscordRig, kill } from "../../support/discord-rig.ts";
import { ROOM } from "../../support/fake-discord.ts";
import { createManualClock, type ManualClock } from "../../support/manual-clock.ts";
import { waitFor } from "../../support/wait.ts";

const MINUTE_MS = 60_000;
const LASTING = { times: Number.POSITIVE_INFINITY };

interface Cursor {
  readonly gaps: Record<string, unknown>;
  readonly channels: Record<string, { readonly last: string }>;
}

const cursorOf = (text: string | undefined): Cursor => ({ gaps: {}, channels: {}, ...(JSON.parse(text ?? "{}") as Partial<Cursor>) });

const texts = (rig: DiscordRig): string[] => rig.decoded().map(({ text }) => text);

const callsOf = ({ fake }: DiscordRig, method: string): number => fake.calls.filter((call) => call.method === method).length;

/** So many channels of a server, each of which holds something nobody was told of; time goes on when the test says so. */
async function createRig(count: number, others: string[] = []): Promise<{ rig: DiscordRig; clock: ManualClock; rooms: string[] }> {
  const rooms = Array.from({ length: count }, (_, n) => String(5_000_000_000_000_000_100n + BigInt(n)));
  const clock = createManualClock(Date.now());
  const rig = await createDiscordRig({ listed: () => [...rooms, ...others], people: () => [], clock }, { now: clock.now });
  for (const channel of rooms) {
    rig.fake.channels.add({ id: channel, type: 0 });
    rig.fake.say({ channel, text: `missed in ${channel}`, isUntold: true });
  }
  return { rig, clock, rooms };
}

/** Time goes on in small steps, in which calls come to their ends, until it holds. */
const pass = (clock: ManualClock, what: string, holds: () => boolean | Promise<boolean>, stepMs = 50): Promise<unknown> =>
  waitFor(what, async () => {
    await clock.advance(stepMs);
    return holds();
  });

describe("reading many channels", () => {
  it.each(["429_global", "429", "500", "drop"] as const)(
    "[DC1][DL3] while Discord answers nobody (%s) forty that wait ask as seldom as one, and all are read when it is over",
    async (fault) => {
      const { rig, clock, rooms } = await createRig(40);
      await using _ = rig;
      rig.fake.faults.add("getMessages", fault, { ...LASTING, retryAfter: 0.5 });
      await rig.channel.start(rig.inbox);
      await pass(clock, "the first failure", () => rig.channel.health().detail !== undefined, 500);
      const begunAt = clock.now();
      await pass(clock, "ten minutes", () => clock.now() - begunAt > 10 * MINUTE_MS, 10_000);
      // Each may be under way before the first is refused.
      expect(callsOf(rig, "getMessages")).toBeLessThan(200);
      rig.fake.faults.clear();
      await pass(clock, "all of it", () => rig.inbox.rows.size === rooms.length, 500);
    },
  );

  it("[DC1] one that has been in trouble for long, all alone, holds up none that is to be read later", async () => {
    const { rig, clock, rooms } = await createRig(1);
    await using _ = rig;
    rig.fake.faults.add("getMessages", "500", LASTING);
    await rig.channel.start(rig.inbox);
    const before = clock.now();
    await pass(clock, "ten minutes", () => clock.now() - before > 10 * MINUTE_MS, 10_000);
    rig.fake.faults.clear();
    rig.fake.faults.add(`getMessages:${rooms[0]}`, "500", LASTING);
    const since = clock.now();
    const thread = rig.fake.channels.thread(ROOM, true);
    rig.fake.say({ channel: thread, text: "in a thread nobody told of" });
    await pass(clock, "the message", () => texts(rig).includes("in a thread nobody told of"));
    expect(clock.now() - since).toBeLessThan(10_000);
  });

  it("[DC1] a limit of one channel that is soon over is a part of reading it: nobody is told that it can't be read", async () => {
    const warnings: string[] = [];
    const log: Logger = { ...silentLogger, warn: (_, message) => void warnings.push(message), child: () => log };
    await using rig = await createDiscordRig({ log });
    const details: unknown[] = [];
    rig.fake.faults.add(`getMessages:${ROOM}`, "429", { times: 3, retryAfter: 0.2 });
    rig.fake.say({ channel: ROOM, text: "missed", isUntold: true });
    await rig.channel.start(rig.inbox);
    await rig.fake.until(() => {
      details.push(rig.channel.health().detail);
      return texts(rig).includes("missed");
    }, "the message");
    expect(warnings).toEqual([]);
    expect(details.filter((detail) => detail !== undefined)).toEqual([]);
  });

  it("[RN4] stopping waits for no limit", async () => {
    const { rig, clock, rooms } = await createRig(2);
    await using _ = rig;
    rig.fake.faults.add(`getMessages:${rooms[0]}`, "429", { ...LASTING, retryAfter: 9 });
    rig.fake.faults.add(`getMessages:${rooms[1]}`, "429_global", { ...LASTING, retryAfter: 3_600 });
    await rig.channel.start(rig.inbox);
    await pass(clock, "both", () => callsOf(rig, "getMessages") === 2);
    await rig.channel.stop();
    expect(rig.channel.health().state).toBe("off");
  });

  it("[DC1] after a restart those nobody knows the place of are asked for one by one, not all at once", async () => {
    const { rig, clock } = await createRig(0, [ROOM]);
    await using _ = rig;
    const threads = Array.from({ length: 40 }, () => rig.fake.channels.thread(ROOM, true));
    for (const channel of threads) rig.fake.say({ channel, text: "missed", isUntold: true });
    rig.fake.faults.add("getMessages", "500", LASTING);
    await rig.channel.start(rig.inbox);
    await pass(clock, "the gaps", async () => Object.keys(cursorOf((await rig.inbox.cursor())?.value).gaps).length > threads.length);
    await kill(rig);
    rig.fake.faults.clear();
    rig.fake.calls.length = 0;
    const second = rig.again();
    await second.start(rig.inbox);
    // Time stands still meanwhile: nobody's turn comes.
    await rig.fake.until(() => rig.fake.gateway.resumes() === 1, "the same session");
    expect(callsOf(rig, "getChannel")).toBe(0);
    await pass(clock, "all of it", () => rig.inbox.rows.size === threads.length);
    expect(callsOf(rig, "getChannel")).toBe(threads.length);
    await second.stop();
  });

  it("[DC1][RC3] with many channels left the journal is not written with each message; and whoever is killed has lost nothing", async () => {
    const { rig, clock, rooms } = await createRig(100);
    await using _ = rig;
    for (const channel of rooms) for (const n of [1, 2]) rig.fake.say({ channel, text: `more ${n}`, isUntold: true });
    let writes = 0;
    const ahead: string[] = [];
    const put = rig.inbox.put;
    rig.inbox.put = async (updates, text) => {
      await put(updates, text);
      if (text === undefined) return;
      writes++;
      for (const [channel, { last }] of Object.entries(cursorOf(text).channels))
        for (const { id } of rig.fake.history(channel))
          if (BigInt(id) <= BigInt(last) && !rig.inbox.rows.has(`msg:${channel}:${id}`)) ahead.push(id);
    };
    await rig.channel.start(rig.inbox);
    await pass(clock, "a third of it", () => rig.inbox.rows.size >= 100);
    await kill(rig);
    const second = rig.again();
    await second.start(rig.inbox);
    await pass(clock, "all of it", () => rig.inbox.rows.size === 3 * rooms.length);
    await second.stop();
    expect(writes).toBeLessThan(200);
    expect(ahead).toEqual([]);
    const inRooms = rooms.map((room) => rig.decoded().flatMap(({ address, text }) => (address.chat === room ? [text] : [])));
    expect(inRooms).toEqual(rooms.map((room) => [`missed in ${room}`, "more 1", "more 2"]));
  });
});
