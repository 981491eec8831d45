// Patterns and schemas of models, in a thread with a deadline.
import { describe, expect, it, vi } from "vitest";
import { createJudge } from "../../../src/tools/judge.ts";

const judge = createJudge();

describe("[EV1] patterns", () => {
  it("[EV1] match by lines, and one that never ends has no answer; the next one has", async () => {
    expect(await judge.matches("^b$", "a\nb\nc")).toBe(true);
    expect(await judge.matches("^d$", "a\nb\nc")).toBe(false);
    const from = performance.now();
    expect(await judge.matches("^(a+)+$", `${"a".repeat(60)}!`)).toBeNull();
    expect(performance.now() - from).toBeLessThan(20_000);
    expect(await judge.matches("b", "abc")).toBe(true);
  });
});

describe("[EV1] a verdict that comes too late", () => {
  it("[EV1] is not taken for the next question's: the machine slept while a thread began", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const sleepy = createJudge();
      const [first, second] = [sleepy.matches("b", "abc"), sleepy.matches("d", "abc")];
      await Promise.resolve();
      // Its answer comes meanwhile and lies there; the timers that are over are looked at before it.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
      vi.advanceTimersByTime(16_000);
      vi.useRealTimers();
      expect(await first).toBeNull();
      expect(await second).toBe(false);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("[TR1] schemas", () => {
  it("[TR1] older drafts, newer ones and references to themselves that come to an end can be used", async () => {
    const tree = {
      type: "object",
      properties: { name: { type: "string" }, below: { type: "array", items: { $ref: "#" } } },
      required: ["name"],
    };
    const older = { $schema: "http://json-schema.org/draft-07/schema#", type: "array", items: [{ type: "number" }, { type: "string" }] };
    const newer = { $schema: "https://json-schema.org/draft/2020-12/schema", type: "array", prefixItems: [{ type: "number" }] };
    const dated = { type: "object", properties: { at: { type: "string", format: "date-time" } }, $defs: { a: {} } };
    for (const schema of [tree, older, newer, dated]) expect(await judge.schemaProblem(schema)).toBeNull();
    expect(await judge.fit(tree, [{ name: "a", below: [{ name: "b" }] }])).toEqual({ index: 0 });
    expect(await judge.fit(tree, [{ name: "a", below: [{}] }])).toEqual({ misfit: "data/below/0 must have required property 'name'" });
  });

  it("[TR1] the first candidate that fits is taken; of none that does, the first one's reasons are told, a few of many", async () => {
    const schema = { type: "object", additionalProperties: { type: "number" } };
    expect(await judge.fit(schema, ['{"a":1}', { a: 1 }])).toEqual({ index: 1 });
    const wrong = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`k${n}`, "x"]));
    const { misfit } = (await judge.fit(schema, [wrong])) as { misfit: string };
    expect(misfit).toMatch(/^data\/k0 must be number; .*; … and 492 more$/);
    expect(await judge.fit({ enum: ["red", "green"] }, ["blue"])).toEqual({
      misfit: 'data must be equal to one of the allowed values (["red","green"])',
    });
  });

  it("[TR1] many references to each other grow no code without end, and code in a schema is text", async () => {
    const levels = Array.from({ length: 20 }, (_, n) => [
      `d${n}`,
      { anyOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] },
    ]);
    const bomb = { type: "object", $ref: "#/$defs/d0", $defs: { ...Object.fromEntries(levels), d20: { type: "string" } } };
    const from = performance.now();
    expect(await judge.schemaProblem(bomb)).toMatch(/longer than a second/);
    expect(performance.now() - from).toBeLessThan(20_000);
    const code = { type: "object", properties: { '"];process.exit(1);//': { const: '"+process.exit(1)+"' } } };
    expect(await judge.schemaProblem(code)).toBeNull();
    expect(await judge.fit(code, [{ '"];process.exit(1);//': "x" }])).toHaveProperty("misfit");
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });
});
