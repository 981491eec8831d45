// A run whose transcript the disk refuses although everything else works: it must neither hold its slot nor go on for ever.
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { afterEach, beforeEach, expect, it } from "vitest";
import { isUnfinished, type Run } from "../../../src/core/run.ts";
import type { ModelReply, ModelRequest } from "../../../src/models/model.ts";
import { createManualClock, type ManualClock } from "../../support/manual-clock.ts";
import { createStage, okReply, type Stage } from "../../support/stage.ts";
import { waitFor } from "../../support/wait.ts";

const MINUTE = 60_000;

let clock: ManualClock;
let stage: Stage;
let calls: number;
let reply: (request: ModelRequest) => Promise<ModelReply>;
beforeEach(async () => {
  clock = createManualClock();
  calls = 0;
  reply = async () => okReply("fine");
  const call = async (request: ModelRequest): Promise<ModelReply> => {
    calls++;
    return reply(request);
  };
  stage = await createStage({ clock, call, subagents: { maxConcurrent: 1, archiveAfterMinutes: 0 } });
});
afterEach(async () => stage[Symbol.asyncDispose]());

const mends: (() => void)[] = [];
afterEach(() => {
  for (const mend of mends.splice(0)) mend();
});

/** The system refuses these calls, as it does for a bad or full disk; returns what mends it. */
function refuse(name: "openSync" | "fdatasync", code: string, isRefused: (path: string, flags: unknown) => boolean): () => void {
  const real = fs[name] as (...args: unknown[]) => unknown;
  const use = (call: typeof real): void => {
    Object.assign(fs, { [name]: call });
    syncBuiltinESMExports();
  };
  use((...args) => {
    if (isRefused(String(args[0]), args[1])) throw Object.assign(new Error(`${code}: refused`), { code });
    return real(...args);
  });
  const mend = (): void => use(real);
  mends.push(mend);
  return mend;
}

const ended = (id: string) => waitFor("it to end", async () => (isUnfinished((await stage.get(id)).state) ? null : await stage.get(id)));

/** From now on its file can't be read, as on a disk with a bad sector; returns what mends it. */
const damage = ({ sessionId }: Run): (() => void) =>
  refuse("openSync", "EIO", (path, flags) => path.endsWith(`${sessionId}.jsonl`) && flags === "r");

it("[RC4][LN4] one bad transcript: its run waits without its slot, and in the end is announced as an error", async () => {
  const run = await stage.spawn();
  damage(run);
  await waitFor("it to wait", async () => (await stage.get(run.id)).doing === "waiting for the disk");
  const other = await stage.spawn();
  expect((await ended(other.id)).state).toBe("done");
  await clock.advance(5 * MINUTE);
  expect((await stage.get(run.id)).state).toBe("running");
  await clock.advance(30 * MINUTE);
  expect(await ended(run.id)).toMatchObject({ state: "error", reason: expect.stringMatching(/^The transcript .* can't be opened: EIO/) });
  expect(await stage.announced(run)).toHaveLength(1);
  expect(await stage.lane.depth()).toEqual({ waiting: 0, running: 0 });
  // Two for the other run: nothing was paid for what could not be kept.
  expect(calls).toBe(2);
});

it("[RC4] a transcript that can be read again in time: the run goes on and is announced as if nothing had been", async () => {
  const run = await stage.spawn();
  const mend = damage(run);
  await waitFor("it to wait", async () => (await stage.get(run.id)).doing === "waiting for the disk");
  await clock.advance(2 * MINUTE);
  mend();
  await clock.advance(5 * MINUTE);
  expect((await ended(run.id)).state).toBe("done");
  expect(await stage.announced(run)).toHaveLength(1);
});

it("[ST1] a run that waits for its transcript can be stopped", async () => {
  const run = await stage.spawn();
  damage(run);
  await waitFor("it to wait", async () => (await stage.get(run.id)).doing === "waiting for the disk");
  await stage.stores.db.transaction([], (tx) => stage.parts.steering.stop(tx, [run], "by the test"));
  expect((await stage.get(run.id)).state).toBe("stopped");
  await clock.advance(60 * MINUTE);
  expect(await stage.announced(run)).toEqual([]);
});

it("[SP8] the time limit of a run goes on while it waits for its transcript", async () => {
  const run = await stage.spawn({ runTimeoutSeconds: 60 });
  const mend = damage(run);
  await waitFor("it to wait", async () => (await stage.get(run.id)).doing === "waiting for the disk");
  await clock.advance(2 * MINUTE);
  mend();
  await clock.advance(5 * MINUTE);
  expect((await ended(run.id)).state).toBe("timeout");
  expect(calls).toBe(0);
});

it("[RC4][LN2] a full disk keeps what waits in its place: only what has a slot asks for room", async () => {
  let probes = 0;
  const mend = refuse("openSync", "ENOSPC", (path, flags) => {
    if (path.includes(".probe-")) probes++;
    return flags === "ax" || flags === "wx";
  });
  const runs = [await stage.spawn(), await stage.spawn(), await stage.spawn()];
  await waitFor("somebody to ask", () => probes > 0);
  await clock.advance(20_000);
  expect(probes).toBeLessThan(10);
  expect(await stage.lane.depth()).toEqual({ waiting: 2, running: 1 });
  mend();
  await clock.advance(5 * MINUTE);
  for (const { id } of runs) expect((await ended(id)).state).toBe("done");
});

it("[SP8][SP10] work that is begun anew, because its end could not be recorded, has the rest of its time", async () => {
  let refused = 0;
  refuse("fdatasync", "ENOSPC", () => calls === 1 && refused++ === 0);
  reply = async (request) => {
    if (calls === 1) return { ...okReply(""), outcome: "error", error: { kind: "auth", message: "The key is wrong." } };
    return new Promise((resolve) => request.signal.addEventListener("abort", () => resolve({ ...okReply(""), outcome: "aborted" })));
  };
  const run = await stage.spawn({ runTimeoutSeconds: 60 });
  await waitFor("it to wait", async () => (await stage.get(run.id)).doing === "waiting for the disk");
  await clock.advance(5_000);
  await waitFor("the second call", () => calls === 2);
  await clock.advance(MINUTE - 5_001);
  expect((await stage.get(run.id)).state).toBe("running");
  await clock.advance(1);
  expect((await ended(run.id)).state).toBe("timeout");
});
