// How things stand, in words: the start-up lines (RN2) and /status.
import { accountsOf } from "../config/accounts.ts";
import type { Config } from "../config/schema.ts";
import type { Channel } from "../core/message.ts";
import type { NodeView } from "../stores/nodes.ts";
import type { McpTools } from "../tools/mcp.ts";
import type { Sandbox } from "../tools/sandbox.ts";
import type { ChannelStanding } from "../web/live.ts";
import { differences, machineLine } from "./machines.ts";

export interface LaneDepth {
  readonly name: string;
  readonly waiting: number;
  readonly running: number;
}

export interface StatusSource {
  readonly version: string;
  readonly model: string;
  readonly why: string;
  readonly stateDir: string;
  /** As at start. */
  readonly config: Config;
  readonly channels: readonly Channel[];
  readonly sandbox: Sandbox;
  readonly mcp: ReturnType<McpTools["status"]>;
  /** What keeps it from taking anything in; null when nothing does. */
  readonly problem: string | null;
}

/** What has to be counted for it. */
export interface StatusNow {
  readonly lanes: readonly LaneDepth[];
  readonly openMessages: number;
  /** All processes of the installation; empty: there is only this one. */
  readonly nodes: readonly NodeView[];
  readonly at: number;
}

/** `state`, and why in brackets for whoever can do something about it. */
const withReason = (state: string, reason: string | undefined, isOperator: boolean): string =>
  isOperator && reason !== undefined && reason !== "" ? `${state} (${reason})` : state;

/** One per account of a channel that is not the page. */
export function channelStandings({ config, channels }: Pick<StatusSource, "config" | "channels">): ChannelStanding[] {
  return accountsOf(config.channels).map(({ channel: name, settings }) => {
    const channel = channels.find((one) => one.name === name);
    if (channel === undefined) return { name, state: "off", detail: settings.enabled ? null : settings.off };
    const { state, detail = null } = channel.health();
    return { name, state, detail };
  });
}

export const channelWords = ({ state, detail }: ChannelStanding, isOperator = true): string => withReason(state, detail ?? "", isOperator);

export const channelLines = (source: Pick<StatusSource, "config" | "channels">, isOperator = true): string[] =>
  channelStandings(source).map((one) => `${one.name}: ${channelWords(one, isOperator)}`);

export function execLine(sandbox: Sandbox, unsandboxed: boolean, isOperator = true): string {
  if (sandbox.available) return `on, sandboxed (${sandbox.kind} ${sandbox.version})`;
  if (unsandboxed) return withReason("on, WITHOUT a sandbox", "tools.exec.unsandboxed", isOperator);
  return isOperator ? `off: ${sandbox.reason} (${sandbox.howTo})` : "off";
}

/** With several processes: who they are, and for the operator what their settings disagree about. */
function machineLines({ config }: StatusSource, { nodes, at }: StatusNow, isOperator: boolean): string[] {
  if (nodes.length === 0) return [];
  const names = isOperator ? nodes.map((node) => `  - ${machineLine(node, at)}`) : [];
  const warnings = isOperator ? differences(nodes, config.agents.list).map((line) => `- ⚠️ ${line}`) : [];
  return [`- Machines: ${nodes.length}`, ...names, ...warnings];
}

/** /status. Reasons, settings and paths are for whoever runs the gateway: to others they only tell about somebody's machine. */
export function statusText(source: StatusSource, now: StatusNow, isOperator: boolean): string {
  const lanes = now.lanes.map(({ name, waiting, running }) => `${name} ${running} running, ${waiting} waiting`);
  const problem = isOperator ? source.problem : "It can't take anything in at the moment; whoever runs it finds out why in its log.";
  return [
    `**Herald ${source.version}**`,
    ...(source.problem === null ? [] : [`⚠️ ${problem}`]),
    `- Model: ${withReason(`\`${source.model}\``, source.why, isOperator)}`,
    ...channelLines(source, isOperator).map((line) => `- ${line}`),
    `- web: ${source.config.web.enabled ? "on" : withReason("off", "set web.enabled", isOperator)}`,
    `- Lanes: ${lanes.join(" · ")}`,
    ...machineLines(source, now, isOperator),
    `- exec: ${execLine(source.sandbox, source.config.tools.exec.unsandboxed, isOperator)}`,
    ...source.mcp.map((server) => `- MCP ${server.name}: ${withReason(server.state, server.detail, isOperator)}`),
    `- Messages still to deliver: ${now.openMessages}`,
    ...(isOperator ? [`- State: ${source.stateDir}`] : []),
  ].join("\n");
}
