// An announcement on its way: its id, its row in the outbox, and what becomes of it. The row is written in the transaction that
// ends the run (ending.ts); from then on delivery moves it, and the run's own delivery state in the same transaction.
import { publicErrorText } from "../core/errors.ts";
import { shortId } from "../core/ids.ts";
import type { Channel, OutMessage, Part } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import type { Tx } from "../stores/database.ts";
import type { MailStore } from "../stores/mail.ts";
import type { OutboxRow } from "../stores/outbox-row.ts";
import type { Runs } from "../stores/runs.ts";
import type { SubagentDeps } from "./deps.ts";
import { deliveryNote, noteAbout } from "./notes.ts";
import { oneLine } from "./quoting.ts";

type Deps = Pick<SubagentDeps, "runs" | "outbox" | "channel" | "log">;

/** DL1: the id says what it is about, so that a run (or a later generation of it) can be announced only once. */
export const announceDelivery = (run: Run): string =>
  run.generation === 1 ? announceDeliveries(run) : `${announceDeliveries(run)}:g${run.generation}`;

/** What the ids of all its announcements begin with. */
export const announceDeliveries = ({ childKey, id }: Pick<Run, "childKey" | "id">): string => `announce:v1:${childKey}:${id}`;

interface Records {
  readonly runs: Runs;
  readonly mail: MailStore;
}

/** The run's delivery state moves in the transaction that moves its announcement; settled, the archive time counts. */
export async function recordDelivery(
  { runs, mail }: Records,
  tx: Tx,
  row: OutboxRow,
  state: "sending" | "delivered" | "blocked",
  reason?: string,
): Promise<void> {
  const run = row.runId === null ? null : await runs.get(row.runId);
  // A run that goes on has a new announcement to wait for; a late delivery of the old one says nothing about it.
  if (run === null || announceDelivery(run) !== row.delivery) return;
  await runs.setDelivery(tx, run.id, state, reason);
  if (state === "sending") return;
  await runs.markSettled(tx, run.id);
  // A requester that read the result meanwhile was told that it is still on its way, and what was sent to its provider stays (SE8).
  await mail.addToRead(tx, noteAbout(run), `${noteAbout(run)}:${state}`, deliveryNote(run, state, reason));
}

/** False: it was posted before, or there is no channel to post it to. */
export async function post(deps: Deps, tx: Tx, run: Run, message: OutMessage): Promise<boolean> {
  const channel = deps.channel(run.address.channel, run.address.account);
  if (channel === null) {
    const reason = `the channel ${run.address.channel} is off; once it is on again, \`/subagents retry ${shortId(run.id)}\` posts it`;
    await deps.runs.setDelivery(tx, run.id, "blocked", reason);
    await deps.runs.markSettled(tx, run.id);
    return false;
  }
  const parts = render(deps, channel, run, message);
  return deps.outbox.add(tx, { delivery: announceDelivery(run), address: run.address, parts, runId: run.id });
}

function render({ log }: Deps, channel: Channel, run: Run, message: OutMessage): Part[] {
  try {
    return channel.render(message, run.address);
  } catch (error) {
    log.error({ err: error, runId: run.id }, "an announcement could not be rendered");
    const where = `\`/subagents log ${shortId(run.id)}\` shows what it wrote`;
    const instead = `⚠️ The announcement of "${oneLine(run.label)}" could not be shown: ${publicErrorText(error)}. ${where}.`;
    return channel.render({ markdown: instead, kind: "announcement" }, run.address);
  }
}
