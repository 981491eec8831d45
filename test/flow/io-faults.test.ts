// Failing I/O at each call of the path message → spawn → child's turn → announcement → archive: EIO, ENOSPC, EACCES, EMFILE,
// failed syncs and torn writes, once or until the disk is well again. Whatever fails: a visible error, no damaged state, and
// in the end everything said is answered once and every run is announced once. One process meets all faults in a row.
// HERALD_TEST_IO_FAULTS=all tries every call of the path, HERALD_TEST_IO_FAULTS="EIO 17 once" (or lasting) repeats one.
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { calls, child, plan, spawns } from "../support/brain.ts";
import type { FailedSyncs } from "../support/failed-sync.ts";
import { NODE } from "../support/harness.ts";
import { createIoFaults, FAULTS, type Fault, type FaultName, type IoFaults, whyNoIoFaults } from "../support/io-faults.ts";
import { createRandom } from "../support/random.ts";
import { type Chat, createScene, type RunRow, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

const SEED = Number(process.env.HERALD_TEST_SEED ?? 20_260_101);
const WANTED = process.env.HERALD_TEST_IO_FAULTS ?? "sample";
const SAMPLE: Readonly<Record<FaultName, number>> = { EIO: 4, ENOSPC: 3, EACCES: 2, EMFILE: 2, unsynced: 2, torn: 2 };
const NAMES = Object.keys(FAULTS) as FaultName[];
const NEVER: Fault = { name: "EIO", skip: 1_000_000, lasts: "once" };
/** So much faster the process waits between two tries. */
const FACTOR = 25;

const missing = whyNoIoFaults();
if (missing !== null && process.env.HERALD_REQUIRE_SANDBOX === "1") throw new Error(`failing I/O can't be tested here: ${missing}`);

const inWords = ({ name, skip, lasts }: Fault): string => `${name} ${skip} ${lasts === "once" ? "once" : "lasting"}`;

function fromWords(text: string): Fault {
  const [, name, skip, lasts] = /^(\w+) (\d+) (once|lasting)$/.exec(text) ?? [];
  if (!NAMES.includes(name as FaultName)) throw new Error(`HERALD_TEST_IO_FAULTS: "all", or ${NAMES.join("|")}, a number, once|lasting`);
  return { name: name as FaultName, skip: Number(skip), lasts: lasts === "once" ? "once" : "until disarmed" };
}

/** What is tried when each fault could hit so many calls. */
function choose(reach: Readonly<Record<FaultName, number>>): Fault[] {
  if (WANTED !== "all" && WANTED !== "sample") return [fromWords(WANTED)];
  const random = createRandom(SEED);
  return NAMES.flatMap((name) => {
    const every = Array.from({ length: reach[name] }, (_, skip): Fault => ({ name, skip, lasts: "once" }));
    const lasting = every.map((fault): Fault => ({ ...fault, lasts: "until disarmed" }));
    if (WANTED === "all") return [...every, ...lasting];
    return Array.from({ length: SAMPLE[name] }, (_, i) => random.pick(i % 2 === 0 ? every : lasting));
  });
}

const createWorld = (faults: IoFaults): Promise<Scene> => {
  const fastTime = new URL("../support/fast-time.ts", import.meta.url).href;
  return createScene({
    env: { ...faults.env, NODE_OPTIONS: `--import=${fastTime}`, FAST_TIME_FACTOR: String(FACTOR) },
    expectsErrors: true,
  });
};

const post = (scene: Scene, chat: Chat, id: string, text: string): Promise<Response> =>
  scene.herald.request(`/api/chats/${chat.id}/messages`, { method: "POST", body: JSON.stringify({ id, text }) });

/** Answered, delivered, archived and documented. */
async function isOver(scene: Scene, chat: Chat): Promise<boolean> {
  const open = `SELECT (SELECT count(*) FROM inbox WHERE state <> 'done') + (SELECT count(*) FROM outbox WHERE state IN ('queued', 'sending', 'unknown'))
    + (SELECT count(*) FROM runs WHERE archived_at IS NULL OR documented < generation) AS n`;
  return scene.herald.rows<{ n: number }>(open)[0]?.n === 0 && (await scene.herald.replies(chat.id)).length > 0;
}

const request = (chat: Chat): string => {
  const work = [calls(["write", { path: `${chat.id}.md`, content: "noted" }]), { text: `result of ${chat.id}` }];
  return plan([spawns(child(chat.id, work, { cleanup: "delete" }))]);
};

/** Taken, or refused in words with nothing taken; then it is sent once more. True: it was refused. */
async function send(scene: Scene, chat: Chat, faults: IoFaults, fault: Fault): Promise<boolean> {
  const id = randomUUID();
  const first = await post(scene, chat, id, request(chat));
  if (first.status === 202) return false;
  expect([first.status, await first.text()]).toEqual([503, expect.stringMatching(/disk.*Nothing was taken/)]);
  expect(await scene.herald.messages(chat.id)).toEqual([]);
  if (fault.lasts !== "once") faults.disarm();
  expect((await post(scene, chat, id, request(chat))).status).toBe(202);
  return true;
}

/** The whole path, in a chat of its own, with the fault in its way. */
async function walk(scene: Scene, faults: IoFaults, fault: Fault): Promise<void> {
  const { herald } = scene;
  const chat = scene.chat();
  const since = { output: herald.output().length, calls: scene.model.calls.length };
  faults.arm(fault);
  const isRefused = await send(scene, chat, faults, fault);
  if (fault.lasts !== "once" && !isRefused) {
    await waitFor("the fault to be met", async () => faults.tally().failed > 2 || (await isOver(scene, chat)));
    expect((await herald.request("/healthz")).status).toBe(200);
    faults.disarm();
  }
  await waitFor("everything to be settled", () => isOver(scene, chat));
  const { failed, first } = faults.tally();
  faults.disarm();
  await expectWhole(scene, chat);
  if (failed > 0 && !isRefused && !isHarmless(fault, first)) await expectTold(scene, chat, since);
  expect(await chat.ask(plan([{ text: "still here" }]))).toBe("still here");
}

/**
 * Nobody hears of a checkpoint that failed (it writes the main file, after a sync of the WAL): SQLite keeps that to itself and
 * makes it good at the next commit. Nor of half a write that Node itself goes on with.
 */
const isHarmless = ({ name, lasts }: Fault, first: string): boolean =>
  first.endsWith("/herald.db") ||
  (lasts === "once" && (/^fsync .*-wal$/.test(first) || (name === "torn" && /(\.tmp|trace\.md)$/.test(first))));

/** Answered once, announced once, archived, documented; every file and table whole. */
async function expectWhole(scene: Scene, chat: Chat): Promise<void> {
  const { herald } = scene;
  const [reply, ...more] = (await herald.replies(chat.id)).filter((message) => message.kind !== "announcement");
  expect(more).toEqual([]);
  expect(reply?.text).toMatch(/^(results: |⚠️ )/);
  const runs = chat.runs();
  // Who hears that a run was accepted gets one, who hears that it was not gets none.
  if (reply?.text.startsWith("results: ")) expect(runs).toHaveLength(reply.text.includes('\\"status\\":\\"accepted\\"') ? 1 : 0);
  const announced = (await chat.announcements()).map((message) => message.text);
  expect(announced).toHaveLength(runs.length);
  for (const [i, run] of runs.entries()) {
    expect(announced[i]).toMatch(run.state === "done" ? `result of ${chat.id}` : /^Status: error$/m);
    expectFiles(scene, run);
    // A run that failed may have had none.
    if (run.state === "done") expect(existsSync(join(folderOf(scene), run.archive_name ?? ""))).toBe(true);
  }
  expect(herald.rows("PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
  for (const path of transcripts(scene)) {
    const lines = readFileSync(path, "utf8").split("\n");
    expect(lines.pop()).toBe("");
    const ids = lines.map((line) => (JSON.parse(line) as { id: string }).id);
    expect(new Set(ids).size).toBe(ids.length);
  }
}

const folderOf = (scene: Scene): string => join(scene.herald.stateDir, "agents/main/sessions");

const transcripts = (scene: Scene): string[] =>
  readdirSync(folderOf(scene))
    .filter((name) => name.includes(".jsonl"))
    .map((name) => join(folderOf(scene), name));

function expectFiles(scene: Scene, run: RunRow): void {
  expect(existsSync(join(folderOf(scene), `${run.session_id}.jsonl`))).toBe(false);
  const briefId = `brief-${run.id.slice(0, 6)}`;
  // A draft may be left that the disk would not let go of.
  const documents = readdirSync(join(folderOf(scene), run.session_id)).filter((name) => !name.endsWith(".tmp"));
  expect(documents.sort()).toEqual([`${briefId}.brief.md`, `${briefId}.response.md`, "trace.md"]);
}

// Node tells a folder's failed making as ENOENT, whatever the reason was.
const REASON = /EIO|ENOSPC|EACCES|EMFILE|disk I\/O error|disk is full|unable to open database file|readonly database|ENOENT.*mkdir/;

/** The log, the reply or the announcement says what was wrong; or the model was told, by a tool or its prompt. */
async function expectTold(scene: Scene, chat: Chat, since: { output: number; calls: number }): Promise<void> {
  const output = scene.herald.output().slice(since.output).split("\n");
  const logged = output.filter((line) => /"level":"(warn|error)"/.test(line));
  const said = (await scene.herald.replies(chat.id)).map((message) => message.text);
  const asked = scene.model.calls.slice(since.calls).map((call) => JSON.stringify(call.body));
  expect([...logged, ...said, ...asked].find((line) => REASON.test(line))).toBeDefined();
}

describe.skipIf(missing !== null)(`[RC4] failing I/O${missing === null ? "" : ` (not tested: ${missing})`}`, () => {
  const faults = missing === null ? createIoFaults() : null;
  afterEach(() => faults?.disarm());
  afterAll(() => faults?.[Symbol.dispose]());
  const disk = (): IoFaults => faults as IoFaults;

  it(`[RC4] ${WANTED} (seed ${SEED}): all is answered and announced once, told, and whole`, { timeout: 7_200_000 }, async () => {
    await using scene = await createWorld(disk());
    // Twice: the first walk makes folders that later ones find.
    for (let i = 0; i < 2; i++) await walk(scene, disk(), NEVER);
    for (const fault of choose(disk().tally().reach)) {
      await walk(scene, disk(), fault).catch((error: unknown) => {
        disk().disarm();
        const about = `HERALD_TEST_IO_FAULTS="${inWords(fault)}" (${disk().tally().first}), seed ${SEED}`;
        throw new Error(`${about}: ${error instanceof Error ? error.message : error}\n${scene.herald.output().slice(-3000)}`, {
          cause: error,
        });
      });
    }
  });

  it("[RC4] the answer to a command waits for the disk, not for the next start", async () => {
    await using scene = await createWorld(disk());
    for (const [command, answer] of [
      ["/status", /^\*\*Herald/],
      ["/compact", /nothing to sum up/],
    ] as const) {
      const chat = scene.chat();
      const id = randomUUID();
      // The first write after the message was taken: what is refused before that is sent again.
      for (let skip = 0, isTaken = false; !isTaken; skip++) {
        disk().arm({ name: "torn", skip, lasts: "until disarmed" });
        isTaken = (await post(scene, chat, id, command)).status === 202;
      }
      await waitFor("the trouble", () => disk().tally().failed > 2);
      expect(await scene.herald.replies(chat.id)).toEqual([]);
      disk().disarm();
      expect((await waitFor("the answer", async () => (await scene.herald.replies(chat.id))[0])).text).toMatch(answer);
      expect(await scene.herald.replies(chat.id)).toHaveLength(1);
    }
  });

  it("[RC4][SP8] a time limit that falls into a full disk: the process lives, and the run is announced once there is room", async () => {
    await using scene = await createWorld(disk());
    const chat = scene.chat();
    const hanging = child(chat.id, [{ text: "half of it", hang: "after-text" }], { runTimeoutSeconds: 20, cleanup: "delete" });
    await chat.ask(plan([spawns(hanging)]));
    await waitFor("the run to work", () => scene.model.calls.some((call) => JSON.stringify(call.body).includes("half of it")));
    disk().arm({ name: "ENOSPC", skip: 0, lasts: "until disarmed" });
    await waitFor("the disk to be tried several times", () => disk().tally().failed > 6);
    expect((await scene.herald.request("/healthz")).status).toBe(200);
    expect(scene.herald.output().split("still refuses to write").length).toBeLessThan(100);
    disk().disarm();
    const [announced, ...more] = await waitFor("the announcement", async () => {
      const all = await chat.announcements();
      return all.length > 0 ? all : null;
    });
    expect([announced?.text, more]).toEqual([expect.stringMatching(/^Status: timeout$/m), []]);
  });

  it("[RC4][RN4] a disk that refuses while it stops and while it starts: it ends in words, and the next start goes on", async () => {
    await using scene = await createWorld(disk());
    const { herald } = scene;
    const chat = scene.chat();
    disk().arm({ name: "ENOSPC", skip: 60, lasts: "until disarmed" });
    await send(scene, chat, disk(), NEVER);
    await waitFor("the fault to be met", () => disk().tally().failed > 0);
    expect(await herald.stop()).toBe(0);
    const from = herald.output().length;
    disk().arm({ name: "EIO", skip: createRandom(SEED).between(0, 10), lasts: "until disarmed" });
    await expect(herald.restart()).rejects.toThrow(/it ended with 1:/);
    const said = herald.output().slice(from).split("\n");
    expect(said.filter((line) => line !== "" && !line.startsWith("{"))).toEqual([expect.stringMatching(/can't be |could not start/)]);
    disk().disarm();
    await herald.restart();
    await waitFor("everything to be settled", () => isOver(scene, chat));
    await expectWhole(scene, chat);
  });

  it("[RC4] after a failed sync the bytes are written anew: the next sync alone would prove nothing", async () => {
    const dir = mkdtempSync(join(tmpdir(), "herald-failed-sync-"));
    try {
      const env = { PATH: process.env.PATH, HERALD_STATE_DIR: join(dir, "state"), ...disk().env };
      const { stdout } = await promisify(execFile)(NODE, [join(import.meta.dirname, "../support/failed-sync.ts")], { env });
      const { transcript, database } = JSON.parse(stdout) as FailedSyncs;
      expect(transcript).toEqual({ error: expect.stringMatching(/can't be brought to the disk: EIO/), writes: 1 });
      expect(database).toEqual({ error: "disk I/O error", rows: 2, walBefore: expect.any(Number), walAfter: expect.any(Number) });
      // Everything before was moved into the main file and the log of changes began anew.
      expect(database.walAfter).toBeLessThan(database.walBefore);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
