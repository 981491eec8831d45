// From a state folder into PostgreSQL, or back (SO7). The target is marked before the first row and the mark is taken away after the last
// comparison, so it can be broken off at any moment: the next move finds the mark, takes away what is there and begins anew. The source is
// only read, and told that it was left before the target is whole: killed in between, nobody starts on either, and the next move goes on.
import type { Clock } from "../../core/clock.ts";
import { AppError, errorText } from "../../core/errors.ts";
import type { HitMovePoint } from "../../core/failpoints.ts";
import { type Amount, copyAll, countAll, differences, type Watch } from "./copy.ts";
import { openSourceFolder, openTargetFolder } from "./folder-side.ts";
import { openSourcePostgres, openTargetPostgres } from "./postgres-side.ts";
import type { Side, Target } from "./side.ts";

export interface MoveOptions {
  readonly to: "postgres" | "embedded";
  readonly stateDir: string;
  readonly url: string;
  /** What the state folder holds is put aside first. */
  readonly isAside: boolean;
  readonly clock: Clock;
  readonly failpoint: HitMovePoint;
  steady(): number;
  say(line: string): void;
}

const PROGRESS_MS = 2_000;

/** Throws AppError in words; the target is then as it was, or marked as half filled. */
export async function moveInstallation(options: MoveOptions): Promise<void> {
  const { say, failpoint } = options;
  const { source, target } = await openBoth(options);
  try {
    await target.begin();
    failpoint("move.marked");
    say(`From ${source.name} to ${target.name}.`);
    const copied = await copyAll(source, target, createWatch(options));
    failpoint("move.copied");
    say("Comparing …");
    const wrong = differences(copied, await countAll(target, createWatch(options)));
    if (wrong.length > 0)
      throw new AppError("state", `The copy is not what the source holds and counts as unfinished: ${wrong.join("; ")}. Run it again.`);
    failpoint("move.compared");
    await source.leave();
    await target.finish();
    failpoint("move.finished");
    say(summary(copied));
  } finally {
    await target.close();
    await source.close();
  }
}

async function openBoth(options: MoveOptions): Promise<{ source: Side; target: Target }> {
  const { to, stateDir, say } = options;
  const postgres = {
    ...options,
    onWait: (ms: number): void =>
      say(`A Herald stands on record in PostgreSQL; looking whether it lives, ${Math.ceil(ms / 1000)} s at most …`),
  };
  const folder = {
    ...options,
    stateDir,
    now: () => options.clock.now(),
    onAside: (path: string): void => say(`What was there lies in ${path} now.`),
  };
  // The folder first: whether a gateway runs on it is known at once.
  const near = to === "postgres" ? openSourceFolder(folder) : openTargetFolder(folder);
  try {
    const far = await reachable(() => (to === "postgres" ? openTargetPostgres(postgres) : openSourcePostgres(postgres)));
    return to === "postgres" ? { source: near, target: far as Target } : { source: far, target: near as Target };
  } catch (error) {
    await near.close();
    throw error;
  }
}

async function reachable<T>(open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError("state", `PostgreSQL can't be used: ${errorText(error)}.`, { cause: error });
  }
}

/** A line for each kind when it is done, and one every few seconds while that takes long. */
function createWatch({ steady, say, failpoint }: MoveOptions): Watch {
  let saidAt = steady();
  return {
    failpoint,
    onProgress(doing, count) {
      if (steady() - saidAt < PROGRESS_MS) return;
      saidAt = steady();
      say(`  ${doing}: ${count} so far …`);
    },
    onDone: ({ what, count }) => say(`  ${what}: ${count}`),
    onStray: (what) => say(`  left where it is: ${what}`),
  };
}

function summary(copied: readonly Amount[]): string {
  const of = (what: string): number => copied.find((one) => one.what === what)?.count ?? 0;
  const tables = copied.filter(({ what }) => !["transcripts", "entries", "documents", "files"].includes(what));
  const rows = tables.reduce((sum, { count }) => sum + count, 0);
  return `Compared, and the same on both sides: ${rows} rows in ${tables.length} tables, ${of("transcripts")} transcripts with ${of("entries")} entries, ${of("documents")} documents, ${of("files")} files.`;
}
