// Transcript entries → what the model sees, and how a transcript stands at its end. Pure.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { lastAssistantText, standingOf, toMessages } from "../../../src/agents/context.ts";
import { mainSystem } from "../../../src/agents/prompt.ts";
import type { Entry, EntryBody } from "../../../src/stores/transcript-entry.ts";

const entries = (...bodies: (EntryBody & { phase?: "announce" })[]): Entry[] =>
  bodies.map((body, n) => ({ ...body, id: `e${n}`, parentId: n === 0 ? null : `e${n - 1}`, timestamp: "2026-01-01T00:00:00.000Z" }));
const CALLED_AT = Date.parse("2026-01-01T00:00:00.000Z");
const user = (text: string) => ({ type: "message", role: "user", text, from: "Ann" }) as const;
const assistant = (text: string, calls = 0, more: { partial?: boolean } = {}) =>
  ({ type: "message", role: "assistant", text, model: "a/b", calls, ...more }) as const;
const call = (callId: string, name = "read", args: unknown = {}) => ({ type: "tool_call", callId, name, args }) as const;
const result = (callId: string, text = "ok", isError = false) => ({ type: "tool_result", callId, name: "read", text, isError }) as const;
const note = (text: string) => ({ type: "note", text }) as const;

describe("toMessages", () => {
  it("[AG2] calls belong to their assistant message and results follow in the order of the calls", () => {
    const messages = toMessages(
      entries(
        user("hi"),
        assistant("looking", 2),
        call("c1", "read", { path: "a" }),
        call("c2"),
        result("c2", "two"),
        result("c1", "one"),
        assistant("done"),
      ),
    );
    expect(messages).toEqual([
      { role: "user", text: "hi" },
      {
        role: "assistant",
        text: "looking",
        toolCalls: [
          { id: "c1", name: "read", args: { path: "a" } },
          { id: "c2", name: "read", args: {} },
        ],
      },
      { role: "tool", callId: "c1", name: "read", text: "one", isError: false },
      { role: "tool", callId: "c2", name: "read", text: "two", isError: false },
      { role: "assistant", text: "done", toolCalls: [] },
    ]);
  });

  it("[RC2] a call without a result gets one that says so: a provider never meets an open call", () => {
    const messages = toMessages(entries(user("hi"), assistant("", 1), call("c1"), user("hello?")));
    expect(messages[2]).toMatchObject({ role: "tool", callId: "c1", isError: true, text: expect.stringMatching(/outcome is unknown/) });
    expect(messages[3]).toEqual({ role: "user", text: "hello?" });
  });

  it("[AN1] the announce step is no part of the conversation", () => {
    const announce = { ...assistant("Result: x"), phase: "announce" as const };
    expect(toMessages(entries(user("task"), assistant("done"), { ...user("announce"), phase: "announce" }, announce))).toHaveLength(2);
  });

  it("[SE6] a summary comes first, notes are user messages, an empty answer is left out", () => {
    const list = entries(user("kept"), { type: "compaction", summary: "what was", keptFrom: "e0" }, assistant(""), note("[a child ended]"));
    expect(toMessages(list)).toEqual([
      { role: "user", text: "[Summary of the earlier conversation]\nwhat was" },
      { role: "user", text: "kept" },
      { role: "user", text: "[a child ended]" },
    ]);
  });

  it("[SE8][NV3] notes that were taken in with a message stand before it; once an answer stands behind it nothing moves", () => {
    const start = [user("one"), assistant("first"), user("two"), note("[a child ended]"), note("[another ended]")];
    const read = (...more: EntryBody[]): string[] => toMessages(entries(...start, ...more)).map((message) => message.text);
    expect(read()).toEqual(["one", "first", "[a child ended]", "[another ended]", "two"]);
    expect(read(assistant("second"), note("[late]"), user("three")).slice(0, 5)).toEqual(read());
    expect(read(assistant("second"), note("[late]"), user("three")).slice(5)).toEqual(["second", "[late]", "three"]);
  });

  it("[AG3] arguments that did not parse stay marked as such, and a provider's extras go back verbatim", () => {
    const [, message] = toMessages(
      entries(
        user("x"),
        { ...assistant("", 1), extras: { anthropic: { sig: "s" } } },
        { ...call("c1", "read", "{bad"), invalid: "no JSON" },
      ),
    );
    expect(message).toMatchObject({ extras: { anthropic: { sig: "s" } }, toolCalls: [{ id: "c1", args: "{bad", invalid: "no JSON" }] });
  });

  it("[RC2] whatever the entries, every tool message answers a call of the assistant message before it, exactly once", () => {
    const id = fc.constantFrom("a", "b", "c");
    const entry = fc.oneof(
      fc.constant(user("u")),
      fc.integer({ min: 0, max: 2 }).map((n) => assistant("t", n)),
      id.map((one) => call(one)),
      id.map((one) => result(one)),
      fc.constant(note("n")),
    );
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 15 }), (bodies) => {
        let open: string[] = [];
        for (const message of toMessages(entries(...bodies))) {
          if (message.role === "tool") {
            expect(open[0]).toBe(message.callId);
            open.shift();
          } else {
            expect(open).toEqual([]);
            open = message.role === "assistant" ? message.toolCalls.map((one) => one.id) : [];
          }
        }
        expect(open).toEqual([]);
      }),
    );
  });
});

describe("standingOf", () => {
  const recorded = (id: string, entryId: string) => ({ id, entryId, calledAt: CALLED_AT, name: "read", args: {} });
  it.each([
    ["an empty transcript", [], { kind: "open" }],
    ["a question", [user("hi")], { kind: "open" }],
    ["an answer", [user("hi"), assistant("hello")], { kind: "answered", text: "hello" }],
    ["an answer and something new to read", [user("hi"), assistant("hello"), note("news")], { kind: "open" }],
    ["half an answer", [user("hi"), assistant("hel", 0, { partial: true })], { kind: "cut" }],
    ["an answer whose calls were not written", [user("hi"), assistant("looking", 1)], { kind: "cut" }],
    [
      "a call without a result",
      [user("hi"), assistant("", 1), call("c1")],
      { kind: "calls", made: [recorded("c1", "e2")], calls: [recorded("c1", "e2")] },
    ],
    [
      "one of two results",
      [assistant("", 2), call("c1"), call("c2"), result("c1")],
      { kind: "calls", made: [recorded("c1", "e1"), recorded("c2", "e2")], calls: [recorded("c2", "e2")] },
    ],
    ["all results", [user("hi"), assistant("", 1), call("c1"), result("c1")], { kind: "open" }],
    [
      "an answer before the announce step",
      [assistant("done"), { ...user("announce"), phase: "announce" as const }],
      { kind: "answered", text: "done" },
    ],
  ])("[RC2] %s", (_what, bodies, standing) => {
    expect(standingOf(entries(...(bodies as Parameters<typeof entries>)))).toEqual(standing);
  });
});

it("[AN1] the last words are the agent's own, not of the announce step and not empty", () => {
  const announce = { ...assistant("Result"), phase: "announce" as const };
  expect(lastAssistantText(entries(assistant("first"), assistant("last"), assistant("  "), user("x"), announce))).toBe("last");
  expect(lastAssistantText(entries(user("x")))).toBe("");
});

it("[AG5] the system prompt carries each workspace file under its name, and spawning only where it is possible", () => {
  const options = { agentName: "Herald", files: [{ name: "SOUL.md", text: "be kind" }], memory: "MEMORY" };
  const prompt = mainSystem({ ...options, canSpawn: false });
  expect(prompt).toContain("You are Herald");
  expect(prompt).toContain("## SOUL.md\nbe kind");
  expect(prompt).toContain("MEMORY");
  expect(prompt).not.toContain("sessions_spawn");
  expect(mainSystem({ ...options, canSpawn: true })).toContain("sessions_spawn");
});
