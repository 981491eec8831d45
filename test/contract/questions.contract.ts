// Questions with two writers at once, whatever database stands behind them: two presses, a press and the end of its time, a press and a
// stop, a yes that two would use. The second writer starts a growing number of turns after the first, so that it comes by in every moment.
import { expect, it } from "vitest";
import { addressKey } from "../../src/core/address.ts";
import { liveId, type Question } from "../../src/core/question.ts";
import type { Run } from "../../src/core/run.ts";
import { liveDelivery } from "../../src/stores/live-messages.ts";
import { lock } from "../../src/stores/lock-keys.ts";
import { APPROVE, type ApprovalRig, type Caller, createApprovalRig } from "../support/approval-rig.ts";
import { createManualClock, type ManualClock } from "../support/manual-clock.ts";
import { okReply, type Stage, type StageOptions } from "../support/stage.ts";

interface Asked {
  readonly rig: ApprovalRig;
  readonly run: Run;
  readonly caller: Caller;
  readonly question: Question;
}

export function questionWriters(makeStage: (options: StageOptions) => Promise<Stage>): void {
  const open = async (clock: ManualClock): Promise<Stage> =>
    makeStage({
      clock,
      call: async () => okReply("x"),
      idle: true,
      subagents: { maxChildrenPerSession: 1_000 },
      config: { tools: { approve: APPROVE } },
    });
  const ask = async (stage: Stage): Promise<Asked> => {
    const rig = createApprovalRig(stage);
    const run = await stage.spawn();
    const caller = rig.caller(run);
    await caller.step(["deed", { n: 1 }]);
    const question = (await stage.stores.questions.listOfRun(run.id))[0] as Question;
    return { rig, run, caller, question };
  };
  const asIs = async (stage: Stage, { id }: Question): Promise<Question> => (await stage.stores.questions.get(id)) as Question;
  const stop = (stage: Stage, run: Run): Promise<unknown> =>
    stage.stores.db.transaction(stage.parts.steering.locks([run]), async (tx) =>
      stage.parts.steering.stop(tx, [await stage.get(run.id)], "by the test"),
    );
  const TURNS = Array.from({ length: 20 }, (_, n) => n * 3);

  it("[QA3] two presses at once: one of them counts, the other is told whose, and only that one has an effect", async () => {
    await using stage = await open(createManualClock());
    for (const turns of TURNS) {
      const { rig, caller, question } = await ask(stage);
      const told = await Promise.all([
        rig.press(question, "yes", { by: "Ada" }),
        later(turns, () => rig.press(question, "no", { by: "Eve" })),
      ]);
      const { verdict, answeredBy } = await asIs(stage, question);
      const how = verdict === "yes" ? "allowed, this once" : "refused";
      expect(told.filter((text) => text === `Already answered by ${answeredBy?.name}: ${how}`)).toHaveLength(1);
      await caller.resume();
      expect(rig.deeds).toHaveLength(verdict === "yes" ? 1 : 0);
    }
  });

  it("[QA4] a press in the moment its time is over: it counts and the call is made once, or it is closed and nothing is", async () => {
    const clock = createManualClock();
    await using stage = await open(clock);
    for (const turns of TURNS) {
      const { rig, caller, question } = await ask(stage);
      clock.set(question.expiresAt - 1);
      const pressed = rig.press(question, "yes");
      await later(turns, async () => {
        clock.set(question.expiresAt);
        await caller.resume();
      });
      const told = await pressed;
      await caller.resume();
      const { state } = await asIs(stage, question);
      expect([told, state, rig.deeds.length]).toEqual(
        state === "answered"
          ? ["✅ Allowed, this once; it goes on.", "answered", 1]
          : ["This question is closed: nobody had answered in time.", "expired", 0],
      );
    }
  });

  it("[QA4][ST2] a Yes in the moment of a stop: nothing is done after it, and it was answered before it or is void", async () => {
    await using stage = await open(createManualClock());
    for (const turns of TURNS) {
      const { rig, run, caller, question } = await ask(stage);
      const [told] = await Promise.all([rig.press(question, "yes"), later(turns, () => stop(stage, run))]);
      await caller.resume();
      const { state, usedAt } = await asIs(stage, question);
      expect([told, state]).toEqual(
        state === "answered"
          ? ["✅ Allowed, this once; it goes on.", "answered"]
          : ["This question is closed: what asked it has ended.", "void"],
      );
      expect([usedAt, rig.deeds]).toEqual([null, []]);
    }
  });

  it("[QA4][ST2] a stop in the moment a yes is used: used before it, or not at all", async () => {
    await using stage = await open(createManualClock());
    for (const turns of TURNS) {
      const { rig, run, caller, question } = await ask(stage);
      await rig.press(question, "yes");
      await Promise.all([caller.resume(), later(turns, () => stop(stage, run))]);
      expect(rig.deeds).toHaveLength((await asIs(stage, question)).usedAt === null ? 0 : 1);
    }
  });

  it("[QA3][LV3] a stop while its message is being sent: it is taken back; arrived all the same, it is edited on, unless a person removed it", async () => {
    await using stage = await open(createManualClock());
    const { db, outbox, live } = stage.stores;
    const { run, question } = await ask(stage);
    const [id, { address }] = [liveId(question), question];
    const row = await outbox.head(addressKey(address));
    if (row?.delivery !== liveDelivery(id)) throw new Error(`another message is in front: ${row?.delivery}`);
    await db.transaction([lock.chat(address)], (tx) => outbox.markSending(tx, row.id));
    await stop(stage, run);
    expect([(await asIs(stage, question)).state, (await live.get(id))?.state, await live.listOpen()]).toEqual(["void", "gone", []]);
    const arrive = (): Promise<void> => db.transaction([lock.chat(address)], (tx) => live.place(tx, row.delivery, "77", address));
    await arrive();
    expect(await live.get(id)).toMatchObject({ state: "shown", ref: "77" });
    expect(await live.listOpen()).toEqual([id]);
    await live.end(id, "gone");
    await arrive();
    expect(await live.get(id)).toMatchObject({ state: "gone" });
  });

  it("[QA4] a yes that two would use at once is used by one", async () => {
    await using stage = await open(createManualClock());
    for (const turns of TURNS) {
      const { rig, caller, question } = await ask(stage);
      await rig.press(question, "yes");
      await Promise.all([caller.resume(), later(turns, () => caller.resume())]);
      expect(rig.deeds).toHaveLength(1);
    }
  });
}

/** So many turns later. */
async function later<T>(turns: number, work: () => Promise<T>): Promise<T> {
  for (let turn = 0; turn < turns; turn++) await null;
  return work();
}
