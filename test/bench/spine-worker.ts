// The way of a message, of a spawn and of an announcement through the gateway of a checkout, timed when told to: its own rig in a process
// of its own, so that two checkouts can take turns. spine.ts → here, with the checkout's folder.
import { randomUUID } from "node:crypto";
import { join } from "node:path";

const [root = "", folder = ""] = process.argv.slice(2);
const { createRig, createBenchModels, nextEvent } = (await import(join(root, "test/bench/rig.ts"))) as typeof import("./rig.ts");
const { accepted, createRequester, isAnnounced } = (await import(join(root, "test/bench/spawn.ts"))) as typeof import("./spawn.ts");

const PER_ROUND = 40;
/** Below the cap of children. */
const PER_CHAT = 10;
const TASK = { task: "Count the lines." };

const rig = await createRig({ folder, models: createBenchModels(() => ({})) });
// Older code spawned with the function itself; what it is compared with may be that.
const { spawn } = rig.subagents;
const spawnNow: typeof spawn.now = typeof spawn === "function" ? spawn : spawn.now;
const chat = createRequester(randomUUID());

/** Runs that wait for the lane, which doesn't work before it is served. */
let queued = 0;

const rounds = {
  async turn() {
    for (let n = 0; n < PER_ROUND; n++) await rig.ask("main", "How are you?");
  },
  async accept() {
    let requester = createRequester(randomUUID());
    for (let n = 0; n < PER_ROUND; n++, queued++) {
      if (n % PER_CHAT === 0) requester = createRequester(randomUUID());
      accepted(await spawnNow({ ...requester, spawnKey: randomUUID() }, TASK));
    }
  },
  async serve() {
    const drained = queued === 0 ? null : nextEvent(rig.bus, (event) => isAnnounced(event) && --queued === 0);
    rig.serveRuns();
    await drained;
  },
  async announce() {
    for (let n = 0; n < PER_ROUND; n++) {
      const announced = nextEvent(rig.bus, isAnnounced);
      accepted(await spawnNow({ ...chat, spawnKey: randomUUID() }, TASK));
      await announced;
    }
  },
};

export type Step = keyof typeof rounds | "stop";

const QUIET_MS = 10;
/** A timer and a look cost less than that. */
const QUIET_CPU_US = 1_000;

/** What it does a moment later (documents, for one) must not fall into the other side's round. */
async function settle(): Promise<void> {
  for (let isQuiet = false; !isQuiet; ) {
    const before = process.cpuUsage();
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
    const { user, system } = process.cpuUsage(before);
    isQuiet = user + system < QUIET_CPU_US;
  }
}

process.on("message", async (step: Step) => {
  if (step === "stop") {
    await rig.stop();
    process.disconnect();
    return;
  }
  const startedAt = performance.now();
  await rounds[step]();
  const ms = (performance.now() - startedAt) / PER_ROUND;
  await settle();
  process.send?.(ms);
});
process.send?.("ready");
