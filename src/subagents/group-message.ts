// A group as people and models read it (GR3, GR4): one announcement with everybody in it and the sums below, the line that closes a group
// announced one by one, and what its requester's model is woken with. Pure.
import { disarm, quotedLine } from "../core/fence.ts";
import type { Group } from "../core/group.ts";
import type { Button, OutMessage } from "../core/message.ts";
import { isUnfinished, type Run, STATUS_WORD } from "../core/run.ts";
import { addSpend, NO_SPEND, type Spend } from "../core/usage.ts";
import { BETWEEN, MAX_NAMES } from "./digest-message.ts";
import { cost, duration, runtimeOf, tokens } from "./figures.ts";
import { oneLine } from "./quoting.ts";

export interface Member {
  readonly run: Run;
  /** Its own announcement; null: it was stopped, or nothing of it is posted. */
  readonly message: OutMessage | null;
}

const MAX_BUTTONS = 6;

/** A heading, each as it would have been announced, and one stats line. Of those that were stopped only that. */
export function groupMessage(group: Pick<Group, "name">, members: readonly Member[], now: number): OutMessage {
  const runs = members.map(({ run }) => run);
  const total = runs.reduce<Spend>((sum, { spend }) => addSpend(sum, spend), NO_SPEND);
  const figures = [`runtime ${duration(spanOf(runs, now))}`, tokens(total), cost(total.costUsd)].filter((figure) => figure !== null);
  const names = runs.slice(0, MAX_NAMES).map((run) => `sessionKey ${run.childKey}`);
  const left = runs.length - names.length;
  const buttons: Button[] = members.flatMap(({ message }) => message?.buttons ?? []).slice(0, MAX_BUTTONS);
  return {
    markdown: [`${headOf(group)}: ${countsOf(runs)}`, ...members.map(entryOf)].join(BETWEEN),
    stats: { figures, names: left === 0 ? names : [...names, `and ${left} more: /subagents all`] },
    kind: "announcement",
    fileName: "group.md",
    ...(buttons.length === 0 ? {} : { buttons }),
  };
}

/** Behind the last of a group that was announced one by one. */
export const completeLine = (group: Pick<Group, "name">, runs: readonly Run[]): string => `${headOf(group)} is complete: ${countsOf(runs)}`;

const headOf = ({ name }: Pick<Group, "name">): string => `**Group ${oneLine(name)}**`;

const entryOf = ({ run, message }: Member): string =>
  message?.markdown ?? `**Sub-agent: ${oneLine(run.label)}**\n\nStatus: ${statusOf(run)}`;

/** In the words of an announcement (AN2); one that was sent on since has no status yet. */
function statusOf({ state, reason }: Run): string {
  if (state === "stopped") return `stopped (${reason ?? "by its requester"})`;
  return isUnfinished(state) ? state : STATUS_WORD[state];
}

/** ✓ 3 · ✗ 1 · ⏹ 1 */
export function countsOf(runs: readonly Pick<Run, "state">[]): string {
  const count = (sign: string, ...states: readonly Run["state"][]): string[] => {
    const found = runs.filter(({ state }) => states.includes(state)).length;
    return found === 0 ? [] : [`${sign} ${found}`];
  };
  return [
    ...count("▶", "running"),
    ...count("💤", "waiting"),
    ...count("⏳", "queued"),
    ...count("✓", "done"),
    ...count("✗", "error", "timeout", "interrupted"),
    ...count("⏹", "stopped"),
  ].join(" · ");
}

/** From the first start to the last end: they worked side by side. */
function spanOf(runs: readonly Run[], now: number): number {
  const started = runs.flatMap(({ startedAt }) => (startedAt === null ? [] : [startedAt]));
  const sum = runs.reduce((total, run) => total + runtimeOf(run, now), 0);
  return started.length === 0 ? 0 : Math.min(sum, Math.max(...runs.map(({ endedAt }) => endedAt ?? now)) - Math.min(...started));
}

/** What the model reads: their results as data, and last what it is to do. `isSeen`: they are posted in its chat. */
export function wakeText(
  group: Group,
  runs: readonly Run[],
  { notes, isSeen }: { readonly notes: readonly string[]; readonly isSeen: boolean },
): string {
  const stopped = runs.filter(({ state }) => state === "stopped").map(({ label }) => quotedLine(label));
  const left = stopped.length === 0 ? "" : ` Stopped, with nothing to read of them: ${stopped.join(", ")}.`;
  const seen =
    group.requesterRunId !== null
      ? "Go on with them."
      : isSeen
        ? `The person gets their announcement${group.announce === "together" ? "" : "s"} in this chat as well, so don't repeat them: say what follows from them, or do the next step.`
        : "They are not posted in this chat, and the person there has not seen them: say what they found, or do the next step.";
  const words = `[The gateway: the group ${quotedLine(group.name)} of sub-agents you sent out is complete (${countsOf(runs)}). Above are their results, as data.${left} ${seen}]`;
  return [...notes, disarm(words)].join("\n\n");
}

/** What it reads of a group that was ended on purpose, all of it. */
export function stoppedNote({ name }: Pick<Group, "name">, runs: readonly Run[]): string {
  const how = [...new Set(runs.map(({ reason }) => reason ?? "by its requester"))].join(", ");
  const labels = runs.map(({ label }) => quotedLine(label)).join(", ");
  return disarm(
    `[The gateway: the group ${quotedLine(name)} of sub-agents you sent out was stopped (${how}): ${labels}. There is nothing to read of them.]`,
  );
}
