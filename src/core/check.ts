// Completion checks (EV1): what a spawn may ask the runtime to look at before a child's word counts, and what was found. Pure.

export interface FileCheck {
  readonly exists: string;
}

export interface ContentCheck {
  readonly contains: { readonly path: string; readonly text?: string | undefined; readonly regex?: string | undefined };
}

export interface CommandCheck {
  readonly command: string | readonly string[];
  readonly exitCode?: number | undefined;
  readonly timeoutSeconds?: number | undefined;
}

export interface ResultCheck {
  readonly result: { readonly minLength?: number | undefined; readonly matches?: string | undefined };
}

export type Check = FileCheck | ContentCheck | CommandCheck | ResultCheck;

/** What one check found. */
export interface CheckResult {
  /** What was looked at, in one line. */
  readonly name: string;
  readonly passed: boolean;
  /** In our own words: what was found, or why it could not be looked. */
  readonly why: string;
  /** The end of what a command printed; others' words. */
  readonly output: string;
  /** It could not be looked, whatever the child has done: telling the child would change nothing. */
  readonly isUnrunnable?: boolean;
}

/** `Checks: 2 of 3 passed`, as people and models read it. */
export const checksLine = (results: readonly CheckResult[]): string =>
  `Checks: ${results.filter(({ passed }) => passed).length} of ${results.length} passed`;

/** What a check is run for. */
export interface CheckSubject {
  readonly agentId: string;
  readonly sessionKey: string;
  readonly runId: string;
  readonly workspace: string;
  /** What the child handed back, as text. */
  readonly result: string;
  /** Why no command may be run for it; null: it may. */
  readonly whyNoCommand: string | null;
  readonly signal: AbortSignal;
  progress(text: string): void;
}

/** Rejects only when something of ours is broken; whatever a child or a spawn can cause is a check that failed. */
export type RunCheck = (check: Check, subject: CheckSubject) => Promise<CheckResult>;

/** Patterns and schemas that a model wrote, bounded in time and memory. Never rejects. */
export interface Judge {
  /** Null: no answer within its time. */
  matches(pattern: string, text: string): Promise<boolean | null>;
  /** Why a schema can't be used, in a clause, or null. */
  schemaProblem(schema: Readonly<Record<string, unknown>>): Promise<string | null>;
  /** The first of these that fits, or why the first of all doesn't. */
  fit(
    schema: Readonly<Record<string, unknown>>,
    candidates: readonly unknown[],
  ): Promise<{ readonly index: number } | { readonly misfit: string }>;
}
