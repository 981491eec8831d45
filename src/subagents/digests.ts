// Digests (AP1): successes wait as rows and go out together, one message for an address and period. A period begins with the first
// result that is held and is over when that one is due; whatever else is held for the address by then goes along. Due times are rows
// and one ticker looks for them, so neither a restart nor a changed setting loses or doubles one.
import type { Address } from "../core/address.ts";
import { shortId } from "../core/ids.ts";
import type { OutMessage } from "../core/message.ts";
import { announceAddress, type Run } from "../core/run.ts";
import type { Tx } from "../stores/database.ts";
import type { DigestItem } from "../stores/digests.ts";
import { lock } from "../stores/lock-keys.ts";
import type { SubagentDeps } from "./deps.ts";
import { type DigestEntry, digestMessage } from "./digest-message.ts";
import { block, digestDelivery, type PostingDeps, render, unpostable } from "./posting.ts";

type Deps = PostingDeps & Pick<SubagentDeps, "digests" | "clock">;

export interface DigesterDeps extends Deps, Pick<SubagentDeps, "db" | "failpoint"> {
  /** What another process has learnt of its channels is known here too: an account nobody knows would pass for a channel that is off. */
  learnAccounts(): Promise<void>;
}

export interface Digester {
  /** Looks at once and then regularly until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

const MINUTE_MS = 60_000;
/** Always the same wait, whatever the settings say: no timer is ever set from them. */
const LOOK_EVERY_MS = 5_000;
/** What more there is follows in another digest: a row, and a file, has an end. */
const MAX_RUNS = 200;
const MAX_LENGTH = 4_000_000;

/** In the transaction that ends the run. */
export async function hold(deps: Deps, tx: Tx, run: Run, message: OutMessage): Promise<void> {
  // Known now, and no digest will change it.
  if (run.announcing.to === "nobody") return block(deps, tx, run, unpostable(deps, run) ?? "");
  const dueAt = deps.clock.now() + (run.announcing.everyMinutes ?? 0) * MINUTE_MS;
  await deps.digests.hold(tx, { runId: run.id, generation: run.generation, address: announceAddress(run), dueAt, message });
  await deps.runs.setDelivery(tx, run.id, "pending", heldUntil(dueAt), run.generation);
}

/** How list, info and the requester's model are told. */
const heldUntil = (dueAt: number): string => `held for the digest that is due at ${new Date(dueAt).toISOString()} at the latest`;

/**
 * What a run has held, or has in a digest that nobody has begun to send, is left out. False: of its last end there is nothing left to
 * take back.
 */
export async function dropOut(deps: Deps, tx: Tx, run: Run): Promise<boolean> {
  let isLatest = false;
  for (const item of await deps.digests.listOfRun(run.id))
    if (await takeOut(deps, tx, item)) isLatest ||= item.generation === run.generation;
  return isLatest;
}

/** The digest it stood in is made anew without it: sent as it is, it would say what was stopped. */
async function takeOut({ digests, outbox }: Deps, tx: Tx, item: DigestItem): Promise<boolean> {
  if (await digests.drop(tx, item)) return true;
  // Read again: it may have been gathered since it was listed.
  const delivery = (await digests.find(item))?.delivery ?? null;
  if (delivery === null || !(await outbox.takeBack(tx, delivery))) return false;
  await digests.release(tx, delivery);
  return digests.drop(tx, item);
}

/** Sends a digest again that was blocked, with everybody in it. False: its channel is still off. */
export async function retryDigest(deps: Deps, tx: Tx, delivery: string): Promise<boolean> {
  const entries = await entriesOf(deps, await deps.digests.listOf(delivery));
  const isOnItsWay = (await deps.outbox.requeueDelivery(tx, delivery)) > 0 || (await send(deps, tx, delivery, entries));
  if (isOnItsWay) await markPending(deps, tx, entries);
  return isOnItsWay;
}

export function createDigester(deps: DigesterDeps): Digester {
  return {
    async run(signal) {
      for (; !signal.aborted; await deps.clock.sleep(LOOK_EVERY_MS, signal)) {
        try {
          await postDue(deps);
        } catch (error) {
          deps.log.error({ err: error }, "a digest was put off");
        }
      }
    },
  };
}

async function postDue(deps: DigesterDeps): Promise<void> {
  const due = await deps.digests.listDue();
  if (due.length > 0) await deps.learnAccounts();
  for (const address of due) {
    try {
      await deps.db.transaction([lock.chat(address)], (tx) => gather(deps, tx, address));
      deps.failpoint("digest.posted");
    } catch (error) {
      // One address doesn't hold up the next; the next look makes it good.
      deps.log.error({ err: error, address }, "a digest was put off");
    }
  }
}

/** One transaction {items taken, the digest in the outbox}: split in two, a kill in between would lose the items or post them again. */
async function gather(deps: DigesterDeps, tx: Tx, address: Address): Promise<void> {
  const held = await entriesOf(deps, fitting(await deps.digests.listHeld(address, MAX_RUNS)));
  const [first] = held;
  if (first === undefined) return;
  const delivery = digestDelivery(first.run);
  const taken: Entry[] = [];
  // Stopped since it was listed, it is not ours to say: the compare-and-set decides, not the list.
  for (const entry of held) if (await deps.digests.take(tx, entry.item, delivery)) taken.push(entry);
  if (taken.length === 0) return;
  deps.failpoint("digest.gathered");
  if (await send(deps, tx, delivery, taken)) return markPending(deps, tx, taken);
  for (const { run, isLatest } of taken) if (isLatest) await block(deps, tx, run, unpostable(deps, run) ?? "it could not be posted");
}

function fitting(items: readonly DigestItem[]): DigestItem[] {
  let length = 0;
  return items.filter(({ message }, n) => {
    length += message.markdown.length;
    return n === 0 || length <= MAX_LENGTH;
  });
}

interface Entry extends DigestEntry {
  readonly item: DigestItem;
  /** It has not gone on since: the digest says how its own announcement stands. */
  readonly isLatest: boolean;
}

async function entriesOf({ runs }: Pick<Deps, "runs">, items: readonly DigestItem[]): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (const item of items) {
    const run = await runs.get(item.runId);
    if (run !== null)
      entries.push({
        item,
        run: { ...run, generation: item.generation },
        message: item.message,
        isLatest: run.generation === item.generation,
      });
  }
  return entries;
}

async function markPending({ runs }: Pick<Deps, "runs">, tx: Tx, entries: readonly Entry[]): Promise<void> {
  for (const { run } of entries) await runs.setDelivery(tx, run.id, "pending", undefined, run.generation);
}

/** False: it is there already, or its channel is off. */
async function send(deps: Deps, tx: Tx, delivery: string, entries: readonly Entry[]): Promise<boolean> {
  const [first] = entries;
  if (first === undefined) return false;
  const { address } = first.item;
  const channel = deps.channel(address.channel, address.account);
  if (channel === null) return false;
  const message = digestMessage(entries, deps.clock.now());
  const about = `digest of ${entries.map(({ run }) => shortId(run.id)).join(", ")}`;
  const parts = render(deps, channel, { run: first.run, address, message, about });
  return deps.outbox.add(tx, { delivery, address, parts, runId: first.run.id });
}
