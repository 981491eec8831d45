// A PostgreSQL whose clock a test can set while it runs, where Debian's `faketime` is installed.
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type PostgresServer, startPostgres } from "./postgres.ts";

export interface ClockedPostgres extends AsyncDisposable {
  readonly server: PostgresServer;
  /** From the true time: `-30m`. */
  set(offset: string): void;
}

/** The library that answers for the clock; null: it is not installed. */
export function findFakeTime(): string | null {
  const folders = existsSync("/usr/lib")
    ? readdirSync("/usr/lib").map((name) => join("/usr/lib", name, "faketime/libfaketimeMT.so.1"))
    : [];
  return folders.find((path) => existsSync(path)) ?? null;
}

export async function startClockedPostgres(library: string): Promise<ClockedPostgres> {
  const folder = mkdtempSync(join(tmpdir(), "herald-clock-"));
  // The server's own user reads it.
  chmodSync(folder, 0o755);
  const path = join(folder, "now");
  const set = (offset: string): void => writeFileSync(path, `${offset}\n`, { mode: 0o644 });
  set("+0");
  const about = { FAKETIME_TIMESTAMP_FILE: path, FAKETIME_NO_CACHE: "1", DONT_FAKE_MONOTONIC: "1" };
  const server = await startPostgres({}, { LD_PRELOAD: library, ...about });
  return {
    server,
    set,
    async [Symbol.asyncDispose]() {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
