// What only one process of an installation may do at a time, because two would do it twice or in another order: receiving, routing and
// delivering (`front`), and taking up what others left (`upkeep`). A duty is held for as long as the process is alive (its row in
// `nodes`), so nobody ever has to be asked to give one up: who is frozen for too long has lost both, and ends. A process that is alone
// has all duties.

import { errorText } from "../core/errors.ts";
import type { Bus } from "../core/events.ts";
import type { Logger } from "../core/logger.ts";
import type { Installation } from "./installation.ts";

export type Duty = "front" | "upkeep";

export interface Duties {
  /**
   * Begins with `work` now, or as soon as the duty is free. Resolves when that is done, or when somebody else has it for now. The signal
   * says that this process stops.
   */
  whenMine(duty: Duty, work: (signal: AbortSignal) => Promise<void>): Promise<void>;
  /** Waits for no further one; resolves when none is being taken up any more: what that begins is there to be ended. */
  stop(): Promise<void>;
}

export function createDuties(installation: Installation | null, { bus, log }: { bus: Bus; log: Logger }): Duties {
  const stopping = new AbortController();
  if (installation === null) return { whenMine: (_duty, work) => work(stopping.signal), stop: async () => stopping.abort() };
  const { members, role } = installation;
  const offs: (() => void)[] = [];
  const underWay = new Set<Promise<void>>();
  return {
    async whenMine(duty, work) {
      if (duty === "front" && role === "worker") return;
      let isMine = false;
      let isTrying = false;
      const attempt = async (): Promise<void> => {
        if (isMine || isTrying || stopping.signal.aborted) return;
        isTrying = true;
        try {
          // One that ends may still be given the duty, of somebody who ended a moment before: it goes with its row to the next.
          if (!(await members.take(duty)) || stopping.signal.aborted) return;
          isMine = true;
          log.info({ duty }, "this process has the duty now");
          await work(stopping.signal);
        } catch (error) {
          if (isMine) throw error;
          log.debug({ duty, reason: errorText(error) }, "a duty could not be asked for");
        } finally {
          isTrying = false;
        }
      };
      const tracked = (): Promise<void> => {
        const over = attempt().finally(() => underWay.delete(over));
        underWay.add(over);
        return over;
      };
      await tracked();
      offs.push(bus.on((event) => (event.type === "duty.free" || event.type === "bells.missed" ? tracked() : undefined)));
    },
    async stop() {
      stopping.abort();
      for (const off of offs) off();
      await Promise.allSettled(underWay);
    },
  };
}
