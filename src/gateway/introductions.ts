// Tells people what the operator decided about them: a welcome, or one polite sentence. The decision is a row that knows whether
// its person was told, so it doesn't matter who decided (the page, or `npm run pair` in another process) nor when: now, while the
// gateway was off, or just before it was killed. Telling and the mark are one transaction, so nobody is told twice.
import type { Clock } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import type { Bus } from "../core/events.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel } from "../core/message.ts";
import { escapeId } from "../core/platform-id.ts";
import type { Database } from "../stores/database.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Outbox } from "../stores/outbox.ts";
import type { Pairing, Person } from "../stores/pairing.ts";

export interface IntroductionDeps {
  readonly db: Database;
  readonly pairing: Pairing;
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Logger;
  channel(name: string, account: string): Channel | null;
}

export interface Introductions {
  /** Runs until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** Another process can't ring: while a code waits to be decided on, its row is looked at. */
const LOOK_EVERY_MS = 1_000;

const WORDS: Record<Person["state"], string> = {
  paired: "Welcome! You can talk to me now: just write what you need. `!help` lists the commands.",
  refused: "Thank you for asking; whoever runs this gateway has decided not to let you in.",
};

export function createIntroductions(deps: IntroductionDeps): Introductions {
  return {
    async run(signal) {
      let wake = new AbortController();
      const unsubscribe = deps.bus.on((event) => {
        if (event.type === "pairing.changed") wake.abort();
      });
      while (!signal.aborted) {
        // Before the look: what changes during it must wake the sleep that follows.
        wake = new AbortController();
        const isAwaited = await look(deps);
        const until = AbortSignal.any([wake.signal, signal]);
        if (isAwaited) await deps.clock.sleep(LOOK_EVERY_MS, until);
        else if (!until.aborted) await new Promise((resolve) => until.addEventListener("abort", resolve, { once: true }));
      }
      unsubscribe();
    },
  };
}

/** True: a decision may come at any moment. */
async function look(deps: IntroductionDeps): Promise<boolean> {
  try {
    for (const person of await deps.pairing.listUntold()) await tell(deps, person);
    return (await deps.pairing.listPending()).length > 0;
  } catch (error) {
    deps.log.error({ reason: errorText(error) }, "somebody can't be told yet what was decided about them");
    return true;
  }
}

async function tell({ db, pairing, outbox, log, channel: find }: IntroductionDeps, person: Person): Promise<void> {
  const { channel: name, account, senderId, address, state, at } = person;
  const channel = find(name, account);
  // Its channel is off: at the start with which it is on again.
  if (channel === null) return;
  await db.transaction([lock.pairing, ...(address === null ? [] : [lock.chat(address)])], async (tx) => {
    if (!(await pairing.markTold(tx, person))) return;
    if (address !== null) {
      const parts = channel.render({ markdown: WORDS[state] }, address);
      await outbox.add(tx, {
        delivery: [state, name, escapeId(account), escapeId(senderId), at].join(":"),
        address,
        parts,
        isAnswer: true,
      });
    }
    // Who decided in another process could not tell the page.
    tx.emit({ type: "pairing.changed" });
  });
  log.info({ audit: state, channel: name, sender: senderId }, "the operator decided about somebody");
}
