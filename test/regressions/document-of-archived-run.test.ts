// Found by the soak run: a run to be deleted was archived while its documents were being written. The writer still looked for
// the transcript under its old name, and the response said "(not available)".
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { silentLogger } from "../../src/core/logger.ts";
import { briefIdOf, writeDocuments } from "../../src/subagents/documents/run-documents.ts";
import { createDelegation } from "../support/delegation.ts";

it("[BP1] the documents of a run that was archived meanwhile carry its task and its result", async () => {
  await using delegation = await createDelegation();
  const { folder, briefing, folderOf, get } = delegation;
  const { db, runs, transcripts, sessionDocuments } = folder.stores;
  const run = await delegation.spawn("worker", undefined, { state: "running" });
  const ref = { agentId: run.agentId, sessionId: run.sessionId };
  await transcripts.append(ref, [{ type: "message", role: "assistant", text: "what it found", model: "m", usage: null, calls: 0 }]);
  await runs.start(run.id);
  await db.transaction([], (tx) => runs.end(tx, run.id, { as: "done", reason: null, incomplete: false, delivery: "skipped" }));
  const asItWas = await get(run);
  const name = `${run.sessionId}.jsonl.deleted.2026-01-01T00-00-00.000Z`;
  await db.transaction([], (tx) => runs.setArchiveName(tx, run.id, name));
  await transcripts.archive(ref, name);
  await db.transaction([], (tx) => runs.setArchived(tx, run.id));

  const agents = { find: () => null, list: () => [], defaultId: () => "main" };
  await writeDocuments({ runs, transcripts, sessionDocuments, agents, briefing, log: silentLogger, redact: (text) => text }, asItWas);
  const read = (kind: string): string => readFileSync(join(folderOf(run), `${briefIdOf(run.id)}.${kind}.md`), "utf8");
  expect(read("brief")).toContain("the whole of worker");
  expect(read("response")).toContain("what it found");
});
