// One gateway per state folder, with real processes: the lock is the kernel's, so nothing has to guess who is alive.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { takeLock } from "../../../src/stores/lock.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-lock-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

it("[RN5] the second to come is refused and told the pid of the first", () => {
  const lock = takeLock(dir, 4711);
  expect(() => takeLock(dir, 4712)).toThrow(expect.objectContaining({ code: "locked", message: expect.stringContaining("(pid 4711)") }));
  expect(readFileSync(join(dir, "gateway.pid"), "utf8")).toBe("4711\n");
  lock.release();
  takeLock(dir, 4712).release();
});

it("[RN5] without a readable pid it is refused all the same", () => {
  const lock = takeLock(dir, 4711);
  rmSync(join(dir, "gateway.pid"));
  expect(() => takeLock(dir, 1)).toThrow(/\(pid unknown\)/);
  lock.release();
});

it("[RN5] a lock whose process was killed is free, whatever the pid file says", async () => {
  const source = `
    import { takeLock } from ${JSON.stringify(new URL("../../../src/stores/lock.ts", import.meta.url).href)};
    // Held on to: the collector would close it and free the lock.
    globalThis.lock = takeLock(${JSON.stringify(dir)}, process.pid);
    process.stdout.write("held");
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", source], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(child, "exit");
  try {
    await once(child.stdout, "data");
    expect(() => takeLock(dir, 1)).toThrow(new RegExp(`\\(pid ${child.pid}\\)`));
  } finally {
    child.kill("SIGKILL");
    await exited;
  }
  takeLock(dir, 2).release();
  expect(readFileSync(join(dir, "gateway.pid"), "utf8")).toBe("2\n");
});

it("[RN6] lock and pid file are for the owner alone, also when they were wider before", () => {
  writeFileSync(join(dir, "gateway.lock"), "");
  chmodSync(join(dir, "gateway.lock"), 0o644);
  const lock = takeLock(dir, 1);
  for (const name of ["gateway.lock", "gateway.pid"]) expect(statSync(join(dir, name)).mode & 0o777).toBe(0o600);
  lock.release();
});

it("[RC4] a file in its place that is no lock is named, not overwritten", () => {
  writeFileSync(join(dir, "gateway.lock"), "something else entirely, longer than a page header of a hundred bytes; ".repeat(20));
  expect(() => takeLock(dir, 1)).toThrow(expect.objectContaining({ code: "state" }));
  expect(readFileSync(join(dir, "gateway.lock"), "utf8")).toContain("something else entirely");
});
