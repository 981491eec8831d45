import { describe, expect, it } from "vitest";
import { onFirstUse } from "../../../src/core/first-use.ts";

describe("onFirstUse", () => {
  it("makes nothing before it is asked for, and then one for all who ask", async () => {
    let count = 0;
    const made = Promise.withResolvers<void>();
    const use = onFirstUse(async () => {
      count += 1;
      await made.promise;
      return { count };
    });
    expect(count).toBe(0);
    const both = Promise.all([use(), use()]);
    made.resolve();
    const [one, other] = await both;
    expect(one).toBe(other);
    expect(await use()).toBe(one);
    expect(count).toBe(1);
  });

  it("says a failure to all who waited for it, and makes it anew for the next", async () => {
    let count = 0;
    const use = onFirstUse(async () => {
      count += 1;
      await Promise.resolve();
      if (count === 1) throw new Error("no handle left");
      return count;
    });
    const both = await Promise.allSettled([use(), use()]);
    expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(await use()).toBe(2);
  });
});
