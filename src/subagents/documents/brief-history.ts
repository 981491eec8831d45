// What became of a child's briefs: who gave, changed or took back what, and what the child reads otherwise since. Pure.
// brief_changes → briefHistory → the page. Loaded by whoever looks, with its package.
import { createTwoFilesPatch } from "diff";
import type { BriefChange } from "../../stores/briefs.ts";
import { oneLine } from "../quoting.ts";
import { type BriefParams, parseBriefParams } from "./brief-params.ts";

export interface BriefEvent {
  readonly at: number;
  readonly by: string;
  /** `gave a brief`, `took back the brief of agent:main:web:dm:main` */
  readonly what: string;
  /** What the child reads of all its briefs, before and after, as a patch; null: the same. */
  readonly patch: string | null;
}

/** Newest first. The changes are given oldest first; what was before the first of them counts as nothing. */
export function briefHistory(changes: readonly BriefChange[]): BriefEvent[] {
  const standing = new Map<string, BriefParams>();
  return changes
    .map((change): BriefEvent => {
      const before = textOf(standing);
      const what = wordsOf(change, standing.has(change.requesterKey ?? ""));
      follow(standing, change);
      return { at: change.at, by: change.by, what, patch: patchOf(before, textOf(standing)) };
    })
    .reverse();
}

function follow(standing: Map<string, BriefParams>, { requesterKey, brief, replaces }: BriefChange): void {
  if (requesterKey === null) return standing.clear();
  standing.delete(requesterKey);
  if (replaces !== null) standing.delete(replaces);
  // One that this version can't read was not shown to the child either.
  const parsed = brief === null ? null : parseBriefParams(brief);
  if (parsed?.ok === true) standing.set(requesterKey, parsed.brief);
}

function wordsOf({ requesterKey, brief, replaces, by }: BriefChange, isKnown: boolean): string {
  if (requesterKey === null) return "took back all briefs";
  const theirs = requesterKey === by ? "their brief" : `the brief of ${requesterKey}`;
  if (brief === null) return `took back ${theirs}`;
  if (replaces !== null) return `put a brief in the place of that of ${replaces}`;
  return isKnown ? `changed ${theirs}` : "gave a brief";
}

/** Oldest first, as the child reads them; without times, which would make every change one of two lines more. */
function textOf(standing: ReadonlyMap<string, BriefParams>): string {
  return [...standing].map(([key, brief]) => `${[`From ${oneLine(key)}`, ...linesOf(brief)].join("\n")}\n`).join("");
}

function linesOf({ mission, sharedMemory, constraints }: BriefParams): string[] {
  const references = sharedMemory.map(
    ({ tier, key, reason }) => `Memory: ${key === undefined ? tier : `${tier}/${key}`} (${oneLine(reason)})`,
  );
  return [...mission.trim().split("\n"), ...references, ...constraints.map((constraint) => `Constraint: ${oneLine(constraint)}`)];
}

function patchOf(before: string, after: string): string | null {
  if (before === after) return null;
  const patch = createTwoFilesPatch("before", "after", before, after, "", "", { context: 3 });
  const lines = patch.split("\n").filter((line) => !/^(?:=+|\\ No newline.*|--- before.*|\+\+\+ after.*)$/.test(line));
  return lines.join("\n").trim();
}
