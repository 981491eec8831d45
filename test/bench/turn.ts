// Message → reply through the real gateway with a model that answers at once, against a bare loop of as many durable
// writes on the same disk.
import { countWrites, createBareDisk, each } from "./durable-writes.ts";
import { atMost, interleave, type Row, type Topic, us, withFolder } from "./measure.ts";
import { createBenchModels, createRig } from "./rig.ts";

const PER_ROUND = 10;
const ROUNDS = 21;

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
        for (let i = 0; i < PER_ROUND; i++) disk.write(writes);
      },
    });
    const detail = `${us(times.turns / PER_ROUND)} against ${us(times.bare / PER_ROUND)} for ${writes.commits} transactions and ${writes.syncs} synced appends`;
    return [atMost("message → reply with a 0 ms model, against its bare durable writes", times.turns / times.bare, 3, detail)];
  } finally {
    disk.close();
    await rig.stop();
  }
}
