// A state folder as after months of use, made quickly but through the stores: chats that were active today, and child
// sessions of theirs that ended, were announced and archived long ago.

import { randomUUID } from "node:crypto";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import type { Stores } from "../../src/app/store-parts.ts";
import { openStores } from "../../src/app/stores.ts";
import { addressKey } from "../../src/core/address.ts";
import { fileStamp, systemClock } from "../../src/core/clock.ts";
import { createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { chatKey, subagentKey } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { ALWAYS } from "../../src/core/run.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import type { Tx } from "../../src/stores/database.ts";
import type { NewEntry } from "../../src/stores/transcript-entry.ts";

/** Messages of a live session, each with its reply. */
const EXCHANGES = 10;
const HOUR_MS = 3_600_000;
const SPEND = { usage: { input: 1_000, output: 50, cacheRead: 0, cacheWrite: 0 }, costUsd: 0.01 };
const WORDS = "Some words of a conversation that went on for a while and came to an end. ".repeat(5);

export interface FilledSessions {
  /** Chats of the page. */
  readonly live: readonly string[];
  /** Run ids. */
  readonly archived: readonly string[];
}

export async function fillSessions(stateDir: string, counts: { live: number; archived: number }): Promise<FilledSessions> {
  let at = 0;
  const stores = await openStores({
    ...{ stateDir, log: silentLogger, secrets: createSecrets(), failpoint: noFailpoints, bootId: "before", bus: createBus(() => {}) },
    clock: { ...systemClock, now: () => at },
  });
  try {
    // One transaction for all of it: nobody waits for the single row.
    const filled = await stores.db.transaction([], async (tx) => {
      const live = await Promise.all(
        Array.from({ length: counts.live }, async (_, n) => {
          at = Date.now() - (n * 20 * HOUR_MS) / counts.live;
          return addLive(stores, tx);
        }),
      );
      const archive = await createArchive(stores, () => at);
      const archived = await Promise.all(
        Array.from({ length: counts.archived }, async (_, n) => {
          at = Date.now() - (24 + n) * HOUR_MS;
          return addArchived(stores, tx, live[n % live.length] ?? "main", archive);
        }),
      );
      return { live, archived };
    });
    await stores.runs.setDocumented(filled.archived.map((id) => ({ id, generation: 1 })));
    return filled;
  } finally {
    await stores.close();
  }
}

const addressOf = (chat: string) => ({ channel: "web", account: "local", chat, kind: "dm" }) as const;

async function addLive(stores: Stores, tx: Tx): Promise<string> {
  const chat = randomUUID();
  const address = addressOf(chat);
  const session = { id: randomUUID(), key: chatKey("main", address), agentId: "main", address, parentKey: null };
  await stores.transcripts.create({ agentId: "main", sessionId: session.id }, { key: session.key, parent: null, entries: talk(chat) });
  await stores.sessions.insert(tx, session);
  for (let n = 0; n < EXCHANGES; n++) {
    const id = randomUUID();
    const delivery = `reply:${id}`;
    await stores.webMessages.post(tx, { chat, key: id, author: "user", text: WORDS });
    await stores.outbox.add(tx, { delivery, address, parts: [{ text: WORDS }] });
    const row = await stores.outbox.head(addressKey(address));
    if (row !== null) await stores.outbox.markSent(tx, row.id, id);
    await stores.webMessages.post(tx, { chat, key: delivery, author: "agent", text: WORDS });
  }
  await stores.sessions.addSpend(tx, session, "bench/model", SPEND, null);
  return chat;
}

/** Writes a transcript as archiving leaves it and returns its name: the same words each time, only the id is its own. */
async function createArchive({ transcripts }: Stores, now: () => number): Promise<(sessionId: string) => string> {
  const sample = { agentId: "main", sessionId: randomUUID() };
  await transcripts.create(sample, { key: "agent:main:subagent:sample", parent: null, entries: talk("sample") });
  const text = readFileSync(transcripts.path(sample), "utf8");
  rmSync(transcripts.path(sample));
  return (sessionId) => {
    const archiveName = `${sessionId}.jsonl.deleted.${fileStamp(now())}`;
    const path = transcripts.path({ ...sample, sessionId, archiveName });
    writeFileSync(path, text.replace(sample.sessionId, sessionId), { mode: 0o600 });
    return archiveName;
  };
}

async function addArchived(stores: Stores, tx: Tx, chat: string, archive: (sessionId: string) => string): Promise<string> {
  const { runs, sessions } = stores;
  const address = addressOf(chat);
  const requesterKey = chatKey("main", address);
  const id = randomUUID();
  const child = { id: randomUUID(), key: subagentKey("main", randomUUID()), agentId: "main", address, parentKey: requesterKey };
  await runs.insert(tx, {
    ...{ id, spawnKey: randomUUID(), childKey: child.key, sessionId: child.id, agentId: "main", depth: 1, address },
    ...{
      requesterKey,
      requesterSessionId: randomUUID(),
      requesterRunId: null,
      rootKey: requesterKey,
      label: "count",
      task: WORDS,
      params: {},
      person: null,
      batch: null,
      announcing: ALWAYS,
      rerunOf: null,
      groupId: null,
      budget: null,
      message: "message",
    },
    ...{ model: "bench/model", thinking: "off", timeoutMs: 0, maxIterations: 20, cleanup: "keep", announce: "post" },
    ...{ toolCeiling: ["read", "list", "search"], bootId: "before" },
  });
  await sessions.insert(tx, child);
  // As runs.start leaves it, which is a transaction of its own and can't be made inside this one.
  await tx.run("UPDATE runs SET state = 'running', started_at = queued_at WHERE id = ?", id);
  await runs.addSpend(tx, id, SPEND);
  await runs.end(tx, id, { as: "done", reason: null, incomplete: false, delivery: "delivered" });
  await runs.markSettled(tx, id);
  // As runs.setArchiveName leaves it, for the same reason.
  await tx.run("UPDATE runs SET archive_name = ? WHERE id = ?", archive(child.id), id);
  await runs.setArchived(tx, id);
  await sessions.end(tx, child.id);
  return id;
}

function talk(from: string): NewEntry[] {
  const question: NewEntry = { type: "message", role: "user", text: WORDS, from };
  const answer: NewEntry = { type: "message", role: "assistant", text: WORDS, model: "bench/model", usage: SPEND.usage, calls: 0 };
  return Array.from({ length: EXCHANGES }, () => [question, answer]).flat();
}
