// The composition root: settings in, a running gateway out. The only folder that knows all others; parts get the few
// things they need from here and never the config. Read createApp top to bottom: stores → models → agents → tools →
// sub-agents → gateway → channels and page.
import { chmodSync, existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createMemoryViews } from "../agents/memory-view.ts";
import { createTurns } from "../agents/turn.ts";
import type { LoadedConfig } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import { type Bus, createBus } from "../core/events.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import type { NodeRole } from "../core/node-role.ts";
import { detectSandbox } from "../tools/sandbox.ts";
import { createAgents } from "./agents.ts";
import type { Base, Lanes } from "./base.ts";
import { createChannels } from "./channels.ts";
import { createFiles } from "./files.ts";
import { createFrontDoor } from "./front-door.ts";
import { sharedOptions } from "./installation.ts";
import { createLanes } from "./lanes.ts";
import { createLife, type StartReport } from "./life.ts";
import { createModelParts, modelInUse } from "./models.ts";
import { createOutward } from "./outward.ts";
import { createPage } from "./page.ts";
import { createPaymentParts } from "./payments.ts";
import { createQuestionParts } from "./questions.ts";
import type { SettingsAccess } from "./setup/desk.ts";
import { createSetup } from "./setup/setup.ts";
import { type StatusNow, type StatusSource, statusText } from "./status.ts";
import type { Stores } from "./store-parts.ts";
import { openStores } from "./stores.ts";
import { createSubagentParts } from "./subagents.ts";
import { createTools, privateFolders } from "./tools.ts";
import { makeWorkspace, tryWorkspace } from "./workspaces.ts";

export interface AppOptions extends Pick<Base, "clock" | "log" | "secrets" | "failpoint"> {
  readonly loaded: LoadedConfig;
  readonly version: string;
  /** With store.url: what this process does; left out: everything. */
  readonly role?: NodeRole;
  /** With store.url: how long a process may be silent before others take its work. */
  readonly leaseMs?: number;
  /** The files behind the settings, for the page to change; left out: it can't. */
  readonly settings?: SettingsAccess;
  /** With store.url: another process has this one's work by now, or may have; it must end at once. */
  onLost?(): void;
}

export interface App {
  readonly bus: Bus;
  /** Resolves when everything accepted before is taken up and new input is taken. */
  start(): Promise<StartReport>;
  /** A reloaded file. What main.ts says waits for the next start. */
  reconfigure(loaded: LoadedConfig): void;
  /** Stops taking input, lets running turns finish for gateway.drainSeconds, puts the rest aside. Nothing is lost. */
  stop(): Promise<void>;
}

/** Opens the state folder and wires everything; starts nothing yet. Throws AppError in words. */
export async function createApp(options: AppOptions): Promise<App> {
  const { clock, log, secrets, failpoint, version, loaded: atStart } = options;
  const { stateDir } = atStart;
  let loaded = atStart;
  const bus = createBus((error) => log.error({ err: error }, "a listener failed"));
  const base: Base = {
    ...{ clock, log, bus, secrets, failpoint, bootId: newId(), stateDir, crewPath: join(stateDir, "CREW.md") },
    config: () => loaded.config,
  };
  const installed = sharedOptions({ ...options, config: base.config });
  const stores = await openStores({
    ...base,
    isNewWanted: atStart.env.HERALD_NEW_DATABASE === "1",
    ...(installed === null ? {} : { shared: installed }),
  });
  try {
    const [modelParts, sandbox] = await Promise.all([
      createModelParts({ ...base, loaded: () => loaded, readPicture: stores.attachmentBytes.read }),
      detectSandbox({ log, hide: privateFolders(atStart) }),
    ]);
    const { models, resolved } = modelParts;
    const agents = createAgents({ ...base, defaultModel: () => resolved.model });
    clearScratch(join(stateDir, "scratch"), log);
    for (const agent of agents.list()) makeWorkspace(agent, stateDir);
    const lanes = await createLanes({ ...base, stores, shared: installed });
    const attaching = createFiles({ ...base, stores, agents });
    const channels = await createChannels({ ...base, config: atStart.config, current: base.config, stores });
    const people = createQuestionParts({ ...base, stores, agents, channels });
    const outlet = attaching.outlet({ channel: channels.find, posterOf: people.posterOf });
    const tools = await createTools({ ...base, ...stores, outlet, loaded: atStart, sandbox, agents, elicit: people.elicit });
    const turns = createTurns({ models, transcripts: stores.transcripts, failpoint, secrets });
    const payments = createPaymentParts({ ...base, stores, channels, priceOf: modelParts.priceOf });
    const memory = { confirmed: tools.confirmed, memoryViews: createMemoryViews() };
    const parts = { ...base, ...memory, attaching, stores, agents, models, turns, channels, people, payments };
    const subagents = createSubagentParts({ ...parts, ...tools, lane: lanes.subagent, tools: tools.list });
    const facts = (): StatusSource => ({
      ...{ ...modelInUse(loaded.config, modelParts), version, stateDir, sandbox },
      // Only what keeps its value until the next start is shown of it.
      config: atStart.config,
      ...{ channels: channels.list(), mcp: tools.mcp.status(), problem: stores.problem() },
    });
    const status = async (isOperator: boolean): Promise<string> => statusText(facts(), await countNow(stores, lanes, clock), isOperator);
    const frontDoor = createFrontDoor({ ...parts, lanes, subagents, statusText: status });
    const outward = createOutward({ ...base, stores, channels });
    const setup = createSetup({
      ...{ ...base, access: options.settings, atStart: atStart.config, machine: stores.installation?.nodeName ?? null },
      ...{ inUse: () => modelInUse(loaded.config, modelParts), channels: channels.list, mcpStatus: tools.mcp.status },
    });
    const shown = { ...parts, ...frontDoor, lanes, subagents, judge: tools.judge, priceOf: modelParts.priceOf, setup, status: facts };
    const page = atStart.config.web.enabled ? await createPage(shown) : null;
    const runsWork = stores.installation?.role !== "gateway";
    const life = createLife({ ...parts, lanes, subagents, frontDoor, ...outward, page, mcp: tools.mcp, runsWork, facts });
    return {
      bus,
      ...life,
      reconfigure(next) {
        loaded = next;
        for (const { name, value } of next.secrets) secrets.add(name, value);
        lanes.main.setConcurrency(next.config.agents.defaults.maxConcurrent);
        lanes.subagent.setConcurrency(next.config.agents.defaults.subagents.maxConcurrent);
        for (const agent of agents.list()) tryWorkspace(agent, stateDir, log);
        void page?.reconfigure();
      },
    };
  } catch (error) {
    await stores.close();
    throw error;
  }
}

const countNow = async ({ outbox, nodes }: Stores, lanes: Lanes, clock: Clock): Promise<StatusNow> => ({
  lanes: await Promise.all(Object.values(lanes).map(async (lane) => ({ name: lane.name, ...(await lane.depth()) }))),
  openMessages: await outbox.countAllOpen(),
  nodes: await nodes.list(),
  at: clock.now(),
});

/** Build output of read-only shells: nobody looks at it after its run, and what can't be removed is in nobody's way. */
function clearScratch(path: string, log: Logger): void {
  // A command may have made its folders read-only, and nothing can be removed from such a one.
  const open = (folder: string): void => {
    chmodSync(folder, 0o700);
    for (const entry of readdirSync(folder, { withFileTypes: true })) if (entry.isDirectory()) open(join(folder, entry.name));
  };
  if (!existsSync(path)) return;
  try {
    open(path);
    rmSync(path, { recursive: true, force: true });
  } catch (error) {
    log.warn({ path, reason: errorText(error) }, "old output of commands can't be removed");
  }
}
