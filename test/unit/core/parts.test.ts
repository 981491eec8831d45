// The small words everybody shares: failpoints, events, the clock, errors, rate limits, spend.
import { describe, expect, it } from "vitest";
import { fileStamp, systemClock } from "../../../src/core/clock.ts";
import { AppError, errorText, isStorageError } from "../../../src/core/errors.ts";
import { type AppEvent, createBus } from "../../../src/core/events.ts";
import { createFailpoints, FAILPOINTS, noFailpoints } from "../../../src/core/failpoints.ts";
import { createRateLimit } from "../../../src/core/rate-limit.ts";
import { addSpend, NO_SPEND } from "../../../src/core/usage.ts";
import { createManualClock } from "../../support/manual-clock.ts";

describe("failpoints", () => {
  it("[RC1] nothing is armed by default", () => {
    expect(createFailpoints(undefined, () => expect.unreachable())).toBe(noFailpoints);
    for (const name of FAILPOINTS) createFailpoints("", () => expect.unreachable())(name);
  });

  it("[RC1] the armed one dies at its nth hit, once, and no other does", () => {
    let deaths = 0;
    const hit = createFailpoints("turn.committed:3", () => deaths++);
    for (const name of FAILPOINTS) if (name !== "turn.committed") hit(name);
    hit("turn.committed");
    hit("turn.committed");
    expect(deaths).toBe(0);
    hit("turn.committed");
    hit("turn.committed");
    expect(deaths).toBe(1);
  });

  it("[RC1] a name that is not on the list is refused: a test that arms nothing proves nothing", () => {
    expect(() => createFailpoints("turn.comitted", () => {})).toThrow(/no known point: turn\.comitted/);
    expect(new Set(FAILPOINTS).size).toBe(FAILPOINTS.length);
  });
});

describe("events", () => {
  const event: AppEvent = { type: "inbox.added", channel: "web" };

  it("[OB2] everybody hears an event, also when one listener throws", () => {
    const errors: unknown[] = [];
    const heard: string[] = [];
    const bus = createBus((error) => errors.push(error));
    bus.on(() => heard.push("first"));
    bus.on(() => {
      throw new Error("broken listener");
    });
    bus.on(() => heard.push("last"));
    bus.emit(event);
    expect(heard).toEqual(["first", "last"]);
    expect(errors).toMatchObject([{ message: "broken listener" }]);
  });

  it("[OB2] a listener may end its own or another subscription while it hears", () => {
    const heard: string[] = [];
    const bus = createBus(() => {});
    const offFirst = bus.on(() => {
      heard.push("first");
      offFirst();
    });
    bus.on(() => heard.push("second"));
    bus.emit(event);
    bus.emit(event);
    expect(heard).toEqual(["first", "second", "second"]);
  });
});

describe("the clock", () => {
  it("[ST1] a sleep ends with its signal, and never rejects", async () => {
    const abort = new AbortController();
    const sleep = systemClock.sleep(60_000, abort.signal);
    abort.abort(new Error("stop"));
    await expect(sleep).resolves.toBeUndefined();
    await expect(systemClock.sleep(60_000, abort.signal)).resolves.toBeUndefined();
    const startedAt = performance.now();
    await systemClock.sleep(20);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(15);
  });

  it("[AR2] a file stamp has no colon and sorts by time", () => {
    expect(fileStamp(0)).toBe("1970-01-01T00-00-00.000Z");
    expect(fileStamp(1_000) > fileStamp(999)).toBe(true);
  });
});

describe("errors", () => {
  it.each([
    ["ENOSPC", true],
    ["EROFS", true],
    ["EDQUOT", true],
    ["EFBIG", true],
    ["EMFILE", true],
    ["EIO", true],
    ["ENOENT", false],
    ["EACCES", false],
  ])("[RC4] %s is the disk's fault: %s", (code, expected) => {
    const error = Object.assign(new Error(code), { code });
    expect(isStorageError(error)).toBe(expected);
    expect(isStorageError(new AppError("storage", "wrapped", { cause: error }))).toBe(expected);
  });

  it.each([
    [13, true],
    [8, true],
    [10 | (3 << 8), true],
    [5, true],
    [11, false],
    [19, false],
  ])("[RC4] SQLite code %i is the disk's fault: %s", (errcode, expected) => {
    expect(isStorageError(Object.assign(new Error("x"), { code: "ERR_SQLITE_ERROR", errcode }))).toBe(expected);
  });

  it("[RC4] what is no error is nobody's fault, and always has a text", () => {
    expect([isStorageError("ENOSPC"), isStorageError(null), isStorageError(new AppError("storage", "full"))]).toEqual([false, false, true]);
    expect([errorText(new Error("x")), errorText("y"), errorText(new Error("")), errorText(undefined)]).toEqual([
      "x",
      "y",
      "unknown error",
      "undefined",
    ]);
  });
});

describe("rate limits", () => {
  it("[CM9] a burst is let through, then as much as comes back with time; callers don't share", async () => {
    const clock = createManualClock();
    const limit = createRateLimit({ burst: 3, refillMs: 3_000, clock });
    const take = (caller = "a"): boolean => limit.take(caller);
    expect([take(), take(), take(), take()]).toEqual([true, true, true, false]);
    expect([limit.isEmpty("a"), limit.isEmpty("b"), take("b")]).toEqual([true, false, true]);
    await clock.advance(1_000);
    expect([take(), take()]).toEqual([true, false]);
    await clock.advance(60_000);
    expect([take(), take(), take(), take()]).toEqual([true, true, true, false]);
  });

  it("[CM9] a thousand in one instant: exactly the burst", () => {
    const limit = createRateLimit({ burst: 60, refillMs: 12_000, clock: createManualClock() });
    expect(Array.from({ length: 1_000 }, () => limit.take("a")).filter(Boolean)).toHaveLength(60);
  });
});

it("[MO3] a sum without a price for every call has no price", () => {
  const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 };
  expect(addSpend(NO_SPEND, { usage, costUsd: 0.5 })).toEqual({ usage, costUsd: 0.5 });
  expect(addSpend({ usage, costUsd: 0.5 }, { usage, costUsd: null }).costUsd).toBeNull();
  expect(addSpend({ usage, costUsd: 0.5 }, NO_SPEND)).toEqual({ usage, costUsd: 0.5 });
});
