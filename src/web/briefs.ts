// A run's briefs as the page shows and changes them. The source is an argument (app/brief-desk.ts).

interface BriefView {
  /** Whose it is: a session's key, or a person's name. */
  readonly from: string;
  /** Given on the page. */
  readonly isOurs: boolean;
  readonly at: number;
  readonly mission: string;
  readonly sharedMemory: readonly { readonly tier: string; readonly key?: string | undefined; readonly reason: string }[];
  readonly constraints: readonly string[];
}

export interface BriefsView {
  /** Oldest first, as the child reads them. */
  readonly briefs: readonly BriefView[];
  /** What a change names, so that nobody replaces what he has not seen. 0: there never was a brief. */
  readonly version: number;
  /** It can be changed: the run has not ended. */
  readonly isOpen: boolean;
}

/** Who did what, and what the child reads otherwise since. */
export interface BriefEventView {
  readonly at: number;
  readonly by: string;
  readonly what: string;
  readonly patch: string | null;
}

/** What a form needs to know. */
export interface BriefForm {
  readonly tiers: readonly string[];
  readonly caps: Readonly<Record<"missionBytes" | "references" | "constraints" | "constraintCharacters" | "reasonCharacters", number>>;
}

export interface BriefChangeRequest {
  /** The version the person has seen. */
  readonly version: number;
}

/** `late`: it has ended, or was changed since; `unfit`: the brief itself is refused, and which cap fired. */
export interface BriefChanged {
  readonly status: "taken" | "late" | "unfit";
  readonly text: string;
}

/** Null: there is no such run. */
export interface BriefDesk {
  history(runId: string): Promise<{ readonly history: readonly BriefEventView[]; readonly form: BriefForm } | null>;
  /** The person's own brief, in the place of the one before and of that of `replaces`. */
  give(
    runId: string,
    request: BriefChangeRequest & { readonly brief: unknown; readonly replaces: string | null },
  ): Promise<BriefChanged | null>;
  /** Takes back the brief of `from`. */
  revoke(runId: string, request: BriefChangeRequest & { readonly from: string }): Promise<BriefChanged | null>;
}
