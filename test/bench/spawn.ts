// Sub-agents: what accepting a run costs, the way from spawn to announcement with a model that answers at once, and how
// quickly the real process is ready with many runs on record.
import { randomUUID } from "node:crypto";
import type { AppEvent } from "../../src/core/events.ts";
import { chatKey } from "../../src/core/ids.ts";
import type { Requester, SpawnAnswer } from "../../src/subagents/spawn-request.ts";
import { countWrites, createBareDisk, each } from "./durable-writes.ts";
import { atMost, interleave, type Row, type Topic, us, withFolder } from "./measure.ts";
import { createBenchModels, createRig, nextEvent, type Rig } from "./rig.ts";

const PER_ROUND = 10;
const ROUNDS = 21;

export const spawn: Topic = { name: "spawn", run: () => withFolder(measureSpawn) };

async function measureSpawn(folder: string): Promise<Row[]> {
  const rig = await createRig({ folder, models: createBenchModels(() => ({})) });
  const disk = createBareDisk(folder);
  try {
    const accepts = await measureAccept(rig, disk);
    const announcements = await measureAnnouncement(rig, disk);
    return [accepts, announcements];
  } finally {
    disk.close();
    await rig.stop();
  }
}

type Disk = ReturnType<typeof createBareDisk>;

/** The lane does not work yet, so that only the accepting is measured. */
async function measureAccept(rig: Rig, disk: Disk): Promise<Row> {
  const accept = async (): Promise<void> => {
    // A chat of its own per round, below the cap of children.
    const requester = createRequester(randomUUID());
    for (let i = 0; i < PER_ROUND; i++)
      accepted(await rig.subagents.spawn.now({ ...requester, spawnKey: randomUUID() }, { task: "Count the lines." }));
  };
  const writes = each(await countWrites(rig.databasePath, async () => accept()), PER_ROUND);
  const one = { commits: 1, syncs: 0 };
  const times = await interleave(ROUNDS, {
    accept,
    bare() {
      for (let i = 0; i < PER_ROUND; i++) disk.write(one);
    },
    same() {
      for (let i = 0; i < PER_ROUND; i++) disk.write(writes);
    },
  });
  const detail =
    `${us(times.accept / PER_ROUND)} against ${us(times.bare / PER_ROUND)}; it makes ${writes.commits} transaction and ${writes.syncs} syncs, ` +
    `bare ${us(times.same / PER_ROUND)}`;
  return atMost("sessions_spawn accepted, against one bare durable transaction", times.accept / times.bare, 3, detail);
}

async function measureAnnouncement(rig: Rig, disk: Disk): Promise<Row> {
  const waiting = (await rig.stores.runs.listUnfinished()).length;
  const drained = waiting === 0 ? Promise.resolve() : settledCount(rig, waiting);
  rig.serveRuns();
  await drained;
  const requester = createRequester(randomUUID());
  const announce = async (): Promise<void> => {
    for (let i = 0; i < PER_ROUND; i++) {
      const settled = settledCount(rig, 1);
      accepted(await rig.subagents.spawn.now({ ...requester, spawnKey: randomUUID() }, { task: "Count the lines." }));
      await settled;
    }
  };
  const writes = each(await countWrites(rig.databasePath, announce), PER_ROUND);
  const times = await interleave(ROUNDS, {
    announce,
    bare() {
      for (let i = 0; i < PER_ROUND; i++) disk.write(writes);
    },
  });
  const detail = `${us(times.announce / PER_ROUND)} against ${us(times.bare / PER_ROUND)} for ${writes.commits} transactions and ${writes.syncs} syncs`;
  return atMost(
    "spawn → announcement delivered with a 0 ms model, against its bare durable writes",
    times.announce / times.bare,
    5,
    detail,
  );
}

export function createRequester(chat: string): Omit<Requester, "spawnKey"> {
  const address = { channel: "web", account: "local", chat, kind: "dm" } as const;
  return {
    ...{ sessionKey: chatKey("main", address), sessionId: randomUUID(), agentId: "main", runId: null, address },
    ...{ person: null, turnId: "turn" },
    tools: ["read", "write", "edit", "list", "search", "exec", "web_fetch"],
  };
}

export function accepted(answer: SpawnAnswer): void {
  if (answer.status !== "accepted") throw new Error(`a spawn was refused: ${answer.error}`);
}

/** Resolves when so many announcements are delivered. */
function settledCount(rig: Rig, count: number): Promise<void> {
  let left = count;
  return nextEvent(rig.bus, (event) => isAnnounced(event) && --left === 0);
}

export const isAnnounced = (event: AppEvent): boolean => event.type === "outbox.settled" && event.delivery.startsWith("announce:");
