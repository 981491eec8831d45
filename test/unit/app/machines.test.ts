// Several processes in words: what each line says, and what is said when their settings disagree.
import { expect, it } from "vitest";
import { differences, machineLine } from "../../../src/app/machines.ts";
import type { NodeView } from "../../../src/stores/nodes.ts";

const node = (name: string, more: Partial<NodeView> = {}): NodeView => ({
  ...{ id: name, name, version: "1.0.0", role: "all", agents: ["main"], limits: { main: 4, subagent: 8 }, denies: [], startedAt: 0 },
  ...{ seenAt: 5_000, load: { main: 1, subagent: 2 }, isFront: false, ...more },
});
const MAIN = [{ id: "main", nodes: [] }];

it("[SO6] a machine's line says what it does, how much of it, and when it was last seen", () => {
  expect(machineLine(node("mini", { isFront: true }), 7_400)).toBe(
    "mini (all, in front) 1.0.0 · 1 turn, 2 sub-agents at work · seen 2 s ago",
  );
  expect(machineLine(node("big", { role: "worker", load: {} }), 4_000)).toBe(
    "big (worker) 1.0.0 · 0 turns, 0 sub-agents at work · seen 0 s ago",
  );
});

it("[SO6] machines that agree have nothing to be told about", () => {
  expect(differences([node("a"), node("b")], MAIN)).toEqual([]);
});

it("[SO2] NODE-008 another limit, denial or version is named with the rule that holds then", () => {
  const b = node("b", { limits: { main: 4, subagent: 2 }, denies: ["exec"], version: "1.1.0" });
  expect(differences([node("a"), b], MAIN)).toEqual([
    "agents.defaults.subagents.maxConcurrent differs (a 8, b 2): the smallest, 2, counts for all together.",
    "tools.deny differs: only b denies exec; what works there goes without it, the rest has it.",
    "Versions differ (a 1.0.0, b 1.1.0): bring them to the same one soon.",
  ]);
});

it("[SO6] NODE-006 NODE-008 an agent nobody or only some can run is named, and where it belongs", () => {
  const agents = [...MAIN, { id: "ops", nodes: ["mini"] }, { id: "lab", nodes: [] }];
  expect(differences([node("a", { agents: ["main", "lab"] }), node("b", { agents: ["main", "extra"] })], agents)).toEqual([
    "No living machine can run the agent ops (it runs on mini): what it has to do waits.",
    "The agent lab is not in the settings of b, which never works on it.",
    "The agent extra is not in the settings here, but others can run it.",
  ]);
  expect(differences([node("a", { role: "gateway", agents: [] })], MAIN)).toEqual([
    "No process works on turns and sub-agents: start one with --role worker or all.",
  ]);
});
