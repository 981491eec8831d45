// What the runs that somebody has open write and think at the moment. Kept in memory only, and of a run that nobody looks at not even there.
// bus (run.text) → see → onDraft → live.ts → the tabs that have this run open
import type { Clock } from "../core/clock.ts";
import type { AppEvent } from "../core/events.ts";
import { createThrottle } from "../core/throttle.ts";
import { visibleText } from "../core/visible-text.ts";
import { createDraft } from "./markdown.ts";
import type { Renderer } from "./rendering.ts";

export interface RunDraftView {
  readonly id: string;
  /** Its words, safe to insert; empty with the thoughts: what was written is on record, or was given up. */
  readonly html: string;
  /** What it thinks, as text. */
  readonly thoughts: string;
}

export interface RunDrafts {
  see(event: AppEvent): void;
  draft(runId: string): RunDraftView;
}

export interface RunDraftsOptions {
  clock: Clock;
  /** Replaces known secrets by their names. */
  redact(text: string): string;
  /** How much of a growing text's end may be the beginning of a secret. */
  heldBack(text: string): number;
  render: Renderer["render"];
  isWatched(runId: string): boolean;
  onDraft(runId: string): void;
  onError(error: unknown): void;
  signal: AbortSignal;
}

interface Draft {
  text: string;
  thoughts: string;
  html: string;
  /** The end of what it thinks. */
  thought: string;
  ring(): void;
}

const DRAFT_EVERY_MS = 100;
/** Rendering takes at most a tenth of the time, and nobody waits longer than this for the next words. */
const RENDER_SHARE = 10;
const DRAFT_AT_LEAST_EVERY_MS = 1_000;

export function createRunDrafts(options: RunDraftsOptions): RunDrafts {
  const drafts = new Map<string, Draft>();
  const drop = (runId: string): void => {
    if (drafts.delete(runId)) options.onDraft(runId);
  };
  const shown = (text: string): string => {
    const visible = visibleText(text);
    return options.redact(visible.slice(0, visible.length - options.heldBack(visible)));
  };
  return {
    see(event) {
      // Whoever takes it up again writes anew.
      if (event.type === "run.ended" || (event.type === "run.changed" && event.state !== "running")) return drop(event.runId);
      if (event.type !== "run.text") return;
      const { runId, what, text } = event;
      if (!options.isWatched(runId)) return void drafts.delete(runId);
      const draft = drafts.get(runId) ?? begin(drafts, options, runId, shown);
      draft[what] = text;
      if (draft.text === "" && draft.thoughts === "") drop(runId);
      else draft.ring();
    },
    draft(runId) {
      const { html, thought } = drafts.get(runId) ?? NOTHING;
      return { id: runId, html, thoughts: thought };
    },
  };
}

const NOTHING = { html: "", thought: "" };
const MAX_THOUGHTS = 20_000;

function begin(drafts: Map<string, Draft>, options: RunDraftsOptions, runId: string, shown: (text: string) => string): Draft {
  const { clock, signal, onError } = options;
  const render = createDraft(options.render);
  const isOver = (): boolean => drafts.get(runId) !== draft;
  const work = async (): Promise<number | undefined> => {
    if (isOver()) return undefined;
    const startedAt = performance.now();
    draft.html = draft.text === "" ? "" : await render(shown(draft.text));
    // Redacted before it is cut: half a secret has no name.
    draft.thought = shown(draft.thoughts).slice(-MAX_THOUGHTS).toWellFormed();
    if (isOver()) return undefined;
    options.onDraft(runId);
    return Math.min((performance.now() - startedAt) * RENDER_SHARE, DRAFT_AT_LEAST_EVERY_MS);
  };
  const { ring } = createThrottle({ clock, signal, onError, everyMs: DRAFT_EVERY_MS, work });
  const draft: Draft = { text: "", thoughts: "", html: "", thought: "", ring };
  drafts.set(runId, draft);
  return draft;
}
