// The command line as a process: help of every command, wrong words, exit codes, colours.
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { COMMANDS } from "../../src/cli/table.ts";
import { giveFolder } from "../../src/cli/unit.ts";
import { systemClock } from "../../src/core/clock.ts";
import { openDatabase } from "../../src/stores/database.ts";
import { lock } from "../../src/stores/lock-keys.ts";
import { createPairing } from "../../src/stores/pairing.ts";
import { runCli } from "../support/run-cli.ts";
import { runScript } from "../support/run-script.ts";

describe("[CL1] words", () => {
  it("[CL1] the help names every command, and each has one of its own; nothing is started for it", async () => {
    const { code, out, err } = await runCli(["--help"]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    for (const { name } of COMMANDS) expect(out).toMatch(new RegExp(`^  ${name} +\\S`, "m"));
    const helps = await Promise.all(COMMANDS.map(({ name }) => runCli([name, "--help"])));
    for (const [n, help] of helps.entries()) {
      expect(help).toEqual({ code: 0, out: expect.stringContaining(`herald ${COMMANDS[n]?.name}`), err: "" });
    }
    expect(await runCli(["help", "start"])).toEqual(await runCli(["start", "-h"]));
    // Alone it starts nothing either: `npm start` does, and passes on what comes behind its dashes.
    expect(await runCli([])).toEqual({ code, out, err });
    const { scripts } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
    const [, , ...npm] = (scripts.start as string).split(" ");
    expect(await runCli([...npm, "--help"])).toEqual({ code, out, err });
    expect(await runCli([...npm, "--role", "king"])).toMatchObject({ code: 2, err: expect.stringMatching(/^--role is one of/) });
    expect(await runCli([...npm, "status", "--help"])).toEqual(helps[COMMANDS.findIndex(({ name }) => name === "status")]);
  });

  it("[CL1] a word it doesn't know: the nearest one is named, exit 2, and nothing on stdout", async () => {
    const { code, out, err } = await runCli(["strat"]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toBe('There is no command "strat". Did you mean start? herald --help lists them.\n');
    const odd = await runCli(["\u001b[31mred"]);
    expect(odd.code).toBe(2);
    expect(odd.err).not.toContain("\u001b");
  });

  it("[CL1] a flag it doesn't know, and a role there is not: said with how that command is used, exit 2", async () => {
    expect(await runCli(["start", "--rol", "worker"])).toEqual({
      code: 2,
      out: "",
      err: expect.stringMatching(
        /^Unknown option '--rol'\. Did you mean role\?\n\nUsage:\n {2}herald start \[--role ROLE\]\n\nherald start --help tells more\.\n$/,
      ),
    });
    expect(await runCli(["start", "--role", "king"])).toEqual({
      code: 2,
      out: "",
      err: expect.stringMatching(/^--role is one of gateway, worker, all\.\n/),
    });
    expect(await runCli(["start", "now"])).toEqual({
      code: 2,
      out: "",
      err: expect.stringMatching(/^start takes no further words: "now"\.\n/),
    });
  });
});

describe("[CL1] the scripts of before are commands", () => {
  it("[CL1] pair, auth and move say how they are called, by herald and by npm run", async () => {
    const dir = mkdtempSync(join(tmpdir(), "herald-cli-"));
    try {
      const env = { HOME: dir, HERALD_STATE_DIR: join(dir, "state") };
      const cli = (...args: string[]) => runCli(args, { cwd: dir, env });
      expect(await cli("auth")).toEqual({ code: 2, out: "", err: expect.stringContaining("herald auth set AGENT PROVIDER") });
      expect(await runScript("auth.ts", [], dir, env)).toEqual({
        ended: 1,
        said: expect.stringContaining("npm run auth -- set AGENT PROVIDER"),
      });
      const set = await runCli(["auth", "set", "main", "openai"], { cwd: dir, env, input: "sk-of-a-test\n" });
      expect(set).toEqual({ code: 0, out: "The key for openai is set for agent main.\n", err: "" });
      expect(await cli("auth", "list")).toEqual({ code: 0, out: "main: openai\n", err: "" });
      expect(await cli("auth", "set", "main", "openai", "sk-secret")).toMatchObject({ code: 2, err: expect.not.stringContaining("sk-") });
      expect(await cli("pair")).toEqual({ code: 1, out: "", err: expect.stringMatching(/^Herald has not been started/) });
      expect(await cli("move")).toEqual({ code: 2, out: "", err: expect.stringContaining("herald move --to postgres") });
      expect(await cli("move", "--to", "postgres")).toEqual({ code: 1, out: "", err: expect.stringMatching(/^Set store\.url/) });
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });
});

describe("[CL1] pair", () => {
  it("[CL1] lists, lets in, keeps out and takes back, without a gateway; a code there is not is said, exit 1", async () => {
    const dir = mkdtempSync(join(tmpdir(), "herald-pair-"));
    const db = openDatabase({ path: join(dir, "herald.db") });
    try {
      const pair = (...words: string[]) => runCli(["pair", ...words], { cwd: dir, env: { HOME: dir, HERALD_STATE_DIR: dir } });
      const pairing = createPairing({ db, clock: systemClock });
      const codeFor = async (senderId: string, senderName: string): Promise<string> => {
        const address = { channel: "telegram", account: "1", chat: senderId, kind: "dm" as const };
        const from = { channel: "telegram", account: "1", senderId, senderName, address };
        return (await db.transaction([lock.pairing], (tx) => pairing.request(tx, from))) ?? "";
      };
      const [ann, bob] = [await codeFor("7", "Ann\u001b[31m"), await codeFor("8", "Bob")];
      const listed = await pair();
      expect(listed).toEqual({ code: 0, err: "", out: expect.stringContaining(`${ann}  Ann[31m (telegram 7)`) });
      expect(await pair(ann)).toEqual({ code: 0, err: "", out: "Ann[31m (telegram 7) may now talk to Herald and will be told so.\n" });
      expect(await pair("refuse", bob)).toMatchObject({ code: 0, out: expect.stringContaining("is not let in") });
      expect(await pair("revoke", "telegram", "7")).toMatchObject({ code: 0, out: expect.stringContaining("may no longer talk") });
      expect(await pair("revoke", "telegram", "9")).toMatchObject({
        code: 1,
        out: "",
        err: expect.stringMatching(/^Nobody is paired or refused/),
      });
      expect(await pair("NOSUCH")).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/^There is no pairing code "NOSUCH"/) });
    } finally {
      db.close();
      rmSync(dir, { recursive: true, force: true });
    }
  });
});

describe("[CL1] service", () => {
  const unitIn = async (dir: string, ...args: string[]) =>
    runCli(["service", ...args], { cwd: dir, env: { HOME: dir, HERALD_STATE_DIR: join(dir, "st%te") } });

  it("[CL1] prints a unit that systemd reads, of a folder with blanks and an ü; --install writes it once and replaces nothing", async () => {
    const dir = mkdtempSync(join(tmpdir(), 'herald ünit $x "q" '));
    try {
      const { code, out, err } = await unitIn(dir);
      expect({ code, err }).toEqual({ code: 0, err: "" });
      expect(out).toContain(`WorkingDirectory=${dir}\n`);
      expect(out).toContain("/st%%te");
      expect(out).toMatch(/^Restart=always$/m);
      expect(out).not.toMatch(/RestrictNamespaces|PrivateUsers|^User=/m);
      const path = join(dir, ".config/systemd/user/herald.service");
      expect(await unitIn(dir, "--install")).toMatchObject({
        code: 0,
        out: expect.stringContaining("systemctl --user enable --now herald"),
      });
      expect(readFileSync(path, "utf8")).toBe(out);
      expect(await unitIn(dir, "--install")).toMatchObject({ code: 0 });
      writeFileSync(path, "changed");
      expect(await unitIn(dir, "--install")).toMatchObject({
        code: 1,
        out: "",
        err: expect.stringContaining("says something else; it stays"),
      });
      expect(readFileSync(path, "utf8")).toBe("changed");
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });

  it("[CL1] of the system: as its user, in that user's home and not in root's, writing nothing but its own folders", async () => {
    const dir = mkdtempSync(join(tmpdir(), "herald-unit-"));
    try {
      const { username, homedir } = userInfo();
      const { out } = await unitIn(dir, "--as", username);
      expect(out).toMatch(new RegExp(`^User=${username}$`, "m"));
      expect(out).toMatch(/^ProtectSystem=strict$/m);
      expect(out).toContain(`ReadWritePaths="${join(dir, "st%%te")}"`);
      // As under sudo, where HOME is another's.
      const theirs = await runCli(["service", "--as", username], { cwd: dir, env: { HOME: "/nowhere/root" } });
      expect(theirs.out).toContain(`Environment="HERALD_STATE_DIR=${join(homedir, ".herald")}"\n`);
      expect(theirs.out).toContain(`ReadWritePaths="${join(homedir, ".herald")}"`);
      expect(theirs.out).not.toContain("/nowhere/root");
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });

  it("[CL1] of the system: a user's name that is none, or nobody's here, is refused with what to do", async () => {
    const dir = mkdtempSync(join(tmpdir(), "herald-unit-"));
    try {
      expect(await unitIn(dir, "--as", "a b")).toMatchObject({ code: 2, out: "" });
      expect(await unitIn(dir, "--as", "herald-nobody-here")).toEqual({
        code: 1,
        out: "",
        err: expect.stringMatching(
          /^This machine has no user herald-nobody-here .*sudo useradd --system --create-home herald-nobody-here\n$/,
        ),
      });
      expect(await unitIn(dir, "now")).toMatchObject({ code: 2, out: "" });
      const user = { name: "herald", uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0, home: dir };
      giveFolder(join(dir, "home/.herald"), user);
      expect(statSync(join(dir, "home/.herald"))).toMatchObject({ uid: user.uid, mode: 0o40700 });
      expect(() => giveFolder(join(dir, "home/.herald"), user)).not.toThrow();
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
