import { appendFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { holdStateFolder } from "../../../src/stores/state-folder.ts";

it("[RC4] a journal cut short is seen before the next commit makes it long again, promised or not", () => {
  const folder = mkdtempSync(join(tmpdir(), "herald-folder-"));
  try {
    const journal = join(folder, "journal");
    writeFileSync(journal, "0123456789");
    const held = holdStateFolder(folder, [{ name: "journal", isJournal: true, neededBytes: () => 10 }]);
    held.check();
    truncateSync(journal);
    expect(() => held.check(true)).toThrow("cut");
    appendFileSync(journal, "0123456789");
    expect(() => held.check()).toThrow("cut");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
