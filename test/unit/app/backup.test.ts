// Backups that are not what they seem, and what a restore says comes back: nothing is written before all of it is known to be good.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { backUp } from "../../../src/app/backup/backup.ts";
import { findRenamed, listTranscripts } from "../../../src/app/backup/listing.ts";
import { manifestBytes } from "../../../src/app/backup/manifest.ts";
import { restore } from "../../../src/app/backup/restore.ts";
import { headOf, paddingOf, TAR_END } from "../../../src/app/backup/tar.ts";
import { openDatabase } from "../../../src/stores/database.ts";

let dir: string;
let stateDir: string;
const signal = new AbortController().signal;
const NOW = Date.UTC(2026, 0, 2);

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-backup-"));
  stateDir = join(dir, "state");
  mkdirSync(join(stateDir, "agents/main/sessions"), { recursive: true });
  openDatabase({ path: join(stateDir, "herald.db") }).close();
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const take = (name: string, withSecrets = false) =>
  backUp({ ...{ stateDir, withSecrets, signal, now: NOW }, target: join(dir, name), settings: [], version: "9.9.9" });
const bring = (name: string, to = "new") => restore({ file: join(dir, name), stateDir: join(dir, to), signal });

interface Packed {
  readonly name: string;
  readonly text: string;
  readonly type?: string;
}

/** A tar.gz by hand. `listed`: what the list says, when that is something else. */
function packed(name: string, files: readonly Packed[], listed: Record<string, unknown> = {}): void {
  const about = (file: Packed) => ({
    path: file.name,
    size: file.text.length,
    sha256: createHash("sha256").update(file.text).digest("hex"),
  });
  const manifest = {
    format: "herald-backup",
    form: 1,
    herald: "1",
    schema: 1,
    at: "then",
    withSecrets: false,
    files: files.map(about),
    ...listed,
  };
  const entry = ({ name: path, text, type = "0" }: Packed): Buffer => {
    const head = headOf({ name: path, size: text.length }, 0);
    head.write(type, 156);
    const sum = head.reduce((all, byte, n) => all + (n >= 148 && n < 156 ? 32 : byte), 0);
    head.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
    return Buffer.concat([head, Buffer.from(text), paddingOf(text.length)]);
  };
  const parts = [entry({ name: "manifest.json", text: JSON.stringify(manifest) }), ...files.map(entry), TAR_END];
  writeFileSync(join(dir, name), gzipSync(Buffer.concat(parts)));
}

describe("[CL3] what a restore refuses", () => {
  const FILE: Packed = { name: "state/agents/a", text: "fine" };
  const cases: [string, () => void, RegExp][] = [
    [
      "a path that leads outside",
      () => packed("b", [FILE, { name: "state/../../.ssh/authorized_keys", text: "x" }]),
      /authorized_keys", which leads outside/,
    ],
    ["an absolute path", () => packed("b", [{ name: "/etc/passwd", text: "x" }]), /"\/etc\/passwd", which leads outside/],
    ["a symbolic link", () => packed("b", [{ ...FILE, type: "2" }]), /"state\/agents\/a", which is no plain file/],
    ["a hard link", () => packed("b", [{ ...FILE, type: "1" }]), /which is no plain file/],
    ["a device", () => packed("b", [{ ...FILE, type: "3" }]), /which is no plain file/],
    ["one name twice", () => packed("b", [FILE, FILE]), /names "agents\/a" twice/],
    [
      "two names that lead to one place",
      () =>
        packed("b", [
          { name: "state/settings-from-backup/herald.json5", text: "{}" },
          { name: "settings/herald.json5", text: "{}" },
        ]),
      /names "settings-from-backup\/herald\.json5" twice/,
    ],
    ["more than the list says", () => packed("b", [FILE, { name: "state/more", text: "x" }], { files: [] }), /not what its list says/],
    [
      "a size that is not the listed one",
      () =>
        packed("b", [{ name: "state/zeros", text: "\0".repeat(5e7) }], {
          files: [{ path: "state/zeros", size: 10, sha256: "0".repeat(64) }],
        }),
      /"state\/zeros", which is not what its list says/,
    ],
    [
      "more than the disk has room for",
      () => packed("b", [FILE], { files: [{ path: "state/huge", size: 1e15, sha256: "0".repeat(64) }] }),
      /no room for it/,
    ],
    [
      "a file that is not as it was",
      () => packed("b", [FILE], { files: [{ path: FILE.name, size: 4, sha256: "0".repeat(64) }] }),
      /is damaged in the backup/,
    ],
    [
      "a file that is missing",
      () => packed("b", [], { files: [{ path: FILE.name, size: 4, sha256: "0".repeat(64) }] }),
      /lacks state\/agents\/a/,
    ],
    ["one of a newer Herald", () => packed("b", [FILE], { schema: 9_999 }), /made by a newer Herald/],
    ["another program's archive", () => packed("b", [FILE], { format: "other" }), /no backup of Herald/],
    ["anything else", () => writeFileSync(join(dir, "b"), "hello"), /damaged, or no backup of Herald/],
    ["nothing", () => {}, /There is no file/],
    ["a file without a database", () => packed("b", [FILE]), /holds no database/],
  ];
  it.each(cases)("[CL3] CLI-005 %s: named, and nothing is written", async (_what, make, says) => {
    make();
    const before = readdirSync(dir).sort();
    await expect(bring("b")).rejects.toThrow(says);
    expect(readdirSync(dir).sort()).toEqual(before);
  });

  it("[CL3] CLI-005 every cut and every changed byte of a good one is found", async () => {
    writeFileSync(join(stateDir, "agents/main/sessions/x.jsonl"), "one\ntwo\n");
    await take("good");
    const good = readFileSync(join(dir, "good"));
    for (let at = 20; at < good.length; at += Math.ceil(good.length / 40)) {
      writeFileSync(join(dir, "cut"), good.subarray(0, at));
      await expect(bring("cut")).rejects.toThrow();
      const other = Buffer.from(good);
      other.writeUInt8(other.readUInt8(at) ^ 0x55, at);
      writeFileSync(join(dir, "changed"), other);
      await expect(bring("changed")).rejects.toThrow();
    }
    expect(existsSync(join(dir, "new"))).toBe(false);
  });

  it("[CL3] a folder that is not empty, with or without a gateway on it", async () => {
    await take("good");
    await expect(bring("good", "state")).rejects.toThrow(/it holds \d+ files and folders\)\. Restoring replaces nothing/);
    writeFileSync(join(stateDir, "sign-in-link"), "x");
    await expect(bring("good", "state")).rejects.toThrow(/a gateway runs on it/);
    mkdirSync(join(dir, "empty"));
    await bring("good", "empty");
    expect(readdirSync(join(dir, "empty"))).toContain("herald.db");
  });
});

describe("[CL3] what is in it", () => {
  it("[CL3] no secrets unless asked for, nothing through a link, long names and modes kept tight", async () => {
    const long = `workspace/${"ü".repeat(90)}/${"n".repeat(120)}.txt`;
    const files: Record<string, string> = {
      "web-token": "token",
      "agents/main/auth.json": "{}",
      "workspace/.env": "KEY=1",
      "agents/main/sessions/x.jsonl": "line\n",
      "workspace/odd\\name": "odd",
      // Called like what is ours for now, but somebody's work.
      "workspace/draft.tmp": "theirs",
      "workspace-coder/gateway.pid": "theirs",
      [long]: "deep",
    };
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(stateDir, path, ".."), { recursive: true });
      writeFileSync(join(stateDir, path), text);
    }
    symlinkSync("/etc/passwd", join(stateDir, "workspace/link"));
    const { leftOut, unfollowed } = await take("plain");
    // Whoever's workspace is a link elsewhere learns now that it is not in the backup.
    expect(unfollowed).toEqual(["workspace/link"]);
    expect([...leftOut].sort()).toEqual(["agents/main/auth.json", "web-token", "workspace/.env"]);
    expect(statSync(join(dir, "plain")).mode & 0o777).toBe(0o600);
    expect(gunzipSync(readFileSync(join(dir, "plain"))).includes("KEY=1")).toBe(false);
    await bring("plain", "plain-state");
    expect(readFileSync(join(dir, "plain-state", long), "utf8")).toBe("deep");
    expect(readFileSync(join(dir, "plain-state", "workspace/odd\\name"), "utf8")).toBe("odd");
    for (const path of ["web-token", "agents/main/auth.json", "workspace/.env", "workspace/link"])
      expect(existsSync(join(dir, "plain-state", path))).toBe(false);
    expect(statSync(join(dir, "plain-state", long)).mode & 0o777).toBe(0o600);
    await take("whole", true);
    await bring("whole", "whole-state");
    for (const [path, text] of Object.entries(files)) expect(readFileSync(join(dir, "whole-state", path), "utf8")).toBe(text);
    await expect(take("whole")).rejects.toThrow(/it is not replaced/);
    expect(readdirSync(dir).sort()).toEqual(["plain", "plain-state", "state", "whole", "whole-state"]);
  });

  it("[CL3] what was restored can be backed up and restored again, and the restored settings stay out of it", async () => {
    const live = join(dir, "herald.json5");
    writeFileSync(live, "{ one: 1 }");
    const settings = [{ name: "herald.json5", path: live }];
    const again = (from: string, name: string) =>
      backUp({ stateDir: join(dir, from), withSecrets: false, signal, now: NOW, target: join(dir, name), settings, version: "9.9.9" });
    await again("state", "first");
    await bring("first", "second-state");
    writeFileSync(join(dir, "second-state/settings-from-backup/.bak"), "literal-secret");
    writeFileSync(live, "{ two: 2 }");
    await again("second-state", "second");
    expect(gunzipSync(readFileSync(join(dir, "second"))).includes("literal-secret")).toBe(false);
    await bring("second", "third-state");
    expect(readdirSync(join(dir, "third-state/settings-from-backup"))).toEqual(["herald.json5"]);
    expect(readFileSync(join(dir, "third-state/settings-from-backup/herald.json5"), "utf8")).toBe("{ two: 2 }");
  });

  it("[CL3] drafts of secrets are left out like the secrets", async () => {
    mkdirSync(join(stateDir, "agents/main"), { recursive: true });
    for (const name of ["agents/main/auth.json.x1", "web-token.7.new", "sign-in-link.7.new"])
      writeFileSync(join(stateDir, name), "draft-of-a-key");
    const { leftOut } = await take("plain");
    expect([...leftOut].sort()).toEqual(["agents/main/auth.json.x1", "web-token.7.new"]);
    expect(gunzipSync(readFileSync(join(dir, "plain"))).includes("draft-of-a-key")).toBe(false);
  });

  it("[CL3] a list that no restore would read fails at once, in words", () => {
    const file = { path: `state/workspace/${"n".repeat(4000)}`, size: 1, sha256: "0".repeat(64) };
    const about = { format: "herald-backup" as const, form: 1, herald: "1", schema: 1, at: "then", withSecrets: false };
    expect(() => manifestBytes({ ...about, files: Array.from({ length: 17_000 }, () => file) })).toThrow(/holds 17000 files, more than/);
  });

  it("[CL3] what a workspace holds and may not be read is left out and counted; elsewhere it is no backup", () => {
    // Nobody is refused what root may read.
    const uid = process.getuid?.() === 0 ? 65_534 : undefined;
    const script = `
      import { backUp } from ${JSON.stringify(new URL("../../../src/app/backup/backup.ts", import.meta.url).href)};
      const options = { stateDir: ${JSON.stringify(stateDir)}, withSecrets: false, now: 0, settings: [], version: "9" };
      const target = process.argv[1];
      const said = await backUp({ ...options, target, signal: new AbortController().signal }).catch((error) => error.code);
      console.log(JSON.stringify(said));`;
    const made = (name: string): unknown => {
      if (uid !== undefined) execFileSync("chown", ["-R", `${uid}`, dir]);
      const args = ["--input-type=module", "-e", script, join(dir, name)];
      return JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8", ...(uid === undefined ? {} : { uid }) }));
    };
    mkdirSync(join(stateDir, "workspace-b/shut"), { recursive: true });
    writeFileSync(join(stateDir, "workspace-b/of-root"), "x");
    writeFileSync(join(stateDir, "kept"), "x");
    chmodSync(join(stateDir, "workspace-b/of-root"), 0);
    chmodSync(join(stateDir, "workspace-b/shut"), 0);
    expect(made("one")).toMatchObject({ files: 2, gone: 0, unreadable: 2, firstUnreadable: "workspace-b/shut/" });
    chmodSync(join(stateDir, "kept"), 0);
    expect(made("two")).toBe("EACCES");
  });

  it("[CL3] a transcript that is archived, or taken out of the archive, while it is made is found under its other name", () => {
    const folder = join(stateDir, "agents/main/sessions");
    writeFileSync(join(folder, "x.jsonl.deleted.2026"), "one\n");
    writeFileSync(join(folder, "y.jsonl"), "two\n");
    expect(findRenamed(join(folder, "x.jsonl"))).toBe(join(folder, "x.jsonl.deleted.2026"));
    expect(findRenamed(join(folder, "y.jsonl.deleted.2026"))).toBe(join(folder, "y.jsonl"));
    expect(findRenamed(join(folder, "z.jsonl"))).toBeNull();
    const listed = listTranscripts(stateDir, new Map([["agents/main/sessions/x.jsonl.deleted.2026", 3]]));
    expect(listed.sort((a, b) => a.path.localeCompare(b.path))).toEqual([
      { path: "agents/main/sessions/x.jsonl.deleted.2026", size: 3 },
      { path: "agents/main/sessions/y.jsonl", size: 4 },
    ]);
  });

  it("[CL3] CLI-007 it tells how many people, browsers, tokens, rules and messages come back", async () => {
    const db = new DatabaseSync(join(stateDir, "herald.db"));
    db.exec("INSERT INTO people (channel, account, sender_id, sender_name, state, at) VALUES ('telegram', '1', '2', 'Ann', 'paired', 1)");
    db.exec("INSERT INTO inbox (channel, account, external_id, state, received_at) VALUES ('web', 'local', 'a', 'new', 1)");
    db.exec("INSERT INTO approval_rules VALUES ('r', 'agent:main:main', 'exec', 'Ann', 1)");
    db.exec("INSERT INTO browsers VALUES ('b', 'c', 'k', 'm', 1, 1, '::1', 'a browser')");
    db.exec("INSERT INTO program_tokens (id, hash, name, scopes, created_at) VALUES ('t', 'h', 'claude-code', 'read', 1)");
    db.close();
    await take("good");
    const { comeback } = await bring("good");
    expect(comeback).toMatchObject({ people: 1, browsers: 1, tokens: 1, rules: 1, unsent: 0, unanswered: 1, unfinished: 0 });
  });
});
