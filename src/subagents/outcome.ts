// What became of a run, in words: the one sentence for models (NV3), and the sections of its last message (RO3). Pure.
import type { CheckResult } from "../core/check.ts";
import { quotedLine } from "../core/fence.ts";
import { shortId } from "../core/ids.ts";
import { type EndState, type Run, type RunSections, SECTION_NAMES } from "../core/run.ts";
import type { ModelError } from "../models/model.ts";

/** How a run ends, as whoever ends it knows. */
export interface Ending {
  readonly as: EndState;
  readonly reason: string | null;
  readonly incomplete: boolean;
  /** What it said last, for when its transcript doesn't tell: it can't be read any more, or the clock was set back. */
  readonly words?: string;
  /** What the child could not read of its own history. */
  readonly notice?: string | null;
  /** What its model failed with. */
  readonly error?: ModelError | null;
  /** Its transcript was waited for long enough. */
  readonly isLost?: boolean;
  /** Its budget is used up: it had its last call already, so nothing is asked for the announcement (BG4). */
  readonly isUnpaid?: boolean;
  /** What its checks found; left out: they were not run at its end. */
  readonly checks?: readonly CheckResult[];
  /** Messages to it that it did not come to read. */
  readonly unread?: number;
}

/** What became of it, in one plain sentence (NV3). `result`: what stands below the sentence. */
export function outcomeSentence(
  run: Run,
  { as, reason, incomplete }: Pick<Ending, "as" | "reason" | "incomplete">,
  result: string,
): string {
  const had = result.trim() === "" ? "It left no result." : "What stands below is what it had until then.";
  const name = `The sub-agent ${quotedLine(run.label)} (run ${shortId(run.id)})`;
  switch (as) {
    case "done":
      return incomplete ? `${name} stopped early: ${reason}. Its result may be incomplete.` : `${name} completed its task.`;
    case "error":
      return `${name} failed: ${reason ?? "no reason is known"}. ${had}`;
    case "timeout":
      return `${name} ran out of time (${reason ?? "its limit"}) and was ended. ${had}`;
    case "interrupted":
      return `${name} was interrupted by a restart of the gateway and did not finish. ${had}`;
    case "stopped":
      return `${name} was stopped${reason === null ? "" : ` (${reason})`} before it finished. It announces nothing.`;
  }
}

/** `RISKS, BLOCKERS`: what the child left out of the output contract; empty when it kept it. */
export const missingSections = (sections: RunSections): string =>
  SECTION_NAMES.filter((name) => sections[name] === null)
    .map((name) => name.toUpperCase())
    .join(", ");

/** The sections as the child was asked for them, and which it left out (RO3). */
export function sectionsText(sections: RunSections): string {
  const missing = missingSections(sections);
  const found = SECTION_NAMES.flatMap((name) => (sections[name] === null ? [] : [`${name.toUpperCase()}:\n${sections[name]}`]));
  return [...found, ...(missing === "" ? [] : [`(left out: ${missing})`])].join("\n\n");
}
