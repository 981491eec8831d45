// The named moments at which a test may kill the process, one list for the whole path. In production nothing is
// armed and hit() does nothing. HERALD_FAILPOINT=name[:n] dies with SIGKILL at the nth hit (1 when left out).

export const FAILPOINTS = [
  // message → answer
  "inbox.before-put",
  "inbox.put",
  "gateway.routed",
  "turn.claimed",
  "turn.input-appended",
  "turn.before-model",
  "turn.reply-appended",
  "turn.before-tool",
  "turn.after-tool",
  "turn.result-appended",
  "compaction.summed-up",
  "turn.before-commit",
  "turn.committed",
  "command.before-commit",
  "command.committed",
  "delivery.marked",
  "delivery.sent",
  "delivery.settled",
  // spawn → announcement → archive
  "brief.summed-up",
  "spawn.admitted",
  "spawn.recorded",
  "run.started",
  "run.waiting",
  "run.worked",
  "run.announced",
  "run.before-end",
  "run.ended",
  "stop.recorded",
  "archive.named",
  "archive.renamed",
  "archive.recorded",
  "chat.deleted",
  // question → answer, approval → call
  "question.before-put",
  "question.put",
  "approval.used",
  // hold → call → settle
  "budget.held",
  "budget.answered",
  "budget.settling",
  "budget.settled",
  // a message that changes
  "live.posted",
  "live.before-edit",
  "live.edited",
  // an answer that is read while it is written
  "draft.begun",
  "draft.shown",
  "draft.placed",
  // done, says the child → checks → back to it; finish
  "check.begun",
  "check.failed",
  "check.returned",
  "finish.accepted",
  // results held back → digest
  "digest.gathered",
  "digest.posted",
  // a file of a message: bytes → row → words; out of the workspace → stored → outbox
  "file.written",
  "file.recorded",
  "file.gathered",
  "file.queued",
] as const;

/** Of `npm run move`, which is no part of a gateway's path. */
export const MOVE_POINTS = [
  "move.marked",
  "move.rows",
  "move.transcript",
  "move.document",
  "move.file",
  "move.copied",
  "move.compared",
  "move.finished",
] as const;

export type Failpoint = (typeof FAILPOINTS)[number];
export type HitFailpoint = (name: Failpoint) => void;
export type HitMovePoint = (name: (typeof MOVE_POINTS)[number]) => void;

export const noFailpoints: HitFailpoint & HitMovePoint = () => {};

/** Throws RangeError for a name that is not in the list: a test that arms nothing would prove nothing. */
export function createFailpoints(spec: string | undefined, die: () => void): HitFailpoint & HitMovePoint {
  if (spec === undefined || spec === "") return noFailpoints;
  const [name, count] = spec.split(":");
  if (![...FAILPOINTS, ...MOVE_POINTS].some((known) => known === name))
    throw new RangeError(`HERALD_FAILPOINT names no known point: ${name}`);
  let left = count === undefined ? 1 : Number(count);
  return (hit: string) => {
    if (hit === name && --left === 0) die();
  };
}
