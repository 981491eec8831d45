// Approvals on real stores, in any order of calls, presses, stops, restarts and passing time: nothing is done that nobody allowed, and
// nothing twice. The oracle keeps its own account of what people were shown and said, from the outside.
import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Question, Verdict } from "../../src/core/question.ts";
import type { Run } from "../../src/core/run.ts";
import { APPROVE, type ApprovalRig, type Caller, createApprovalRig } from "../support/approval-rig.ts";
import { createManualClock, type ManualClock } from "../support/manual-clock.ts";
import { createStage, okReply, type Stage } from "../support/stage.ts";
import { cases } from "./cases.ts";

let clock: ManualClock;
let stage: Stage;
beforeAll(async () => {
  clock = createManualClock();
  stage = await createStage({ clock, call: async () => okReply("x"), idle: true, config: { tools: { approve: APPROVE } } });
});
afterAll(() => stage[Symbol.asyncDispose]());

const TOOLS = ["deed", "look", "edit_it", "again"] as const;
const WORDS = ["yes", "yes", "yes", "run", "always", "no"] as const;

type Op =
  | { do: "call"; who: number; tool: number; n: number }
  | { do: "press"; which: number; word: number; isStranger: boolean }
  | { do: "resume"; who: number; crash: boolean }
  | { do: "forget"; who: number }
  | { do: "tamper"; who: number; n: number }
  | { do: "stop"; who: number }
  | { do: "reopen"; who: number }
  | { do: "change" }
  | { do: "wait"; hours: number };

const who = fc.nat(2);
const op: fc.Arbitrary<Op> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant("call" as const), who, tool: fc.nat(3), n: fc.nat(2) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("press" as const),
      which: fc.nat(9),
      word: fc.nat(5),
      isStranger: fc.nat(3).map((n) => n === 0),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("resume" as const), who, crash: fc.nat(3).map((n) => n === 0) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("forget" as const), who }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("tamper" as const), who, n: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("stop" as const), who }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("reopen" as const), who }) },
  { weight: 1, arbitrary: fc.constant({ do: "change" as const }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("wait" as const), hours: fc.constantFrom(1, 13, 25) }) },
);

/** What a person was shown, and what became of it, as somebody beside them would note it down. */
interface Shown {
  readonly question: Question;
  readonly caller: number;
  readonly generation: number;
  readonly text: string;
  readonly until: number;
  verdict: Verdict | null;
}

interface World {
  readonly rig: ApprovalRig;
  readonly rootKey: string;
  readonly callers: Caller[];
  readonly runs: Run[];
  readonly isAlive: boolean[];
  readonly shown: Map<string, Shown>;
  /** `<caller>:<generation>:<tool>`, or a tool for the whole chat. */
  readonly rules: Set<string>;
  seen: number;
  readonly wrong: string[];
}

let sequences = 0;
const happened = { done: 0, refused: 0, stranger: 0, late: 0, changed: 0 };

async function createWorld(): Promise<World> {
  const rootKey = `agent:main:web:dm:00000000-0000-4000-8000-${String(++sequences).padStart(12, "0")}`;
  const rig = createApprovalRig(stage);
  const runs = [
    await stage.spawn({}, { sessionKey: rootKey }),
    await stage.spawn({}, { sessionKey: rootKey }),
    await stage.spawn({}, { sessionKey: rootKey }),
  ];
  return {
    ...{ rig, rootKey, runs, callers: runs.map(rig.caller), isAlive: runs.map(() => true), shown: new Map(), rules: new Set<string>() },
    ...{ seen: 0, wrong: [] },
  };
}

const textOf = (world: World, tool: string, args: unknown): string => {
  const { n } = args as { n: number };
  return tool === "edit_it" || tool === "again" ? `${n} on ${world.rig.basis}` : `\`\`\`json\n{\n  "n": ${n}\n}\n\`\`\``;
};

async function noteShown(world: World): Promise<void> {
  for (const question of await world.rig.open(world.rootKey)) {
    const caller = world.runs.findIndex(({ id }) => id === question.runId);
    const { text, expiresAt: until, generation } = question;
    if (!world.shown.has(question.callKey)) world.shown.set(question.callKey, { question, caller, generation, text, until, verdict: null });
  }
}

/** Was what was just done allowed, by what people saw and said? */
function judge(world: World): void {
  const { rig, wrong, rules, shown, runs, isAlive } = world;
  for (const [n, deed] of rig.deeds.slice(world.seen).entries()) {
    const key = `${deed.caller}:${deed.callId}`;
    const index = runs.findIndex(({ sessionId }) => sessionId === deed.caller);
    const own = shown.get(key);
    const isRuled = rules.has(deed.tool) || rules.has(`${index}:${runs[index]?.generation}:${deed.tool}`);
    const isAllowed = own !== undefined && own.verdict !== null && own.verdict !== "no" && own.text === textOf(world, deed.tool, deed.args);
    if (!isRuled && !isAllowed) wrong.push(`${JSON.stringify(deed)}: nobody allowed it`);
    // What needs no yes of its own is kept from an ended run by its signal, as every call is.
    if (!isRuled && isAlive[index] !== true) wrong.push(`${JSON.stringify(deed)}: after its run had ended`);
    if (rig.deeds.slice(0, world.seen + n).some(({ callId, tool }) => callId === deed.callId && tool !== "again"))
      wrong.push(`${JSON.stringify(deed)}: done twice`);
    happened.done++;
  }
  world.seen = rig.deeds.length;
}

async function press(world: World, { which, word, isStranger }: Extract<Op, { do: "press" }>): Promise<void> {
  const all = [...world.shown.values()];
  const shown = all[which % Math.max(1, all.length)];
  if (shown === undefined) return;
  const said = WORDS[word] ?? "no";
  const isInTime =
    clock.now() < shown.until && world.isAlive[shown.caller] === true && world.runs[shown.caller]?.generation === shown.generation;
  const counts = !isStranger && isInTime && shown.verdict === null;
  await world.rig.press(shown.question, said, isStranger ? { from: "agent:main:web:dm:99999999-9999-4999-8999-999999999999" } : {});
  if (isStranger) happened.stranger++;
  else if (!isInTime) happened.late++;
  if (!counts) return;
  // One that a rule has answered meanwhile: nobody's word changes that.
  const settled = await stage.stores.questions.get(shown.question.id);
  if (settled?.verdict !== said) return;
  shown.verdict = said;
  const tool = shown.question.tool ?? "";
  if (said === "always") world.rules.add(tool);
  if (said === "run") world.rules.add(`${shown.caller}:${shown.generation}:${tool}`);
}

async function carryOut(world: World, op: Op): Promise<void> {
  const { rig, callers, runs, isAlive } = world;
  switch (op.do) {
    case "call":
      return callers[op.who]?.step([TOOLS[op.tool] ?? "deed", { n: op.n }]);
    case "resume":
      return callers[op.who]?.resume({ crash: op.crash });
    case "forget":
      return callers[op.who]?.forget();
    case "tamper":
      happened.changed++;
      return callers[op.who]?.tamper({ n: op.n });
    case "press":
      return press(world, op);
    case "change":
      rig.basis = `${rig.basis}!`;
      return;
    case "wait":
      return clock.set(clock.now() + op.hours * 3_600_000);
    case "stop": {
      const { steering } = stage.parts;
      const run = await stage.get((runs[op.who] as Run).id);
      await stage.stores.db.transaction(steering.locks([run]), (tx) => steering.stop(tx, [run], "by the test"));
      isAlive[op.who] = false;
      return;
    }
    case "reopen": {
      const run = runs[op.who] as Run;
      if (!(await stage.stores.db.transaction([], (tx) => stage.stores.runs.reopen(tx, run)))) return;
      runs[op.who] = await stage.get(run.id);
      // Its calls of before stay where they are: the turn of the new generation finds them in the same transcript.
      callers[op.who] = rig.caller(runs[op.who] as Run);
      isAlive[op.who] = true;
    }
  }
}

it("[QA4] a yes counts for the call it was asked for and for nothing else, in any order of events", { timeout: 240_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(op, { minLength: 8, maxLength: 30 }), async (ops) => {
      const world = await createWorld();
      for (const one of ops) {
        await carryOut(world, one);
        judge(world);
        await noteShown(world);
      }
      happened.refused += world.shown.size;
      expect(world.wrong).toEqual([]);
    }),
    cases(10),
  );
  // None of it was proved by nothing happening.
  for (const [what, count] of Object.entries(happened)) expect(count, what).toBeGreaterThan(10);
});
