import { describe, expect, it } from "vitest";
import { readBytes } from "../../../src/core/read-bytes.ts";

async function* pieces(count: number, size: number, onTaken: () => void = () => {}) {
  for (let n = 0; n < count; n++) {
    onTaken();
    yield Buffer.alloc(size, "x");
  }
}

describe("readBytes", () => {
  it("[SC5] gives back what came, up to the limit and not a byte beyond", async () => {
    expect((await readBytes(pieces(3, 10), 30))?.length).toBe(30);
    expect(await readBytes(pieces(3, 10), 29)).toBeNull();
    expect((await readBytes(pieces(0, 1), 0))?.length).toBe(0);
  });

  it("[SC5] stops taking as soon as it is too much, or comes in crumbs", async () => {
    let taken = 0;
    expect(
      await readBytes(
        pieces(1_000_000, 1_000, () => taken++),
        5_000,
      ),
    ).toBeNull();
    expect(taken).toBe(6);
    taken = 0;
    expect(
      await readBytes(
        pieces(1_000_000, 1, () => taken++),
        1_000_000,
      ),
    ).toBeNull();
    expect(taken).toBeLessThan(3_000);
  });
});
