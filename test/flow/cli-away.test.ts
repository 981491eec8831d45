// `herald status` and `herald runs` where no gateway answers as it should: busy, away, of an older version, another one.
import { randomUUID } from "node:crypto";
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { child, spawns } from "../support/brain.ts";
import { freePort } from "../support/free-port.ts";
import { type CliEnd, cliOf, runCli } from "../support/run-cli.ts";
import { runHerald } from "../support/run-herald.ts";
import { createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
let cli: ReturnType<typeof cliOf>;
beforeAll(async () => {
  scene = await createScene();
  cli = cliOf(scene.herald);
});
afterAll(async () => scene[Symbol.asyncDispose]());

const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;

/** On a folder that is there and closed; root may look into any, so somebody else comes. */
async function asStranger(words: readonly string[]): Promise<CliEnd> {
  const dir = mkdtempSync(join(tmpdir(), "herald-closed-"));
  const stateDir = join(dir, "state");
  chmodSync(dir, 0o755);
  mkdirSync(stateDir, { mode: 0o700 });
  writeFileSync(join(stateDir, "herald.db"), "");
  if (!isRoot) chmodSync(stateDir, 0);
  try {
    return await runCli(words, { cwd: dir, env: { HOME: dir, HERALD_STATE_DIR: stateDir }, ...(isRoot ? { uid: NOBODY } : {}) });
  } finally {
    chmodSync(stateDir, 0o700);
    rmSync(dir, { recursive: true, force: true });
  }
}

const fine = (out: RegExp, err: string): CliEnd => ({ code: 0, out: expect.stringMatching(out) as string, err });

describe("[CL1] without a gateway", () => {
  it.each([
    ["status"],
    ["runs"],
    ["runs", "stop", "last"],
    ["token"],
    ["pair"],
    ["auth", "list"],
    ["backup", "/tmp/herald-of-somebody-else.tar.gz"],
  ])("[CL1] another user's folder is not an empty one: %s says whose it is, and as whom to come", async (...words) => {
    const end = await asStranger(words);
    expect(end).toEqual({ code: 1, out: "", err: expect.stringMatching(/^The state folder \S+ can't be read by this user.*\(sudo -u /) });
  });

  it("[CL1] doctor tells the same as its finding, and goes on", async () => {
    const { code, out, err } = await asStranger(["doctor"]);
    expect({ code, err }).toEqual({ code: 1, err: "" });
    expect(out).toMatch(/^✗ fail state folder: \S+ can't be read by this user.*\n +Use the user Herald runs as \(sudo -u /m);
    expect(out).toMatch(/^✓ ok +settings: /m);
    // Neither is true or good advice of what can't be seen.
    expect(out).not.toMatch(/the first start makes it|Remove that file|End that program/);
  });

  it.skipIf(!isRoot)("[CL1] root keeps no key where the gateway could not read it", async () => {
    const dir = mkdtempSync(join(tmpdir(), "herald-theirs-"));
    try {
      chownSync(dir, NOBODY, NOBODY);
      const set = await runCli(["auth", "set", "main", "openai"], { env: { HERALD_STATE_DIR: dir }, input: "sk-0123456789\n" });
      expect(set).toEqual({
        code: 1,
        out: "",
        err: expect.stringMatching(/could not read what root writes there\. Use the user Herald runs as/),
      });
      expect(readdirSync(dir)).toEqual([]);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });

  it("[CL1] one of an older version, which tells its words to browsers only: what to do is said; another one's token is, too", async () => {
    const dir = mkdtempSync(join(tmpdir(), "herald-older-"));
    const id = randomUUID();
    const older = createServer((req, res) => {
      const isTranscript = req.url?.includes("/transcript") === true;
      const isRight = req.headers.authorization === "Bearer right";
      const entries = [{ position: 1, at: "2026-01-01T00:00:00Z", kind: "said", who: "Sub-agent", html: "<p>x</p>" }];
      const body = isTranscript ? { entries, before: null } : { runs: [], run: { id, state: "done" } };
      res.writeHead(isRight ? 200 : 401, { "content-type": "application/json" }).end(JSON.stringify(isRight ? body : {}));
    });
    await new Promise<void>((resolve) => older.listen(0, "127.0.0.1", resolve));
    try {
      const origin = `http://127.0.0.1:${(older.address() as AddressInfo).port}`;
      const env = { HERALD_STATE_DIR: dir };
      writeFileSync(join(dir, "sign-in-link"), `${origin}/#token=right\n`);
      const log = await runCli(["runs", "log", id], { cwd: dir, env });
      expect(log).toEqual({ code: 1, out: "", err: expect.stringMatching(/of an older version .*: restart it\.\n$/) });
      writeFileSync(join(dir, "sign-in-link"), `${origin}/#token=wrong\n`);
      expect(await runCli(["runs"], { cwd: dir, env })).toEqual({ code: 1, out: "", err: expect.stringMatching(/it is another gateway/) });
    } finally {
      older.close();
      rmSync(dir, { recursive: true, force: true });
    }
  });

  it("[CL1] one of a newer version: what it says is shown, states nobody here knows too, and that it is another", async () => {
    const dir = mkdtempSync(join(tmpdir(), "herald-newer-"));
    const run = {
      ...{ id: randomUUID(), shortId: "0badcafe", label: "from the future", state: "dreaming", delivery: "none", level: 0, position: null },
      ...{
        createdAt: Date.now(),
        startedAt: null,
        endedAt: null,
        step: null,
        doing: null,
        costUsd: null,
        isAsking: false,
        needsPerson: false,
      },
    };
    const events = { status: { version: "99.0.0", model: "m", mood: "fine" }, runs: [run], questions: { total: 0 } };
    const newer = createServer((req, res) => {
      const isStream = req.url === "/api/events";
      const stream = Object.entries(events).map(([name, data]) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
      res.writeHead(200, { "content-type": isStream ? "text/event-stream" : "application/json" });
      if (isStream) res.write(stream.join(""));
      else res.end(JSON.stringify({ runs: [run], more: "than we know" }));
    });
    await new Promise<void>((resolve) => newer.listen(0, "127.0.0.1", resolve));
    try {
      writeFileSync(join(dir, "sign-in-link"), `http://127.0.0.1:${(newer.address() as AddressInfo).port}/#token=x\n`);
      const other = (...args: string[]) => runCli(args, { cwd: dir, env: { HERALD_STATE_DIR: dir } });
      expect(await other("status")).toEqual(
        fine(/^Herald: +99\.0\.0 at .* \(this command is \d.*: restart the gateway to run that\)$/m, ""),
      );
      expect(await other("runs")).toEqual(fine(/^0badcafe {2}dreaming +from the future/, ""));
      expect(JSON.parse((await other("runs", "--json")).out)).toMatchObject({ id: run.id, state: "dreaming" });
    } finally {
      newer.closeAllConnections();
      newer.close();
      rmSync(dir, { recursive: true, force: true });
    }
  });

  it("[CL1] busy: a time-out in words, exit 1", async () => {
    process.kill(scene.herald.pid(), "SIGSTOP");
    try {
      const [list, status] = await Promise.all([cli(["runs", "list"]), cli(["status"])]);
      expect(list).toEqual({ code: 1, out: "", err: expect.stringMatching(/did not answer within 8 s\. It is busy or hangs/) });
      expect(status).toMatchObject({ code: 1, out: "" });
    } finally {
      process.kill(scene.herald.pid(), "SIGCONT");
    }
  });

  it.runIf(existsSync("/proc/self/fd"))(
    "[CL1] one without a page runs all the same: status says so with 0, steering why it can't, with 1",
    async () => {
      await using herald = runHerald({ config: JSON.stringify({ web: { enabled: false }, models: { probeLocal: false } }) });
      await waitFor("it to run", () => /^exec: /m.test(herald.stdout()));
      const bare = (...words: string[]) => runCli(words, { env: { HERALD_STATE_DIR: herald.stateDir } });
      const said = expect.stringMatching(
        /^Herald runs on the state folder \S+ \(pid \d+\), but its page is off \(web\.enabled, .*\.\n$/,
      ) as unknown as string;
      expect(await bare("status")).toEqual({ code: 0, out: said, err: "" });
      expect(JSON.parse((await bare("status", "--json")).out)).toMatchObject({ running: true });
      expect(await bare("runs", "spawn", "x")).toEqual({ code: 1, out: "", err: said });
      herald.kill("SIGKILL");
      await herald.ended();
      expect(await bare("status")).toMatchObject({ code: 1, out: expect.stringMatching(/^Herald does not run/) });
    },
  );

  it("[CL1][WB8] opened at another address: found by its own settings, and its token goes nowhere by anybody else's", async () => {
    const port = await freePort();
    const web = { port, publicUrl: "https://herald.example" };
    await using herald = runHerald({ config: JSON.stringify({ web, models: { probeLocal: false } }) });
    await waitFor("it to run", () => /^exec: /m.test(herald.stdout()));
    const env = { HERALD_STATE_DIR: herald.stateDir };
    expect(await runCli(["status"], { env, cwd: herald.dir })).toMatchObject({ code: 0, err: "" });
    expect(await runCli(["status"], { env })).toEqual({
      code: 1,
      out: "",
      err: expect.stringMatching(
        /^The gateway is opened at https:\/\/herald\.example, but the settings found here are not its own\..*HERALD_CONFIG/,
      ),
    });
  });

  it("[CL1] away: list, info and log read the folder and say so; status and steering end with 1", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("of old", "what it said then"))]);
    await chat.announced("of old");
    const { id } = chat.run("of old");
    await scene.herald.crash();
    const note = expect.stringMatching(/^No gateway answers at http.*This is what its state folder holds\.\n$/) as unknown as string;
    expect(await cli(["runs", "list"])).toEqual(fine(/of old/, note));
    expect(await cli(["runs", "info", "of old"])).toEqual(fine(new RegExp(id), note));
    expect(await cli(["runs", "log", "-f", id])).toEqual(fine(/what it said then/, note));
    expect(await cli(["runs", "stop", id])).toEqual({
      code: 1,
      out: "",
      err: expect.stringMatching(/^No gateway answers.*herald start starts it/),
    });
    expect(await cli(["status"])).toEqual({ code: 1, out: expect.stringMatching(/^No gateway answers.*herald start starts it/), err: "" });
    expect(JSON.parse((await cli(["status", "--json"])).out)).toMatchObject({ running: false });
    await scene.herald.restart();
    const never = await runCli(["runs"], { env: { HERALD_STATE_DIR: `${scene.herald.dir}/none` }, cwd: scene.herald.dir });
    expect(never).toEqual({ code: 1, out: "", err: expect.stringMatching(/Nor has it ever/) });
    expect(existsSync(`${scene.herald.dir}/none`)).toBe(false);
  });
});
