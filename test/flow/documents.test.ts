// The commands of README and docs/ that can be run cheaply, run as they stand there, in an empty folder; which do is said in
// test/documents/ledger.ts. `herald …` and `npm start -- …` are the program itself.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { LEDGER } from "../documents/ledger.ts";
import { runCli } from "../support/run-cli.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-documents-"));
  mkdirSync(join(dir, "config"));
  // Somebody may have a Herald on the usual port.
  writeFileSync(join(dir, "config/herald.json5"), "{ web: { port: 0 } }", { mode: 0o600 });
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const runnable = Object.entries(LEDGER).flatMap(([command, entry]) => ("ends" in entry ? [[command, entry.ends] as const] : []));

it.for(runnable)("[RN2] [CL1] %s ends with %i", async ([command, ends]) => {
  const words = command.replace(/^(?:herald|npm start --) /, "").split(" ");
  const { code, out, err } = await runCli(words, { cwd: dir, env: { HOME: dir, HERALD_STATE_DIR: join(dir, "state") } });
  expect(code, `${out}${err}`).toBe(ends);
  expect(`${out}${err}`).not.toBe("");
});
