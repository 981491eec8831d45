// What the page knows of runs: one line each for the board, and everything on record for the one that is open. The
// source is an argument (the stores adapted by app/board.ts), so the page depends on these views and not on the record.
import type { CheckResult } from "../core/check.ts";
import { type DeliveryState, isUnfinished, type PlanStep, type RunSections, type RunState } from "../core/run.ts";
import type { Usage } from "../core/usage.ts";
import type { TranscriptPage } from "../stores/transcript-page.ts";
import type { BriefsView } from "./briefs.ts";

/** What is spent of a limit, in words; null: that side of it has no limit. */
export interface SpentView {
  /** `$0.12 of $0.50` */
  readonly usd: string | null;
  /** `18k of 20k tokens` */
  readonly tokens: string | null;
  /** How much of it, from 0 to 1. */
  readonly share: number;
}

/** Of the installation: `everything today`. */
export interface BudgetLine extends SpentView {
  readonly name: string;
}

export interface RunView {
  readonly id: string;
  readonly shortId: string;
  readonly label: string;
  readonly state: RunState;
  readonly delivery: DeliveryState;
  readonly requesterKey: string;
  /** The run that spawned this one; null when a chat did. */
  readonly parentId: string | null;
  /** Where it was asked for, in words: `telegram 5551`. Runs of one origin stand together. */
  readonly origin: string;
  /** The page's chat that asked for it; null when another channel did: then what comes of it is announced there. */
  readonly chat: string | null;
  readonly depth: number;
  /** Counts up when it goes on after its end: what is pressed is meant for the one that was seen. */
  readonly generation: number;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly doing: string | null;
  /** The step of its plan it is at: `2/5 Read the sources`. */
  readonly step: string | null;
  readonly tokens: number | null;
  readonly costUsd: number | null;
  /** Place in the queue, from 1; null when it does not wait. */
  readonly position: number | null;
  /** It waits for somebody's answer. */
  readonly isAsking: boolean;
  /** What it and all below it have spent of its own limit; null: it has none. */
  readonly limit: SpentView | null;
  /** It ended for want of its own budget: the button that raises it, and its command in the chat that asked. */
  readonly goOn: { readonly label: string; readonly command: string } | null;
  /** The run this one repeats. */
  readonly rerunOf: string | null;
  /** The name of the group it was sent out with. */
  readonly group: string | null;
  /** When the digest goes out that its announcement is held for; null: it is held for none. */
  readonly digestAt: number | null;
}

export interface Board {
  listRuns(options: { limit: number }): Promise<readonly RunView[]>;
}

/** What `/subagents info` tells (CM6), as values: the page puts them into words. */
interface RunFacts {
  readonly childKey: string;
  readonly sessionId: string;
  readonly agentId: string;
  readonly role: string | null;
  readonly transcript: string;
  readonly model: string;
  readonly thinking: string;
  readonly usage: Usage | null;
  readonly cleanup: "keep" | "delete";
  readonly archivedAt: number | null;
  readonly archiveDueAt: number | null;
  readonly deliveryReason: string | null;
  readonly generation: number;
  readonly resumes: number;
}

/** Another run as one is pointed to it. */
export type RunLink = Pick<RunView, "id" | "shortId" | "label" | "state" | "createdAt">;

/** Runs it can be held against (RP2). */
export interface RelatedRuns {
  readonly repeats: RunLink | null;
  /** Newest first. */
  readonly repeatedBy: readonly RunLink[];
  /** Those of the same requester and of the chat it goes back to, newest first. */
  readonly others: readonly RunLink[];
}

/** Two runs side by side. */
export interface ComparisonView {
  readonly one: RunLink;
  readonly other: RunLink;
  readonly fields: readonly { readonly name: string; readonly one: string; readonly other: string }[];
  /** That one is the other once more. */
  readonly link: string | null;
  /** The difference of their results as a patch; null: what is said instead. */
  readonly patch: string | null;
  /** About their results; empty: nothing. */
  readonly note: string;
}

export interface RunDetail {
  readonly run: RunView;
  readonly task: string;
  /** Why it ended as it did, when that is not simply success. */
  readonly reason: string | null;
  readonly incomplete: boolean;
  readonly facts: RunFacts;
  readonly repeats: RunLink | null;
  readonly repeatedBy: readonly RunLink[];
  /** Those it sent out itself, newest first. */
  readonly children: readonly RunLink[];
  /** What it was told and has not read yet, oldest first. */
  readonly unread: readonly { readonly id: string; readonly from: string; readonly text: string }[];
  readonly plan?: readonly PlanStep[];
  readonly sections?: RunSections;
  /** What its checks found last. */
  readonly checks?: readonly CheckResult[];
  /** Its typed result, as Markdown. */
  readonly data?: string;
  /** What it may know, and from whom. */
  readonly briefing: BriefsView;
  /** The newest entries of trace.md, oldest first. */
  readonly trace?: readonly { readonly agent: string; readonly action: string; readonly timestamp: string }[];
}

export interface RunDetails {
  find(id: string): Promise<RunDetail | null>;
  /** What it was asked, the whole of it: null when there is no such run, `task: null` when that is on record no more. */
  task(id: string): Promise<{ readonly task: string | null; readonly model: string } | null>;
  related(id: string): Promise<RelatedRuns | null>;
  /** Null: one of them is not there. */
  compare(id: string, otherId: string): Promise<ComparisonView | null>;
  /** The newest entries before the cursor, without the announce step; null when there is no such run or no file. */
  transcript(id: string, range: { before: number | null; limit: number }): Promise<TranscriptPage | null>;
}

/** A run at its place on the board. */
export interface BoardRow extends RunView {
  /** Below how many of the runs shown it stands. */
  readonly level: number;
  /** It, or the tree it belongs to, waits for a person. */
  readonly needsPerson: boolean;
}

interface Tree {
  readonly root: RunView;
  readonly rows: readonly { readonly run: RunView; readonly level: number }[];
  readonly needsPerson: boolean;
  readonly isActive: boolean;
}

/**
 * Trees by requester. Those that need a person first, then origin by origin: where something is going on before the
 * rest, the newest first.
 */
export function orderRuns(runs: readonly RunView[]): BoardRow[] {
  const shown = new Set(runs.map((run) => run.id));
  const newestFirst = runs.toSorted((a, b) => Number(isUnfinished(b.state)) - Number(isUnfinished(a.state)) || b.createdAt - a.createdAt);
  const below = Map.groupBy(newestFirst, (run) => (run.parentId !== null && shown.has(run.parentId) ? run.parentId : null));
  const trees = (below.get(null) ?? []).map((root) => toTree(root, below));
  const calm = Map.groupBy(
    trees.filter((tree) => !tree.needsPerson),
    (tree) => tree.root.origin,
  );
  const groups = [...calm.values()].map((group) => group.toSorted(activeThenNewest)).sort((a, b) => activeThenNewest(head(a), head(b)));
  const ordered = [...trees.filter((tree) => tree.needsPerson), ...groups.flat()];
  return ordered.flatMap(({ rows, needsPerson }) => rows.map(({ run, level }) => ({ ...run, level, needsPerson })));
}

const head = (group: readonly Tree[]): Tree => group[0] as Tree;

const activeThenNewest = (a: Tree, b: Tree): number => Number(b.isActive) - Number(a.isActive) || b.root.createdAt - a.root.createdAt;

function toTree(root: RunView, below: ReadonlyMap<string | null, readonly RunView[]>): Tree {
  const walk = (run: RunView, level: number): Tree["rows"] => [
    { run, level },
    ...(below.get(run.id) ?? []).flatMap((child) => walk(child, level + 1)),
  ];
  const rows = walk(root, 0);
  return {
    root,
    rows,
    needsPerson: rows.some(({ run }) => run.delivery === "blocked" || run.isAsking),
    isActive: rows.some(({ run }) => isUnfinished(run.state)),
  };
}
