// Message → reply through the real gateway with a model that answers at once, against a bare loop of durable writes on the same disk.
import { countWrites, createBareDisk, each, type WriteCount } from "./durable-writes.ts";
import { atMost, interleave, type Row, type Topic, us, withFolder } from "./measure.ts";
import { createBenchModels, createRig } from "./rig.ts";

const PER_ROUND = 10;
const ROUNDS = 21;
/** What a turn made when its goal was set. It makes fewer by now, which is its merit: measured by those, a turn that saves one would look slower. */
const YARDSTICK: WriteCount = { commits: 2, syncs: 2 };

export const turn: Topic = { name: "turn", run: () => withFolder(measureTurns) };

async function measureTurns(folder: string): Promise<Row[]> {
  const rig = await createRig({ folder, models: createBenchModels(() => ({})) });
  const disk = createBareDisk(folder);
  try {
    const ask = async (): Promise<void> => {
      for (let i = 0; i < PER_ROUND; i++) await rig.ask("main", "How are you?");
    };
    await rig.ask("main", "The first message also makes the session.");
    const writes = each(await countWrites(rig.databasePath, ask), PER_ROUND);
    const times = await interleave(ROUNDS, {
      turns: ask,
      bare() {
        for (let i = 0; i < PER_ROUND; i++) disk.write(YARDSTICK);
      },
    });
    const detail =
      `${us(times.turns / PER_ROUND)} against ${us(times.bare / PER_ROUND)} for ${YARDSTICK.commits} transactions and ` +
      `${YARDSTICK.syncs} synced appends; it makes ${writes.commits} and ${writes.syncs}`;
    return [atMost("message → reply with a 0 ms model, against bare durable writes", times.turns / times.bare, 3, detail)];
  } finally {
    disk.close();
    await rig.stop();
  }
}
