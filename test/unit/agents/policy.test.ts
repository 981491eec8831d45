// Effective tools as an intersection: deny wins, allow is allow-only, and a child is never stronger than its requester.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { ToolPolicy } from "../../../src/agents/agent.ts";
import { type ChildLimits, effectiveTools, needsApproval } from "../../../src/agents/policy.ts";
import { type Capability, defineTool, type Tool } from "../../../src/core/tool.ts";
import { SESSION_TOOLS } from "../../../src/core/tool-names.ts";

const tool = (name: string, capability: Capability): Tool =>
  defineTool({ name, capability, description: name, schema: z.object({}), run: async () => ({ text: name }) });

const SESSION = [...SESSION_TOOLS];
const TOOLS = [
  tool("read", "read"),
  tool("write", "write"),
  tool("exec", "exec"),
  tool("web_fetch", "net"),
  tool("remember", "memory"),
  ...SESSION.map((name) => tool(name, "session")),
];
const NAMES = TOOLS.map((one) => one.name);
const names = (policies: readonly ToolPolicy[], child: ChildLimits | null = null): string[] =>
  effectiveTools(TOOLS, policies, child).map((one) => one.name);
const limits = (changes: Partial<ChildLimits> = {}): ChildLimits => ({
  maySpawn: false,
  policies: [],
  capabilities: null,
  allowed: null,
  ceiling: NAMES,
  ...changes,
});

describe("effectiveTools", () => {
  it("[TL2] deny wins over allow, and allow, once set, is allow-only", () => {
    expect(names([])).toEqual(NAMES);
    expect(names([{ deny: ["exec"] }])).toEqual(NAMES.filter((name) => name !== "exec"));
    expect(names([{ allow: ["read", "exec"] }])).toEqual(["read", "exec"]);
    expect(names([{ allow: ["read", "exec"], deny: ["exec"] }])).toEqual(["read"]);
    expect(names([{ allow: [] }])).toEqual([]);
    expect(names([{ allow: ["READ", "read "] }])).toEqual([]);
  });

  it("[TL2] * stands for any characters, in deny as in allow", () => {
    expect(names([{ deny: ["*"] }])).toEqual([]);
    expect(names([{ allow: ["*"] }])).toEqual(NAMES);
    expect(names([{ deny: ["sessions_*", "*fetch"] }])).toEqual(NAMES.filter((name) => !/^sessions_|fetch$/.test(name)));
    expect(names([{ allow: ["r*d", "e*x*c", "wri*te"] }])).toEqual(["read", "write", "exec"]);
    for (const pattern of ["e*xec*c", "*x", "rea*ad", ".*", "read*d*", "w**f*x"])
      expect(names([{ allow: [pattern] }]), pattern).toEqual([]);
    expect(names([], limits({ policies: [{ deny: ["*e*"] }] }))).toEqual([]);
  });

  it("[TL2] is the intersection of all policies, the role, the spawn's list and what the requester had", () => {
    const policy = fc.record({ allow: fc.subarray(NAMES), deny: fc.subarray(NAMES) }, { requiredKeys: [] });
    fc.assert(
      fc.property(
        fc.array(policy, { maxLength: 2 }),
        fc.array(policy, { maxLength: 2 }),
        fc.option(fc.subarray(NAMES)),
        fc.subarray(NAMES),
        fc.boolean(),
        (own, forChildren, allowed, ceiling, maySpawn) => {
          const got = names(own, limits({ policies: forChildren, allowed, ceiling, maySpawn }));
          for (const name of NAMES) {
            const permitted = [...own, ...forChildren].every(
              ({ allow, deny }) => !(deny?.includes(name) ?? false) && (allow?.includes(name) ?? true),
            );
            const wanted =
              permitted && (allowed?.includes(name) ?? true) && ceiling.includes(name) && (maySpawn || !SESSION_TOOLS.has(name));
            expect(got.includes(name)).toBe(wanted);
          }
        },
      ),
    );
  });

  it("[TL3] a child gets everything but the session tools; no allow brings them back, only the depth", () => {
    expect(names([], limits())).toEqual(["read", "write", "exec", "web_fetch", "remember"]);
    expect(names([{ allow: NAMES }], limits({ policies: [{ allow: NAMES }], allowed: NAMES }))).toEqual(names([], limits()));
    expect(names([], limits({ maySpawn: true }))).toEqual(NAMES);
    expect(names([], limits({ maySpawn: true, policies: [{ deny: ["sessions_spawn"] }] }))).not.toContain("sessions_spawn");
  });

  it("[RO2] a role's capabilities take away what the posture must not do", () => {
    expect(names([], limits({ capabilities: new Set<Capability>(["read"]) }))).toEqual(["read"]);
    expect(names([], limits({ capabilities: new Set<Capability>(["read", "exec"]), ceiling: ["read"] }))).toEqual(["read"]);
  });
});

it("[QA4] APPR-003 * means every tool but those that only ask or note something down: a question never waits for a question", () => {
  const needing = (approve: string[]) => ["exec", "github__x", "ask", "plan"].filter((name) => needsApproval([{}, { approve }], name));
  expect(needing(["*"])).toEqual(["exec", "github__x"]);
  expect(needing(["github__*"])).toEqual(["github__x"]);
  expect(needing(["ask", "plan"])).toEqual([]);
});
