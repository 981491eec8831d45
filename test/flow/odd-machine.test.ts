// The command line on a machine that lacks what others have: a folder with blanks and an ü that can't be written, a user nobody knows,
// no home, an old Node.
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NODE } from "../support/harness.ts";
import { waitFor } from "../support/wait.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const NOBODY_KNOWS = 54_321;
const OLD_NODE = "/usr/bin/node";
const isOld = existsSync(OLD_NODE) && Number(/^v(\d+)/.exec(spawnSync(OLD_NODE, ["--version"], { encoding: "utf8" }).stdout)?.[1]) < 24;

describe.skipIf(process.getuid?.() !== 0)("an odd machine (only root can become somebody else)", () => {
  let dir: string;
  let herald: string;
  let own: string;
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), "herald odd ü "));
    chmodSync(dir, 0o755);
    const program = join(dir, "the program");
    for (const name of ["src", "config", "package.json"]) cpSync(join(ROOT, name), join(program, name), { recursive: true });
    symlinkSync(join(ROOT, "node_modules"), join(program, "node_modules"));
    herald = join(program, "src/herald.js");
    own = join(dir, "its own");
    mkdirSync(own, { mode: 0o777 });
    chmodSync(own, 0o777);
    mkdirSync(join(own, "config"));
    writeFileSync(join(own, "config/herald.json5"), "{ web: { port: 0 }, models: { probeLocal: false } }");
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  const options = (env: Record<string, string>) => ({
    cwd: own,
    uid: NOBODY_KNOWS,
    gid: NOBODY_KNOWS,
    env: { PATH: process.env.PATH, ...env },
  });

  it("[CL1] CLI-011 without a home, every command says in one sentence to set HERALD_STATE_DIR", () => {
    for (const command of ["start", "status", "token", "setup --telegram off"]) {
      const { status, stderr } = spawnSync(NODE, [herald, ...command.split(" ")], { ...options({}), encoding: "utf8" });
      expect([command, status, stderr]).toEqual([
        command,
        1,
        expect.stringMatching(/^There is no home folder: set HERALD_STATE_DIR to .*\.\n$/),
      ]);
    }
  });

  it("[CL1] CLI-011 where it is given it starts, with its page, from a folder it can't write, as a user nobody knows", async () => {
    const running = spawn(NODE, [herald, "start"], options({ HERALD_STATE_DIR: join(own, "state") }));
    let said = "";
    for (const stream of [running.stdout, running.stderr]) stream.on("data", (chunk: Buffer) => (said += chunk.toString()));
    try {
      const origin = await waitFor("it to start", () => /^Page: +(http:\S+)[\s\S]*^exec: /m.exec(said)?.[1], 60_000);
      expect(await (await fetch(`${origin}/`)).text()).toContain("<title>");
      expect((await fetch(`${origin}/page.js`)).status).toBe(200);
    } finally {
      running.kill("SIGKILL");
    }
  });

  it.skipIf(!isOld)("[CL1] CLI-011 on an old Node: one sentence, exit 1, no stack", () => {
    const { status, stderr, stdout } = spawnSync(OLD_NODE, [herald, "runs"], { ...options({}), encoding: "utf8" });
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^Herald needs Node 24\.15 or newer; this is .*\n$/);
  });
});
