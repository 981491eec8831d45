// The sub-agents' parts on real stores, without the rest of the app: real spawn, lane, runner, steering, archiver and
// delivery on the web channel; the model and the clock are the test's. For races and for driving time.

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Agents } from "../../src/agents/agent.ts";
import { createMemoryViews } from "../../src/agents/memory-view.ts";
import { createTurns } from "../../src/agents/turn.ts";
import { createAgents } from "../../src/app/agents.ts";
import { createChannels } from "../../src/app/channels.ts";
import type { SharedOptions } from "../../src/app/installation.ts";
import { createLanes } from "../../src/app/lanes.ts";
import { createPaymentParts } from "../../src/app/payments.ts";
import { createQuestionParts, type QuestionParts } from "../../src/app/questions.ts";
import type { Stores } from "../../src/app/store-parts.ts";
import { openStores } from "../../src/app/stores.ts";
import { createSubagentParts, type SubagentParts } from "../../src/app/subagents.ts";
import { configSchema } from "../../src/config/schema.ts";
import type { Clock } from "../../src/core/clock.ts";
import { type Bus, createBus } from "../../src/core/events.ts";
import { type HitFailpoint, noFailpoints } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { type Logger, silentLogger } from "../../src/core/logger.ts";
import type { Run } from "../../src/core/run.ts";
import { createSecrets, type Secrets } from "../../src/core/secrets.ts";
import type { Tool } from "../../src/core/tool.ts";
import type { Usage } from "../../src/core/usage.ts";
import { createDelivery } from "../../src/gateway/delivery.ts";
import type { Lane } from "../../src/lanes/lanes.ts";
import type { ModelReply, Models } from "../../src/models/model.ts";
import { recordDelivery } from "../../src/subagents/posting.ts";
import type { Requester, SpawnRequest } from "../../src/subagents/spawn-request.ts";
import { createRunCheck } from "../../src/tools/checks.ts";
import { createJudge } from "../../src/tools/judge.ts";
import { createPromptFiles } from "../../src/tools/prompt-files.ts";
import { putDatabase } from "./made-database.ts";
import { CHAT_KEY } from "./runs.ts";

export interface Stage extends AsyncDisposable {
  readonly stores: Stores;
  readonly parts: SubagentParts;
  readonly lane: Lane;
  readonly bus: Bus;
  readonly clock: Clock;
  readonly agents: Agents;
  readonly secrets: Secrets;
  readonly people: QuestionParts;
  /** Spawns from the chat; throws when it is not accepted. */
  spawn(request?: Partial<SpawnRequest>, requester?: Partial<Requester>): Promise<Run>;
  get(id: string): Promise<Run>;
  /** Ids of the announcements of a run, in order. */
  announced(run: Run): Promise<string[]>;
  notes(run: Run): Promise<number>;
  unread(run: Run): Promise<number>;
  /** A changed settings file. */
  reconfigure(subagents: Record<string, unknown>, rest?: Record<string, unknown>): void;
}

export interface StageOptions {
  readonly clock: Clock;
  readonly call: Models["call"];
  /** agents.defaults.subagents */
  readonly subagents?: Record<string, unknown>;
  readonly config?: Record<string, unknown>;
  readonly tools?: readonly Tool[];
  /** Why a model's name can't be used; default: every name can. */
  checkName?(model: string): string | null;
  /** Kept when it is given: a second stage takes up what the first one left. */
  readonly stateDir?: string;
  readonly bootId?: string;
  /** What a use costs; left out: no price is known. */
  priceOf?(usage: Usage): number | null;
  /** Don't start working: the test calls recover() first. */
  readonly idle?: boolean;
  /** Among several processes, on PostgreSQL. */
  readonly shared?: SharedOptions;
  /** Hears of each named moment as it comes: for a race that begins at one. */
  readonly failpoint?: HitFailpoint;
}

/** The many small durable writes of a race are the disk's business, not the test's. */
const FAST = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
export const makeStateDir = (): string => mkdtempSync(join(FAST, "herald-stage-"));

const SESSION_ID = "00000000-0000-4000-8000-000000000000";

export const okReply = (text: string): ModelReply => ({
  ...{ outcome: "ok", text, toolCalls: [], finish: "stop", usage: null, costUsd: null, model: "scripted/model-1" },
});

export async function createStage(options: StageOptions): Promise<Stage> {
  const stateDir = options.stateDir ?? makeStateDir();
  const { clock, shared } = options;
  if (options.stateDir === undefined && shared === undefined) putDatabase(stateDir);
  const failures: unknown[] = [];
  const bus = createBus((error) => failures.push(error));
  const settings = (subagents: object, rest: { agents?: object }) =>
    configSchema.parse({ ...rest, agents: { ...rest.agents, defaults: { model: "scripted/model-1", subagents } } });
  let config = settings(options.subagents ?? {}, options.config ?? {});
  const secrets = createSecrets();
  const bootId = options.bootId ?? newId();
  const failpoint = options.failpoint ?? noFailpoints;
  const base = { clock, bus, log: silentLogger, secrets, failpoint, bootId, config: () => config };
  const stores = await openStores({ ...base, stateDir, ...(shared === undefined ? {} : { shared }) });
  await stores.nodes.enter();
  const agents = createAgents({ config: base.config, stateDir, defaultModel: () => "scripted/model-1" });
  const channels = await createChannels({ ...base, config, current: () => config, stores });
  const models = { call: options.call, check: () => null, checkName: options.checkName ?? (() => null), contextWindow: () => 128_000 };
  const lanes = await createLanes({
    ...{ ...base, stores, shared: shared ?? null },
    log: { ...silentLogger, error: ({ err }: { err?: unknown }) => void failures.push(err) } as Logger,
  });
  const lane = lanes.subagent;
  const judge = createJudge();
  const people = createQuestionParts({ ...base, stores, agents, channels });
  const parts = createSubagentParts({
    ...base,
    payments: createPaymentParts({ ...base, stores, channels, priceOf: () => options.priceOf ?? (() => null) }),
    ...{ stores, agents, channels, lane, models, people, crewPath: join(stateDir, "CREW.md") },
    memoryViews: createMemoryViews(),
    confirmed: (read) => read(),
    turns: createTurns({ models, transcripts: stores.transcripts, failpoint: noFailpoints, secrets: createSecrets() }),
    tools: () => options.tools ?? [],
    judge,
    runCheck: createRunCheck({ ...{ judge, secrets, log: silentLogger }, promptFiles: createPromptFiles(), runCommand: null }),
  });
  const delivery = createDelivery({
    ...base,
    ...stores,
    channel: channels.find,
    recordDelivery: (...moved) => recordDelivery(stores, ...moved),
  });
  const over = new AbortController();
  let chores: Promise<unknown> = Promise.resolve();
  if (options.idle !== true) {
    lane.serve(parts.runner.work);
    parts.waker.start();
    await delivery.start();
    chores = Promise.all([parts.archiver.run(over.signal), parts.digester.run(over.signal)]);
  }
  return {
    ...{ stores, parts, lane, bus, agents, secrets, clock, people },
    ...lookUps(stores, parts),
    reconfigure(subagents, rest = {}) {
      config = settings(subagents, rest);
    },
    async [Symbol.asyncDispose]() {
      await parts.runner.suspend();
      parts.waker.stop();
      over.abort();
      await Promise.all([options.idle === true ? null : lane.drain(), delivery.stop(), chores]);
      await stores.close();
      if (options.stateDir === undefined) rmSync(stateDir, { recursive: true, force: true });
      if (failures.length > 0) throw new AggregateError(failures, "a listener or a job of the lane failed");
    },
  };
}

function lookUps(stores: Stores, parts: SubagentParts): Pick<Stage, "spawn" | "get" | "announced" | "notes" | "unread"> {
  let spawned = 0;
  const get = async (id: string): Promise<Run> => {
    const run = await stores.runs.get(id);
    if (run === null) throw new Error(`there is no run ${id}`);
    return run;
  };
  const count = async (sql: string, ...params: string[]): Promise<number> => (await stores.db.get<{ n: number }>(sql, ...params))?.n ?? 0;
  return {
    get,
    async spawn(request = {}, requester = {}) {
      const answer = await parts.spawn.now(
        {
          ...{ sessionKey: CHAT_KEY, sessionId: SESSION_ID, agentId: "main", runId: null, tools: ["read"], person: null, turnId: "turn" },
          address: { channel: "web", account: "local", chat: "main", kind: "dm" },
          spawnKey: `test:${process.hrtime.bigint()}:${++spawned}`,
          ...requester,
        },
        { task: "do it", label: `run ${spawned}`, ...request },
      );
      if (answer.status !== "accepted") throw new Error(answer.error);
      return get(answer.runId);
    },
    announced: async (run) =>
      (
        await stores.db.all<{ delivery: string }>(
          "SELECT delivery FROM outbox WHERE run_id = ? AND delivery LIKE 'announce:%' GROUP BY delivery ORDER BY min(id)",
          run.id,
        )
      ).map((row) => row.delivery),
    notes: (run) => count("SELECT count(*) AS n FROM notes WHERE about LIKE ?", `${run.id}:%`),
    unread: (run) => count("SELECT count(*) AS n FROM run_messages WHERE run_id = ? AND taken_at IS NULL", run.id),
  };
}
