// A state folder with the database that its first start would make there: made once for each worker and copied, because bringing a new
// one through all its steps takes longer than most tests that need one.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DATABASE } from "../../src/app/stores.ts";
import { openDatabase } from "../../src/stores/database.ts";

let made: Buffer | null = null;

export function putDatabase(stateDir: string): void {
  made ??= makeOne();
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  writeFileSync(join(stateDir, DATABASE), made, { mode: 0o600 });
}

function makeOne(): Buffer {
  const folder = mkdtempSync(join(tmpdir(), "herald-database-"));
  try {
    const path = join(folder, DATABASE);
    // Closing it brings all of the journal into the file.
    openDatabase({ path }).close();
    return readFileSync(path);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
