// How a chat is shown that a run was accepted (`channels.<name>.progress`, LV5), and the line for each start, where it wants one.
import { shortId } from "../core/ids.ts";
import type { Channel, Part } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import { stopCommand } from "./status-message.ts";

/** A status message for each batch, a line for each start, or neither. */
export type Progress = "live" | "lines" | "off";

interface ShowingDeps {
  channel(name: string, account: string): Channel | null;
  progress(channel: string): Progress;
}

/** Null: nobody is shown anything: a chat with a list of its own, a run that is nobody's there, settings that say so. */
export function showing(
  deps: ShowingDeps,
  { address, requesterRunId, announce }: Pick<Run, "address" | "requesterRunId" | "announce">,
): { readonly as: "live" | "lines"; readonly channel: Channel } | null {
  const channel = deps.channel(address.channel, address.account);
  if (requesterRunId !== null || announce === "silent" || channel === null || channel.showsRuns === true) return null;
  const as = deps.progress(channel.name);
  return as === "off" ? null : { as, channel };
}

export const startedDelivery = ({ childKey, id }: Pick<Run, "childKey" | "id">): string => `started:v1:${childKey}:${id}`;

export function startedParts(channel: Channel, run: Pick<Run, "id" | "label" | "address">): Part[] {
  const buttons = [
    { label: "Stop", command: stopCommand({ ...run, generation: 1 }), danger: true },
    { label: "Log", command: `/subagents log ${run.id}` },
    { label: "Info", command: `/subagents info ${run.id}` },
  ];
  return channel.render({ markdown: `🧭 Sub-agent started: ${run.label} (${shortId(run.id)})`, buttons, quiet: true }, run.address);
}
