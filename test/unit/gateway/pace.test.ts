// The pace of messages against a platform that counts strictly, on a clock the test drives.
import { beforeEach, describe, expect, it } from "vitest";
import { DISCORD_PACE } from "../../../src/channels/discord/join.ts";
import type { Address } from "../../../src/core/address.ts";
import type { Pace } from "../../../src/core/message.ts";
import { createPacer, type Pacer } from "../../../src/gateway/pace.ts";
import { createManualClock, type ManualClock } from "../../support/manual-clock.ts";
import { createRandom } from "../../support/random.ts";

const PACE: Pace = {
  chat: { burst: 3, everyMs: 1_000, answersOnTop: 0 },
  group: { max: 20, perMs: 60_000 },
  account: { max: 30, perMs: 1_000 },
};
const dm = (chat: string): Address => ({ channel: "telegram", account: "bot", chat, kind: "dm" });
const topic = (thread: string): Address => ({ channel: "telegram", account: "bot", chat: "-1", kind: "group", thread });

let clock: ManualClock;
let pacer: Pacer;
beforeEach(() => {
  clock = createManualClock();
  pacer = createPacer(clock, ({ channel }) => (channel === "telegram" ? PACE : undefined));
});

/** Sends at once or waits as told; returns when it went out. The call takes `callMs`. */
async function send(address: Address, { isAnswer = false, callMs = 0 } = {}): Promise<number> {
  for (let ms = pacer.waitMs(address, isAnswer); ms > 0; ms = pacer.waitMs(address, isAnswer)) await clock.advance(ms);
  const place = pacer.take(address);
  const at = clock.now();
  if (callMs > 0) await clock.advance(callMs);
  place.over();
  return at;
}

describe("a chat", () => {
  it("[DL7] a short burst, then one a second; a place is always left for the answer to a command", async () => {
    const startedAt = clock.now();
    const times: number[] = [];
    for (let n = 0; n < 6; n++) times.push((await send(dm("1"))) - startedAt);
    expect(times).toEqual([0, 0, 1_000, 2_000, 3_000, 4_000]);
    expect(pacer.waitMs(dm("1"), true)).toBe(0);
    expect((await send(dm("1"), { isAnswer: true })) - startedAt).toBe(4_000);
    expect(pacer.waitMs(dm("1"), true)).toBe(1_000);
    expect(pacer.waitMs(dm("1"), false)).toBe(2_000);
    expect(pacer.waitMs(dm("2"), false)).toBe(0);
  });

  it("[DL7] where it may, a handful of answers goes beyond the burst; then they wait like everybody, and the rest pays for it", async () => {
    pacer = createPacer(clock, () => ({ chat: { burst: 3, everyMs: 1_000, answersOnTop: 5 } }));
    for (let n = 0; n < 8; n++) {
      expect(pacer.waitMs(dm("1"), true)).toBe(0);
      pacer.take(dm("1")).over();
    }
    expect([pacer.waitMs(dm("1"), true), pacer.waitMs(dm("1"), false)]).toEqual([1_000, 7_000]);
  });

  it("[DL5] [DC1] on Discord a thread has places of its own: a channel that fails and is tried again takes none of them", async () => {
    pacer = createPacer(clock, () => DISCORD_PACE);
    const at = (thread?: string): Address => ({
      ...{ channel: "discord", account: "bot", chat: "1", kind: "channel" },
      ...(thread === undefined ? {} : { thread }),
    });
    for (let n = 0; n < 5; n++) await send(at());
    expect(pacer.waitMs(at(), false)).toBeGreaterThan(0);
    expect([pacer.waitMs(at("2"), false), pacer.waitMs(at("3"), false)]).toEqual([0, 0]);
    pacer.silence(at("2"), 60_000);
    expect([pacer.waitMs(at("2"), true), pacer.waitMs(at("3"), true)]).toEqual([60_000, 0]);
  });

  it("[DL7] says when whoever comes next has to wait", async () => {
    expect(pacer.isLast(dm("1"))).toBe(false);
    await send(dm("1"));
    expect(pacer.isLast(dm("1"))).toBe(true);
  });

  it("[DL7] a place for a call that was not made is free again, once", () => {
    for (let n = 0; n < 10; n++) {
      const place = pacer.take(dm("1"));
      place.giveBack();
      place.giveBack();
      place.over();
    }
    expect(pacer.waitMs(dm("1"), false)).toBe(0);
  });

  it("[DL7] a channel that sets no pace never waits", () => {
    const page: Address = { channel: "web", account: "local", chat: "main", kind: "dm" };
    for (let n = 0; n < 100; n++) pacer.take(page);
    expect([pacer.waitMs(page, false), pacer.isLast(page)]).toEqual([0, false]);
  });

  it("[DL7] what the platform asked for is waited for by everybody there, answers too, and nobody elsewhere", async () => {
    pacer.silence(dm("1"), 5_000);
    expect([pacer.waitMs(dm("1"), true), pacer.waitMs(dm("2"), false)]).toEqual([5_000, 0]);
    await clock.advance(5_000);
    expect(pacer.waitMs(dm("1"), false)).toBe(0);
  });

  it("[DL7] a clock that is set back keeps nobody waiting for longer than a moment", async () => {
    for (let n = 0; n < 3; n++) await send(topic("1"), { isAnswer: true });
    pacer.silence(topic("1"), 5_000);
    clock.set(clock.now() - 7_200_000);
    expect(pacer.waitMs(topic("1"), true)).toBeLessThanOrEqual(1_000);
  });

  it("[DL7] what an earlier process sent counts", () => {
    for (let n = 0; n < 20; n++) pacer.remember(topic("1"), clock.now() - 30_000);
    expect(pacer.waitMs(topic("1"), true)).toBe(30_000);
    expect(pacer.waitMs(dm("1"), false)).toBe(0);
  });
});

describe("a group", () => {
  it("[DL7] never more than twenty in any minute, over all its topics, and some of them kept for answers", async () => {
    const startedAt = clock.now();
    const times: number[] = [];
    for (let n = 0; n < 54; n++) times.push((await send(topic(String(n % 3)))) - startedAt);
    for (const from of times) expect(times.filter((at) => at >= from && at < from + 60_000).length).toBeLessThanOrEqual(18);
    expect(pacer.waitMs(topic("9"), true)).toBe(0);
    // 18 of 20, so not much slower than allowed.
    expect(times.at(-1)).toBeLessThan(1.3 * (2 * 60_000 + 13_000));
  });
});

describe("all chats together", () => {
  it("[DL7] a hundred chats at once: thirty a second in all", async () => {
    const startedAt = clock.now();
    const times: number[] = [];
    for (let n = 0; n < 100; n++) times.push((await send(dm(String(n)))) - startedAt);
    for (const from of times) expect(times.filter((at) => at >= from && at < from + 1_000).length).toBeLessThanOrEqual(30);
    expect(times.at(-1)).toBeLessThanOrEqual(4_000);
  });

  it("[DL7] chats nobody has written in for long are forgotten", async () => {
    for (let n = 0; n < 6_000; n++) {
      pacer.remember(dm(String(n)), clock.now());
      if (n % 30 === 29) await clock.advance(1_000);
    }
    expect(pacer.waitMs(dm("1"), false)).toBe(0);
  });
});

it("[DL7] however slow the line is, a platform that counts arrivals never has to say 429", async () => {
  const random = createRandom(7);
  // Strict: a bucket of three, one a second, by the time a message arrives.
  let fullAt = 0;
  for (let n = 0; n < 300; n++) {
    const callMs = random.between(0, 900);
    const at = await send(dm("1"), { callMs, isAnswer: random.chance(0.3) });
    // It arrives at some moment of the call.
    const arrival = at + random.between(0, callMs);
    fullAt = Math.max(fullAt, arrival) + 1_000;
    expect(fullAt - arrival).toBeLessThanOrEqual(3_000);
    if (random.chance(0.1)) await clock.advance(random.between(0, 5_000));
  }
});
