// The search for planted secrets finds them in every spelling, in every file and across two pieces of a stream.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createSecretWatch, findSecrets, plantSecrets, searchFolder } from "../../chaos/secrets.ts";

const { planted, pick, said } = plantSecrets(7);

describe("planted secrets", () => {
  it("[SC4] are fifty different ones, given in three ways, the same for the same seed", () => {
    expect(new Set(planted.map((one) => one.value)).size).toBe(50);
    expect(new Set(planted.map((one) => one.by)).size).toBe(3);
    expect(plantSecrets(7).planted).toEqual(planted);
    expect(pick("m1")).toBe(plantSecrets(7).pick("m1"));
    expect(said()).toBe(1);
  });

  it("[SC4] are found as they are, in a URL and in JSON", () => {
    for (const one of planted)
      for (const text of [one.value, encodeURIComponent(one.value), JSON.stringify({ a: one.value })])
        expect(findSecrets(planted, `before ${text} after`)).toEqual([one.name]);
    expect(findSecrets(planted, "nothing here")).toEqual([]);
  });

  it("[SC4] are found in files at any depth and across two pieces of a log", () => {
    const folder = mkdtempSync(join(tmpdir(), "herald-secrets-"));
    try {
      mkdirSync(join(folder, "a/b"), { recursive: true });
      writeFileSync(join(folder, "a/b/some.db"), Buffer.concat([Buffer.alloc(100), Buffer.from(pick("m2")), Buffer.alloc(100)]));
      expect(searchFolder(planted, folder)).toEqual([`a/b/some.db: ${findSecrets(planted, pick("m2"))[0]}`]);
    } finally {
      rmSync(folder, { recursive: true });
    }
    const watch = createSecretWatch(planted);
    watch.look(`x${pick("m3").slice(0, 9)}`);
    expect(watch.found().size).toBe(0);
    watch.look(`${pick("m3").slice(9)}y`);
    expect([...watch.found()]).toEqual(findSecrets(planted, pick("m3")));
  });
});
