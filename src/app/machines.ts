// Several processes in words: one line each for /status and the page, and what their settings disagree about. Pure.
import type { NodeView } from "../stores/nodes.ts";

export interface AgentPlaces {
  readonly id: string;
  /** The machines it may run on; none: any. */
  readonly nodes: readonly string[];
}

const list = (names: readonly string[]): string => names.join(", ");
const seconds = (ms: number): string => `${Math.max(0, Math.round(ms / 1000))} s ago`;

/** `mini (all, in front) 0.1.0 · 1 turn, 2 sub-agents at work · seen 1 s ago`. */
export function machineLine(node: NodeView, now: number): string {
  const { main = 0, subagent = 0 } = node.load;
  const work = `${main} ${main === 1 ? "turn" : "turns"}, ${subagent} ${subagent === 1 ? "sub-agent" : "sub-agents"} at work`;
  const role = node.isFront ? `${node.role}, in front` : node.role;
  return `${node.name} (${role}) ${node.version} · ${work} · seen ${seconds(now - node.seenAt)}`;
}

/** Each a sentence with the rule that holds then; none: they agree. `agents`: those of the settings here. */
export function differences(nodes: readonly NodeView[], agents: readonly AgentPlaces[]): string[] {
  return [...limitDifferences(nodes), ...denialDifferences(nodes), ...versionDifferences(nodes), ...agentDifferences(nodes, agents)];
}

const SETTINGS: Readonly<Record<string, string>> = {
  main: "agents.defaults.maxConcurrent",
  subagent: "agents.defaults.subagents.maxConcurrent",
};

function limitDifferences(nodes: readonly NodeView[]): string[] {
  return Object.entries(SETTINGS).flatMap(([lane, setting]) => {
    const values = nodes.map((node) => node.limits[lane] ?? 0);
    if (new Set(values).size <= 1) return [];
    const each = nodes.map((node, n) => `${node.name} ${values[n]}`);
    return [`${setting} differs (${list(each)}): the smallest, ${Math.min(...values)}, counts for all together.`];
  });
}

function denialDifferences(nodes: readonly NodeView[]): string[] {
  const every = [...new Set(nodes.flatMap((node) => node.denies))].sort();
  return every.flatMap((tool) => {
    const by = nodes.filter((node) => node.denies.includes(tool));
    return by.length === nodes.length
      ? []
      : [
          `tools.deny differs: only ${list(by.map((node) => node.name))} denies ${tool}; what works there goes without it, the rest has it.`,
        ];
  });
}

function versionDifferences(nodes: readonly NodeView[]): string[] {
  if (new Set(nodes.map((node) => node.version)).size <= 1) return [];
  return [`Versions differ (${list(nodes.map((node) => `${node.name} ${node.version}`))}): bring them to the same one soon.`];
}

function agentDifferences(nodes: readonly NodeView[], agents: readonly AgentPlaces[]): string[] {
  const workers = nodes.filter((node) => node.role !== "gateway");
  if (workers.length === 0) return ["No process works on turns and sub-agents: start one with --role worker or all."];
  const missing = agents.flatMap(({ id, nodes: places }) => {
    const able = workers.filter((node) => node.agents.includes(id));
    if (able.length === 0) {
      const where = places.length === 0 ? "" : ` (it runs on ${places.join(" or ")})`;
      return [`No living machine can run the agent ${id}${where}: what it has to do waits.`];
    }
    if (places.length > 0 || able.length === workers.length) return [];
    const without = workers.filter((node) => !node.agents.includes(id)).map((node) => node.name);
    return [`The agent ${id} is not in the settings of ${list(without)}, which never works on it.`];
  });
  const known = new Set(agents.map(({ id }) => id));
  const others = [...new Set(workers.flatMap((node) => node.agents))].filter((id) => !known.has(id)).sort();
  return [...missing, ...others.map((id) => `The agent ${id} is not in the settings here, but others can run it.`)];
}
