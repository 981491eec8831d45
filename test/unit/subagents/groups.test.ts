// Groups on real stores: how much they say, and what is left of one below a run that is given up.
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { groupMessage } from "../../../src/subagents/group-message.ts";
import type { GroupRequest, Requester } from "../../../src/subagents/spawn-request.ts";
import { CHAT_KEY } from "../../support/runs.ts";
import { createStage, okReply, type Stage } from "../../support/stage.ts";
import { waitFor } from "../../support/wait.ts";

let stage: Stage;
let words: string;
beforeEach(async () => {
  words = "the answer";
  stage = await createStage({
    clock: systemClock,
    call: async () => okReply(words),
    subagents: { maxConcurrent: 20, maxChildrenPerSession: 40, maxSpawnDepth: 2 },
  });
});
afterEach(() => stage[Symbol.asyncDispose]());

let count = 0;
const REQUESTER: Omit<Requester, "spawnKey"> = {
  ...{ sessionKey: CHAT_KEY, sessionId: "00000000-0000-4000-8000-000000000000", agentId: "main", runId: null, tools: ["read"] },
  ...{ address: { channel: "web", account: "local", chat: "main", kind: "dm" }, person: null, turnId: "turn" },
};

async function send(size: number, group: GroupRequest, requester: Partial<Requester> = {}): Promise<string> {
  const requests = Array.from({ length: size }, (_, n) => ({ task: "do it", label: `r${n}` }));
  const answer = await stage.parts.spawn.all({ ...REQUESTER, spawnKey: `test:${++count}`, ...requester }, requests, group);
  if (answer.status !== "accepted") throw new Error(answer.error);
  return (await stage.get(answer.runs[0]?.runId ?? "")).groupId ?? "";
}

it("[GR3][AN10] twenty results of 300 KB are one announcement that has an end, and each says where the whole of it is", async () => {
  words = "long words\n".repeat(30_000);
  const id = await send(20, { name: "long" });
  await waitFor("the group", async () => (await stage.stores.groups.get(id))?.state === "complete", 60_000);
  const parts = await stage.stores.db.all<{ part: string }>("SELECT part FROM outbox WHERE delivery LIKE '%:group' ORDER BY n");
  const text = parts.map(({ part }) => part).join("");
  expect(text.length).toBeLessThan(5_000_000);
  expect(text.match(/\(cut: \d+ characters in all, the whole text is in /g)).toHaveLength(20);
}, 120_000);

it("[GR3][AN2] one that has nothing to post is named with the announcement's own word for how it ended", async () => {
  const run = await stage.spawn();
  const named = (state: "done" | "interrupted") =>
    groupMessage({ name: "g" }, [{ run: { ...run, state }, message: null }], systemClock.now()).markdown;
  expect(named("done")).toContain("Status: success");
  expect(named("interrupted")).toContain("Status: unknown");
});

/** Nobody works by itself: rows are as killed processes left them. */
async function beIdle(): Promise<void> {
  await stage[Symbol.asyncDispose]();
  stage = await createStage({ clock: systemClock, call: async () => okReply(words), idle: true, subagents: { maxSpawnDepth: 2 } });
}

it("[GR4][RC2] one that is ended without a look at what it wrote: its group reads of it once, and what it had sent out itself is over", async () => {
  await beIdle();
  // biome-ignore lint/suspicious/noThenProperty: SPEC's word, and nobody awaits it.
  const top = await send(1, { name: "top", then: "wake" });
  const [run] = await stage.stores.runs.listGroup(top);
  if (run === undefined) throw new Error("nobody was sent out");
  await stage.stores.runs.start(run.id);
  const below = await send(2, { name: "below" }, { sessionKey: run.childKey, sessionId: run.sessionId, runId: run.id });
  await stage.stores.db.transaction([], (tx) => tx.run("UPDATE runs SET crashes = 3, owner = NULL WHERE id = ?", run.id));
  expect(await stage.parts.recover()).toMatchObject({ interrupted: 1 });
  expect((await stage.stores.groups.get(top))?.state).toBe("complete");
  expect((await stage.stores.groups.get(below))?.state).toBe("complete");
  expect(await stage.notes(run)).toBe(0);
  expect(await stage.stores.db.all("SELECT 1 FROM inbox WHERE external_id = ?", `wake:${top}`)).toHaveLength(1);
});

it("[GR3][RC4] the end of its last one has ended the process again and again: the others' words are not rendered at that end, but sent by hand", async () => {
  await beIdle();
  const id = await send(2, { name: "deadly" });
  const [first, last] = await stage.stores.runs.listGroup(id);
  if (first === undefined || last === undefined) throw new Error("nobody was sent out");
  await stage.parts.runner.work(first.id);
  await stage.stores.runs.start(last.id);
  await stage.stores.db.transaction([], (tx) => tx.run("UPDATE runs SET crashes = 21, owner = NULL WHERE id = ?", last.id));
  expect(await stage.parts.recover()).toMatchObject({ interrupted: 1 });
  expect((await stage.stores.groups.get(id))?.state).toBe("complete");
  expect(await stage.stores.db.all("SELECT 1 FROM outbox")).toEqual([]);
  expect(await stage.get(first.id)).toMatchObject({
    delivery: "blocked",
    deliveryReason: expect.stringContaining(`/subagents retry ${first.id.slice(0, 8)}`),
  });
  const run = await stage.get(first.id);
  expect(await stage.stores.db.transaction(stage.parts.steering.locks([run]), (tx) => stage.parts.steering.retry(tx, run))).toBe(true);
  expect(await stage.stores.db.all("SELECT 1 FROM outbox WHERE delivery LIKE '%:group'")).toHaveLength(1);
});
