// The real process, from `node src/herald.js start` to ready and then at rest: offline model, no channels (RN3); and again with
// many runs on record, a thousand of them unfinished.
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import { subagentKey } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { ALWAYS } from "../../src/core/run.ts";
import { openDatabase } from "../../src/stores/database.ts";
import { createRuns } from "../../src/stores/runs.ts";
import { createSessions } from "../../src/stores/sessions.ts";
import { createTranscripts } from "../../src/stores/transcripts.ts";
import { createFakeTelegram } from "../support/fake-telegram.ts";
import { createHarness } from "../support/harness.ts";
import { fillRuns } from "./filled-runs.ts";
import { below, median, type Row, rssMb, type Topic, timed, told } from "./measure.ts";

const STARTS = 5;
/** Long enough for it to give back what its start took. */
const REST_MS = 25_000;
const FINISHED = 10_000;
const UNFINISHED = 1_000;

export const processTopic: Topic = { name: "process", run: measureProcess };

async function measureProcess(): Promise<Row[]> {
  const first = await measureFirstStart();
  await using harness = await createHarness();
  const starts: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    await harness.stop();
    starts.push(await timed(() => harness.restart()));
  }
  const [rss, withTelegram] = await Promise.all([idleRss(harness.pid()), telegramRss()]);
  const slowest = `from the start of the process to /healthz 200; slowest of ${STARTS}: ${Math.round(Math.max(...starts))} ms`;
  return [
    below("idle RSS of the process", rss, 90, "MB", `${REST_MS / 1000} s after it was ready`),
    below("idle RSS with Telegram on", withTelegram, 100, "MB", "polling a bot that nobody writes to"),
    below("time to ready", median(starts), 1000, "ms", slowest),
    told(
      "the same at the first start after an install",
      `${Math.round(first.rss)} MB, ${Math.round(first.ms)} ms`,
      "nothing is compiled yet",
    ),
    await measureRecovery(),
  ];
}

async function telegramRss(): Promise<number> {
  const telegram = await createFakeTelegram();
  try {
    const { token: botToken, apiRoot } = telegram;
    await using harness = await createHarness({ config: { channels: { telegram: { enabled: true, botToken, apiRoot } } } });
    // The second start: at the first one everything is translated and compiled.
    await harness.stop();
    await harness.restart();
    return await idleRss(harness.pid());
  } finally {
    await telegram.close();
  }
}

async function measureRecovery(): Promise<Row> {
  const starts: number[] = [];
  for (let i = 0; i < 3; i++) starts.push(await startWithRuns());
  const detail = `half of the unfinished found running; slowest of 3: ${Math.round(Math.max(...starts))} ms`;
  return below("time to ready with 10 000 finished and 1 000 unfinished runs", median(starts), 1000, "ms", detail);
}

async function startWithRuns(): Promise<number> {
  const harness = await createHarness();
  try {
    await harness.stop();
    fillRuns(join(harness.stateDir, "herald.db"), FINISHED);
    await addUnfinished(harness.stateDir);
    return await timed(() => harness.restart());
  } finally {
    // It has a thousand runs to do, and nobody waits for them.
    await harness.crash();
    await harness[Symbol.asyncDispose]();
  }
}

/** Half of them queued, half of them found running, as a kill -9 leaves them. */
async function addUnfinished(stateDir: string): Promise<void> {
  const db = openDatabase({ path: join(stateDir, "herald.db") });
  const deps = { db, clock: systemClock, bootId: "before" };
  const runs = createRuns(deps);
  const sessions = createSessions(deps);
  const transcripts = createTranscripts({ stateDir, log: silentLogger, now: Date.now, redact: (text) => text });
  const running: string[] = [];
  await db.transaction([], async (tx) => {
    for (let n = 0; n < UNFINISHED; n++) {
      const run = unfinishedRun(`agent:main:web:dm:${randomUUID()}`);
      const owner = { id: run.sessionId, key: run.childKey, agentId: "main", address: run.address, parentKey: run.requesterKey };
      const task = { type: "message", role: "user", text: run.task, from: run.requesterKey, id: "task" } as const;
      await transcripts.create(
        { agentId: "main", sessionId: run.sessionId },
        { key: run.childKey, parent: run.requesterKey, entries: [task] },
      );
      await sessions.insert(tx, owner);
      await runs.insert(tx, run);
      if (n % 2 === 0) running.push(run.id);
    }
  });
  for (const id of running) await runs.start(id);
  transcripts.close();
  db.close();
}

function unfinishedRun(requesterKey: string): Parameters<ReturnType<typeof createRuns>["insert"]>[1] {
  const chat = requesterKey.split(":").at(-1) ?? "";
  return {
    ...{ id: randomUUID(), spawnKey: randomUUID(), childKey: subagentKey("main", randomUUID()), sessionId: randomUUID(), agentId: "main" },
    ...{ requesterKey, requesterSessionId: randomUUID(), requesterRunId: null, rootKey: requesterKey, depth: 1 },
    address: { channel: "web", account: "local", chat, kind: "dm" },
    ...{ label: "count", task: "Count the lines of every file.", model: "offline/rules", thinking: "off", timeoutMs: 0, maxIterations: 20 },
    ...{ person: null, batch: null, announcing: ALWAYS, rerunOf: null, groupId: null, budget: null, message: "message" },
    ...{ cleanup: "keep", announce: "post", params: {}, toolCeiling: ["read", "list", "search"], bootId: "before" },
  };
}

async function measureFirstStart(): Promise<{ rss: number; ms: number }> {
  await using harness = await createHarness({ env: { NODE_DISABLE_COMPILE_CACHE: "1" } });
  const rss = await idleRss(harness.pid());
  await harness.stop();
  return { rss, ms: await timed(() => harness.restart()) };
}

/** At rest, but not told to collect: this is what it really holds. */
async function idleRss(pid: number): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  return rssMb(pid);
}
