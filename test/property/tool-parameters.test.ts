// Tool parameters: what a model wrote → toToolCall → schema → tool. Whatever it is, the model gets a result it can read,
// and a tool only ever runs with arguments of its own schema.
import fc from "fast-check";
import { expect, it } from "vitest";
import { type CallingTurn, createToolCalls } from "../../src/agents/tool-calls.ts";
import { systemClock } from "../../src/core/clock.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import type { Tool, ToolResult } from "../../src/core/tool.ts";
import type { ToolCall } from "../../src/models/model.ts";
import { toToolCall } from "../../src/models/tool-call.ts";
import type { NewEntry } from "../../src/stores/transcript-entry.ts";
import { parseBriefParams } from "../../src/subagents/documents/brief-params.ts";
import { createFinishTool } from "../../src/subagents/finish-tool.ts";
import { createPlanTool } from "../../src/subagents/plan-tool.ts";
import { createSessionTools } from "../../src/subagents/session-tools.ts";
import { createSpawnTool } from "../../src/subagents/spawn-tool.ts";
import { type ControlDeps, createSubagentsTool } from "../../src/subagents/subagents-tool.ts";
import { createExecTool } from "../../src/tools/exec.ts";
import { createFileTools } from "../../src/tools/files.ts";
import { createRemember } from "../../src/tools/remember.ts";
import { createScratchpadTool } from "../../src/tools/scratchpad.ts";
import { createSearchTool } from "../../src/tools/search.ts";
import { createWebFetch } from "../../src/tools/web-fetch.ts";
import { EXEC_DEFAULTS } from "../support/tool-bench.ts";
import { cases, checkPrototype, damagedText, damagedTree, hostileText } from "./cases.ts";

const sandbox = { available: false, reason: "a test", howTo: "" } as const;
const nothing = {} as never;
const exec = createExecTool({ sandbox, ...EXEC_DEFAULTS, unsandboxed: true });
const REAL: Tool[] = [
  ...createFileTools(),
  createSearchTool({ sandbox }),
  ...(exec === null ? [] : [exec]),
  createWebFetch({ maxBytes: 1_000_000, timeoutMs: 20_000 }),
  createRemember({ clock: systemClock }),
  createScratchpadTool(nothing),
  createSpawnTool({ spawn: nothing, toolNames: async () => [], judge: nothing }),
  createSubagentsTool(nothing as ControlDeps),
  ...createSessionTools(nothing as ControlDeps),
  createPlanTool(nothing),
  createFinishTool(nothing),
];

/** The real schemas; running only notes with what. */
let ran: { tool: Tool; args: unknown }[] = [];
const note = (run: (typeof ran)[number]): ToolResult => {
  ran.push(run);
  return { text: "ran" };
};
const TOOLS = REAL.map((tool): Tool => ({ ...tool, waitsFor: async () => null, run: async (args) => note({ tool, args }) }));
const NAMES: ReadonlySet<string> = new Set(TOOLS.map((tool) => tool.name));
const toolCalls = createToolCalls({ failpoint: noFailpoints, secrets: createSecrets() });
const turn: CallingTurn = {
  ...{
    id: "turn:1",
    ref: { agentId: "main", sessionId: "s" },
    sessionKey: "agent:main:web:dm:main",
    runId: null,
    address: null,
    person: null,
  },
  ...{ workspace: "/nonexistent", readOnly: false, signal: new AbortController().signal, log: silentLogger },
  ...{ tools: () => TOOLS, onDoing: () => undefined },
};

interface Schema {
  readonly type?: string;
  readonly enum?: unknown[];
  readonly anyOf?: Schema[];
  readonly properties?: Record<string, Schema>;
  readonly required?: string[];
  readonly items?: Schema;
}

/** Values a model would write for a schema: about right. */
function valuesOf(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(valuesOf));
  switch (schema.type) {
    case "object":
      return fc.record(Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, inner]) => [name, valuesOf(inner)])), {
        requiredKeys: schema.required ?? [],
        noNullPrototype: true,
      });
    case "array":
      return fc.array(valuesOf(schema.items ?? {}), { maxLength: 3 });
    case "integer":
    case "number":
      return fc.constantFrom(0, 1, 2, 20, -1, 0.5, 1e21);
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    default:
      return fc.oneof(fc.constantFrom("x", "a/b.txt", "read", "main", "https://example.org/", "*.ts"), hostileText);
  }
}

const SPECS = toolCalls.specs(TOOLS).specs;
const propertiesOf = (name: string): string[] =>
  Object.keys((SPECS.find((spec) => spec.name === name)?.parameters as Schema | undefined)?.properties ?? {});
const aCall = fc.oneof(...SPECS.map(({ name, parameters }) => damagedTree(valuesOf(parameters as Schema)).map((args) => ({ name, args }))));

/** What the turn does with one call; the entry must be one that can be written down. */
async function carryOut(call: ToolCall): Promise<{ text: string; isError: boolean }> {
  const entries: NewEntry[] = [];
  ran = [];
  await toolCalls.run(turn, [{ ...call, entryId: "e", calledAt: 0 }], {
    maxChars: 300_000,
    append: async (fresh) => void entries.push(...fresh),
  });
  const [result] = entries;
  if (entries.length !== 1 || result?.type !== "tool_result") throw new Error("a call has one result");
  expect(JSON.stringify({ call, entries }).isWellFormed()).toBe(true);
  return result;
}

it("[AG3][SP1] any arguments: the tool runs with keys of its schema only, or the model reads what is accepted", async () => {
  let accepted = 0;
  await fc.assert(
    fc.asyncProperty(aCall, async ({ name, args }) => {
      const { text, isError } = await carryOut({ id: "c", name, args });
      checkPrototype();
      if (isError) {
        expect(text.startsWith(`Bad arguments for ${name}: `) && text.length < 70_000 && ran.length === 0).toBe(true);
        for (const property of propertiesOf(name)) if (!text.includes(property)) throw new Error(`${property} is not named`);
        return;
      }
      accepted++;
      const [done] = ran;
      expect(propertiesOf(name)).toEqual(expect.arrayContaining(Object.keys(done?.args as object)));
    }),
    cases(4), // some of the schemas are long, and a refusal describes them
  );
  expect(accepted).toBeGreaterThan(0);
});

const written = fc.record({
  toolCallId: fc.oneof(fc.constantFrom("call_1", "c", ""), hostileText),
  toolName: fc.oneof(fc.constantFrom("read", "sessions_spawn", "READ", "__proto__", "read\0"), hostileText),
  input: fc.oneof(
    damagedText(
      fc.constantFrom('{"path":"a.txt"}', '{"task":"x","brief":{"mission":"m","sharedMemory":[]}}', "", '{"path":"\\ud800"}', "[1]"),
    ),
    hostileText,
    fc.nat(9_000).map((levels) => `{"path":${"[".repeat(levels)}${"]".repeat(levels)}}`),
  ),
});

it("[AG3] whatever a model wrote as a call is a call of its own with plain ids, or says what is wrong with it", async () => {
  const earlier: ToolCall[] = [{ id: "c", name: "read", args: {} }];
  await fc.assert(
    fc.asyncProperty(written, async (raw) => {
      const call = toToolCall(raw, NAMES, earlier);
      checkPrototype();
      expect(call.id !== "" && call.id !== "c" && call.id.length <= 200).toBe(true);
      expect(call.name).toMatch(/^[\w-]{1,64}$/);
      if (call.invalid === undefined) {
        expect(NAMES.has(call.name) && typeof call.args === "object" && call.args !== null && !Array.isArray(call.args)).toBe(true);
      } else expect(call.invalid).not.toBe("");
      // As the transcript keeps it, and as the next request repeats it.
      const { isError } = await carryOut(JSON.parse(JSON.stringify(call)));
      expect(isError || call.invalid === undefined).toBe(true);
    }),
    cases(2), // each is also carried out
  );
});

it("[AG3] arguments nested too deep to be written down are refused in words", () => {
  const input = `{"path":${"[".repeat(8_000)}${"]".repeat(8_000)}}`;
  const call = toToolCall({ toolCallId: "c1", toolName: "read", input }, NAMES, []);
  expect(call).toMatchObject({ name: "read", invalid: "The arguments are nested deeper than 100 levels." });
  expect(JSON.stringify(call).length).toBeLessThan(3_000);
});

it("[AG3] a length that can't be compared is a bad argument", async () => {
  const path: unknown = JSON.parse('{"length":{"toString":1,"valueOf":1}}');
  expect(await carryOut({ id: "c", name: "read", args: { path } })).toMatchObject({ isError: true });
});

it("[BF1] any brief is taken within its caps, or refused with the one that fired", () => {
  const brief = {
    mission: "Find it",
    sharedMemory: [
      { tier: "AGENT", reason: "why" },
      { tier: "daily", key: "2026-01-01", reason: "x" },
    ],
    constraints: ["be quick"],
  };
  let taken = 0;
  fc.assert(
    fc.property(damagedTree(fc.constant(brief)), (input) => {
      const result = parseBriefParams(input);
      checkPrototype();
      if (!result.ok) {
        expect(result.error.startsWith("Brief refused: ")).toBe(true);
        return;
      }
      taken++;
      const { mission, sharedMemory, constraints, ...rest } = result.brief;
      expect(Object.keys(rest)).toEqual([]);
      expect(Buffer.byteLength(mission) <= 500 && sharedMemory.length <= 10 && constraints.length <= 20).toBe(true);
      for (const { key = "x" } of sharedMemory) expect(key).toMatch(/^[^\s/\\\0.][^\s/\\\0]{0,99}$/u);
    }),
    cases(),
  );
  expect(taken).toBeGreaterThan(0);
});
