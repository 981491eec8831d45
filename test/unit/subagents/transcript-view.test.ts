// The log of a run as people and models read it.
import { mkdirSync, rmSync } from "node:fs";
import { expect, it } from "vitest";
import { answeredBy, answeredByIfReadable, logText } from "../../../src/subagents/transcript-view.ts";
import { createDelegation } from "../../support/delegation.ts";

it("[CM5] the last entries that are shown are counted, not the announce step or messages without words behind them", async () => {
  await using scene = await createDelegation();
  const run = await scene.spawn("reader");
  const { transcripts } = scene.folder.stores;
  const ref = { agentId: run.agentId, sessionId: run.sessionId };
  await transcripts.append(ref, [
    { type: "message", role: "assistant", text: "", model: "m", usage: null, calls: 1 },
    { type: "tool_call", callId: "c1", name: "read", args: { path: "a.md" } },
    { type: "tool_result", callId: "c1", name: "read", text: "contents", isError: false },
    { type: "message", role: "assistant", text: "the last word", model: "m", usage: null, calls: 0 },
    { type: "message", role: "user", text: "Now report.", from: "runtime", phase: "announce" },
    { type: "message", role: "assistant", text: "Result: x", model: "m", usage: null, calls: 0, phase: "announce" },
  ]);
  const read = async (limit: number, tools: boolean): Promise<string[]> =>
    (await logText(transcripts, run, { limit, tools })).split("\n\n");
  expect(await read(2, true)).toEqual([expect.stringContaining("← read: contents"), expect.stringContaining("the last word")]);
  expect(await read(1, true)).toEqual([expect.stringContaining("the last word")]);
  expect(await read(9, true)).toHaveLength(4);
  expect(await read(2, false)).toEqual([expect.stringContaining("the whole of reader"), expect.stringContaining("the last word")]);
});

it("[CM5] a long stretch of tool calls doesn't hide the messages before it", async () => {
  await using scene = await createDelegation();
  const run = await scene.spawn("busy");
  const { transcripts } = scene.folder.stores;
  const ref = { agentId: run.agentId, sessionId: run.sessionId };
  const result = { type: "tool_result", callId: "c", name: "read", text: "x".repeat(10_000), isError: false } as const;
  for (let n = 0; n < 6; n++)
    await transcripts.append(
      ref,
      Array.from({ length: 100 }, () => result),
    );
  expect(await logText(transcripts, run, { limit: 1, tools: false })).toContain("the whole of busy");
});

it("[CM5] a transcript that is gone is said to be gone", async () => {
  await using scene = await createDelegation();
  const run = await scene.spawn("lost");
  const { transcripts } = scene.folder.stores;
  transcripts.close();
  rmSync(transcripts.path({ agentId: run.agentId, sessionId: run.sessionId }));
  expect(await logText(transcripts, run, { limit: 5, tools: true })).toBe("(its transcript is gone)");
});

it("[CM5] [CM6] what stands in the place of a transcript is said in words", async () => {
  await using scene = await createDelegation();
  const run = await scene.spawn("broken");
  const { transcripts } = scene.folder.stores;
  transcripts.close();
  const path = transcripts.path({ agentId: run.agentId, sessionId: run.sessionId });
  rmSync(path);
  mkdirSync(path);
  expect(await logText(transcripts, run, { limit: 5, tools: true })).toBe("(its transcript can't be read: a folder is in its place)");
  expect(await answeredByIfReadable(transcripts, run)).toEqual([]);
  await expect(answeredBy(transcripts, run)).rejects.toThrow();
});
