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
  /** Begins with `work` now, or as soon as the duty is free. Resolves when that is done, or when somebody else has it for now. */
  whenMine(duty: Duty, work: () => Promise<void>): Promise<void>;
  /** Waits for no further one; resolves when what was begun with one is done. */
  stop(): Promise<void>;
}

export function createDuties(installation: Installation | null, { bus, log }: { bus: Bus; log: Logger }): Duties {
  if (installation === null) return { whenMine: (_duty, work) => work(), stop: async () => {} };
  const { members, role } = installation;
  const offs: (() => void)[] = [];
  const trying = new Set<Promise<void>>();
  let isOver = false;
  return {
    async whenMine(duty, work) {
      if (duty === "front" && role === "worker") return;
      let isMine = false;
      let isTrying = false;
      const attempt = async (): Promise<void> => {
        if (isMine || isTrying) return;
        isTrying = true;
        try {
          // One that ends may still be given the duty, of somebody who ended a moment before: it goes with its row to the next.
          if (!(await members.take(duty)) || isOver) return;
          isMine = true;
          log.info({ duty }, "this process has the duty now");
          await work();
        } catch (error) {
          if (isMine) throw error;
          log.debug({ duty, reason: errorText(error) }, "a duty could not be asked for");
        } finally {
          isTrying = false;
        }
      };
      const attemptOnce = async (): Promise<void> => {
        const one = attempt();
        trying.add(one);
        try {
          await one;
        } finally {
          trying.delete(one);
        }
      };
      await attemptOnce();
      offs.push(bus.on((event) => (event.type === "duty.free" || event.type === "bells.missed" ? attemptOnce() : undefined)));
    },
    async stop() {
      isOver = true;
      for (const off of offs) off();
      await Promise.allSettled(trying);
    },
  };
}
