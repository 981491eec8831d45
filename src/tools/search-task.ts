// What search.ts asks of ripgrep or of its own worker, and what comes back.

import type { Names } from "./prompt-files.ts";

export interface SearchTask {
  /** Real path of the workspace, and the names below it to search in. */
  readonly root: string;
  readonly parts: readonly string[];
  /** Folders that are left out. */
  readonly closed: readonly Names[];
  readonly pattern: string;
  readonly glob?: string | undefined;
  readonly ignoreCase: boolean;
  /** One more than will be shown, so that "there are more" is known. */
  readonly limit: number;
}

export interface Match {
  /** Relative to the workspace. */
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

export interface SearchOutcome {
  readonly matches: readonly Match[];
  /** In plain words: why the search could not be done, or was not finished. */
  readonly problem: string | null;
}
