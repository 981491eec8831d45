// What is held for a call's input against what a byte-level tokenizer would count of the very prompt that is sent: over conversations
// that grow, are summed up, cut, switched to another model and back, told other tools, and reopened from their transcript.
import { expect, it } from "vitest";
import { toMessages } from "../../src/agents/context.ts";
import { fitEntries } from "../../src/agents/fit.ts";
import { inputBound } from "../../src/models/input-bound.ts";
import type { ModelTarget } from "../../src/models/language-model.ts";
import type { ChatMessage, ModelRequest, ToolSpec } from "../../src/models/model.ts";
import { toPrompt, toReasoning } from "../../src/models/wire.ts";
import { type Entry, type EntryBody, parseEntry } from "../../src/stores/transcript-entry.ts";
import { createRandom, hash, type Random } from "../support/random.ts";

const SEED = Number(process.env.HERALD_TEST_SEED ?? 20_260_101);
const CONVERSATIONS = 300;
const STEPS = 40;
const APIS = ["openai-compatible", "openai", "anthropic", "google"] as const;
const TARGETS: readonly ModelTarget[] = APIS.map((api) => ({ provider: `p-${api}`, id: "m", endpoint: { api } }));
const PIECES = ["word ", "\n", '"', "\\", "世界", "🦊", "    ", "\0", "a\ud800", "{}", "x".repeat(40)] as const;

const nameOf = ({ provider, id }: ModelTarget): string => `${provider}/${id}`;
const textOf = (random: Random, most: number): string =>
  Array.from({ length: random.between(0, most) }, () => random.pick(PIECES)).join("");

/** Of a whole byte for each token to eight, always the same for the same text and tokenizer. */
function tokensOf(model: string, text: string): number {
  const bytes = Buffer.byteLength(text);
  return Math.ceil(bytes / (1 + (hash(model + text) % 8)));
}

/** All that a model reads of this request. */
function countedBy(target: ModelTarget, request: ModelRequest): number {
  const tokens = (text: string): number => tokensOf(nameOf(target), text);
  let sum = request.tools.reduce((all, tool) => all + tokens(JSON.stringify(tool)), 0);
  for (const { content } of toPrompt(request, target)) {
    sum += 4 + (hash(nameOf(target)) % 8);
    for (const part of typeof content === "string" ? [{ type: "text" as const, text: content }] : content) {
      if (part.type === "text" || part.type === "reasoning") sum += tokens(part.text);
      if (part.type === "tool-call") sum += tokens(part.toolName) + tokens(JSON.stringify(part.input));
      if (part.type === "tool-result" && "value" in part.output) sum += tokens(String(part.output.value));
    }
  }
  return sum;
}

interface Talk {
  entries: Entry[];
  target: ModelTarget;
  system: string;
  tools: ToolSpec[];
  thinking: "off" | "high";
}

function createTalk(random: Random) {
  const talk: Talk = { entries: [], target: random.pick(TARGETS), system: "You are it.", tools: [], thinking: "off" };
  let made = 0;
  const add = (body: EntryBody): void => {
    // As it comes back from the file.
    const line = JSON.stringify({ ...body, id: `e${made++}`, parentId: null, timestamp: "2026-01-01T00:00:00Z" });
    talk.entries.push(parseEntry(line) as Entry);
  };
  return { talk, add };
}

function requestOf({ entries, target, system, tools, thinking }: Talk, messages: ChatMessage[] = toMessages(entries)): ModelRequest {
  const rest = { fallbacks: [], agentId: "main", signal: new AbortController().signal };
  return { model: nameOf(target), system, tools, thinking, messages, ...rest };
}

const boundOf = (request: ModelRequest, target: ModelTarget) =>
  inputBound({ ...request, model: nameOf(target), reasoning: toReasoning(request, target) });

it(`[BG2][BG3] what is held for an input is never less than a byte-level tokenizer counts (seed ${SEED})`, () => {
  const random = createRandom(SEED);
  let [calls, tighter, least] = [0, 0, 1];
  for (let n = 0; n < CONVERSATIONS; n++) {
    const { talk, add } = createTalk(random);
    add({ type: "message", role: "user", from: "person", text: textOf(random, 30) });
    for (let step = 0; step < STEPS; step++) {
      change(random, talk, add);
      const request = requestOf(talk, toMessages(shownOf(random, talk.entries)));
      const bound = boundOf(request, talk.target);
      const real = countedBy(talk.target, request);
      calls++;
      expect(bound.tokens).toBeGreaterThanOrEqual(real);
      const bytes = boundOf(withoutCounts(request), talk.target).tokens;
      expect(bound.tokens).toBeLessThanOrEqual(bytes);
      if (bound.tokens < bytes) tighter++;
      least = Math.min(least, bound.tokens / bytes);
      answer(random, talk, add, random.chance(0.9) ? bound.counted(real) : undefined);
    }
  }
  // It is worth something: most calls of a conversation that only grows hold less than all their bytes.
  expect(tighter / calls).toBeGreaterThan(0.5);
  expect(least).toBeLessThan(0.5);
});

const withoutCounts = (request: ModelRequest): ModelRequest => ({
  ...request,
  messages: request.messages.map((message) => {
    if (message.role !== "assistant") return message;
    const { counted: _, ...rest } = message;
    return rest;
  }),
});

const shownOf = (random: Random, entries: readonly Entry[]): readonly Entry[] =>
  random.chance(0.05) ? fitEntries(entries, 600).entries : entries;

/** What happens to a conversation between two calls. */
function change(random: Random, talk: Talk, add: (body: EntryBody) => void): void {
  const what = random.between(0, 99);
  if (what < 25) add({ type: "message", role: "user", from: "person", text: textOf(random, 30) });
  else if (what < 35) add({ type: "note", text: textOf(random, 10) });
  else if (what < 40) talk.target = random.pick(TARGETS);
  else if (what < 43) talk.system = textOf(random, 60);
  else if (what < 46) talk.tools = [{ name: "look", description: textOf(random, 30), parameters: { type: "object" } }];
  else if (what < 49) talk.thinking = random.pick(["off", "high"]);
  else if (what < 53) {
    const kept = random.between(0, talk.entries.length);
    talk.entries = talk.entries.slice(kept);
    add({ type: "compaction", summary: textOf(random, 40), keptFrom: talk.entries[0]?.id ?? null, carries: true });
  }
}

function answer(random: Random, { target }: Talk, add: (body: EntryBody) => void, counted: object | undefined): void {
  const calls = random.between(0, 2);
  const extras = {
    [target.provider]: {
      v: 1,
      model: target.id,
      parts: [{ type: "reasoning", text: textOf(random, 20), meta: { x: { y: textOf(random, 5) } } }],
    },
  };
  const body = { type: "message", role: "assistant", text: textOf(random, 20), model: nameOf(target), calls } as const;
  add({ ...body, ...(random.chance(0.5) ? { extras } : {}), ...(counted === undefined ? {} : { counted }) } as EntryBody);
  const ids = Array.from({ length: calls }, (_, n) => `call:${random.between(0, 1e9)}:${n}`);
  for (const callId of ids)
    add({ type: "tool_call", callId, name: "look", args: random.pick([{ path: textOf(random, 5) }, "none", null]) });
  for (const callId of ids)
    if (random.chance(0.9)) add({ type: "tool_result", callId, name: "look", text: textOf(random, 40), isError: random.chance(0.2) });
}

it("[BG2] a count that can't be true, of another beginning or out of a damaged line counts for nothing", () => {
  const target = TARGETS[0] as ModelTarget;
  const first: ChatMessage = { role: "user", text: "x".repeat(4_000) };
  const asked = requestOf({ entries: [], target, system: "s", tools: [], thinking: "off" }, [first]);
  const { tokens, counted } = boundOf(asked, target);
  expect(tokens).toBeGreaterThan(4_000);
  // A server that leaves out what its cache had.
  expect(counted(20)).toBeUndefined();
  expect(counted(0)).toBeUndefined();
  const count = counted(1_000);
  const next = (given: unknown, before: ChatMessage = first): number =>
    boundOf(
      { ...asked, messages: [before, { role: "assistant", text: "fine", toolCalls: [], counted: given } as ChatMessage, first] },
      target,
    ).tokens;
  expect(next(count)).toBeLessThan(5_300);
  const whole = next(undefined);
  expect(whole).toBeGreaterThan(8_000);
  for (const bad of [
    { ...count, tokens: "1" },
    { ...count, tokens: -1 },
    { ...count, model: "p/other" },
    { ...count, digest: "0" },
    "?",
    7,
    null,
  ])
    expect(next(bad)).toBe(whole);
  expect(next(count, { role: "user", text: `${"x".repeat(3_999)}y` })).toBe(whole);
});
