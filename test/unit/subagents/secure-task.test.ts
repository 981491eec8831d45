import { existsSync, mkdtempSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newId } from "../../../src/core/ids.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createTranscripts, type Opening, type Transcripts } from "../../../src/stores/transcripts.ts";
import { taskEntries } from "../../../src/subagents/child.ts";

// Accepting a run makes no file: its row keeps the task until the transcript is surely on disk. What a power cut may do
// to the file is done by hand here.
describe("a task whose transcript did not reach the disk", () => {
  let dir: string;
  let transcripts: Transcripts;
  let kept: Opening | null;
  const ref = { agentId: "main", sessionId: newId() };
  const requester = "agent:main:web:dm:main";
  const opening = { key: `agent:main:subagent:${newId()}`, parent: requester, entries: taskEntries(requester, "count") };

  const open = (): Transcripts =>
    createTranscripts({ stateDir: dir, log: silentLogger, now: Date.now, redact: (text) => text, opening: async () => kept });
  /** The process that finds the damage is not the one that made the file. */
  const reopen = (): void => {
    transcripts.close();
    transcripts = open();
  };

  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), "herald-secure-"));
    kept = opening;
    transcripts = open();
  });
  afterEach(() => {
    transcripts.close();
    rmSync(dir, { recursive: true, force: true });
  });

  const texts = async () =>
    (await transcripts.tail(ref, 10)).map((entry) => (entry.type === "message" ? [entry.id, entry.text] : entry.type));

  it("[SP2] is made when somebody first needs the file, and not before", async () => {
    expect(existsSync(transcripts.path(ref))).toBe(false);
    expect(await texts()).toEqual([["task", "count"]]);
    const [next] = await transcripts.append(ref, [{ type: "note", text: "x", about: "y" }]);
    expect(next?.parentId).toBe("task");
    await transcripts.sync(ref);
    kept = null;
    reopen();
    expect(await texts()).toEqual([["task", "count"], "note"]);
  });

  it("[SP2] is made anew from the record when the file is gone, empty or cut short", async () => {
    await transcripts.ensure(ref);
    const path = transcripts.path(ref);
    for (const damage of [
      () => rmSync(path),
      () => truncateSync(path, 0),
      () => truncateSync(path, 20),
      () => truncateSync(path, readFileSync(path).length - 5),
    ]) {
      reopen();
      damage();
      await transcripts.ensure(ref);
      expect(await texts()).toEqual([["task", "count"]]);
    }
  });

  it("[SP2] is made anew for whoever needs it first when its maker was killed before it wrote a line", async () => {
    await transcripts.ensure(ref);
    reopen();
    truncateSync(transcripts.path(ref), 0);
    expect(await texts()).toEqual([["task", "count"]]);
    reopen();
    truncateSync(transcripts.path(ref), 0);
    expect(await transcripts.sync(ref)).toBe(true);
    expect(readFileSync(transcripts.path(ref), "utf8")).toContain("count");
  });

  it("[SP2] is left as it is when it is whole", async () => {
    await transcripts.ensure(ref);
    const before = readFileSync(transcripts.path(ref), "utf8");
    reopen();
    await transcripts.ensure(ref);
    expect(readFileSync(transcripts.path(ref), "utf8")).toBe(before);
  });

  it("[AR2] a transcript nobody needed is there once it is archived", async () => {
    const archiveName = `${ref.sessionId}.jsonl.deleted.2026-01-01T00-00-00.000Z`;
    expect(await transcripts.archive(ref, archiveName)).toBe(true);
    kept = null;
    expect(await transcripts.tail({ ...ref, archiveName }, 10)).toMatchObject([{ id: "task", text: "count" }]);
  });

  it("[CM5] one that should be there is not made up", async () => {
    kept = null;
    await expect(() => transcripts.tail(ref, 10)).rejects.toThrow("can't be opened");
    expect(await transcripts.archive(ref, "x.jsonl.deleted.y")).toBe(false);
  });
});
