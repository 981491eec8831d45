// Who may still send a file (CH2): not what was stopped meanwhile, not what works silently; and nothing is stored that can't be sent.
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Agents } from "../../../src/agents/agent.ts";
import { createAttachmentParts } from "../../../src/app/attachments.ts";
import type { Channels } from "../../../src/app/channels.ts";
import { createQuestionParts } from "../../../src/app/questions.ts";
import type { FilePosting, Sender } from "../../../src/attachments/posting.ts";
import { noFailpoints } from "../../../src/core/failpoints.ts";
import type { Channel } from "../../../src/core/message.ts";
import { turnIdOf } from "../../../src/gateway/main-turn.ts";
import { ADDRESS, CHAT_KEY, newRun } from "../../support/runs.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";

const LIMITS = { maxFileMegabytes: 1, maxPerMessage: 5, chatDayMegabytes: 10, dayMegabytes: 10, freeDiskMegabytes: 1 };
const RENDERED = { render: ({ markdown }: { markdown: string }) => [{ text: markdown }] } as unknown as Channel;

let folder: StateFolder;
let channel: Channel | null;
let posting: FilePosting;
beforeEach(async () => {
  folder = await createStateFolder();
  channel = RENDERED;
  const { stores, clock, log, bus, stateDir } = folder;
  const base = {
    stores,
    clock,
    log,
    bus,
    stateDir,
    failpoint: noFailpoints,
    bootId: "boot",
    config: () => ({ attachments: LIMITS }) as never,
  };
  const find = (): Channel | null => channel;
  const agents = { find: () => null } as unknown as Agents;
  const people = createQuestionParts({ ...base, agents, channels: { find } as unknown as Channels });
  posting = createAttachmentParts({ ...base, agents }).outlet({ channel: find, posterOf: people.posterOf });
});
afterEach(() => folder[Symbol.dispose]());

const send = (by: Partial<Sender>, call = "call") =>
  posting.post({
    ...{ call, address: ADDRESS, name: "a.txt", caption: "Look", bytes: Buffer.from("words") },
    by: { runId: null, turnId: "none", sessionKey: CHAT_KEY, signal: new AbortController().signal, ...by },
  });
const count = async (table: "outbox" | "attachments"): Promise<number> =>
  (await folder.stores.db.get<{ n: number }>(`SELECT count(*) AS n FROM ${table}`))?.n ?? 0;

async function waitingTurn(): Promise<{ turnId: string; rowId: number }> {
  const { db, inbox } = folder.stores;
  await db.transaction([], (tx) => inbox.wake(tx, ADDRESS, { key: "one", sessionKey: CHAT_KEY, raw: {} }));
  const rowId = await inbox.lastId();
  return { turnId: turnIdOf(rowId), rowId };
}

it("[CH2] an open turn sends; ended by a stop while the file was stored, it sends nothing", async () => {
  const { turnId, rowId } = await waitingTurn();
  expect(await send({ turnId })).toMatchObject({ file: { name: "a.txt" } });
  expect(await count("outbox")).toBe(1);
  await folder.stores.db.transaction([], (tx) => folder.stores.inbox.finish(tx, rowId));
  expect(await send({ turnId }, "later")).toEqual({ refused: "What sends this has ended; nothing is posted any more." });
  expect(await count("outbox")).toBe(1);
});

it("[CH2] a run that is stopped already, or whose channel is off, stores nothing", async () => {
  const { turnId } = await waitingTurn();
  expect(await send({ turnId, signal: AbortSignal.abort() })).toEqual({
    refused: "What sends this has ended; nothing is posted any more.",
  });
  channel = null;
  expect(await send({ turnId })).toEqual({ refused: "The chat's channel is off, so nothing can be sent there." });
  expect([await count("attachments"), await count("outbox")]).toEqual([0, 0]);
});

it("[CH2] [AN7] a silent run and whatever it sent out post no files", async () => {
  const { db, runs } = folder.stores;
  await db.transaction([], async (tx) => {
    await runs.insert(tx, newRun("loud"));
    await runs.insert(tx, newRun("hushed", { announce: "silent" }));
    await runs.insert(tx, newRun("below", { requesterKey: "child-hushed", requesterRunId: "hushed", rootKey: CHAT_KEY, depth: 2 }));
  });
  for (const runId of ["hushed", "below"])
    expect(await send({ runId })).toEqual({
      refused: "Nothing can be sent: this run works silently, and nothing of it is posted in a chat.",
    });
  expect(await count("attachments")).toBe(0);
  expect(await send({ runId: "loud" })).toMatchObject({ file: { name: "a.txt" } });
});
