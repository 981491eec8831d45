// The runs at work below a session, for its model: told again whenever they changed or a summary left them out, so that
// none is forgotten or sent out twice (SE6). Labels are other people's and models' words, so they stand behind a fence (IN4).
import type { Topic } from "../agents/topics.ts";
import { fence, fenceTokenOf } from "../core/fence.ts";
import { shortId } from "../core/ids.ts";
import type { Run } from "../core/run.ts";
import { oneLine } from "./quoting.ts";

/** A list longer than this would crowd out the conversation; the tool `subagents` has them all. */
const MAX_LISTED = 30;

/** `sessionId` is the reader's. Without their states: those change often, and what matters is that they are at work. */
export function liveTopic(runs: readonly Run[], sessionId: string): Topic {
  const over = "No sub-agent of this session is at work any more.";
  // Nearly always, and asked before each call.
  if (runs.length === 0) return { name: "live", text: "", over };
  const lines = runs.slice(0, MAX_LISTED).map((run) => `- ${oneLine(run.label)} (run ${shortId(run.id)})`);
  if (runs.length > MAX_LISTED) lines.push(`- and ${runs.length - MAX_LISTED} more`);
  const list = fence({ source: "labels of sub-agents", text: lines.join("\n") }, fenceTokenOf(`live:${sessionId}`));
  return {
    name: "live",
    text: `Sub-agents of this session that are at work; don't spawn these tasks again:\n${list}`,
    over,
  };
}
