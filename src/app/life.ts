// Starting and stopping, in the one order that loses nothing. Up: port → recover rows → lanes → delivery → channels →
// gateway → ready. Down: no new input → let turns finish for a while → put the rest aside → last deliveries → close.

import type { Channel, InboxSink } from "../core/message.ts";
import type { Delivery } from "../gateway/delivery.ts";
import type { McpTools } from "../tools/mcp.ts";
import type { Base, Lanes } from "./base.ts";
import type { Channels } from "./channels.ts";
import type { FrontDoor } from "./front-door.ts";
import { keepHouse } from "./housekeeping.ts";
import { giveMemoryBack, processHeap } from "./memory.ts";
import type { Page, PageAddress } from "./page.ts";
import { channelLines, execLine, type StatusSource } from "./status.ts";
import type { Stores } from "./stores.ts";
import type { SubagentParts } from "./subagents.ts";

export interface StartReport {
  /** Null with web.enabled false. */
  readonly page: PageAddress | null;
  readonly model: string;
  readonly why: string;
  readonly stateDir: string;
  readonly channels: readonly string[];
  readonly exec: string;
}

export interface Life {
  start(): Promise<StartReport>;
  stop(): Promise<void>;
}

export interface LifeDeps extends Pick<Base, "config" | "clock" | "bus" | "log"> {
  readonly stores: Stores;
  readonly lanes: Lanes;
  readonly channels: Channels;
  readonly subagents: SubagentParts;
  readonly frontDoor: FrontDoor;
  readonly delivery: Delivery;
  readonly page: Page | null;
  readonly mcp: McpTools;
  facts(): StatusSource;
}

/** What was told to stop gets this long to do so before the folder is closed. */
const SUSPEND_MS = 2_000;

export function createLife(deps: LifeDeps): Life {
  const over = new AbortController();
  let chores: Promise<unknown> = Promise.resolve();
  return {
    async start() {
      // Whose work is whose is known from here on: what others left is taken up below, part by part.
      await deps.stores.nodes.enter();
      await deps.stores.webMessages.skipNumbers();
      const page = deps.page === null ? null : await deps.page.open();
      const recovered = await deps.subagents.recover();
      if (recovered.queued + recovered.resumed + recovered.interrupted > 0) deps.log.info(recovered, "took up unfinished runs");
      deps.lanes.subagent.serve(deps.subagents.runner.work);
      deps.lanes.main.serve(deps.frontDoor.conversations.work);
      await deps.delivery.start();
      deps.mcp.start();
      for (const channel of deps.channels.list()) await channel.start(deps.frontDoor.doorstep(channel, sinkOf(deps.stores, channel)));
      await deps.frontDoor.gateway.start();
      const running = [
        deps.subagents.archiver.run(over.signal),
        deps.frontDoor.introductions.run(over.signal),
        keepHouse(deps.stores, deps.clock, deps.log, over.signal),
        watchFolder(deps, over.signal),
        takeUpOrphans(deps, over.signal),
        giveMemoryBack(processHeap, deps.clock, over.signal),
      ];
      // One that breaks is no reason to break off the stop that waits for it.
      chores = Promise.all(running.map((chore) => chore.catch((error) => deps.log.error({ err: error }, "a chore broke off"))));
      deps.page?.markReady();
      return report(deps, page);
    },
    async stop() {
      try {
        await windDown(deps, over, chores);
      } finally {
        // Whatever failed before: what the journal holds is moved into the database, and the lock is free.
        await deps.subagents.documents.stop();
        deps.stores.close();
      }
    },
  };
}

/** Everything that works on the stores comes to its end; they are still open when it is done. */
async function windDown(deps: LifeDeps, over: AbortController, chores: Promise<unknown>): Promise<void> {
  deps.page?.markStopping();
  const drainMs = deps.config().gateway.drainSeconds * 1000;
  const closed = new AbortController();
  const sendTime = deps.clock.sleep(Math.max(drainMs, SUSPEND_MS), closed.signal);
  // A command may wait for a model too, so it has no more time than a turn.
  const answered = deps.frontDoor.gateway.stop();
  await Promise.all(deps.channels.list().map((channel) => channel.stop()));
  const idle = Promise.all([answered, deps.lanes.main.drain(), deps.lanes.subagent.drain()]);
  await Promise.race([idle, deps.clock.sleep(drainMs, over.signal)]);
  deps.frontDoor.conversations.suspend();
  await deps.subagents.runner.suspend();
  deps.subagents.waker.stop();
  await Promise.race([idle, deps.clock.sleep(SUSPEND_MS, over.signal)]);
  over.abort();
  const sent = deps.delivery.stop();
  // A platform that never answers must not hold the end up. But only now, when delivery begins no other send, and not a
  // moment before its time: of a send that is cut off nobody knows whether it arrived.
  void sendTime.then(() => deps.channels.list().forEach((channel) => void channel.hangUp?.()));
  await Promise.all([sent, chores, deps.mcp.stop(), deps.page?.close()]);
  closed.abort();
}

/** Opened at each use: a channel may learn which account it is only after it was started. */
function sinkOf({ inbox }: Stores, channel: Channel): InboxSink {
  const sink = (): InboxSink => inbox.sink(channel.name, channel.account);
  return { put: (...updates) => sink().put(...updates), cursor: () => sink().cursor() };
}

const ORPHANS_EVERY_MS = 10_000;

/**
 * Recovery while it runs: work under way whose owner is not alive (stores/nodes.ts), each part as at its start. Alone on its folder
 * a process finds nothing here.
 */
async function takeUpOrphans(deps: LifeDeps, signal: AbortSignal): Promise<void> {
  for (await deps.clock.sleep(ORPHANS_EVERY_MS, signal); !signal.aborted; await deps.clock.sleep(ORPHANS_EVERY_MS, signal)) {
    try {
      const { resumed, interrupted } = await deps.subagents.recoverOrphans();
      if (resumed + interrupted > 0) deps.log.info({ resumed, interrupted }, "took up runs that another process left");
      await deps.delivery.takeUp();
      await deps.frontDoor.gateway.takeUp();
    } catch (error) {
      deps.log.error({ err: error }, "what another process left could not be looked at");
    }
  }
}

const LOOK_EVERY_MS = 2_000;

/** Says when the state folder is gone and when it is back; that nothing is taken in meanwhile is the stores' own doing. */
async function watchFolder({ stores, clock, bus, log }: LifeDeps, signal: AbortSignal): Promise<void> {
  for (let known: string | null = null; !signal.aborted; await clock.sleep(LOOK_EVERY_MS, signal)) {
    const problem = stores.folder.problem();
    if (problem === known) continue;
    known = problem;
    if (problem === null) log.info({}, "the state folder is back; work goes on");
    else log.error({}, problem);
    bus.emit({ type: "folder.changed" });
  }
}

function report(deps: LifeDeps, page: PageAddress | null): StartReport {
  const facts = deps.facts();
  const { model, why, stateDir, sandbox, config } = facts;
  return {
    page,
    model,
    why,
    stateDir,
    channels: channelLines(facts),
    exec: execLine(sandbox, config.tools.exec.unsandboxed),
  };
}
