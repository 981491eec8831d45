// A message to its answer, a spawn to its acceptance, a spawn to its announcement: with `--against <folder>`, a checkout of other code with
// its packages installed, in rounds that take turns, so that a second in which the machine is busy falls on both. Without a model's time.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { atMost, median, type Row, type Topic, us, withFolder } from "./measure.ts";
import type { Step } from "./spine-worker.ts";

const HERE = new URL("../../", import.meta.url).pathname;
const ROUNDS = 30;
/** Compiling goes on for hundreds of turns, and a gateway runs for months. */
const WARM_UP = 8;

export const spine: Topic = {
  name: "spine",
  run: ({ against }) => (against === null ? Promise.resolve([]) : withFolder((folder) => measureSpine(folder, against))),
};

const MEASURED = [
  ["turn", "message → reply"],
  ["accept", "sessions_spawn accepted"],
  ["announce", "spawn → announcement delivered"],
] as const;

async function measureSpine(folder: string, against: string): Promise<Row[]> {
  const sides: ChildProcess[] = [];
  try {
    for (const [n, root] of [HERE, against].entries()) sides.push(await startSide(root, join(folder, `side-${n}`)));
    const rows: Row[] = [];
    for (const [step, name] of MEASURED) {
      if (step === "announce") for (const side of sides) await ask(side, "serve");
      const seen = sides.map(() => [] as number[]);
      for (let round = 0; round < WARM_UP + ROUNDS; round++)
        for (const [n, side] of sides.entries()) {
          const ms = await ask(side, step);
          if (round >= WARM_UP) seen[n]?.push(ms);
        }
      const [now = Number.NaN, before = Number.NaN] = seen.map(median);
      rows.push(atMost(`${name}, against the code before`, now / before, 1.15, `${us(now)} against ${us(before)}`));
    }
    for (const side of sides) side.send("stop" satisfies Step);
    await Promise.all(sides.map((side) => once(side, "exit")));
    return rows;
  } finally {
    for (const side of sides) side.kill();
  }
}

async function startSide(root: string, folder: string): Promise<ChildProcess> {
  const child = fork(new URL("./spine-worker.ts", import.meta.url), [root, folder], { execPath: join(root, "node_modules/.bin/node") });
  await answerOf(child);
  return child;
}

async function ask(side: ChildProcess, step: Step): Promise<number> {
  const answer = answerOf(side);
  side.send(step);
  return (await answer) as number;
}

async function answerOf(child: ChildProcess): Promise<unknown> {
  const over = new AbortController();
  const gone = once(child, "exit", { signal: over.signal }).then(
    () => null,
    () => null,
  );
  try {
    const answer = await Promise.race([once(child, "message", { signal: over.signal }) as Promise<[unknown]>, gone]);
    if (answer === null) throw new Error("a gateway that was measured has ended");
    return answer[0];
  } finally {
    over.abort();
  }
}
