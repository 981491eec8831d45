// A person's yes before a tool call: for one call, as it was shown, once (QA4, IN3).
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Question } from "../../../src/core/question.ts";
import type { Run } from "../../../src/core/run.ts";
import { APPROVE, type ApprovalRig, createApprovalRig } from "../../support/approval-rig.ts";
import { createManualClock, type ManualClock } from "../../support/manual-clock.ts";
import { CHAT_KEY } from "../../support/runs.ts";
import { createStage, okReply, type Stage } from "../../support/stage.ts";

const OTHER = "agent:main:web:dm:11111111-1111-4111-8111-111111111111";
const HOUR = 3_600_000;

let clock: ManualClock;
let stage: Stage;
let rig: ApprovalRig;
let run: Run;

beforeEach(async () => {
  clock = createManualClock();
  stage = await createStage({ clock, call: async () => okReply("x"), idle: true, config: { tools: { approve: APPROVE } } });
  rig = createApprovalRig(stage);
  run = await stage.spawn({ label: "worker" });
});
afterEach(() => stage[Symbol.asyncDispose]());

const asked = async (n = 0): Promise<Question> => {
  const question = (await rig.open())[n];
  if (question === undefined) throw new Error("nothing is asked");
  return question;
};
const asIs = async ({ id }: Question): Promise<Question> => (await stage.stores.questions.get(id)) as Question;
const stop = (): Promise<unknown> =>
  stage.stores.db.transaction(stage.parts.steering.locks([run]), async (tx) =>
    stage.parts.steering.stop(tx, [await stage.get(run.id)], "by the test"),
  );

describe("one call, one yes", () => {
  it("[QA4] waits as a row, is carried out after a Yes, and the yes is used up before it begins", async () => {
    const caller = rig.caller(run);
    await caller.step(["deed", { n: 1 }]);
    const question = await asked();
    expect(caller.waits).toEqual([{ for: "answer", id: question.id, since: clock.now(), until: clock.now() + 24 * HOUR }]);
    expect(question.text).toBe('```json\n{\n  "n": 1\n}\n```');
    await caller.resume();
    expect([caller.results(), rig.deeds]).toEqual([[null], []]);
    expect(await rig.press(question, "yes")).toBe("✅ Allowed, this once; it goes on.");
    await caller.resume();
    expect(caller.results()).toEqual(["deed 1 done"]);
    expect(await asIs(question)).toMatchObject({ verdict: "yes", usedAt: clock.now() });
    await caller.step(["deed", { n: 1 }]);
    expect([rig.deeds.length, (await rig.open()).length], "the same call once more asks anew").toEqual([1, 1]);
  });

  it("[QA4] a turn of the chat itself is asked about for 15 minutes", async () => {
    const caller = await rig.main();
    await caller.step(["deed", { n: 1 }]);
    expect((await asked()).expiresAt).toBe(clock.now() + 15 * 60_000);
  });

  it("[QA4] a No and its reason are what the model reads, quoted; nothing is done", async () => {
    const caller = rig.caller(run);
    await caller.step(["deed", { n: 1 }]);
    await rig.press(await asked(), "no, not before Friday");
    await caller.resume();
    expect(caller.results()[0]).toMatch(/<untrusted [^>]*the reason of Ada[^>]*>\nnot before Friday\n<\/untrusted[\s\S]*Denied by Ada/);
    expect(rig.deeds).toEqual([]);
  });

  it("[QA4] no answer is a No, said so", async () => {
    const caller = rig.caller(run);
    await caller.step(["deed", { n: 1 }]);
    const question = await asked();
    clock.set(clock.now() + 24 * HOUR);
    await caller.resume();
    expect(caller.results()).toEqual(["Denied: nobody answered; go on without it."]);
    expect(await rig.press(question, "yes")).toBe("This question is closed: nobody had answered in time.");
    expect(rig.deeds).toEqual([]);
  });

  it("[QA4] other arguments under the same call: the yes is used up, and nothing is done", async () => {
    const caller = rig.caller(run);
    await caller.step(["deed", { n: 1 }]);
    await rig.press(await asked(), "yes");
    caller.tamper({ n: 2 });
    await caller.resume();
    expect(caller.results()[0]).toContain("Nothing was done: what it would do changed since you were asked");
    expect(rig.deeds).toEqual([]);
  });

  it("[QA4] APPR-001 what it rests on changed between the question and the Yes: nothing is done, the Yes is used up, a repeated call asks anew", async () => {
    const caller = rig.caller(run);
    await caller.step(["edit_it", { n: 1 }]);
    const question = await asked();
    expect(question.text).toBe("1 on as it was");
    rig.basis = "as it is";
    await rig.press(question, "yes");
    await caller.resume();
    expect(caller.results()[0]).toContain("the file changed since you were asked");
    expect((await asIs(question)).usedAt).not.toBeNull();
    await caller.step(["edit_it", { n: 1 }]);
    const again = await asked();
    expect(again.text).toBe("1 on as it is");
    await rig.press(again, "yes");
    await caller.resume();
    expect([caller.results(), rig.deeds.length]).toEqual([["edit_it 1 done"], 1]);
  });

  it("[QA4] APPR-009 an answer to the tool ask is no permission: the same words on a question of another kind change nothing", async () => {
    const caller = rig.caller(run);
    const context = { sessionId: run.sessionId, callId: "ask-call" };
    await stage.stores.db.transaction([], (tx) =>
      stage.stores.questions.put(tx, {
        ...{ callKey: `${context.sessionId}:${context.callId}`, kind: "ask", rootKey: CHAT_KEY, sessionId: run.sessionId, runId: run.id },
        ...{
          generation: 1,
          turnId: `run:${run.id}:1`,
          address: run.address,
          asker: "worker",
          text: "May I do it?",
          options: ["Yes", "No"],
        },
        ...{ tool: null, digest: null, expiresAt: clock.now() + HOUR },
      }),
    );
    await rig.press(await asked(), "#1");
    await caller.step(["deed", { n: 1 }]);
    expect([rig.deeds, await asked()]).toMatchObject([[], { kind: "approve", tool: "deed", state: "open" }]);
  });
});

describe("for longer than one call", () => {
  it("[QA4] Yes for this run: its later calls of the tool go without a question, another run's don't, nor its next generation's", async () => {
    const caller = rig.caller(run);
    await caller.step(["deed", { n: 1 }]);
    await rig.press(await asked(), "run");
    await caller.resume();
    await caller.step(["deed", { n: 2 }]);
    expect(caller.results()).toEqual(["deed 2 done"]);
    await rig.caller(await stage.spawn({ label: "other" })).step(["deed", { n: 3 }]);
    expect(rig.deeds.map(({ args }) => args)).toEqual([{ n: 1 }, { n: 2 }]);
    await stop();
    await stage.stores.db.transaction([], (tx) => stage.stores.runs.reopen(tx, run));
    await rig.caller(await stage.get(run.id)).step(["deed", { n: 4 }]);
    expect([rig.deeds.length, (await rig.open()).length]).toEqual([2, 2]);
  });

  it("[QA4] Always in this chat: for everybody below it and for other tools or chats not", async () => {
    const caller = rig.caller(run);
    await caller.step(["deed", { n: 1 }]);
    await rig.press(await asked(), "always");
    await caller.resume();
    const main = await rig.main();
    await main.step(["deed", { n: 2 }], ["edit_it", { n: 3 }]);
    expect(main.results()).toEqual(["deed 2 done", null]);
    await (await rig.main(OTHER)).step(["deed", { n: 4 }]);
    expect(rig.deeds.map(({ args }) => args)).toEqual([{ n: 1 }, { n: 2 }]);
    expect(await rig.open(OTHER)).toHaveLength(1);
  });

  it("[QA4] Always in this chat answers whoever else asks for the same tool there, at once: nobody waits a day to be refused", async () => {
    const other = await stage.spawn({ label: "other" });
    const main = await rig.main();
    const elsewhere = await rig.main(OTHER);
    for (const caller of [rig.caller(run), rig.caller(other), main, elsewhere]) await caller.step(["deed", { n: 1 }]);
    const rung: (string | null)[] = [];
    stage.bus.on((event) => void (event.type === "question.changed" && rung.push(event.runId)));
    await rig.press(await asked(), "always", { by: "Eve" });
    expect([await rig.open(), (await rig.open(OTHER)).length]).toEqual([[], 1]);
    expect(rung.sort()).toEqual([null, run.id, other.id].sort());
    await main.resume();
    expect(main.results()).toEqual(["deed 1 done"]);
  });

  it("[QA4] a rule given with one answer settles the other open questions it covers, each used once", async () => {
    const caller = rig.caller(run);
    await caller.step(["look", { n: 1 }], ["look", { n: 2 }], ["look", { n: 3 }]);
    const open = (await rig.open()).sort((one, other) => (one.text < other.text ? -1 : 1));
    await rig.press(open[2] as Question, "no");
    await rig.press(open[1] as Question, "run", { by: "Eve" });
    await caller.resume();
    expect(caller.results()).toEqual(["look 1 done", "look 2 done", expect.stringContaining("Denied by Ada")]);
    expect(await Promise.all(open.map(asIs))).toMatchObject([
      { verdict: "run", answeredBy: { name: "Eve" }, usedAt: clock.now() },
      { verdict: "run", answeredBy: { name: "Eve" }, usedAt: clock.now() },
      { verdict: "no", usedAt: null },
    ]);
  });
});

describe("words that begin like a Yes", () => {
  it.each([
    ..."run the tests first|always ask me first|ok but not in production|yes, if it is backed up|y_3abc no|Allow nothing".split("|"),
  ])("[QA4] %s: nothing is allowed, and it stays open", async (words) => {
    await rig.caller(run).step(["deed", { n: 1 }]);
    expect(await rig.press(await asked(), words)).toMatch(/^A Yes stands alone.*The question stays open\.$/);
    expect(await rig.open()).toHaveLength(1);
  });

  it.each(["Yes!", " ok. ", "always"])("[QA4] %s alone is one", async (words) => {
    await rig.caller(run).step(["deed", { n: 1 }]);
    expect(await rig.press(await asked(), words)).toMatch(/^✅ Allowed, (?:this once|always in this chat); it goes on\.$/);
  });
});

describe("several calls of one step", () => {
  it("[QA4] APPR-011 eight at once, five of them asked about, answered in any order: each result under its own id, nothing twice", async () => {
    const caller = rig.caller(run);
    await caller.step(
      ["look", { n: 1 }],
      ["free", { n: 10 }],
      ["look", { n: 2 }],
      ["look", { n: 3 }],
      ["free", { n: 11 }],
      ["look", { n: 4 }],
      ["look", { n: 5 }],
      ["free", { n: 12 }],
    );
    const open = await rig.open();
    const about = (n: number): Question => open.find(({ text }) => text.includes(`"n": ${n}`)) as Question;
    expect(open).toHaveLength(5);
    await rig.press(about(4), "yes");
    await caller.resume();
    await rig.press(about(2), "no");
    await rig.press(about(1), "yes");
    await caller.resume();
    await rig.press(about(5), "yes");
    await caller.resume();
    expect(caller.results()[3]).toBeNull();
    clock.set(clock.now() + 24 * HOUR);
    await caller.resume();
    expect(caller.results()).toEqual([
      "look 1 done",
      "free 10 done",
      expect.stringContaining("Denied by Ada"),
      "Denied: nobody answered; go on without it.",
      "free 11 done",
      "look 4 done",
      "look 5 done",
      "free 12 done",
    ]);
    expect(rig.deeds.map(({ args }) => (args as { n: number }).n).sort((one, other) => one - other)).toEqual([1, 4, 5, 10, 11, 12]);
  });

  it("[QA4] calls that change something are asked about one after the other, and what is behind one that waits was never begun", async () => {
    const caller = rig.caller(run);
    await caller.step(["free", { n: 9 }], ["deed", { n: 1 }], ["look", { n: 2 }], ["deed", { n: 3 }]);
    expect((await rig.open()).map(({ tool }) => tool)).toEqual(["deed"]);
    for (const tool of ["deed", "look", "deed"]) {
      const question = await asked();
      expect(question.tool).toBe(tool);
      await rig.press(question, "yes");
      await caller.resume();
    }
    expect(caller.results()).toEqual(["free 9 done", "deed 1 done", "look 2 done", "deed 3 done"]);
  });
});

describe("after a crash", () => {
  it("[QA4] APPR-005 the Yes was committed and nothing had run: it runs once, without a second question", async () => {
    const before = rig.caller(run);
    await before.step(["deed", { n: 1 }]);
    await rig.press(await asked(), "yes");
    await before.resume();
    await before.resume();
    expect([before.results(), rig.deeds.length, (await rig.open()).length]).toEqual([["deed 1 done"], 1, 0]);
  });

  it("[QA4] APPR-005 it had run and its result was not recorded: it is not run again, and the outcome is unknown", async () => {
    const caller = rig.caller(run);
    await caller.step(["deed", { n: 1 }], ["deed", { n: 2 }]);
    await rig.press(await asked(), "yes");
    await caller.resume({ crash: true });
    expect(rig.deeds).toHaveLength(1);
    await caller.resume();
    expect(caller.results()[0]).toContain("The gateway restarted while this tool ran. Whether it took effect is unknown");
    expect([rig.deeds.length, (await rig.open()).length]).toEqual([1, 0]);
  });

  it("[QA4] APPR-005 one that may be repeated is made again only on what was shown", async () => {
    const caller = rig.caller(run);
    await caller.step(["again", { n: 1 }]);
    await rig.press(await asked(), "yes");
    await caller.resume({ crash: true });
    rig.basis = "changed meanwhile";
    await caller.resume();
    expect(caller.results()[0]).toContain("This call was begun before the gateway restarted");
    expect(rig.deeds).toHaveLength(1);
  });

  it("[RC2] one that a standing rule let go, without a question of its own, is not run again either", async () => {
    const caller = rig.caller(run);
    await caller.step(["deed", { n: 1 }]);
    await rig.press(await asked(), "run");
    await caller.resume();
    await caller.step(["deed", { n: 2 }]);
    caller.forget();
    await caller.resume();
    expect([rig.deeds.length, caller.results()]).toEqual([2, [expect.stringContaining("Whether it took effect is unknown")]]);
  });
});

describe("too late", () => {
  it.each([
    ["it was stopped", () => stop(), "This question is closed: what asked it has ended.", "void"],
    [
      "it timed out",
      async () => {
        await stage.stores.runs.start(run.id);
        const end = { as: "timeout" as const, reason: null, incomplete: false, delivery: "none" as const };
        expect(await stage.stores.db.transaction([], (tx) => stage.stores.runs.end(tx, run.id, end))).toBe(true);
      },
      "This question is closed: what asked it has ended.",
      "void",
    ],
    [
      "its next generation began",
      async () => {
        await stop();
        await stage.stores.db.transaction([], (tx) => stage.stores.runs.reopen(tx, run));
      },
      "This question is closed: what asked it has ended.",
      "void",
    ],
    ["24 hours passed", async () => clock.set(clock.now() + 24 * HOUR), "This question is closed: nobody had answered in time.", "expired"],
  ])(
    "[QA4] APPR-007 a Yes after %s: closed, nothing is done, and the row says who pressed and why it had no effect",
    async (_, pass, told, state) => {
      const caller = rig.caller(run);
      await caller.step(["deed", { n: 1 }]);
      const question = await asked();
      await pass();
      expect(await rig.press(question, "always", { by: "Eve" })).toBe(told);
      await caller.resume();
      expect([rig.deeds, await asIs(question)]).toMatchObject([
        [],
        { state, verdict: null, late: [expect.stringMatching(/Eve: always; This/)] },
      ]);
      await rig.caller(await stage.spawn({ label: "next" })).step(["deed", { n: 2 }]);
      expect(rig.deeds, "no rule came of it").toEqual([]);
    },
  );

  it("[QA4] APPR-007 a run that ends makes its questions void in the same moment, before anybody presses", async () => {
    const changed: string[] = [];
    stage.bus.on((event) => void (event.type === "question.changed" && changed.push(event.questionId)));
    await rig.caller(run).step(["look", { n: 1 }], ["look", { n: 2 }]);
    const open = await rig.open();
    changed.length = 0;
    await stop();
    expect((await Promise.all(open.map(asIs))).map(({ state }) => state)).toEqual(["void", "void"]);
    expect(changed.sort()).toEqual(open.map(({ id }) => id).sort());
  });

  it("[QA4] a Yes that is there when the run is stopped is not used any more", async () => {
    const caller = rig.caller(run);
    await caller.step(["deed", { n: 1 }]);
    const question = await asked();
    await rig.press(question, "yes");
    await stop();
    await caller.resume();
    expect([rig.deeds, (await asIs(question)).usedAt]).toEqual([[], null]);
  });

  it("[QA4] nobody is asked for a run that was stopped a moment ago", async () => {
    const caller = rig.caller(run);
    await stop();
    await caller.step(["deed", { n: 1 }]);
    expect(caller.results()[0]).toContain("Not carried out: deed needs a person's yes. What asks has ended");
    expect(await rig.open()).toEqual([]);
  });

  it("[QA3][QA4] a press from another chat finds no such question", async () => {
    await rig.caller(run).step(["deed", { n: 1 }]);
    const question = await asked();
    expect(await rig.press(question, "yes", { from: OTHER })).toBe("There is no such question here, or it is long over.");
    expect((await asIs(question)).state).toBe("open");
  });
});

describe("nobody to ask", () => {
  it("[QA5] a run that works silently fails closed, in words", async () => {
    stage.reconfigure(
      {},
      { agents: { list: [{ id: "main", default: true, subagents: { announce: "silent" } }] }, tools: { approve: APPROVE } },
    );
    const caller = rig.caller(await stage.spawn({ label: "quiet" }));
    await caller.step(["deed", { n: 1 }]);
    expect(caller.results()[0]).toMatch(/Not carried out: deed needs a person's yes\. Nobody can be asked: this run works silently/);
    expect([rig.deeds, await rig.open()]).toEqual([[], []]);
  });

  it("[QA5] a run whose channel is off fails closed, in words", async () => {
    const caller = rig.caller(await stage.spawn({}, { address: { channel: "telegram", account: "bot", chat: "1", kind: "dm" } }));
    await caller.step(["deed", { n: 1 }]);
    expect(caller.results()[0]).toContain("Nobody can be asked: the channel telegram is off. Go on without it.");
    expect(rig.deeds).toEqual([]);
  });
});

describe("whose settings count", () => {
  const list = (more: object) => ({
    agents: {
      list: [
        { id: "main", default: true, tools: { approve: ["deed*"] } },
        { id: "free", ...more },
      ],
    },
  });

  it("[QA4][TL2] a sub-agent under another agent is asked about for what its requester would be", async () => {
    stage.reconfigure({}, list({}));
    const child = await stage.spawn({ label: "under another" });
    await rig.caller({ ...child, agentId: "free" }).step(["deed", { n: 1 }]);
    expect(rig.deeds).toEqual([]);
    expect(await rig.open()).toHaveLength(1);
  });

  it("[QA4] what is named for sub-agents alone is free in the chat", async () => {
    stage.reconfigure({}, { tools: { subagents: { tools: { approve: ["deed*"] } } } });
    const main = await rig.main();
    await main.step(["deed", { n: 1 }]);
    await rig.caller(run).step(["deed", { n: 2 }]);
    expect(rig.deeds.map(({ args }) => args)).toEqual([{ n: 1 }]);
    expect(await rig.open()).toHaveLength(1);
  });

  it("[QA4] a call that was refused stays refused when the settings change before it is made again", async () => {
    const caller = rig.caller(run);
    await caller.step(["deed", { n: 1 }]);
    await rig.press(await asked(), "no");
    stage.reconfigure({}, {});
    await caller.resume();
    expect([caller.results()[0], rig.deeds]).toEqual([expect.stringContaining("Denied by Ada"), []]);
  });
});
