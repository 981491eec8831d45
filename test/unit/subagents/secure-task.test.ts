import { mkdtempSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newId } from "../../../src/core/ids.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createTranscripts, type Transcripts } from "../../../src/stores/transcripts.ts";
import { taskEntries } from "../../../src/subagents/spawn.ts";

// The accept path doesn't wait for the transcript to reach the disk: what a power cut may do to it is done by hand here.
describe("a task whose transcript did not reach the disk", () => {
  let dir: string;
  let transcripts: Transcripts;
  const ref = { agentId: "main", sessionId: newId() };
  const opening = {
    key: `agent:main:subagent:${newId()}`,
    parent: "agent:main:web:dm:main",
    entries: taskEntries("agent:main:web:dm:main", "count"),
  };

  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), "herald-secure-"));
    transcripts = createTranscripts({ stateDir: dir, log: silentLogger, now: Date.now, redact: (text) => text });
    transcripts.create(ref, { ...opening, isDurable: false });
  });
  afterEach(() => {
    transcripts.close();
    rmSync(dir, { recursive: true, force: true });
  });

  const task = () => transcripts.tail(ref, 10).map((entry) => (entry.type === "message" ? [entry.id, entry.text] : entry.type));

  it("[SP2] is made anew from the record when the file is gone, empty or cut short", () => {
    const path = transcripts.path(ref);
    for (const damage of [
      () => rmSync(path),
      () => truncateSync(path, 0),
      () => truncateSync(path, 20),
      () => truncateSync(path, readFileSync(path).length - 5),
    ]) {
      damage();
      // The process that finds the damage is not the one that made the file.
      transcripts = createTranscripts({ stateDir: dir, log: silentLogger, now: Date.now, redact: (text) => text });
      transcripts.secure(ref, opening);
      expect(task()).toEqual([["task", "count"]]);
    }
  });

  it("[SP2] is left as it is when it is whole", () => {
    const before = readFileSync(transcripts.path(ref), "utf8");
    transcripts.secure(ref, opening);
    expect(readFileSync(transcripts.path(ref), "utf8")).toBe(before);
  });
});
