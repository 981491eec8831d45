// Fairness, positions and slots of the p-queue lane, beyond what every lane must do (test/contract/lanes.contract.ts).
import fc from "fast-check";
import { expect, it } from "vitest";
import { createLane, type Lane } from "../../../src/lanes/lanes.ts";
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

const placeOf = async (lane: Lane, id: string): Promise<number | undefined> => (await lane.positions([id])).get(id);

it("[LN2] a chat with 50 waiting runs doesn't hold back another chat's first one", async () => {
  const { lane, gate } = gated(createLane, 1);
  for (let n = 0; n < 51; n++) lane.ring(`busy-${n}`, "busy");
  await settle();
  lane.ring("quiet-0", "quiet");
  expect(await placeOf(lane, "quiet-0")).toBeLessThanOrEqual(2);
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
  expect(await placeOf(lane, "b6")).toBeLessThanOrEqual(2);
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
  expect(await lane.positions(["a0", "a1", "b0", "a2", "nobody"])).toEqual(
    new Map([
      ["a1", 1],
      ["b0", 2],
      ["a2", 3],
    ]),
  );
  gate.open("a0");
  await settle();
  expect(await lane.positions(["a1", "b0"])).toEqual(new Map([["b0", 1]]));
});

it("[LN3] work half done goes before everything that waits, in the order it was rung", async () => {
  const { lane, gate } = gated(createLane, 1);
  lane.ring("first", "a");
  await settle();
  for (const id of ["a1", "a2"]) lane.ring(id, "a");
  lane.ring("parent", "b", "front");
  lane.ring("other", "a", "front");
  expect([...(await lane.positions(["parent", "other", "a1", "a2"])).values()]).toEqual([1, 2, 3, 4]);
  for (const id of ["first", "parent", "other", "a1", "a2"]) {
    await settle();
    expect(gate.running).toEqual([id]);
    gate.open(id);
  }
});

it("[LN2] work half done costs its chat no turn: virtual time stands still for it", async () => {
  const worked: string[] = [];
  const lane = laneOf(1);
  for (const group of ["a", "b"]) for (let n = 0; n < 2; n++) lane.ring(`${group}${n}`, group);
  for (let n = 0; n < 5; n++) lane.ring(`half-${n}`, "a", "front");
  lane.serve(async (id) => void worked.push(id));
  await waitFor("all", () => worked.length === 9);
  expect(worked.slice(5)).toEqual(["a0", "b0", "a1", "b1"]);
});

it("[LN3] one rung to the front while it is worked on comes to the front when that is over", async () => {
  const { lane, gate } = gated(createLane, 1);
  for (const id of ["parent", "next"]) lane.ring(id, "a");
  await settle();
  lane.ring("parent", "a", "front");
  gate.open("parent");
  await settle();
  expect(gate.started).toEqual(["parent", "parent"]);
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
  expect(await lane.depth()).toEqual({ waiting: 0, running: 0 });
});
