// Settings that change under a running gateway, with real files and a real watcher.
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type LoadedConfig, loadConfig } from "../../../src/config/config.ts";
import { type ConfigWatch, watchConfig } from "../../../src/config/watch.ts";

let cwd: string;
let file: string;
let watch: ConfigWatch | undefined;
let ports: number[];
let errors: string[];
let loads: number;

beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), "herald-watch-"));
  mkdirSync(join(cwd, "config"));
  file = join(cwd, "config", "herald.json5");
  [ports, errors, loads] = [[], [], 0];
});
afterEach(() => {
  watch?.close();
  rmSync(cwd, { recursive: true, force: true });
});

function start(current?: LoadedConfig): ConfigWatch {
  const load = () => {
    loads++;
    return loadConfig({ cwd, env: { HOME: cwd } });
  };
  watch = watchConfig({
    current: current ?? load(),
    load,
    onChange: (next) => ports.push(next.config.web.port),
    onError: (error) => errors.push(error.message),
    debounceMs: 20,
  });
  return watch;
}
const until = (check: () => void) => vi.waitFor(check, { timeout: 10_000, interval: 10 });

it("[CF4] a changed file is taken over, written in place or renamed over", async () => {
  writeFileSync(file, "{web: {port: 1001}}");
  start();
  writeFileSync(file, "{web: {port: 1002}}");
  await until(() => expect(ports).toEqual([1002]));
  writeFileSync(`${file}.tmp`, "{web: {port: 1003}}");
  renameSync(`${file}.tmp`, file);
  await until(() => expect(ports).toEqual([1002, 1003]));
  expect(errors).toEqual([]);
});

it("[CF4] an invalid new file is reported and the old settings stay", async () => {
  writeFileSync(file, "{web: {port: 1001}}");
  start();
  writeFileSync(file, "{web: {port: 'x'}}");
  await until(() => expect(errors).toEqual([expect.stringMatching(/web\.port: has a wrong value/)]));
  writeFileSync(file, "{web: {port: 1001}} // mended");
  const before = loads;
  await until(() => expect(loads).toBeGreaterThan(before));
  expect(ports).toEqual([]); // nothing differs from what runs
});

it("[CF4] a file that vanishes is reported, not taken for a wish for defaults", async () => {
  writeFileSync(file, "{web: {port: 1001}}");
  start();
  rmSync(file);
  await until(() => expect(errors).toEqual([expect.stringMatching(/the file is gone; the old settings keep running/)]));
  writeFileSync(file, "{web: {port: 1002}}");
  await until(() => expect(ports).toEqual([1002]));
});

it("[CF4] a file that appears later is taken over", async () => {
  start();
  writeFileSync(file, "{web: {port: 1001}}");
  await until(() => expect(ports).toEqual([1001]));
});

it("[CF4] reload() loads at once and always tells, also without a folder to watch", () => {
  rmSync(join(cwd, "config"), { recursive: true });
  start().reload();
  expect(ports).toEqual([8787]);
  mkdirSync(join(cwd, "config"));
  writeFileSync(file, "{nonsense: 1}");
  watch?.reload();
  expect(errors).toEqual([expect.stringMatching(/nonsense: unknown key/)]);
});

it("[CF4] nothing is told after close", () => {
  writeFileSync(file, "{}");
  const closed = start();
  closed.close();
  closed.reload();
  expect(loads).toBe(1);
  expect([...ports, ...errors]).toEqual([]);
});
