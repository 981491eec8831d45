// Fairness, positions and slots of the p-queue lane, beyond what every lane must do (test/contract/lanes.contract.ts).
import fc from "fast-check";
import { expect, it } from "vitest";
import { createLane, type Lane, type Slot } from "../../../src/lanes/lanes.ts";
import { gated, settle } from "../../contract/lanes.contract.ts";
import { waitFor } from "../../support/wait.ts";

const laneOf = (concurrency: number): Lane =>
  createLane({
    name: "test",
    concurrency,
    onError: (id, error) => {
      throw new Error(`${id} failed`, { cause: error });
    },
  });

it("[LN2] a chat with 50 waiting runs doesn't hold back another chat's first one", async () => {
  const { lane, gate } = gated(createLane, 1);
  for (let n = 0; n < 51; n++) lane.ring(`busy-${n}`, "busy");
  await settle();
  lane.ring("quiet-0", "quiet");
  expect(lane.position("quiet-0")).toBeLessThanOrEqual(2);
  gate.open("busy-0");
  await settle();
  if (gate.running[0] !== "quiet-0") gate.open(gate.running[0] ?? "");
  await settle();
  expect(gate.started.indexOf("quiet-0")).toBeLessThanOrEqual(2);
});

it("[LN2] two busy chats take turns, each first come, first served", async () => {
  const worked: string[] = [];
  const lane = laneOf(1);
  for (const group of ["a", "b"]) for (let n = 0; n < 5; n++) lane.ring(`${group}${n}`, group);
  lane.serve(async (id) => void worked.push(id));
  await waitFor("all", () => worked.length === 10);
  expect(worked).toEqual(["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3", "a4", "b4"]);
});

it("[LN2] a backlog gets its turn although two other chats send one run after another", async () => {
  const { lane, gate } = gated(createLane, 1);
  for (const id of ["a1", "a2", "a3", "a4"]) lane.ring(id, "a");
  for (let n = 1; n <= 24; n++) {
    // One run at a time from each: nothing of theirs waits when the next one comes.
    lane.ring(n % 2 === 0 ? `b${n}` : `c${n}`, n % 2 === 0 ? "b" : "c");
    await settle();
    gate.open(gate.running[0] ?? "");
    await settle();
  }
  const starts = ["a1", "a2", "a3", "a4"].map((id) => gate.started.indexOf(id));
  expect(starts, gate.started.join(" ")).toEqual(starts.toSorted((a, b) => a - b));
  for (const [n, at] of starts.entries()) expect(at - (starts[n - 1] ?? 0), gate.started.join(" ")).toBeLessThanOrEqual(3);
});

it("[LN2] what a chat has dropped is not held against its next run", async () => {
  const { lane, gate } = gated(createLane, 1);
  for (const group of ["a", "b"]) for (let n = 0; n < 6; n++) lane.ring(`${group}${n}`, group);
  await settle();
  for (let n = 0; n < 6; n++) lane.drop(`b${n}`);
  lane.ring("b6", "b");
  expect(lane.position("b6")).toBeLessThanOrEqual(2);
  gate.open("a0");
  await settle();
  if (gate.running[0] !== "b6") gate.open(gate.running[0] ?? "");
  await settle();
  expect(gate.started.indexOf("b6")).toBeLessThanOrEqual(2);
});

it("[LN2] within a group it is first come, first served, however the groups are mixed", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 60 }),
      fc.integer({ min: 1, max: 3 }),
      async (groups, concurrency) => {
        const started: string[] = [];
        const lane = laneOf(concurrency);
        groups.forEach((group, n) => {
          lane.ring(`${group}/${n}`, String(group));
        });
        lane.serve(async (id) => void started.push(id));
        await waitFor("all", () => started.length === groups.length, 5_000);
        for (const group of new Set(groups)) {
          const order = started.filter((id) => id.startsWith(`${group}/`)).map((id) => Number(id.split("/")[1]));
          expect(order).toEqual([...order].sort((a, b) => a - b));
        }
        // No group is more than one round behind another that still had something to do.
        const firsts = [...new Set(groups)].map((group) => started.findIndex((id) => id.startsWith(`${group}/`)));
        expect(Math.max(...firsts)).toBeLessThan(new Set(groups).size);
      },
    ),
    { numRuns: 50 },
  );
});

it("[CM2] position counts from 1, follows the fair order and is null once it runs", async () => {
  const { lane, gate } = gated(createLane, 1);
  for (const id of ["a0", "a1", "a2"]) lane.ring(id, "a");
  lane.ring("b0", "b");
  await settle();
  expect(["a0", "a1", "b0", "a2", "nobody"].map((id) => lane.position(id))).toEqual([null, 1, 2, 3, null]);
  gate.open("a0");
  await settle();
  expect([lane.position("a1"), lane.position("b0")]).toEqual([null, 1]);
});

it("[LN3] who comes back from outside goes before everything that waits", async () => {
  const lane = laneOf(1);
  const back = Promise.withResolvers<void>();
  const block = Promise.withResolvers<void>();
  const steps: string[] = [];
  lane.serve(async (id: string, slot: Slot) => {
    if (id === "parent") await slot.outside(() => back.promise, new AbortController().signal);
    if (id === "first") await block.promise;
    steps.push(id);
  });
  for (const id of ["parent", "first", "second", "third"]) lane.ring(id, id);
  await settle();
  back.resolve();
  await settle();
  expect(steps).toEqual([]);
  block.resolve();
  await waitFor("all", () => steps.length === 4);
  expect(steps.slice(0, 2)).toEqual(["first", "parent"]);
});

it("[LN3] an abort while it waits for its slot lets it end without one, and no slot is lost", async () => {
  const lane = laneOf(1);
  const abort = new AbortController();
  const block = Promise.withResolvers<void>();
  const steps: string[] = [];
  lane.serve(async (id: string, slot: Slot) => {
    if (id === "parent") await slot.outside(async () => {}, abort.signal);
    if (id === "child") await block.promise;
    steps.push(id);
  });
  lane.ring("parent", "x");
  lane.ring("child", "y");
  await settle();
  expect(lane.depth().running).toBe(1);
  abort.abort();
  await waitFor("the parent's end", () => steps.includes("parent"));
  block.resolve();
  lane.ring("next", "z");
  await waitFor("the next", () => steps.includes("next"));
  expect(lane.depth()).toEqual({ waiting: 0, running: 0 });
});

it("[LN3] what throws outside still takes its slot back first, and frees it when the handler ends", async () => {
  const failed: string[] = [];
  const lane = createLane({ name: "test", concurrency: 1, onError: (id) => failed.push(id) });
  const steps: string[] = [];
  lane.serve(async (id: string, slot: Slot) => {
    if (id === "parent") await slot.outside(() => Promise.reject(new Error("no")), new AbortController().signal);
    steps.push(id);
  });
  lane.ring("parent", "x");
  lane.ring("next", "x");
  await waitFor("the next", () => steps.includes("next"));
  expect(failed).toEqual(["parent"]);
  expect(lane.depth()).toEqual({ waiting: 0, running: 0 });
});

it("[LN3] two waits outside at the same time give one slot back and take one again", async () => {
  const lane = laneOf(1);
  const doors = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const steps: string[] = [];
  lane.serve(async (id: string, slot: Slot) => {
    const { signal } = new AbortController();
    if (id === "parent") await Promise.all(doors.map((door) => slot.outside(() => door.promise, signal)));
    steps.push(id);
  });
  lane.ring("parent", "x");
  await settle();
  for (const door of doors) {
    door.resolve();
    await settle();
  }
  await waitFor("the parent", () => steps.includes("parent"));
  for (const id of ["next", "after"]) lane.ring(id, "x");
  await waitFor("the next ones", () => steps.length === 3, 3_000);
});

it("[LN3] a wait that begins while another one queues for the slot loses none either", async () => {
  const lane = laneOf(1);
  const block = Promise.withResolvers<void>();
  const late = Promise.withResolvers<void>();
  const steps: string[] = [];
  lane.serve(async (id: string, slot: Slot) => {
    const { signal } = new AbortController();
    if (id === "parent") {
      const first = slot.outside(async () => {}, signal);
      await settle();
      await Promise.all([first, slot.outside(() => late.promise, signal)]);
    }
    if (id === "child") await block.promise;
    steps.push(id);
  });
  lane.ring("parent", "x");
  lane.ring("child", "y");
  await settle();
  await settle();
  block.resolve();
  await waitFor("the child", () => steps.includes("child"));
  late.resolve();
  await waitFor("the parent", () => steps.includes("parent"));
  for (const id of ["next", "after"]) lane.ring(id, "x");
  await waitFor("the next ones", () => steps.length === 4, 3_000);
  expect(lane.depth()).toEqual({ waiting: 0, running: 0 });
});

it("[RN4] drain() also waits for a handler that is outside", async () => {
  const lane = laneOf(1);
  const door = Promise.withResolvers<void>();
  let ended = false;
  lane.serve(async (_id: string, slot: Slot) => {
    await slot.outside(() => door.promise, new AbortController().signal);
    ended = true;
  });
  lane.ring("parent", "x");
  await settle();
  const drain = lane.drain().then(() => ended);
  await settle();
  door.resolve();
  expect(await drain).toBe(true);
});

it("[RN4] what had its slot but not yet its turn of the event loop when drain() came is not begun", async () => {
  const begun: string[] = [];
  const lane = laneOf(3);
  lane.serve(async (id) => {
    begun.push(id);
    const startedAt = performance.now();
    while (performance.now() - startedAt < 50);
  });
  for (const id of ["a", "b", "c"]) lane.ring(id, "group");
  for (let i = 0; i < 50 && begun.length === 0; i++) await Promise.resolve();
  await lane.drain();
  expect(begun).toEqual(["a"]);
  expect(lane.depth()).toEqual({ waiting: 0, running: 0 });
});
