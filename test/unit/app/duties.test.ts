import { describe, expect, it } from "vitest";
import { createDuties } from "../../../src/app/duties.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createSharedFolder, hasPostgres } from "../../support/shared-folder.ts";

describe.runIf(hasPostgres())("duties of one process among several", () => {
  it("[SO3] a stop waits for a duty that is being taken up, which hears of it, and takes no other", async () => {
    await using folder = await createSharedFolder();
    await folder.stores.nodes.enter();
    const duties = createDuties(folder.stores.installation, { bus: folder.bus, log: silentLogger });
    const begun = Promise.withResolvers<void>();
    const goesOn = Promise.withResolvers<void>();
    const order: string[] = [];
    const taken = duties.whenMine("front", async (stopping) => {
      begun.resolve();
      await goesOn.promise;
      order.push(stopping.aborted ? "taken up, while it stops" : "taken up");
    });
    await begun.promise;
    const stopped = Promise.resolve(duties.stop()).then(() => order.push("stopped"));
    goesOn.resolve();
    await Promise.all([taken, stopped]);
    await duties.whenMine("upkeep", async () => void order.push("another"));
    expect(order).toEqual(["taken up, while it stops", "stopped"]);
  });
});
