// The gateway in this process, wired as app/app.ts wires it but for the model, which the bench gives: real stores on a
// real folder, the real lanes, gateway, sub-agents, delivery and web channel. No HTTP, no page.

import { randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createMemoryViews } from "../../src/agents/memory-view.ts";
import { createTurns } from "../../src/agents/turn.ts";
import { createAgents } from "../../src/app/agents.ts";
import { createChannels } from "../../src/app/channels.ts";
import { createFrontDoor } from "../../src/app/front-door.ts";
import { createLife } from "../../src/app/life.ts";
import { createOutward } from "../../src/app/outward.ts";
import { createPaymentParts } from "../../src/app/payments.ts";
import { createQuestionParts } from "../../src/app/questions.ts";
import type { Stores } from "../../src/app/store-parts.ts";
import { openStores } from "../../src/app/stores.ts";
import { createSubagentParts, type SubagentParts } from "../../src/app/subagents.ts";
import { createTools } from "../../src/app/tools.ts";
import { loadConfig } from "../../src/config/config.ts";
import { systemClock } from "../../src/core/clock.ts";
import { type AppEvent, type Bus, createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { createLane, type Lane } from "../../src/lanes/lanes.ts";
import type { ModelReply, ModelRequest } from "../../src/models/model.ts";
import type { ModelRouter } from "../../src/models/router.ts";
import { detectSandbox } from "../../src/tools/sandbox.ts";
import { noFiles, noOutlet } from "../support/files.ts";

export interface Rig {
  readonly stores: Stores;
  readonly subagents: SubagentParts;
  readonly bus: Bus;
  readonly databasePath: string;
  /** Posts to a chat of the page; resolves when the answer is delivered. */
  ask(chat: string, text: string): Promise<void>;
  /** Lets the lane `subagent` work; until then runs stay queued. */
  serveRuns(): void;
  stop(): Promise<void>;
}

export interface RigOptions {
  readonly folder: string;
  readonly models: ModelRouter;
}

export async function createRig({ folder, models }: RigOptions): Promise<Rig> {
  const loaded = loadConfig({ env: { HOME: folder, HERALD_STATE_DIR: join(folder, "state") }, cwd: folder });
  const fail = (error: unknown): void => {
    throw new Error("a part of the rig failed", { cause: error });
  };
  const bus = createBus(fail);
  const base = {
    clock: systemClock,
    log: silentLogger,
    bus,
    secrets: createSecrets(),
    failpoint: noFailpoints,
    bootId: newId(),
    crewPath: join(loaded.stateDir, "CREW.md"),
    config: () => loaded.config,
  };
  const stores = await openStores({ ...base, stateDir: loaded.stateDir });
  const agents = createAgents({ config: base.config, stateDir: loaded.stateDir, defaultModel: () => MODEL });
  for (const agent of agents.list()) mkdirSync(agent.workspace, { recursive: true });
  const { maxConcurrent, subagents: children } = loaded.config.agents.defaults;
  const lanes = {
    main: createLane({ name: "main", concurrency: maxConcurrent, onError: (_, error) => fail(error) }),
    subagent: createLane({ name: "subagent", concurrency: children.maxConcurrent, onError: (_, error) => fail(error) }),
  };
  const sandbox = await detectSandbox({ log: silentLogger });
  const channels = await createChannels({ ...base, config: loaded.config, current: () => loaded.config, stores });
  const tools = await createTools({ ...base, ...stores, outlet: noOutlet, loaded, sandbox, agents });
  const turns = createTurns({ models, transcripts: stores.transcripts, failpoint: noFailpoints, secrets: createSecrets() });
  const people = createQuestionParts({ ...base, stores, agents, channels });
  const payments = createPaymentParts({ ...base, stores, channels, priceOf: () => () => null });
  const memory = { confirmed: tools.confirmed, memoryViews: createMemoryViews() };
  const parts = { ...base, ...memory, payments, stores, agents, models, turns, channels, people };
  const subagents = createSubagentParts({
    ...parts,
    ...{ judge: tools.judge, runCheck: tools.runCheck },
    lane: lanes.subagent,
    tools: tools.list,
  });
  const frontDoor = createFrontDoor({ ...parts, lanes, subagents, attaching: { gather: noFiles }, statusText: async () => "" });
  const outward = createOutward({ ...base, stateDir: loaded.stateDir, stores, channels });
  let handler: Parameters<Lane["serve"]>[0] = async () => {};
  const held: Lane = {
    ...lanes.subagent,
    serve(work) {
      handler = work;
    },
  };
  const life = createLife({
    ...{
      ...parts,
      subagents,
      frontDoor,
      ...outward,
      page: null,
      mcp: tools.mcp,
      attaching: { sweep: async () => {} },
      runsWork: true,
      lanes: { ...lanes, subagent: held },
    },
    facts: () => ({
      ...{ version: "0", model: MODEL, why: "", stateDir: loaded.stateDir, config: loaded.config, channels: channels.list(), sandbox },
      ...{ mcp: [], problem: null },
    }),
  });
  await life.start();
  return {
    ...{ stores, subagents, bus, databasePath: join(loaded.stateDir, "herald.db"), stop: life.stop },
    async ask(chat, text) {
      const answered = nextEvent(bus, (event) => event.type === "outbox.settled" && event.delivery.startsWith("reply:"));
      await channels.web.accept({ id: randomUUID(), chat, text, kind: "message" });
      await answered;
    },
    serveRuns: () => lanes.subagent.serve(handler),
  };
}

const MODEL = "bench/model";

/** Answers after `delayMs(request)` with what `reply` says; 0 is at once. */
export function createBenchModels(
  reply: (request: ModelRequest) => Partial<ModelReply>,
  delayMs: (request: ModelRequest) => number = () => 0,
): ModelRouter {
  return {
    async call(request) {
      const ms = delayMs(request);
      if (ms > 0) await systemClock.sleep(ms, request.signal);
      const usage = { input: 1_000, output: 50, cacheRead: 0, cacheWrite: 0 };
      return {
        outcome: "ok",
        text: "Done.",
        toolCalls: [],
        finish: "stop",
        usage,
        costUsd: 0.001,
        model: request.model,
        ...reply(request),
      };
    },
    check: () => null,
    checkName: () => null,
    contextWindow: () => 128_000,
  };
}

const DEADLINE_MS = 60_000;

/** The first event that fits; rejects when it does not come. */
export function nextEvent(bus: Bus, fits: (event: AppEvent) => boolean, deadlineMs = DEADLINE_MS): Promise<void> {
  return new Promise((resolve, reject) => {
    const off = bus.on((event) => {
      if (!fits(event)) return;
      clearTimeout(timer);
      off();
      resolve();
    });
    const timer = setTimeout(() => {
      off();
      reject(new Error(`nothing happened within ${deadlineMs} ms`));
    }, deadlineMs);
  });
}
