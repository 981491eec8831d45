// The composition root: settings in, a running gateway out. The only folder that knows all others; parts get the few
// things they need from here and never the config. Read createApp top to bottom: stores → models → agents → tools →
// sub-agents → gateway → channels and page.
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Agent } from "../agents/agent.ts";
import { createTurns } from "../agents/turn.ts";
import type { LoadedConfig } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";
import { AppError, errorText } from "../core/errors.ts";
import { type Bus, createBus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import type { Secrets } from "../core/secrets.ts";
import { createDelivery } from "../gateway/delivery.ts";
import { createLane } from "../lanes/lanes.ts";
import { recordDelivery } from "../subagents/announce.ts";
import { detectSandbox } from "../tools/sandbox.ts";
import { createAgents } from "./agents.ts";
import { createChannels } from "./channels.ts";
import { createFrontDoor } from "./front-door.ts";
import { createLife, type StartReport } from "./life.ts";
import { createModelParts } from "./models.ts";
import { createPage } from "./page.ts";
import { statusText } from "./status.ts";
import { openStores } from "./stores.ts";
import { createSubagentParts } from "./subagents.ts";
import { createTools } from "./tools.ts";

export interface AppOptions {
  readonly loaded: LoadedConfig;
  readonly version: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly secrets: Secrets;
  readonly failpoint: HitFailpoint;
}

export interface App {
  readonly bus: Bus;
  /** Resolves when everything accepted before is taken up and new input is taken. */
  start(): Promise<StartReport>;
  /** A reloaded file. Channels, page and MCP servers keep their settings until the next start. */
  reconfigure(loaded: LoadedConfig): void;
  /** Stops taking input, lets running turns finish for gateway.drainSeconds, puts the rest aside. Nothing is lost. */
  stop(): Promise<void>;
}

/** Opens the state folder and wires everything; starts nothing yet. Throws AppError in words. */
export async function createApp(options: AppOptions): Promise<App> {
  const { clock, log, secrets, failpoint, version } = options;
  let loaded = options.loaded;
  const bus = createBus((error) => log.error({ err: error }, "a listener failed"));
  const base = {
    clock,
    log,
    bus,
    secrets,
    failpoint,
    bootId: newId(),
    crewPath: join(loaded.stateDir, "CREW.md"),
    config: () => loaded.config,
  };
  const stores = openStores({ ...base, stateDir: loaded.stateDir });
  try {
    const [{ models, resolved }, sandbox] = await Promise.all([
      createModelParts({ ...base, loaded: () => loaded }),
      detectSandbox({ log }),
    ]);
    const agents = createAgents({ config: base.config, stateDir: loaded.stateDir, defaultModel: () => resolved.model });
    // Build output of read-only shells; nobody looks at it after its run.
    rmSync(join(loaded.stateDir, "scratch"), { recursive: true, force: true });
    for (const agent of agents.list()) makeWorkspace(agent);
    const lanes = createLanes(loaded, log, bus);
    const channels = await createChannels({ ...base, config: loaded.config, stores });
    const tools = createTools({ ...base, ...stores, loaded, sandbox, agents });
    const turns = createTurns({ models, transcripts: stores.transcripts, failpoint });
    const parts = { ...base, stores, agents, models, turns, channels };
    const subagents = createSubagentParts({ ...parts, lane: lanes.subagent, tools: tools.list });
    const facts = () => ({
      ...{ version, sandbox, stateDir: loaded.stateDir, config: loaded.config, channels: channels.list() },
      ...{ model: loaded.config.agents.defaults.model.primary ?? resolved.model, why: resolved.why },
      ...{ lanes: [lanes.main, lanes.subagent], mcp: tools.mcp.status(), openMessages: stores.outbox.countAllOpen() },
    });
    const frontDoor = createFrontDoor({ ...parts, lanes, subagents, statusText: () => statusText(facts()) });
    const delivery = createDelivery({
      ...base,
      ...stores,
      channel: channels.find,
      onRun: (...moved) => recordDelivery(stores.runs, ...moved),
    });
    const page = loaded.config.web.enabled ? createPage({ ...parts, loaded, lanes, subagents, status: facts }) : null;
    const life = createLife({ ...parts, lanes, subagents, frontDoor, delivery, page, mcp: tools.mcp, facts });
    return {
      bus,
      ...life,
      reconfigure(next) {
        loaded = next;
        for (const { name, value } of next.secrets) secrets.add(name, value);
        lanes.main.setConcurrency(next.config.agents.defaults.maxConcurrent);
        lanes.subagent.setConcurrency(next.config.agents.defaults.subagents.maxConcurrent);
      },
    };
  } catch (error) {
    stores.close();
    throw error;
  }
}

function makeWorkspace({ id, workspace }: Agent): void {
  try {
    mkdirSync(workspace, { recursive: true, mode: 0o700 });
  } catch (error) {
    const text = `The workspace ${workspace} of agent "${id}" can't be made: ${errorText(error)}. Make its folder writable, or set the agent's workspace to another one.`;
    throw new AppError("state", text, { cause: error });
  }
}

function createLanes({ config }: LoadedConfig, log: Logger, bus: Bus) {
  const { maxConcurrent, subagents } = config.agents.defaults;
  const lane = (name: string, concurrency: number) =>
    createLane({
      name,
      concurrency,
      onError: (id, error) => log.error({ err: error, lane: name, id }, "a job of a lane failed"),
      onStart: (waitedMs) => bus.emit({ type: "lane.started", lane: name, waitedMs }),
    });
  return { main: lane("main", maxConcurrent), subagent: lane("subagent", subagents.maxConcurrent) };
}
