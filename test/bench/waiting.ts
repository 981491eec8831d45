// Parents that wait for their children: a thousand of them at one slot and at eight all come to their end, each announced
// once, and take no more memory than ten.
import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelReply, ModelRequest } from "../../src/models/model.ts";
import { type Row, rssMb, type Topic, timed, withFolder } from "./measure.ts";
import { createBenchModels, createRig } from "./rig.ts";
import { accepted, createRequester } from "./spawn.ts";

const FEW = 10;
const MANY = 1_000;
const PER_CHAT = 20;
const PARENT = "Send two out and wait for them.";
const MAX_MS = 120_000;

export const waiting: Topic = {
  name: "waiting",
  async run() {
    // The first one loads and compiles what all of them need.
    await withFolder((folder) => runParents(folder, 8, 100));
    const rows: Row[] = [];
    for (const slots of [1, 8]) {
      const few = await withFolder((folder) => runParents(folder, slots, FEW));
      const many = await withFolder((folder) => runParents(folder, slots, MANY));
      rows.push(toRow(slots, few, many));
    }
    return rows;
  },
};

interface Done {
  readonly announced: number;
  readonly mostWaiting: number;
  readonly rssMb: number;
  readonly ms: number;
}

function toRow(slots: number, few: Done, many: Done): Row {
  const isWhole = few.announced === FEW && many.announced === MANY;
  return {
    measure: `RSS with ${MANY} parents of two children each at maxConcurrent ${slots}, against ${FEW}`,
    value: `${(many.rssMb / few.rssMb).toFixed(2)}×`,
    goal: "flat (≤ 1.5×), all announced once",
    met: isWhole && many.rssMb / few.rssMb <= 1.5,
    detail: `${Math.round(many.rssMb)} MB against ${Math.round(few.rssMb)} MB at most; ${many.announced} announced, up to ${many.mostWaiting} waited at a time, ${(many.ms / 1000).toFixed(0)} s`,
  };
}

/** Sends two out, reads that they were accepted, says so, and is woken by what they say. */
function reply({ messages }: ModelRequest): Partial<ModelReply> {
  const isParent = messages[0]?.text.includes(PARENT) === true;
  if (!isParent || messages.some((message) => message.role === "tool")) return {};
  const toolCalls = ["a", "b"].map((id) => ({ id, name: "sessions_spawn", args: { task: `Count the lines of ${id}.` } }));
  return { text: "", finish: "tool-calls", toolCalls };
}

async function runParents(folder: string, slots: number, count: number): Promise<Done> {
  mkdirSync(join(folder, "config"));
  const subagents = { maxConcurrent: slots, maxSpawnDepth: 2, maxChildrenPerSession: PER_CHAT };
  writeFileSync(join(folder, "config/herald.json5"), JSON.stringify({ agents: { defaults: { subagents } } }), { mode: 0o600 });
  const rig = await createRig({ folder, models: createBenchModels(reply) });
  try {
    let announced = 0;
    rig.bus.on((event) => {
      if (event.type === "outbox.settled" && event.delivery.startsWith("announce:") && event.outcome === "sent") announced++;
    });
    for (let n = 0; n < count; n += PER_CHAT) {
      const requester = { ...createRequester(randomUUID()), tools: ["sessions_spawn"] };
      for (let i = n; i < Math.min(n + PER_CHAT, count); i++)
        accepted(await rig.subagents.spawn.now({ ...requester, spawnKey: randomUUID() }, { task: PARENT }));
    }
    let most = 0;
    let mostWaiting = 0;
    const ms = await timed(async () => {
      rig.serveRuns();
      const deadline = performance.now() + MAX_MS;
      const isOver = async (): Promise<boolean> =>
        (await rig.stores.runs.listUnfinished(1)).length === 0 && (await rig.stores.outbox.countAllOpen()) === 0;
      while (!(await isOver()) && performance.now() < deadline) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        globalThis.gc?.();
        most = Math.max(most, rssMb("self"));
        mostWaiting = Math.max(mostWaiting, (await rig.stores.runs.countUnfinishedByState()).waiting ?? 0);
      }
    });
    return { announced, mostWaiting, rssMb: most, ms };
  } finally {
    await rig.stop();
  }
}
