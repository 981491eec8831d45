// A digest as people read it (AP1): a heading that names everybody, then each run as it would have been announced, complete, with its
// own figures; the sums stand where an announcement has its stats. Pure.
import type { OutMessage } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import { addSpend, NO_SPEND, type Spend } from "../core/usage.ts";
import { cost, duration, runtimeOf, tokens } from "./figures.ts";
import { oneLine } from "./quoting.ts";

export interface DigestEntry {
  readonly run: Run;
  /** Its announcement, as it was when it ended. */
  readonly message: OutMessage;
}

export const BETWEEN = "\n\n――――――――――\n\n";
/** Keys of more runs than these nobody looks for in a folded line. */
export const MAX_NAMES = 20;

export function digestMessage(entries: readonly DigestEntry[], now: number): OutMessage {
  const runs = entries.map(({ run }) => run);
  const head = [
    `**Digest: ${runs.length} sub-agent${runs.length === 1 ? "" : "s"} finished**`,
    runs.map(({ label }) => oneLine(label)).join(" · "),
  ];
  const total = runs.reduce<Spend>((sum, { spend }) => addSpend(sum, spend), NO_SPEND);
  const runtime = runs.reduce((sum, run) => sum + runtimeOf(run, now), 0);
  const figures = [`runtime ${duration(runtime)} in all`, tokens(total), cost(total.costUsd)].filter((figure) => figure !== null);
  const names = runs.slice(0, MAX_NAMES).map((run) => `sessionKey ${run.childKey}`);
  const left = runs.length - names.length;
  return {
    markdown: [head.join("\n\n"), ...entries.map(entryText)].join(BETWEEN),
    stats: { figures, names: left === 0 ? names : [...names, `and ${left} more: /subagents all`] },
    kind: "announcement",
    fileName: "digest.md",
  };
}

/** What names the run is folded away in the sums' line; the figures are its own. */
const entryText = ({ message: { markdown, stats } }: DigestEntry): string =>
  stats === undefined ? markdown : `${markdown}\n\nStats: ${stats.figures.join(" • ")}`;
