// What the gateway of a checkout writes, counted by the kernel: its own rig in a process of its own, without a socket, so that
// every byte of a write call is one on its way to the disk. cost.ts → here, with the checkout's folder.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [root = "", folder = ""] = process.argv.slice(2);
const { createRig, createBenchModels, nextEvent } = (await import(join(root, "test/bench/rig.ts"))) as typeof import("./rig.ts");
const { accepted, createRequester, isAnnounced } = (await import(join(root, "test/bench/spawn.ts"))) as typeof import("./spawn.ts");

const COUNT = 200;
const PER_CHAT = 10;

const written = (): number => Number(/^wchar: (\d+)$/m.exec(readFileSync("/proc/self/io", "utf8"))?.[1]);

/** Bytes for each, after a few that make what is made once. */
async function count(work: (n: number) => Promise<void>): Promise<number> {
  for (let n = 0; n < PER_CHAT; n++) await work(n);
  const before = written();
  for (let n = 0; n < COUNT; n++) await work(n);
  return (written() - before) / COUNT;
}

const rig = await createRig({ folder, models: createBenchModels(() => ({})) });
rig.serveRuns();
let chat = "";
const turn = await count(async (n) => {
  if (n % PER_CHAT === 0) chat = randomUUID();
  await rig.ask(chat, "How are you?");
});
const requester = createRequester(randomUUID());
// Older code spawned with the function itself; what it is compared with may be that.
const { spawn } = rig.subagents;
const spawnNow: typeof spawn.now = typeof spawn === "function" ? spawn : spawn.now;
const run = await count(async () => {
  const announced = nextEvent(rig.bus, isAnnounced);
  accepted(await spawnNow({ ...requester, spawnKey: randomUUID() }, { task: "Count the lines." }));
  await announced;
});
await rig.stop();
process.send?.({ turn, run });
