// When the disk is the trouble: full, read-only, damaged. A clear error, the gateway stays up, nothing half-done, nothing
// silently recreated (RC4).
import { execFileSync } from "node:child_process";
import { appendFileSync, chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDatabase } from "../../src/stores/database.ts";
import { MIGRATIONS } from "../../src/stores/schema.ts";
import type { FakeRequest, Respond } from "../support/fake-model-server.ts";
import { createHarness, type Harness } from "../support/harness.ts";
import { runHerald } from "../support/run-herald.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

const QUIET = "{ web: { port: 0 }, models: { probeLocal: false } }";
const NOBODY = 65534;
const isRoot = process.getuid?.() === 0;
const lines = (text: string): string[] => text.split("\n").filter((line) => line !== "");
const question = (request: FakeRequest): string => request.messages.findLast((message) => message.role === "user")?.text ?? "";
const seen = (request: FakeRequest): string => request.messages.map((message) => message.text).join(" | ");

/** For trouble that one chat can have alone; each test has its own way of answering. */
let scene: Scene;
let respond: Respond = () => ({ text: "nothing was asked" });
beforeAll(async () => {
  scene = await createScene({ expectsErrors: true, respond: (request, call) => respond(request, call) });
});
afterAll(async () => scene[Symbol.asyncDispose]());

function transcriptOf(chat: Chat): string {
  const [session] = scene.herald.rows<{ id: string }>("SELECT id FROM sessions WHERE key = ?", chat.key);
  return join(scene.herald.stateDir, "agents/main/sessions", `${session?.id}.jsonl`);
}

/** What a person with the database open could do, and what a bad sector does. */
function change(herald: Harness, sql: string): void {
  const db = new DatabaseSync(join(herald.stateDir, "herald.db"));
  db.exec(sql);
  db.close();
}

describe("[RC4] a state folder that can't be used", () => {
  it("[RC4] FS-011 read-only: one sentence that names the folder and the setting, exit 1", async () => {
    await using herald = runHerald({
      config: QUIET,
      // Root may write anywhere: then somebody else starts it.
      ...(isRoot ? { uid: NOBODY } : {}),
      prepare(dir) {
        mkdirSync(join(dir, "state"));
        for (const path of [dir, join(dir, "config"), join(dir, "config/herald.json5")]) chmodSync(path, 0o755);
        chmodSync(join(dir, "state"), 0o555);
      },
    });
    expect(await herald.ended()).toBe(1);
    expect(lines(herald.stderr())).toEqual([
      expect.stringMatching(
        /^The state folder .*\/state can't be written: .*Make it writable, or set HERALD_STATE_DIR to another folder\.$/,
      ),
    ]);
    expect(readdirSync(herald.stateDir)).toEqual([]);
  });

  it("[RC4] a file where the folder should be: one sentence, and the file is left alone", async () => {
    await using herald = runHerald({ config: QUIET, prepare: (dir) => writeFileSync(join(dir, "state"), "mine") });
    expect(await herald.ended()).toBe(1);
    expect(lines(herald.stderr())).toHaveLength(1);
    expect(readFileSync(herald.stateDir, "utf8")).toBe("mine");
  });

  it.each([
    ["damaged", /The database .*herald\.db can't be used: .*Herald does not replace it by itself/],
    ["newer", /was written by a newer Herald .*Start the newer version/],
    ["token", /web-token does not hold a token/],
  ])("[RC4] a %s file in it: one sentence, exit 1, nothing recreated", async (what, says) => {
    const damaged = Buffer.from("not a database, but somebody's work\n".repeat(300));
    await using herald = runHerald({
      config: QUIET,
      prepare(dir) {
        mkdirSync(join(dir, "state"), { mode: 0o700 });
        if (what === "damaged") writeFileSync(join(dir, "state/herald.db"), damaged);
        if (what === "token") {
          openDatabase({ path: join(dir, "state/herald.db") }).close();
          writeFileSync(join(dir, "state/web-token"), "short\n");
        }
        if (what === "newer") {
          const db = new DatabaseSync(join(dir, "state/herald.db"));
          db.exec(`CREATE TABLE future (x); PRAGMA user_version=${MIGRATIONS.length + 1}`);
          db.close();
        }
      },
    });
    expect(await herald.ended()).toBe(1);
    expect(lines(herald.stderr()).filter((line) => !line.startsWith("{"))).toEqual([expect.stringMatching(says)]);
    if (what === "damaged") expect(readFileSync(join(herald.stateDir, "herald.db")).equals(damaged)).toBe(true);
    if (what === "token") expect(readFileSync(join(herald.stateDir, "web-token"), "utf8")).toBe("short\n");
  });
});

it("[RC4] a database damaged where the start reads it: one sentence, exit 1, nothing recreated", async () => {
  let bytes = Buffer.alloc(0);
  await using herald = runHerald({
    config: QUIET,
    async prepare(dir) {
      const path = join(dir, "state/herald.db");
      mkdirSync(join(dir, "state"), { mode: 0o700 });
      const db = openDatabase({ path });
      const [root] = await db.all<{ rootpage: number }>("SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_sequence'");
      const [size] = await db.all<{ page_size: number }>("PRAGMA page_size");
      db.close();
      bytes = readFileSync(path);
      const from = ((root?.rootpage ?? 0) - 1) * (size?.page_size ?? 0);
      writeFileSync(path, bytes.fill(0xa5, from, from + (size?.page_size ?? 0)));
    },
  });
  expect(await herald.ended()).toBe(1);
  expect(lines(herald.stderr()).filter((line) => !line.startsWith("{"))).toEqual([
    "Herald could not start: database disk image is malformed. The database is damaged; restore it from a backup.",
  ]);
  expect(readFileSync(join(herald.stateDir, "herald.db")).length).toBe(bytes.length);
});

const hasPrlimit = existsSync("/usr/bin/prlimit");

describe("[RC4] a full disk", () => {
  it.skipIf(!hasPrlimit)(
    "[RC4] FS-001 the gateway stays up and says so; what was accepted is answered once when there is room again",
    async () => {
      const door = Promise.withResolvers<void>();
      respond = async (request) => {
        await door.promise;
        return { text: `answer to ${question(request)}` };
      };
      const { herald, model } = scene;
      const chat = scene.chat();
      // No file may grow beyond this any more: every write of the process fails as on a full disk.
      const capFiles = (bytes: number | "unlimited"): void => {
        execFileSync("prlimit", ["--pid", String(herald.pid()), `--fsize=${bytes}:unlimited`]);
      };
      const id = await chat.say("question");
      await waitFor("the turn", () => model.open === 1);
      capFiles(1);
      door.resolve();
      await waitFor("the report", () => herald.output().includes("a message could not be answered"));
      expect((await herald.request("/healthz")).status).toBe(200);
      expect((await herald.request(`/api/chats/${chat.id}/messages`)).status).toBe(200);
      const refused = await herald.request(`/api/chats/${chat.id}/messages`, {
        method: "POST",
        body: JSON.stringify({ id: "11111111-2222-4333-8444-555555555555", text: "not accepted" }),
      });
      expect([refused.status, await refused.text()]).toEqual([503, expect.stringMatching(/disk.*Nothing was taken/)]);
      capFiles("unlimited");
      await herald.reply(/^answer to question$/, chat.id);
      expect(await chat.ask("next")).toBe("answer to next");
      expect((await herald.replies(chat.id)).map((message) => message.text)).toEqual(["answer to question", "answer to next"]);
      expect((await herald.messages(chat.id)).filter((message) => message.text === "not accepted")).toEqual([]);
      expect(herald.rows("SELECT attempts <= 2 AS few FROM inbox WHERE external_id LIKE ?", `%${id}`)).toEqual([{ few: 1 }]);
      expect(herald.rows("PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
    },
  );
});

describe("[RC4] no file handles left", () => {
  it.skipIf(!hasPrlimit)("[RC4] FS-004 the gateway survives, and goes on when there are some again", async () => {
    await using herald = await createHarness({ expectsErrors: true });
    const other = "aaaaaaaa-0000-4000-8000-000000000000";
    await herald.say("hello");
    await herald.reply(/offline model/);
    const allowHandles = (count: number): void => {
      execFileSync("prlimit", ["--pid", String(herald.pid()), `--nofile=${count}:${Math.max(count, 4_096)}`]);
    };
    const used = readdirSync(`/proc/${herald.pid()}/fd`).length;
    allowHandles(used);
    // A new transcript and new connections need handles; what comes of the post is open, but never a dead gateway.
    const body = JSON.stringify({ id: "11111111-2222-4333-8444-555555555555", text: "hello" });
    await Promise.allSettled(
      Array.from({ length: 10 }, () =>
        herald.request(`/api/chats/${other}/messages`, { method: "POST", body, signal: AbortSignal.timeout(1_000) }),
      ),
    );
    allowHandles(4_096);
    await herald.say("hello", { chat: other, id: "11111111-2222-4333-8444-555555555555" });
    await herald.reply(/offline model/, other);
    expect(await herald.replies(other)).toHaveLength(1);
  });
});

describe("[SE3] damaged transcripts", () => {
  it("[SE3] a torn last line is cut, corrupt lines in the middle are skipped by number, and the conversation goes on", async () => {
    respond = (request) => ({ text: `I know ${seen(request)}` });
    const { herald } = scene;
    const chat = scene.chat();
    expect(await chat.ask("one")).toBe("I know one");
    await herald.stop();
    const path = transcriptOf(chat);
    const intact = readFileSync(path);
    appendFileSync(path, Buffer.concat([Buffer.from([0xff, 0xfe, 0x00, 0x0a]), Buffer.from('{"id":"x","type":"message","text":7}\n')]));
    appendFileSync(path, '{"id":"y","type":"message","role":"user","text":"to');
    const said = herald.output().length;
    await herald.restart();
    expect(await chat.ask("two")).toBe("I know one | I know one | two");
    expect(readFileSync(path).subarray(0, intact.length).equals(intact)).toBe(true);
    const output = herald.output().slice(said);
    expect(output).toMatch(/"cutBytes":51.*cut a torn last line off a transcript/);
    expect([...output.matchAll(/"line":(\d+),"msg":"skipped a damaged line/g)].map((match) => Number(match[1])).sort()).toEqual(
      expect.arrayContaining([4, 5]),
    );
  });

  it("[RC4] a transcript that is gone is not made anew: the chat is told, the gateway stays up, /new goes on", async () => {
    respond = () => ({ text: "hello to you" });
    const { herald } = scene;
    const chat = scene.chat();
    expect(await chat.ask("hello")).toBe("hello to you");
    const path = transcriptOf(chat);
    await herald.stop();
    renameSync(path, `${path}.away`);
    await herald.restart();
    const text = await chat.ask("are you there?");
    expect(text).toMatch(/^⚠️ This message could not be answered: The transcript .* can't be opened/);
    expect(text).toContain("/new starts a new conversation");
    expect(existsSync(path)).toBe(false);
    expect(await chat.ask("/new")).toMatch(/^✨ New conversation/);
    expect(await chat.ask("hello again")).toBe("hello to you");
    expect(herald.rows("SELECT id FROM inbox WHERE state <> 'done'")).toEqual([]);
    rmSync(`${path}.away`);
  });
});

describe("[RC4] a sub-agent's transcript", () => {
  it.each(["deleted", "replaced by a folder", "made read-only"])(
    "[RC4] FS-008 %s while it runs: the run ends once and is announced, the gateway stays up",
    async (how) => {
      const door = Promise.withResolvers<void>();
      respond = async (request) => {
        if (request.system.includes("You are a sub-agent of")) {
          await door.promise;
          return { text: "SUMMARY: forty-two" };
        }
        return request.messages.at(-1)?.role === "tool"
          ? { text: "sent out" }
          : { toolCalls: [{ name: "sessions_spawn", args: { task: "find the answer", label: "answer" } }] };
      };
      const { herald, model } = scene;
      const chat = scene.chat();
      expect(await chat.ask("go")).toBe("sent out");
      await waitFor("the child at work", () => model.open === 1);
      const path = join(herald.stateDir, "agents/main/sessions", `${chat.run("answer").session_id}.jsonl`);
      if (how === "made read-only") chmodSync(path, 0o400);
      else rmSync(path);
      if (how === "replaced by a folder") mkdirSync(path);
      door.resolve();
      expect(await chat.announced("answer")).toMatch(/^Status: (success|error)$/m);
      expect(await chat.ask("/status")).toMatch(/subagent 0 running, 0 waiting/);
      expect(await chat.announcements()).toHaveLength(1);
      if (how === "deleted") expect(existsSync(path)).toBe(false);
    },
  );
});

describe("[RC4] damaged rows", () => {
  it("[RC4] a run, a session, an outgoing and an incoming row: each is told by name, and everything else works", async () => {
    await using herald = await createHarness({ expectsErrors: true });
    const other = "aaaaaaaa-0000-4000-8000-000000000000";
    await herald.say("hello");
    await herald.reply(/offline model/);
    await herald.say("/subagents spawn list the files");
    await waitFor("the announcement", async () => (await herald.announcements()).length === 1);
    await herald.stop();
    change(
      herald,
      `UPDATE runs SET state = 'running', ended_at = NULL, params = '{"ro';
       UPDATE sessions SET address = '{' WHERE key = 'agent:main:web:dm:main';
       INSERT INTO outbox (delivery, n, parts, address, address_key, part, state, rank, created_at)
         VALUES ('reply:lost', 0, 1, '{', 'web/local/main/-', '{"text":"x"}', 'queued', 1, 1);
       INSERT INTO inbox (channel, account, external_id, raw, state, received_at) VALUES ('web', 'local', 'broken', '{', 'new', 1);`,
    );
    await herald.restart();
    await herald.say("hello", { chat: other });
    await herald.reply(/offline model/, other);
    await waitFor("the reports", () => /Row \S+ of table runs is damaged: its params can't be read/.test(herald.output()));
    expect(herald.rows("SELECT state, reason FROM outbox WHERE delivery = 'reply:lost'")).toEqual([
      { state: "blocked", reason: "its row in the database is damaged" },
    ]);
    await herald.say("and here?");
    await herald.reply(/^⚠️ This message could not be answered: Row \S+ of table sessions is damaged: its address can't be read/);
    await herald.say("/status");
    await herald.reply(/^\*\*Herald/);
    expect(herald.rows("SELECT state FROM inbox WHERE external_id = 'broken'")).toEqual([{ state: "done" }]);
    // Nothing was repaired by guessing.
    expect(herald.rows("SELECT params FROM runs")).toEqual([{ params: '{"ro' }]);
  });
});
