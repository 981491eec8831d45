// Size and load, each with the smallest amount that would show the fault: a cost that grows with the records, a lost or
// reordered message, something that is kept after its work is done.
import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import type { Agent } from "../../src/agents/agent.ts";
import { createTurns } from "../../src/agents/turn.ts";
import { createRunBoard } from "../../src/app/board.ts";
import { openStores } from "../../src/app/stores.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Channel } from "../../src/core/message.ts";
import { createRateLimit } from "../../src/core/rate-limit.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { createAccess } from "../../src/gateway/access.ts";
import { createCommands } from "../../src/gateway/commands.ts";
import { createConversations } from "../../src/gateway/conversation.ts";
import { createGateway } from "../../src/gateway/gateway.ts";
import { createLane } from "../../src/lanes/lanes.ts";
import type { ModelRequest } from "../../src/models/model.ts";
import { fillRuns, runId } from "../bench/filled-runs.ts";
import { cpuTime } from "../support/cpu-time.ts";
import { noFiles } from "../support/files.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { paymentsOf } from "../support/payments.ts";
import { createStage, makeStateDir, okReply } from "../support/stage.ts";
import { createStateFolder } from "../support/state-folder.ts";
import { allOf, waitFor } from "../support/wait.ts";

it("[RU1] SCALE-003 with 20 000 finished runs on record the stores open and every list comes at once", async () => {
  using folder = await createStateFolder();
  folder.close();
  fillRuns(join(folder.stateDir, "herald.db"), 20_000);
  const worked = cpuTime();
  const stores = await folder.reopen();
  const { board, details } = createRunBoard({
    stores,
    lane: { positions: async () => new Map() },
    archiver: { dueAt: () => null },
    payments: paymentsOf({ ...stores, clock: folder.clock, bus: folder.bus, failpoint: noFailpoints }),
    ...{
      again: { taskOf: async () => null },
      briefing: { list: async () => [], version: async () => 0 },
      clock: folder.clock,
      log: folder.log,
    },
  });
  expect(await board.listRuns({ limit: 100 })).toHaveLength(100);
  expect(await details.find(runId(19_999))).not.toBeNull();
  expect(await stores.runs.listUnfinished()).toEqual([]);
  expect(await stores.runs.listUndocumented(100)).toEqual([]);
  expect(worked()).toBeLessThan(1_500);
});

const CHATS = 100;
const ROUNDS = 5;

describe("many chats", () => {
  /** Gate, lane, conversations and turns on real stores; the model answers with the words it was told. */
  async function createDoor(stateDir: string) {
    const bus = createBus((error) => {
      throw error;
    });
    const base = { clock: systemClock, bus, log: silentLogger, failpoint: noFailpoints };
    const stores = await openStores({ ...base, stateDir, bootId: "boot", secrets: createSecrets() });
    const failures: unknown[] = [];
    const lane = createLane({ name: "main", concurrency: 4, onError: (_id, error) => failures.push(error) });
    const channel: Channel = {
      ...{ name: "test", account: "a", start: async () => {}, stop: async () => {}, health: () => ({ state: "on" }) },
      decode(raw) {
        const { text, chat } = raw as { text: string; chat: string };
        const address = { channel: "test", account: "a", chat, kind: "dm" } as const;
        return { kind: "message", address, sender: { id: "ann" }, text, mentioned: true };
      },
      render: ({ markdown }) => [{ text: markdown }],
      send: async () => ({ status: "sent", ref: "x" }),
    };
    const agent: Agent = {
      ...{ id: "main", name: "main", model: "test/model", fallbacks: [], thinking: "off", workspace: stateDir, maxIterations: 5 },
      ...{ timeoutMs: 0, policies: [], subagents: {} as Agent["subagents"] },
    };
    const agents = { defaultId: () => "main", find: () => agent, list: () => [agent] };
    const call = async (request: ModelRequest) => okReply(request.messages.at(-1)?.text ?? "");
    const models = { call, check: () => null, contextWindow: () => 100_000 };
    const conversations = createConversations({
      gather: noFiles,
      ...{
        ...base,
        ...stores,
        lane,
        agents,
        channel: () => channel,
        tools: () => [],
        prompt: async () => ({ system: "system", topics: [] }),
        heldBack: () => 0,
        payments: paymentsOf({ ...base, ...stores }),
      },
      turns: createTurns({ models, transcripts: stores.transcripts, failpoint: noFailpoints, secrets: createSecrets() }),
    });
    const gateway = createGateway({
      ...{ ...base, ...stores, lane, agents, channel: () => channel, commands: createCommands([]) },
      replies: { settle: async () => expect.unreachable() },
      access: createAccess({ pairing: stores.pairing, rules: () => ({ allowFrom: ["ann"], groups: {} }) }),
      commandLimit: createRateLimit({ burst: 60, refillMs: 12_000, clock: systemClock }),
    });
    await gateway.start();
    lane.serve(conversations.work);
    const close = async (): Promise<void> => {
      await gateway.stop();
      conversations.suspend();
      await lane.drain();
      await stores.close();
    };
    return { stores, failures, close };
  }

  it("[AG1] SCALE-004 a hundred chats that write at once: nothing lost, each in its order, and nobody waits to be heard", async () => {
    const stateDir = makeStateDir();
    const door = await createDoor(stateDir);
    try {
      const sink = door.stores.inbox.sink("test", "a");
      const waits: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        for (let chat = 0; chat < CHATS; chat++) {
          const since = performance.now();
          await sink.put([{ externalId: `${chat}:${round}`, raw: { text: `${round}`, chat: `c${chat}` } }]);
          waits.push(performance.now() - since);
        }
        await new Promise((resolve) => setImmediate(resolve));
      }
      const replies = () => door.stores.db.all<{ address: string; part: string }>("SELECT address, part FROM outbox ORDER BY id");
      await waitFor("every answer", async () => (await replies()).length === CHATS * ROUNDS);
      const heard = Map.groupBy(await replies(), (row) => (JSON.parse(row.address) as { chat: string }).chat);
      expect(heard.size).toBe(CHATS);
      const inOrder = Array.from({ length: ROUNDS }, (_, round) => `${round}`);
      for (const rows of heard.values()) expect(rows.map((row) => (JSON.parse(row.part) as { text: string }).text)).toEqual(inOrder);
      expect(await door.stores.db.all("SELECT id FROM inbox WHERE state <> 'done'")).toEqual([]);
      expect(door.failures).toEqual([]);
      expect(waits.sort((a, b) => a - b)[Math.floor(waits.length * 0.99)]).toBeLessThan(500);
    } finally {
      await door.close();
      rmSync(stateDir, { recursive: true, force: true });
    }
  });
});

/** Node's own way to a garbage collector without a flag at the start. */
function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}

it("[AR1] SCALE-005 a day of runs leaves no timer, handle, memory or journal behind", async () => {
  const manual = createManualClock();
  let sleeping = 0;
  const clock: Clock = {
    now: manual.now,
    async sleep(ms, signal) {
      sleeping++;
      await manual.sleep(ms, signal);
      sleeping--;
    },
  };
  const stateDir = makeStateDir();
  try {
    await using stage = await createStage({ clock, call: async () => okReply("Result:\ndone"), stateDir });
    const hours = async (count: number): Promise<void> => {
      for (let n = 0; n < count * 3; n++) {
        const runs = [await stage.spawn(), await stage.spawn({ cleanup: "delete" })];
        await waitFor("both to be announced", () => allOf(runs, async (run) => (await stage.get(run.id)).settledAt !== null));
        await manual.leap(1_200_000);
      }
    };
    const use = () => {
      collectGarbage();
      return { sleeping, handles: process.getActiveResourcesInfo().length, heap: process.memoryUsage().heapUsed };
    };
    await hours(8);
    const before = use();
    await hours(16);
    const after = use();
    expect(after.sleeping).toBe(before.sleeping);
    expect(after.handles).toBeLessThanOrEqual(before.handles + 2);
    expect(after.heap - before.heap).toBeLessThan(before.heap * 0.05);
    // A thousand pages make a checkpoint.
    expect(statSync(join(stateDir, "herald.db-wal")).size).toBeLessThan(2 * 1_000 * 4_120);
    expect(readdirSync(join(stateDir, "agents", "main", "sessions")).filter((name) => name.endsWith(".jsonl")).length).toBeLessThan(12);
  } finally {
    rmSync(stateDir, { recursive: true, force: true });
  }
});
