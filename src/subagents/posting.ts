// An announcement on its way: its id, its row in the outbox, and what becomes of it. The row is written in the transaction that
// ends the run (ending.ts), or in the one that gathers a digest (digests.ts); from then on delivery moves it, and the delivery state of
// whatever runs it is about in the same transaction.
import { type Address, channelIsOff } from "../core/address.ts";
import { publicErrorText } from "../core/errors.ts";
import { shortId } from "../core/ids.ts";
import type { Channel, OutMessage, Part } from "../core/message.ts";
import { announceAddress, type Run } from "../core/run.ts";
import type { Tx } from "../stores/database.ts";
import type { Digests } from "../stores/digests.ts";
import type { Groups } from "../stores/groups.ts";
import type { LiveMessages } from "../stores/live-messages.ts";
import type { MailStore } from "../stores/mail.ts";
import type { OutboxRow } from "../stores/outbox-row.ts";
import type { Runs } from "../stores/runs.ts";
import type { SubagentDeps } from "./deps.ts";
import { deliveryNote, noteAbout } from "./notes.ts";
import { oneLine } from "./quoting.ts";

export type PostingDeps = Pick<SubagentDeps, "runs" | "outbox" | "channel" | "log">;

/** DL1: the id says what it is about, so that a run (or a later generation of it) can be announced only once. */
export const announceDelivery = (run: Pick<Run, "childKey" | "id" | "generation">): string =>
  run.generation === 1 ? announceDeliveries(run) : `${announceDeliveries(run)}:g${run.generation}`;

/** What the ids of all its announcements begin with. */
export const announceDeliveries = ({ childKey, id }: Pick<Run, "childKey" | "id">): string => `announce:v1:${childKey}:${id}`;

/** A digest goes by the first of the runs in it, under which the page keeps it and removes it. */
export const digestDelivery = (first: Run): string => `${announceDelivery(first)}${DIGEST}`;
const DIGEST = ":digest";

/** So does what a group says together. */
export const groupDelivery = (first: Run): string => `${announceDelivery(first)}${GROUP}`;
const GROUP = ":group";

interface Records {
  readonly runs: Runs;
  readonly mail: MailStore;
  readonly live: Pick<LiveMessages, "place" | "lose">;
  readonly digests: Pick<Digests, "listOf" | "remove">;
  readonly groups: Pick<Groups, "listOfDelivery">;
}

/**
 * The run's delivery state moves in the transaction that moves its announcement; settled, the archive time counts. A message that
 * changes later learns where it stands.
 */
export async function recordDelivery(
  records: Records,
  tx: Tx,
  row: OutboxRow,
  state: "sending" | "delivered" | "blocked",
  reason?: string,
  ref?: string,
): Promise<void> {
  const { live } = records;
  if (ref !== undefined) await live.place(tx, row.delivery, ref, row.address);
  if (state === "blocked") await live.lose(tx, row.delivery);
  const together = await saidTogether(records, row.delivery);
  if (together !== null) {
    for (const { runId, generation } of together) {
      const one = await records.runs.glance(runId);
      if (one?.generation === generation) await moveRun(records, tx, one, state, reason);
    }
    if (state === "delivered") await records.digests.remove(tx, row.delivery);
    return;
  }
  const run = row.runId === null ? null : await records.runs.glance(row.runId);
  // A run that goes on has a new announcement to wait for; a late delivery of the old one says nothing about it.
  if (run !== null && announceDelivery(run) === row.delivery) await moveRun(records, tx, run, state, reason);
}

/** Whom a digest or a group's announcement is about, each in one generation; null: it is one run's own. */
async function saidTogether(
  { digests, groups }: Records,
  delivery: string,
): Promise<readonly { readonly runId: string; readonly generation: number }[] | null> {
  if (delivery.endsWith(DIGEST)) return digests.listOf(delivery);
  return delivery.endsWith(GROUP) ? groups.listOfDelivery(delivery) : null;
}

async function moveRun(
  { runs, mail }: Records,
  tx: Tx,
  { id, generation }: Pick<Run, "id" | "generation">,
  state: "sending" | "delivered" | "blocked",
  reason: string | undefined,
): Promise<void> {
  // Looked at once more by the statement itself: what is posted elsewhere moves under another lock than the run.
  if (state === "sending") return runs.setDelivery(tx, id, state, reason, generation);
  await runs.settle(tx, { id, generation }, state, reason);
  // A requester that read the result meanwhile was told that it is still on its way, and what was sent to its provider stays (SE8).
  const about = noteAbout({ id, generation });
  const run = (await mail.isRead(about)) ? await runs.get(id) : null;
  if (run !== null) await mail.addToRead(tx, about, `${about}:${state}`, deliveryNote(run, state, reason));
}

const NOBODY =
  'it is to go to the direct chat of the person who asked (announce.to: "dm"), and no person did: whatever sent it out reads it in its session';

/** Why nothing can be posted where it should go, in words; null: it can. */
export function unpostable({ channel }: Pick<PostingDeps, "channel">, run: Run): string | null {
  if (run.announcing.to === "nobody") return NOBODY;
  const address = announceAddress(run);
  if (channel(address.channel, address.account) !== null) return null;
  return `${channelIsOff(address.channel)}; once it is on again, \`/subagents retry ${shortId(run.id)}\` posts it`;
}

/** Why it is not posted by itself, and who can have it posted. */
export const byHand = ({ id }: Pick<Run, "id">, reason: string): string => `${reason}; \`/subagents retry ${shortId(id)}\` tries once more`;

export async function block({ runs }: Pick<PostingDeps, "runs">, tx: Tx, run: Run, reason: string): Promise<void> {
  await runs.settle(tx, run, "blocked", reason);
}

/** False: it was posted before, or there is nowhere to post it to. */
export async function post(deps: PostingDeps, tx: Tx, run: Run, message: OutMessage): Promise<boolean> {
  const address = announceAddress(run);
  const channel = deps.channel(address.channel, address.account);
  const reason = unpostable(deps, run);
  if (channel === null || reason !== null) {
    await block(deps, tx, run, reason ?? "");
    return false;
  }
  const parts = render(deps, channel, { run, address, message, about: `announcement of "${oneLine(run.label)}"` });
  return deps.outbox.add(tx, { delivery: announceDelivery(run), address, parts, runId: run.id });
}

interface Rendering {
  /** Whose announcement it is; of a digest the first. */
  readonly run: Run;
  readonly address: Address;
  readonly message: OutMessage;
  /** What it is, in a few words. */
  readonly about: string;
}

export function render({ log }: Pick<PostingDeps, "log">, channel: Channel, { run, address, message, about }: Rendering): Part[] {
  try {
    return channel.render(message, address);
  } catch (error) {
    log.error({ err: error, runId: run.id }, "an announcement could not be rendered");
    const where = `\`/subagents log ${shortId(run.id)}\` shows what it wrote`;
    const instead = `⚠️ The ${about} could not be shown: ${publicErrorText(error)}. ${where}.`;
    return channel.render({ markdown: instead, kind: "announcement" }, address);
  }
}
