// What the operator reads: the start-up lines (RN2) and /status.
import type { Config } from "../config/schema.ts";
import type { Channel } from "../core/message.ts";
import type { Lane } from "../lanes/lanes.ts";
import type { McpTools } from "../tools/mcp.ts";
import type { Sandbox } from "../tools/sandbox.ts";

export interface StatusSource {
  readonly version: string;
  readonly model: string;
  readonly why: string;
  readonly stateDir: string;
  /** As at start. */
  readonly config: Config;
  readonly channels: readonly Channel[];
  readonly sandbox: Sandbox;
  readonly lanes: readonly Lane[];
  readonly mcp: ReturnType<McpTools["status"]>;
  readonly openMessages: number;
  /** What keeps it from taking anything in; null when nothing does. */
  readonly problem: string | null;
}

/** One line per channel that is not the page: on, or the setting that would turn it on. */
export function channelLines({ config, channels }: Pick<StatusSource, "config" | "channels">): string[] {
  return Object.entries(config.channels).map(([name, settings]) => {
    const channel = channels.find((one) => one.name === name);
    if (channel === undefined) return `${name}: off${settings.enabled ? "" : ` (${settings.off})`}`;
    const { state, detail } = channel.health();
    return `${name}: ${state}${detail === undefined ? "" : ` (${detail})`}`;
  });
}

export function execLine(sandbox: Sandbox, unsandboxed: boolean): string {
  if (sandbox.available) return `on, sandboxed (${sandbox.kind} ${sandbox.version})`;
  if (unsandboxed) return "on, WITHOUT a sandbox (tools.exec.unsandboxed)";
  return `off: ${sandbox.reason} (${sandbox.howTo})`;
}

/** /status. */
export function statusText(source: StatusSource): string {
  const lanes = source.lanes.map((lane) => {
    const { waiting, running } = lane.depth();
    return `${lane.name} ${running} running, ${waiting} waiting`;
  });
  return [
    `**Herald ${source.version}**`,
    ...(source.problem === null ? [] : [`⚠️ ${source.problem}`]),
    `- Model: \`${source.model}\` (${source.why})`,
    ...channelLines(source).map((line) => `- ${line}`),
    `- web: ${source.config.web.enabled ? "on" : "off (set web.enabled)"}`,
    `- Lanes: ${lanes.join(" · ")}`,
    `- exec: ${execLine(source.sandbox, source.config.tools.exec.unsandboxed)}`,
    ...source.mcp.map((server) => `- MCP ${server.name}: ${server.state}${server.detail === "" ? "" : ` (${server.detail})`}`),
    `- Messages still to deliver: ${source.openMessages}`,
    `- State: ${source.stateDir}`,
  ].join("\n");
}
