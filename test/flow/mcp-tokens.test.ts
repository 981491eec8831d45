// `herald token` beside a gateway that runs and while none does: made, shown once, listed, taken back.
import { expect, it } from "vitest";
import { createHarness } from "../support/harness.ts";
import { connectProgram } from "../support/mcp-client.ts";
import { cliOf, runCli } from "../support/run-cli.ts";
import { runScript } from "../support/run-script.ts";

it("[PR1] [CL1] MCPS-002 herald token makes, lists and takes back tokens beside a gateway; scopes and names that are none make none, exit 2", async () => {
  await using herald = await createHarness();
  const cli = cliOf(herald);
  const token = (...args: string[]) => cli(["token", ...args]);
  expect(await token("list")).toEqual({ code: 0, out: "There are no tokens. herald token new NAME makes one.\n", err: "" });
  const { code, out, err } = await token("new", "looker", "--scope", "read", "--days", "30");
  const secret = /^herald_[\w-]{43}$/m.exec(out)?.[0] ?? "";
  expect([code, err, secret]).toEqual([0, "", expect.stringMatching(/./)]);
  expect(JSON.stringify(herald.rows("SELECT * FROM program_tokens"))).not.toContain(secret);
  {
    await using program = await connectProgram(herald.origin(), secret);
    expect((await program.client.listTools()).tools.map((tool) => tool.name).sort()).toEqual(["log", "result", "runs", "wait"]);
  }
  expect(await token("new", "wrong", "--scope", "admin")).toEqual({
    code: 2,
    out: "",
    err: expect.stringMatching(/^"admin" is no scope\. There are: spawn,[\s\S]*herald token new NAME/),
  });
  expect(await token("new", "wrong", "--chat", "agent:main:web:dm:nobody")).toMatchObject({ code: 1, out: "" });
  expect(await token("new", "wrong", "--chat", "nowhere")).toMatchObject({
    code: 2,
    err: expect.stringMatching(/^"nowhere" is no session key/),
  });
  expect(await token("new", "wrong", "--agent", "mian")).toMatchObject({
    code: 2,
    err: expect.stringMatching(/^There is no agent "mian"\. Did you mean main\? There are: main\./),
  });
  expect(await token("revoke", "looker", "--days", "3")).toMatchObject({
    code: 2,
    err: expect.stringMatching(/^token revoke takes no --days/),
  });
  const forPrograms = JSON.parse((await token("new", "scripted", "--json")).out) as { name: string; scopes: string[]; token: string };
  expect(forPrograms).toEqual({ name: "scripted", scopes: ["spawn", "read"], token: expect.stringMatching(/^herald_[\w-]{43}$/) });
  expect(await token("revoke", "scripted")).toMatchObject({ code: 0 });
  expect(await token("new", "looker")).toMatchObject({ code: 1, err: expect.stringContaining("already") });
  const listed = await token();
  expect(listed.out).toMatch(/^looker {2}read, made \d{4}-\d\d-\d\d, last used \d{4}-\d\d-\d\d, until \d{4}-\d\d-\d\d$/m);
  expect(listed.out).not.toMatch(/wrong|herald_/);
  expect(JSON.parse((await token("list", "--json")).out)).toMatchObject({ name: "looker", scopes: ["read"], chat: null });
  // The words of before, with the exit codes of before.
  const script = (...args: string[]) => runScript("token.ts", args, herald.dir, { HERALD_STATE_DIR: herald.stateDir });
  expect(await script()).toEqual({ ended: 0, said: listed.out });
  expect(await script("new", "wrong", "--scope", "admin")).toEqual({
    ended: 2,
    said: expect.stringContaining("npm run token -- new NAME"),
  });
  expect(await token("revoke", "looker")).toMatchObject({ code: 0 });
  expect(await token("revoke", "looker")).toMatchObject({ code: 1, err: expect.stringContaining("There is no token") });
  await expect(connectProgram(herald.origin(), secret)).rejects.toThrow(/401|taken back/);
  // Without a gateway the same rows are there; without rows there is nothing to make one in.
  await herald.stop();
  expect(await token("new", "sleeper")).toMatchObject({ code: 0, out: expect.stringMatching(/^herald_/m) });
  expect(await token()).toMatchObject({ code: 0, out: expect.stringMatching(/^sleeper {2}spawn,read, made .*, never used$/m) });
  const away = await cli(["token"], { env: { DATABASE_URL: "postgres://herald:of-postgres-0123@127.0.0.1:1/herald" } });
  expect(away).toEqual({
    code: 1,
    out: "",
    err: expect.stringMatching(/^PostgreSQL can't be used: .*ECONNREFUSED.*look at store\.url or DATABASE_URL\.\n$/),
  });
  const never = await runCli(["token"], { cwd: herald.dir, env: { HERALD_STATE_DIR: `${herald.dir}/none` } });
  expect(never).toEqual({ code: 1, out: "", err: expect.stringMatching(/^Herald has not been started/) });
});
