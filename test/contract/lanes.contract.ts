// What every lane must do, whatever queue stands behind it: doorbell semantics, order, the cap, and slots that always
// come back. lanes.test.ts runs it over p-queue.
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Lane } from "../../src/lanes/lanes.ts";
import { waitFor } from "../support/wait.ts";

export interface LaneOptions {
  readonly name: string;
  readonly concurrency: number;
  onError(id: string, error: unknown): void;
}

export interface Gate {
  /** Ids whose handler runs now, in order of their start. */
  readonly running: string[];
  /** Every start there was. */
  readonly started: string[];
  readonly failed: string[];
  open(id: string): void;
  fail(id: string): void;
}

export interface LaneRig extends AsyncDisposable {
  makeLane(options: LaneOptions): Lane;
  /** Until nothing is under way any more but handlers that wait. */
  settle(): Promise<void>;
  /** What waits when a lane is drained is for others, and stays; else it is forgotten. */
  readonly keepsWaiting: boolean;
}

/** A lane whose handlers wait until the test lets them go. */
export function gated(makeLane: (options: LaneOptions) => Lane, concurrency: number): { lane: Lane; gate: Gate } {
  const doors = new Map<string, PromiseWithResolvers<void>>();
  const gate: Gate = {
    running: [],
    started: [],
    failed: [],
    open: (id) => doors.get(id)?.resolve(),
    fail: (id) => doors.get(id)?.reject(new Error(`${id} broke`)),
  };
  const lane = makeLane({ name: "test", concurrency, onError: (id) => gate.failed.push(id) });
  lane.serve(async (id) => {
    const door = Promise.withResolvers<void>();
    doors.set(id, door);
    gate.running.push(id);
    gate.started.push(id);
    try {
      await door.promise;
    } finally {
      gate.running.splice(gate.running.indexOf(id), 1);
    }
  });
  return { lane, gate };
}

export const settle = async (): Promise<void> => {
  for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve));
};

export function laneContract(name: string, makeRig: () => Promise<LaneRig>): void {
  const noError = (id: string, error: unknown): void => {
    throw new Error(`${id} failed`, { cause: error });
  };

  describe(`a lane (${name})`, () => {
    let rig: LaneRig;
    beforeEach(async () => {
      rig = await makeRig();
    });
    afterEach(() => rig[Symbol.asyncDispose]());
    const settle = (): Promise<void> => rig.settle();
    const makeLane = (options: LaneOptions): Lane => rig.makeLane(options);

    it("[LN2] never works on more than its concurrency, and the rest start in order", async () => {
      const { lane, gate } = gated(makeLane, 2);
      for (const id of ["a", "b", "c", "d"]) lane.ring(id, "one chat");
      await settle();
      expect(gate.running).toEqual(["a", "b"]);
      expect(await lane.depth()).toEqual({ waiting: 2, running: 2 });
      gate.open("b");
      await settle();
      expect(gate.running).toEqual(["a", "c"]);
      gate.open("a");
      gate.open("c");
      await settle();
      expect(gate.started).toEqual(["a", "b", "c", "d"]);
      gate.open("d");
      await lane.drain();
    });

    it("[LN2] what was rung before serve() is worked afterwards, in order", async () => {
      const lane = makeLane({ name: "test", concurrency: 1, onError: noError });
      const worked: string[] = [];
      lane.ring("a", "x");
      lane.ring("b", "x");
      await settle();
      expect(await lane.positions(["b"])).toEqual(new Map([["b", 2]]));
      lane.serve(async (id) => void worked.push(id));
      await waitFor("both", () => worked.length === 2);
      expect(worked).toEqual(["a", "b"]);
    });

    it("[AG1] ringing twice is harmless: a waiting id is worked once", async () => {
      const { lane, gate } = gated(makeLane, 1);
      for (const id of ["a", "b", "b", "b"]) lane.ring(id, "x");
      await settle();
      gate.open("a");
      await settle();
      gate.open("b");
      await settle();
      expect(gate.started).toEqual(["a", "b"]);
      expect(await lane.depth()).toEqual({ waiting: 0, running: 0 });
    });

    it("[AG1] a ring during its own work makes it be looked at once more, and never by two at once", async () => {
      const { lane, gate } = gated(makeLane, 4);
      lane.ring("a", "x");
      await settle();
      for (let i = 0; i < 3; i++) lane.ring("a", "x");
      await settle();
      expect(gate.running).toEqual(["a"]);
      gate.open("a");
      await settle();
      expect(gate.started).toEqual(["a", "a"]);
      gate.open("a");
      await settle();
      expect(gate.started).toEqual(["a", "a"]);
    });

    it("[LN3] a handler that throws gives its slot back and is reported with its id", async () => {
      const { lane, gate } = gated(makeLane, 1);
      for (const id of ["a", "b", "c"]) lane.ring(id, "x");
      await settle();
      gate.fail("a");
      await settle();
      expect(gate.failed).toEqual(["a"]);
      expect(gate.running).toEqual(["b"]);
      gate.open("b");
      await settle();
      gate.open("c");
      await lane.drain();
      expect(gate.started).toEqual(["a", "b", "c"]);
    });

    it("[LN3] an id that failed can be rung again", async () => {
      const { lane, gate } = gated(makeLane, 1);
      lane.ring("a", "x");
      await settle();
      gate.fail("a");
      await settle();
      lane.ring("a", "x");
      await settle();
      expect(gate.started).toEqual(["a", "a"]);
      gate.open("a");
      await lane.drain();
    });

    it("[LN1] a changed concurrency applies at once", async () => {
      const { lane, gate } = gated(makeLane, 1);
      for (const id of ["a", "b", "c"]) lane.ring(id, "x");
      await settle();
      lane.setConcurrency(3);
      await settle();
      expect(gate.running).toEqual(["a", "b", "c"]);
      for (const id of ["a", "b", "c"]) gate.open(id);
      await lane.drain();
    });

    it("[RN4] drain() starts nothing new and waits for what runs", async () => {
      const { lane, gate } = gated(makeLane, 1);
      lane.ring("a", "x");
      lane.ring("b", "x");
      await settle();
      let drained = false;
      const drain = lane.drain().then(() => {
        drained = true;
      });
      lane.ring("c", "x");
      await settle();
      expect(drained).toBe(false);
      gate.open("a");
      await drain;
      expect(gate.started).toEqual(["a"]);
    });

    it("[RN4] drain() of a lane that never served ends at once", async () => {
      const lane = makeLane({ name: "test", concurrency: 1, onError: noError });
      lane.ring("a", "x");
      await settle();
      await lane.drain();
      expect(await lane.depth()).toEqual({ waiting: rig.keepsWaiting ? 1 : 0, running: 0 });
    });

    it("[LN2] whatever is rung when, and whatever throws: never more than N at once, never an id twice at once, all worked", async () => {
      const step = fc.record({ id: fc.integer({ min: 0, max: 12 }), group: fc.integer({ min: 0, max: 3 }), throws: fc.boolean() });
      await fc.assert(
        fc.asyncProperty(fc.integer({ min: 1, max: 4 }), fc.array(step, { minLength: 1, maxLength: 40 }), async (concurrency, steps) => {
          const worked = new Set<string>();
          const running = new Set<string>();
          const broken: string[] = [];
          const throwing = new Set(steps.filter((one) => one.throws).map((one) => `id-${one.id}`));
          const lane = makeLane({ name: "test", concurrency, onError: () => {} });
          lane.serve(async (id) => {
            if (running.has(id)) broken.push(`${id} twice at once`);
            running.add(id);
            if (running.size > concurrency) broken.push(`${running.size} at once`);
            await new Promise((resolve) => setImmediate(resolve));
            running.delete(id);
            worked.add(id);
            if (throwing.has(id)) throw new Error("as arranged");
          });
          for (const [index, one] of steps.entries()) {
            lane.ring(`id-${one.id}`, `group-${one.group}`);
            if (index % 5 === 4) await new Promise((resolve) => setImmediate(resolve));
          }
          await settle();
          await waitFor("an idle lane", async () => Object.values(await lane.depth()).every((count) => count === 0), 5_000);
          expect(broken).toEqual([]);
          expect([...worked].sort()).toEqual([...new Set(steps.map((one) => `id-${one.id}`))].sort());
        }),
        { numRuns: 40 },
      );
    });

    it("[LN3] whoever ends its job and is rung to the front goes on before what waits: a parent never holds what its children need", async () => {
      const lane = makeLane({ name: "test", concurrency: 1, onError: noError });
      const steps: string[] = [];
      lane.serve(async (id: string) => {
        steps.push(id);
        if (id === "child") lane.ring("parent", "x", "front");
      });
      for (const id of ["parent", "child", "later"]) lane.ring(id, id);
      await waitFor("all of them", () => steps.length === 4);
      expect(steps).toEqual(["parent", "child", "parent", "later"]);
      await settle();
      expect(await lane.depth()).toEqual({ waiting: 0, running: 0 });
    });
  });
}
