// A backup taken in the middle of traffic, restored into an empty folder and started there: it is a start after a crash at that moment.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { calls, child, spawns } from "../support/brain.ts";
import { cliOf, startCli } from "../support/run-cli.ts";
import { createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await createScene({ subagents: { maxConcurrent: 4 }, mainConcurrent: 4, leavesUnsent: true });
});
afterAll(async () => scene[Symbol.asyncDispose]());

interface RunRow {
  readonly id: string;
  readonly session_id: string;
  readonly label: string;
  readonly state: string;
}

const runsIn = (stateDir: string): RunRow[] => {
  const db = new DatabaseSync(join(stateDir, "herald.db"), { readOnly: true });
  try {
    return db.prepare("SELECT id, session_id, label, state FROM runs").all() as unknown as RunRow[];
  } finally {
    db.close();
  }
};

describe("[CL3] under load", () => {
  it("[CL3] each backup's rows and transcripts are of one moment, and a start on the last goes on from there", async () => {
    const { dir, stateDir } = scene.herald;
    const cli = cliOf(scene.herald);
    const step = { ...calls(["list", { path: "." }]), text: "a step" };
    const traffic = new AbortController();
    const chatter = Promise.all(
      Array.from({ length: 3 }, async (_, n) => {
        const chat = scene.chat();
        for (let turn = 0; turn < 60 && !traffic.signal.aborted; turn++)
          await chat.act([spawns(child(`load ${n}-${turn}`, [step, step, { text: `result ${n}-${turn}` }]))]);
      }),
    );
    await waitFor("some runs to have ended", () => runsIn(stateDir).filter(({ state }) => state === "done").length > 5);
    // One that will be in the middle of its work in every one of them.
    const late = scene.chat();
    await late.act([spawns(child("late", [step, { text: "came late", hold: "late" }]))]);
    await late.reached("late", "running");
    const files = ["b1.tar.gz", "b2.tar.gz"];
    for (const file of files) expect(await cli(["backup", file])).toMatchObject({ code: 0, err: "" });
    traffic.abort();
    await chatter;
    expect((await cli(["backup", "b1.tar.gz"])).err).toMatch(/it is not replaced/);
    for (const file of files) {
      const to = join(dir, `state-of-${file}`);
      const restored = await cli(["restore", file], { env: { HERALD_STATE_DIR: to } });
      expect(restored).toMatchObject({ code: 0, err: "" });
      expect(restored.out).toMatch(/^ {2}[1-9]\d* sub-agents that will go on$/m);
      checkMoment(to, stateDir);
    }
    await checkStart(join(dir, `state-of-${files[1]}`));
    expect(readdirSync(dir).filter((name) => name.startsWith("b") && !files.includes(name))).toEqual([]);
  });

  /** Everything that is there is the beginning of what it became, and every run that had ended has its words. */
  function checkMoment(restored: string, original: string): void {
    const folder = join(restored, "agents/main/sessions");
    const transcripts = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
    expect(transcripts.length).toBeGreaterThan(5);
    for (const name of transcripts) {
      const text = readFileSync(join(folder, name), "utf8");
      expect(text.endsWith("\n")).toBe(true);
      expect(readFileSync(join(original, "agents/main/sessions", name), "utf8").startsWith(text)).toBe(true);
    }
    const runs = runsIn(restored);
    const done = runs.filter(({ state }) => state === "done");
    expect(done.length).toBeGreaterThan(5);
    for (const { session_id } of done) expect(readFileSync(join(folder, `${session_id}.jsonl`), "utf8")).toMatch(/"text":"result /);
    expect(runs.some(({ state }) => state === "running")).toBe(true);
  }

  async function checkStart(stateDir: string): Promise<void> {
    const { dir } = scene.herald;
    const before = runsIn(stateDir);
    await using started = gatewayOn({ dir, stateDir });
    await started.ready();
    scene.release("late");
    await waitFor("all its runs to end", () => runsIn(stateDir).every(({ state }) => !["queued", "running", "waiting"].includes(state)));
    const after = runsIn(stateDir);
    // A message that was not answered yet is, and sends out what it asks for; nothing is sent out twice.
    expect(after.filter(({ id }) => before.some((run) => run.id === id))).toHaveLength(before.length);
    expect(new Set(after.map(({ label }) => label)).size).toBe(after.length);
    expect(after.filter(({ state }) => state !== "done")).toEqual([]);
  }

  const gatewayOn = (place: { dir: string; stateDir: string }) => {
    const running = startCli(place, ["start"]);
    return {
      ready: () => waitFor("it to start", () => /^exec: /m.test(running.out())),
      async [Symbol.asyncDispose]() {
        running.kill("SIGKILL");
        await running.ended();
      },
    };
  };
});

describe("[CL3] at rest", () => {
  const TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
  /** Every row of every table, and every transcript. */
  function everything(stateDir: string): Record<string, string> {
    const db = new DatabaseSync(join(stateDir, "herald.db"), { readOnly: true });
    try {
      const tables = db.prepare(TABLES).all() as { name: string }[];
      const rowsOf = (name: string): string[] =>
        db
          .prepare(`SELECT * FROM "${name}"`)
          .all()
          .map((row) => JSON.stringify(row))
          .sort();
      const rows = tables.map(({ name }) => [name, rowsOf(name).join("\n")]);
      const folder = join(stateDir, "agents/main/sessions");
      const transcripts = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
      return Object.fromEntries([...rows, ...transcripts.map((name) => [name, readFileSync(join(folder, name), "utf8")])]);
    } finally {
      db.close();
    }
  }

  it("[CL3] every row and every transcript comes back as it was; one bit of the file turned, and nothing does", async () => {
    await scene.calm();
    const { dir, stateDir } = scene.herald;
    const cli = cliOf(scene.herald);
    let n = 0;
    const taken = await waitFor("a backup during which nothing was written", async () => {
      const file = `rest-${n++}.tar.gz`;
      const before = everything(stateDir);
      expect(await cli(["backup", file])).toMatchObject({ code: 0 });
      return JSON.stringify(everything(stateDir)) === JSON.stringify(before) ? { file, before } : null;
    });
    const to = join(dir, "state-at-rest");
    expect(await cli(["restore", taken.file], { env: { HERALD_STATE_DIR: to } })).toMatchObject({ code: 0, err: "" });
    const restored = everything(to);
    expect(Object.keys(restored)).toEqual(Object.keys(taken.before));
    for (const [name, text] of Object.entries(taken.before)) expect([name, restored[name]]).toEqual([name, text]);
    expect(Object.keys(restored).length).toBeGreaterThan(25);
    const bytes = readFileSync(join(dir, taken.file));
    bytes[Math.floor(bytes.length / 2)] = (bytes[Math.floor(bytes.length / 2)] ?? 0) ^ 1;
    writeFileSync(join(dir, "damaged.tar.gz"), bytes);
    const none = join(dir, "state-of-damaged");
    const refused = await cli(["restore", "damaged.tar.gz"], { env: { HERALD_STATE_DIR: none } });
    expect(refused).toEqual({ code: 1, out: "", err: expect.stringMatching(/damaged/) });
    expect(existsSync(none)).toBe(false);
  });
});

describe("[CL3] words", () => {
  it("[CL3] without a file, without a folder, or onto one that is in use", async () => {
    const cli = cliOf(scene.herald);
    const { dir } = scene.herald;
    expect(await cli(["backup"])).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/^Name one file\./) });
    expect(await cli(["restore", "a", "b"])).toMatchObject({ code: 2, out: "" });
    const none = { env: { HERALD_STATE_DIR: join(dir, "none") } };
    expect(await cli(["backup", "x.tar.gz"], none)).toMatchObject({ code: 1, err: expect.stringMatching(/nothing to back up/) });
    expect(await cli(["backup", "x.tar.gz"], { env: { DATABASE_URL: "postgres://u:p@127.0.0.1/x" } })).toMatchObject({
      code: 1,
      err: expect.stringMatching(/pg_dump/),
    });
    expect(await cli(["backup", "no-such-folder/x.tar.gz"])).toEqual({
      ...{ code: 1, out: "" },
      err: `There is no folder ${join(dir, "no-such-folder")} to write it into.\n`,
    });
    expect(await cli(["backup", "ok.tar.gz"])).toMatchObject({ code: 0, out: expect.not.stringMatching(/No settings in it|Not in it/) });
    // As from a timer, which starts it in another folder; a workspace that is a link would be missed only when it is needed.
    symlinkSync("/etc", join(dir, "state/workspace/elsewhere"));
    const away = await cli(["backup", join(dir, "away.tar.gz")], { cwd: tmpdir() });
    expect(away).toMatchObject({ code: 0, err: "" });
    expect(away.out).toMatch(
      /^No settings in it: there are none at .*config\/herald\.json5\. If Herald has some, take the backup in the folder/m,
    );
    expect(away.out).toMatch(/^Not in it: 1 links, pipes or sockets, nor what they lead to, .*workspace\/elsewhere first\.$/m);
    rmSync(join(dir, "state/workspace/elsewhere"));
    const garbage = join(dir, "garbage");
    mkdirSync(garbage);
    writeFileSync(join(garbage, "herald.db"), "no database, whatever its name says ".repeat(200));
    for (const words of [["backup", "x.tar.gz"], ["runs"]])
      expect(await cli(words, { env: { HERALD_STATE_DIR: garbage } })).toMatchObject({
        code: 1,
        err: expect.stringContaining(
          `The database ${join(garbage, "herald.db")} can't be read: file is not a database. herald doctor tells more.`,
        ),
      });
    rmSync(garbage, { recursive: true });
    expect(statSync(join(dir, "ok.tar.gz")).mode & 0o777).toBe(0o600);
    expect(await cli(["restore", "ok.tar.gz"])).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/a gateway runs on it/) });
    expect(await cli(["restore", "missing.tar.gz"], none)).toMatchObject({ code: 1, err: expect.stringMatching(/There is no file/) });
    expect(existsSync(join(dir, "none"))).toBe(false);
  });

  it("[CL3] settings go into their place where that is free", async () => {
    const { dir } = scene.herald;
    const cli = cliOf(scene.herald);
    await cli(["backup", "settings.tar.gz", "--with-secrets"]);
    const elsewhere = join(dir, "elsewhere");
    mkdirSync(elsewhere);
    const { code, out } = await cli(["restore", join(dir, "settings.tar.gz")], {
      cwd: elsewhere,
      env: { HERALD_STATE_DIR: join(elsewhere, "state") },
    });
    expect(code).toBe(0);
    expect(out).toContain(`${join(elsewhere, "config/herald.json5")} is the one of the backup.`);
    expect(readFileSync(join(elsewhere, "config/herald.json5"), "utf8")).toBe(readFileSync(join(dir, "config/herald.json5"), "utf8"));
    expect(readFileSync(join(elsewhere, "state/web-token"), "utf8")).toBe(readFileSync(join(dir, "state/web-token"), "utf8"));
    rmSync(elsewhere, { recursive: true });
  });
});
