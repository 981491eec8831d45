import { describe, expect, it } from "vitest";
import { createTurnstile } from "../../../src/core/turnstile.ts";

/** Lets eight through, each of them busy for so long; the round of the event loop each of them passed in, in their order. */
async function roundsOf(busyMs: number): Promise<{ order: number[]; rounds: number[] }> {
  let round = 0;
  let isOver = false;
  const count = (): void => {
    round++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const pass = createTurnstile();
  const order: number[] = [];
  const rounds: number[] = [];
  const work = (n: number): void => {
    const startedAt = performance.now();
    while (performance.now() - startedAt < busyMs);
    order.push(n);
    rounds.push(round);
  };
  await Promise.all(Array.from({ length: 8 }, (_, n) => pass().then(() => work(n))));
  isOver = true;
  return { order, rounds };
}

describe("a turnstile", () => {
  it("lets others have a round after each of those that hold the event loop for long, and keeps the order", async () => {
    const { order, rounds } = await roundsOf(12);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(rounds[0]).toBe(0);
    expect(new Set(rounds).size).toBe(8);
  });

  it("lets several quick ones through in one round", async () => {
    const { order, rounds } = await roundsOf(0);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(new Set(rounds).size).toBeLessThan(8);
  });
});
