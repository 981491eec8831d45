// Starting and stopping, in the one order that loses nothing. Up: port → recover rows → lanes → delivery → channels →
// gateway → ready. Down: no new input → let turns finish for a while → put the rest aside → last deliveries → close.

import { errorText, isStorageError } from "../core/errors.ts";
import type { Channel, InboxSink } from "../core/message.ts";
import type { Delivery } from "../gateway/delivery.ts";
import type { Drafting } from "../gateway/drafting.ts";
import type { Painter } from "../gateway/painter.ts";
import type { McpTools } from "../tools/mcp.ts";
import type { Base, Lanes } from "./base.ts";
import type { Channels } from "./channels.ts";
import { createDuties } from "./duties.ts";
import type { Files } from "./files.ts";
import type { FrontDoor } from "./front-door.ts";
import { keepHouse } from "./housekeeping.ts";
import { differences } from "./machines.ts";
import { giveMemoryBack, processHeap } from "./memory.ts";
import type { Page, PageAddress } from "./page.ts";
import { channelLines, execLine, type StatusSource } from "./status.ts";
import type { Stores } from "./store-parts.ts";
import type { SubagentParts } from "./subagents.ts";

export interface StartReport {
  /** Null with web.enabled false. */
  readonly page: PageAddress | null;
  /** There is no page behind that address, only what machines ask for. */
  readonly isProbed: boolean;
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
  readonly painter: Painter;
  readonly drafting: Drafting;
  readonly page: Page | null;
  readonly mcp: McpTools;
  readonly attaching: Pick<Files, "sweep">;
  /** This process works on turns and runs. */
  readonly runsWork: boolean;
  facts(): StatusSource;
}

/** What was told to stop gets this long to do so before the folder is closed. */
const SUSPEND_MS = 2_000;

export function createLife(deps: LifeDeps): Life {
  const over = new AbortController();
  const chores: Promise<unknown>[] = [];
  // One that breaks is no reason to break off the stop that waits for it.
  const keep = (chore: Promise<unknown>): void =>
    void chores.push(chore.catch((error) => deps.log.error({ err: error }, "a chore broke off")));
  const duties = createDuties(deps.stores.installation, deps);
  const membership = createMembershipLife(deps);
  let starting: Promise<unknown> = Promise.resolve();
  const parts = {
    async start(): Promise<StartReport> {
      // Whose work is whose is known from here on: what others left is taken up below, part by part.
      await membership.enter();
      const page = deps.page === null ? null : await deps.page.open();
      await deps.subagents.start();
      await duties.whenMine("upkeep", (stopping) => takeUpkeep(deps, { over: over.signal, stopping, keep }));
      if (deps.runsWork) {
        deps.lanes.subagent.serve(knowingly(deps, over.signal, deps.subagents.runner.work));
        deps.lanes.main.serve(knowingly(deps, over.signal, deps.frontDoor.conversations.work));
      }
      deps.mcp.start();
      for (const channel of deps.channels.list()) if (receivesEverywhere(deps, channel)) await receive(deps, channel);
      await duties.whenMine("front", (stopping) => takeFront(deps, { over: over.signal, stopping, keep }));
      keep(watchFolder(deps, over.signal));
      keep(giveMemoryBack(processHeap, deps.clock, over.signal));
      deps.page?.markReady();
      return report(deps, page);
    },
    async stop(): Promise<void> {
      try {
        // What a start, or a duty that came to this process a moment ago, still has to do is done first: begun after the end of the rest it
        // would go on, and once this process has left it is refused.
        await Promise.race([Promise.all([starting, duties.stop()]), deps.clock.sleep(SUSPEND_MS, over.signal)]);
        await windDown(deps, over, chores);
      } finally {
        // Whatever failed before: what the journal holds is moved into the database, and the lock is free.
        await deps.subagents.documents.stop();
        await membership.leave();
        await deps.stores.close();
      }
    },
  };
  return {
    ...parts,
    start() {
      const started = parts.start();
      starting = started.catch(() => {});
      return started;
    },
  };
}

/** Among others: alive from its first moment to its last, with a bell. Alone there is nothing to renew, and nobody to tell. */
function createMembershipLife({ stores, config, log }: LifeDeps) {
  const over = new AbortController();
  let renewing: Promise<void> = Promise.resolve();
  return {
    async enter(): Promise<void> {
      await stores.nodes.enter();
      const { installation } = stores;
      if (installation === null) return stores.webMessages.skipNumbers();
      renewing = installation.members.run(over.signal);
      await installation.bell.start();
      for (const line of differences(await stores.nodes.list(), config().agents.list)) log.warn({}, line);
    },
    /** Last of all: from here on its work is anybody's, and what it still wrote would be refused. Never rejects. */
    async leave(): Promise<void> {
      over.abort();
      await renewing;
      try {
        await stores.nodes.leave();
      } catch (error) {
        log.warn({ reason: errorText(error) }, "the others could not be told that this process ends; they will miss it");
      }
      await stores.installation?.bell.close();
    },
  };
}

interface Taking {
  /** The end of what is begun here. */
  readonly over: AbortSignal;
  /** This process stops: nothing more is begun. */
  readonly stopping: AbortSignal;
  keep(chore: Promise<unknown>): void;
}

const INSIST_MS = 500;

/**
 * Whoever has a duty is alive, so nobody else takes it: left half taken up because the server was away for a moment, it would be nobody's
 * for good. Each step can be made again.
 */
async function insist(deps: LifeDeps, stopping: AbortSignal, step: () => Promise<unknown>): Promise<void> {
  while (!stopping.aborted) {
    try {
      return void (await step());
    } catch (error) {
      if (deps.stores.installation === null || !isStorageError(error)) throw error;
      deps.log.warn({ reason: errorText(error) }, "this waits for PostgreSQL");
    }
    await deps.clock.sleep(INSIST_MS, stopping);
  }
}

/** What somebody has to look after, whoever works: what processes left that are gone, what is due, what is old. */
async function takeUpkeep(deps: LifeDeps, { over, stopping, keep }: Taking): Promise<void> {
  await insist(deps, stopping, async () => {
    const recovered = await deps.subagents.recover();
    if (recovered.queued + recovered.resumed + recovered.interrupted > 0) deps.log.info(recovered, "took up unfinished runs");
  });
  if (stopping.aborted) return;
  keep(deps.subagents.archiver.run(over));
  keep(deps.subagents.digester.run(over));
  keep(keepHouse(deps, over));
  keep(takeUpOrphans(deps, over));
}

/**
 * What is claimed may be for an account that the process in front was told of a moment ago. Unknown here, its channel would pass for one
 * that is off: the message would be put back, the announcement left unsent.
 */
const knowingly =
  (deps: LifeDeps, over: AbortSignal, work: (id: string) => Promise<void>) =>
  async (id: string): Promise<void> => {
    if (deps.stores.installation !== null) await insist(deps, over, () => deps.channels.learnAccounts());
    await work(id);
  };

/** Towards people: what comes in is routed here, what goes out is sent from here. */
async function takeFront(deps: LifeDeps, { over, stopping, keep }: Taking): Promise<void> {
  await insist(deps, stopping, () => deps.channels.learnAccounts());
  await insist(deps, stopping, () => deps.delivery.start());
  for (const channel of deps.channels.list()) if (!receivesEverywhere(deps, channel) && !stopping.aborted) await receive(deps, channel);
  await insist(deps, stopping, () => deps.painter.start());
  // Before the gateway, which begins the turns that are read while they are written.
  deps.drafting.start();
  await insist(deps, stopping, () => deps.frontDoor.gateway.start());
  if (stopping.aborted) return;
  keep(deps.frontDoor.introductions.run(over));
  keep(takeUpMessages(deps, over));
}

/** Whoever has a page takes in what is posted there, whatever its duties; the same goes for platforms that call us. */
const receivesEverywhere = ({ stores }: LifeDeps, channel: Channel): boolean =>
  stores.installation !== null && stores.installation.role !== "worker" && channel.isCalled === true;

const receive = (deps: LifeDeps, channel: Channel): Promise<void> =>
  channel.start(deps.frontDoor.doorstep(channel, sinkOf(deps.stores, channel)));

/** Everything that works on the stores comes to its end; they are still open when it is done. */
async function windDown(deps: LifeDeps, over: AbortController, chores: readonly Promise<unknown>[]): Promise<void> {
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
  const sent = Promise.all([deps.delivery.stop(), deps.painter.stop(), deps.drafting.stop()]);
  // A platform that never answers must not hold the end up. But only now, when delivery begins no other send, and not a
  // moment before its time: of a send that is cut off nobody knows whether it arrived.
  void sendTime.then(() => deps.channels.list().forEach((channel) => void channel.hangUp?.()));
  await Promise.all([sent, ...chores, deps.mcp.stop(), deps.page?.close()]);
  closed.abort();
}

/** Opened at each use: a channel may learn which account it is only after it was started. */
function sinkOf({ inbox }: Stores, channel: Channel): InboxSink {
  const sink = (): InboxSink => inbox.sink(channel.name, channel.account);
  return { put: (...updates) => sink().put(...updates), cursor: () => sink().cursor() };
}

/** Alone on its folder a process finds nothing here; among others it is what makes their work go on. */
const ORPHANS_EVERY_MS = { alone: 10_000, shared: 1_500 };

/** Recovery while it runs: work under way whose owner is not alive (stores/nodes.ts), each part as at its start. */
async function regularly(deps: LifeDeps, signal: AbortSignal, look: () => Promise<void>): Promise<void> {
  const everyMs = ORPHANS_EVERY_MS[deps.stores.installation === null ? "alone" : "shared"];
  for (await deps.clock.sleep(everyMs, signal); !signal.aborted; await deps.clock.sleep(everyMs, signal)) {
    try {
      await look();
    } catch (error) {
      if (isStorageError(error)) continue;
      deps.log.error({ err: error }, "what another process left could not be looked at");
    }
  }
}

function takeUpOrphans(deps: LifeDeps, signal: AbortSignal): Promise<void> {
  const jobs = deps.stores.installation === null ? [] : ["main", "subagent"].map(deps.stores.installation.jobs);
  return regularly(deps, signal, async () => {
    // Listed first: the rows of those that are found only later are not looked at yet, and their jobs must wait for that.
    const left = await Promise.all(jobs.map((lane) => lane.listOrphaned()));
    const { resumed, interrupted } = await deps.subagents.recoverOrphans();
    if (resumed + interrupted > 0) deps.log.info({ resumed, interrupted }, "took up runs that another process left");
    for (const [n, lane] of jobs.entries()) await lane.release(left[n] ?? []);
  });
}

function takeUpMessages(deps: LifeDeps, signal: AbortSignal): Promise<void> {
  return regularly(deps, signal, async () => {
    await deps.delivery.takeUp();
    await deps.frontDoor.gateway.takeUp();
  });
}

const LOOK_EVERY_MS = 2_000;

/** Says when the state folder is gone and when it is back; that nothing is taken in meanwhile is the stores' own doing. */
async function watchFolder({ stores, clock, bus, log }: LifeDeps, signal: AbortSignal): Promise<void> {
  for (let known: string | null = null; !signal.aborted; await clock.sleep(LOOK_EVERY_MS, signal)) {
    const problem = stores.problem();
    if (problem === known) continue;
    known = problem;
    // Of its server PostgreSQL's own reach has told.
    if (stores.installation === null) {
      if (problem === null) log.info({}, "the state folder is back; work goes on");
      else log.error({}, problem);
    }
    bus.emit({ type: "folder.changed" });
  }
}

function report(deps: LifeDeps, page: PageAddress | null): StartReport {
  const facts = deps.facts();
  const { model, why, stateDir, sandbox, config } = facts;
  return {
    page,
    isProbed: deps.stores.installation?.role === "worker",
    model,
    why,
    stateDir,
    channels: channelLines(facts),
    exec: execLine(sandbox, config.tools.exec.unsandboxed),
  };
}
