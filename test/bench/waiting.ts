// Parents that wait for their children: a thousand of them at one slot and at eight all come to their end, each announced
// once, and take no more memory than ten. So do a thousand that wait for a person, who hold no slot either.
import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelReply, ModelRequest } from "../../src/models/model.ts";
import { type Row, rssMb, type Topic, timed, withFolder } from "./measure.ts";
import { createBenchModels, createRig, type Rig } from "./rig.ts";
import { accepted, createRequester } from "./spawn.ts";

const FEW = 10;
const MANY = 1_000;
const PER_CHAT = 20;
const PARENT = "Send two out and wait for them.";
const ASKER = "Ask which one it shall be.";
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
    const few = await withFolder((folder) => askPeople(folder, FEW));
    return [...rows, toAskedRow(few, await withFolder((folder) => askPeople(folder, MANY)))];
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

interface Asked {
  readonly open: number;
  /** At work in the lane while all of them wait, and one more run that came to its end meanwhile. */
  readonly atWork: number;
  readonly wentAhead: boolean;
  readonly rssMb: number;
}

const toAskedRow = (few: Asked, many: Asked): Row => ({
  measure: `RSS with ${MANY} open questions, against ${FEW}`,
  value: `${(many.rssMb / few.rssMb).toFixed(2)}×`,
  goal: "flat (≤ 1.5×), no slot held",
  met: many.open === MANY && many.atWork === 0 && many.wentAhead && many.rssMb / few.rssMb <= 1.5,
  detail: `${Math.round(many.rssMb)} MB against ${Math.round(few.rssMb)} MB; ${many.open} open, ${many.atWork} at work, another run ${many.wentAhead ? "came to its end" : "did not come to its end"} at maxConcurrent 1`,
});

/** All of them ask at one slot, and wait; then somebody else wants it. */
async function askPeople(folder: string, count: number): Promise<Asked> {
  const rig = await openRig(folder, 1);
  try {
    const spawn = async (requester: ReturnType<typeof createRequester>, task: string) =>
      accepted(await rig.subagents.spawn.now({ ...requester, tools: ["ask"], spawnKey: randomUUID() }, { task }));
    for (let n = 0; n < count; n += PER_CHAT) {
      const requester = createRequester(randomUUID());
      for (let i = n; i < Math.min(n + PER_CHAT, count); i++) await spawn(requester, ASKER);
    }
    rig.serveRuns();
    const countOf = async (): Promise<Partial<Record<string, number>>> => rig.stores.runs.countUnfinishedByState();
    await until(async () => (await countOf()).waiting === count && (await rig.stores.outbox.countAllOpen()) === 0);
    globalThis.gc?.();
    const rss = rssMb("self");
    const { waiting: open = 0, running: atWork = 0 } = await countOf();
    await spawn(createRequester(randomUUID()), "Count the lines.");
    const wentAhead = await until(async () => Object.values(await countOf()).reduce((sum, n = 0) => (sum ?? 0) + n, 0) === count);
    return { open, atWork, wentAhead, rssMb: rss };
  } finally {
    await rig.stop();
  }
}

/** Whether it came true in time. */
async function until(isTrue: () => Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + MAX_MS;
  while (!(await isTrue())) {
    if (performance.now() > deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return true;
}

/** Sends two out, reads that they were accepted, says so, and is woken by what they say. */
function reply({ messages }: ModelRequest): Partial<ModelReply> {
  if (messages[0]?.text.includes(ASKER) === true && !messages.some((message) => message.role === "tool")) {
    const toolCalls = [{ id: "q", name: "ask", args: { question: "Which one?", options: ["this", "that"] } }];
    return { text: "", finish: "tool-calls", toolCalls };
  }
  const isParent = messages[0]?.text.includes(PARENT) === true;
  if (!isParent || messages.some((message) => message.role === "tool")) return {};
  const toolCalls = ["a", "b"].map((id) => ({ id, name: "sessions_spawn", args: { task: `Count the lines of ${id}.` } }));
  return { text: "", finish: "tool-calls", toolCalls };
}

function openRig(folder: string, slots: number): Promise<Rig> {
  mkdirSync(join(folder, "config"));
  const subagents = { maxConcurrent: slots, maxSpawnDepth: 2, maxChildrenPerSession: PER_CHAT };
  writeFileSync(join(folder, "config/herald.json5"), JSON.stringify({ agents: { defaults: { subagents } } }), { mode: 0o600 });
  return createRig({ folder, models: createBenchModels(reply) });
}

async function runParents(folder: string, slots: number, count: number): Promise<Done> {
  const rig = await openRig(folder, slots);
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
