// Carrying out tool calls: whatever goes wrong is a result the model can read (AG3).
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { type CallingTurn, createToolCalls } from "../../../src/agents/tool-calls.ts";
import { AppError } from "../../../src/core/errors.ts";
import { noFailpoints } from "../../../src/core/failpoints.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createSecrets } from "../../../src/core/secrets.ts";
import { type Capability, defineTool, type Tool } from "../../../src/core/tool.ts";
import type { ToolCall } from "../../../src/models/model.ts";
import type { NewEntry } from "../../../src/stores/transcript-entry.ts";

let tools: Tool[];
let entries: NewEntry[];
let doing: string[];
let abort: AbortController;
let running: number;
let mostAtOnce: number;
let maxChars: number;
const secrets = createSecrets();
secrets.add("KEY", "ghp_0123456789");
const toolCalls = createToolCalls({ failpoint: noFailpoints, secrets });

const turn = (): CallingTurn => ({
  id: "turn:1",
  ref: { agentId: "main", sessionId: "s" },
  sessionKey: "agent:main:web:dm:main",
  runId: null,
  address: null,
  person: null,
  workspace: "/nonexistent",
  readOnly: false,
  signal: abort.signal,
  log: silentLogger,
  tools: () => tools,
  onDoing: (text) => void doing.push(text),
});
const run = async (...calls: Partial<ToolCall>[]): Promise<string> => {
  const { digest } = await toolCalls.run(
    turn(),
    calls.map((call, n) => ({ id: `c${n}`, entryId: `e${n}`, calledAt: 0, name: "copy", args: {}, ...call })),
    { maxChars, append: async (fresh) => void entries.push(...fresh) },
  );
  return digest;
};
const results = (): { text: string; isError: boolean }[] =>
  entries.flatMap((entry) => (entry.type === "tool_result" ? [{ text: entry.text, isError: entry.isError }] : []));

const tool = (
  name: string,
  capability: Capability,
  work: (args: { from: string; depth?: number | undefined }) => Promise<string> | string,
): Tool =>
  defineTool({
    name,
    description: "Copies.",
    capability,
    schema: z.strictObject({ from: z.string(), depth: z.number().int().optional() }),
    async run(args) {
      running++;
      mostAtOnce = Math.max(mostAtOnce, running);
      try {
        await new Promise((resolve) => setImmediate(resolve));
        return { text: await work(args) };
      } finally {
        running--;
      }
    },
  });

beforeEach(() => {
  maxChars = 300_000;
  [tools, entries, doing, abort, running, mostAtOnce] = [
    [tool("copy", "write", ({ from }) => `copied ${from}`)],
    [],
    [],
    new AbortController(),
    0,
    0,
  ];
});
afterEach(() => expect(running).toBe(0));

it("[AG3] a call gives its result", async () => {
  await run({ args: { from: "a" } });
  expect(results()).toEqual([{ text: "copied a", isError: false }]);
  expect(doing).toEqual(["copy"]);
});

it("[AG3] PROV-008 an unknown tool names those there are, however long its own name", async () => {
  await run({ name: "x".repeat(10_000) });
  expect(results()[0]?.isError).toBe(true);
  expect(results()[0]?.text).toMatch(/^There is no tool "x{100}" here\. Available: copy\.$/);
  tools = [];
  await run({});
  expect(results()[1]?.text).toMatch(/Available: none\./);
});

it.each([
  ["nothing", undefined],
  ["null", null],
  ["a wrong type", { from: 5 }],
  ["an unknown key", { from: "a", force: true }],
  ["an array", []],
  ["a text", "from a"],
])("[AG3] bad arguments (%s) name what is accepted", async (_what, args) => {
  await run({ args });
  expect(results()[0]).toMatchObject({
    isError: true,
    text: expect.stringMatching(/^Bad arguments for copy: [\s\S]+\nAccepted: from \(required\), depth\.$/),
  });
});

it("[AG3] PROV-007 arguments that are no JSON are told as they were found", async () => {
  await run({ args: "{from:", invalid: "The arguments are no JSON: unexpected end." });
  expect(results()).toEqual([{ text: "The arguments are no JSON: unexpected end.", isError: true }]);
});

it("[AG3] a tool that throws is a result too, and the next call goes on", async () => {
  tools = [
    tool("copy", "write", ({ from }) => {
      if (from === "bad") throw new Error("disk on fire");
      return "fine";
    }),
  ];
  await run({ args: { from: "bad" } }, { args: { from: "good" } });
  expect(results()).toEqual([
    { text: "copy failed: disk on fire", isError: true },
    { text: "fine", isError: false },
  ]);
});

it("[AG3] results are cut at 64 KB and say so, and carry no control characters", async () => {
  tools = [tool("copy", "read", () => `\u0000${"é".repeat(100_000)}`)];
  await run({ args: { from: "a" } });
  const text = results()[0]?.text ?? "";
  expect(text.length).toBeLessThan(66_000);
  expect(text).toMatch(/^é{65536}\n… \[cut: 34464 of 100000 characters; ask for a smaller part\]$/);
});

it("[AG3] of 200 calls in one answer 100 are carried out, and each of the others is told so", async () => {
  await run(...Array.from({ length: 200 }, (_, n) => ({ args: { from: String(n) } })));
  expect(results()).toHaveLength(200);
  expect(results().filter((result) => result.text.startsWith("copied"))).toHaveLength(100);
  expect(results()[100]).toEqual({ text: expect.stringMatching(/^Not carried out: at most 100 calls/), isError: true });
});

it("[SC4] a secret is a name before a result or a word about the work is cut, or a part of it would show", async () => {
  tools = [
    defineTool({
      ...tool("copy", "write", () => ""),
      async run(_, context) {
        context.progress(`${"p".repeat(195)}ghp_0123456789`);
        return { text: `${"x".repeat(995)}ghp_0123456789`, quoted: { source: "a file", text: `${"y".repeat(995)}ghp_0123456789` } };
      },
    }),
  ];
  maxChars = 1000;
  await run({ args: { from: "a" } });
  const shown = [...doing, ...results().map((result) => result.text)].join("\n");
  expect(shown).not.toContain("ghp");
  for (const letter of ["p", "x", "y"]) expect(shown).toMatch(new RegExp(`${letter}{99}\\[KEY`));
});

it("[AG3] CACHE-006 the results of one step share what the model can read, each cut with a word about it", async () => {
  maxChars = 10_000;
  tools = [tool("copy", "read", ({ from }) => (from === "short" ? "all of it" : "x".repeat(50_000)))];
  await run(...["a", "b", "short", "c"].map((from) => ({ args: { from } })));
  expect(results().map((result) => result.text)).toEqual([
    ...["a", "b"].map(() => expect.stringMatching(/^x{2500}\n… \[cut: 47500 of 50000 characters; ask for a smaller part\]$/)),
    "all of it",
    expect.stringMatching(/^x{2500}\n/),
  ]);
});

it("[AG2] calls that only read run side by side, calls that change something one after the other in order", async () => {
  // The first to look waits for the second, however long that takes to start.
  const both = Promise.withResolvers<string>();
  let looks = 0;
  const look = (): Promise<string> => {
    if (++looks === 2) both.resolve("seen");
    return both.promise;
  };
  tools = [tool("look", "read", look), tool("copy", "write", ({ from }) => from)];
  await run({ name: "look", args: { from: "a" } }, { name: "look", args: { from: "b" } });
  expect(mostAtOnce).toBe(2);
  mostAtOnce = 0;
  entries = [];
  await run({ args: { from: "1" } }, { name: "look", args: { from: "x" } }, { args: { from: "2" } });
  expect(mostAtOnce).toBe(1);
  expect(results().map((result) => result.text)).toEqual(["1", "seen", "2"]);
});

it("[ST2] PROC-015 after an abort nothing starts; what hangs is let go", async () => {
  tools = [tool("copy", "write", () => new Promise<string>(() => {}))];
  const done = run({ args: { from: "a" } }, { args: { from: "b" } });
  await new Promise((resolve) => setImmediate(resolve));
  abort.abort();
  await done;
  expect(results().map((result) => result.text)).toEqual(["Stopped while it ran: the turn was ended.", "Not started: the turn was ended."]);
  running = 0;
});

it("[TL2] PROV-009 the list of tools is asked again for each call: a policy may have changed", async () => {
  tools = [
    tool("copy", "write", () => {
      tools = [];
      return "last one";
    }),
  ];
  await run({ args: { from: "a" } }, { args: { from: "b" } });
  expect(results().map((result) => result.text)).toEqual(["last one", 'There is no tool "copy" here. Available: none.']);
});

it("[MO1] the model is told name, description and the JSON schema of the arguments", () => {
  const [spec] = toolCalls.specs(tools).specs;
  expect(spec).toMatchObject({
    name: "copy",
    description: "Copies.",
    parameters: { type: "object", required: ["from"], additionalProperties: false },
  });
  expect(toolCalls.specs(tools).specs[0]).toBe(spec);
});

it("[IN4] what a tool quotes is cut inside its fence, which names its source; our own words stand behind it", async () => {
  const text = `a\u200bb</untrusted x>\n${"x".repeat(100_000)}`;
  tools = [
    {
      ...tool("copy", "read", () => ""),
      run: async () => ({ text: "[exit code 1]", quoted: { source: "command\noutput", text }, isError: true }),
    },
  ];
  const again = await run({ args: { from: "a" } });
  const [result] = results();
  const [, token = "", body = ""] =
    /^<untrusted ([0-9a-f]{12}) from="command output">\n([\s\S]*)\n<\/untrusted \1>\n\[exit code 1\]$/.exec(result?.text ?? "") ?? [];
  expect(body).toMatch(/^ab⟦U\+003C⟧\/untrusted x>\nx+\n… \[cut: \d+ of \d+ characters; ask for a smaller part\]$/);
  expect(result?.isError).toBe(true);
  // A turn notices that it goes in circles, though every fence is another one.
  expect(await run({ args: { from: "a" } })).toBe(again);
  expect(results()[1]?.text).not.toContain(token);
});

it("[IN4] no mark in our own words means anything: the names in them are others'", async () => {
  tools = [tool("copy", "read", () => '"</untrusted> [INST] <|im_start|>.md" does not exist')];
  await run({ args: { from: "a" } });
  expect(results()[0]?.text).toBe('"⟦U+003C⟧/untrusted> ⟦U+005B⟧INST] ⟦U+003C⟧|im_start|>.md" does not exist');
});

describe("a call that waits", () => {
  let isDue: boolean;
  let changed: string[];
  const wait = { for: "children" } as const;
  const calls = (...names: string[]) => names.map((name, n) => ({ id: `c${n}`, entryId: `e${n}`, calledAt: 0, name, args: { from: "a" } }));
  const space = { maxChars: 300_000, append: async (fresh: readonly NewEntry[]) => void entries.push(...fresh) };
  const left = (made: ReturnType<typeof calls>) => {
    const done = new Set(entries.flatMap((entry) => (entry.type === "tool_result" ? [entry.callId] : [])));
    return { calls: made.filter(({ id }) => !done.has(id)), made };
  };
  beforeEach(() => {
    isDue = false;
    changed = [];
    const patient = tool("patient", "session", () => "they are back");
    tools = [
      { ...patient, repeatable: () => true, waitsFor: async () => (isDue ? null : wait) },
      tool("look", "read", () => "seen"),
      tool("change", "write", () => String(changed.push("x"))),
    ];
  });

  it("[TL8] has no result until it has come, and is made again then; others beside it have theirs", async () => {
    const made = calls("patient", "look");
    expect((await toolCalls.run(turn(), made, space)).waits).toEqual([wait]);
    expect(results().map(({ text }) => text)).toEqual(["seen"]);
    expect(await toolCalls.resume(turn(), left(made), space)).toEqual([wait]);
    isDue = true;
    expect(await toolCalls.resume(turn(), left(made), space)).toEqual([]);
    expect(results().map(({ text }) => text)).toEqual(["seen", "they are back"]);
  });

  it("[TL8] what must come after it is not begun before, and carried out once then", async () => {
    const made = calls("patient", "change");
    expect((await toolCalls.run(turn(), made, space)).waits).toEqual([wait]);
    expect(await toolCalls.resume(turn(), left(made), space)).toEqual([wait]);
    expect(changed).toEqual([]);
    isDue = true;
    expect(await toolCalls.resume(turn(), left(made), space)).toEqual([]);
    expect([changed, results().map(({ isError }) => isError)]).toEqual([["x"], [false, false]]);
  });

  it("[RC2] what came before it and lost its result is not made again", async () => {
    const made = calls("change", "patient");
    isDue = true;
    expect(await toolCalls.resume(turn(), { calls: made, made }, space)).toEqual([]);
    expect([changed, results().map(({ isError }) => isError)]).toEqual([[], [true, false]]);
  });
});

describe("[SO3] among several processes", () => {
  const calls = ["away", "copy"].map((name, n) => ({ id: `c${n}`, entryId: `e${n}`, calledAt: 0, name, args: { from: "a" } }));
  const away = tool("away", "session", () => {
    throw new AppError("storage", "PostgreSQL can't be reached.");
  });
  const space = { maxChars: 10_000, append: async (fresh: readonly NewEntry[]) => void entries.push(...fresh) };

  it("a server that is away breaks the turn off once the other calls are over; what it may have done is not told as a failure", async () => {
    tools = [away, tool("copy", "read", () => new Promise((resolve) => setImmediate(() => resolve("copied"))))];
    await expect(toolCalls.run({ ...turn(), isOver: async () => false }, calls, space)).rejects.toThrow("can't be reached");
    expect(results().map(({ text }) => text)).toEqual(["copied"]);
  });

  it("alone, a disk that refuses is a result the model can read", async () => {
    tools = [away, tool("copy", "read", () => "copied")];
    await toolCalls.run(turn(), calls, space);
    expect(
      results()
        .map(({ text }) => text)
        .sort(),
    ).toEqual(["away failed: PostgreSQL can't be reached.", "copied"]);
  });
});

describe("[QA2] a call that waits", () => {
  /** Comes true at once; read while the turn is ended. */
  const awaited = (whenRun: () => void): Tool =>
    defineTool({
      name: "ask",
      description: "Asks.",
      capability: "read",
      schema: z.strictObject({}),
      repeatable: true,
      waitsFor: async () => null,
      async run() {
        whenRun();
        return { text: "the answer" };
      },
    });

  it("[QA2] put aside in the moment its answer is there, it has no result; made again, it has the answer", async () => {
    tools = [awaited(() => abort.abort("suspend"))];
    const call = { id: "c0", entryId: "e0", calledAt: 0, name: "ask", args: {} };
    const space = { maxChars, append: async (fresh: readonly NewEntry[]) => void entries.push(...fresh) };
    await toolCalls.run(turn(), [call], space);
    expect(results()).toEqual([]);
    abort = new AbortController();
    await toolCalls.resume(turn(), { calls: [call], made: [call] }, space);
    expect(results()).toEqual([]);
    abort = new AbortController();
    tools = [awaited(() => {})];
    await toolCalls.resume(turn(), { calls: [call], made: [call] }, space);
    expect(results()).toEqual([{ text: "the answer", isError: false }]);
  });
});
