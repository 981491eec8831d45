// The state machine of a run: which moves exist, and that of several endings one wins.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { advance, isUnfinished, RUN_STATES, type RunEvent, type RunState, STATUS_WORD, sourcesOf } from "../../../src/core/run.ts";

const ENDS = ["done", "error", "timeout", "stopped", "interrupted"] as const;
const EVENTS: RunEvent[] = [
  ...(["start", "wait", "wake", "putOff", "reopen"] as const).map((type): RunEvent => ({ type })),
  ...ENDS.map((as): RunEvent => ({ type: "end", as })),
];

describe("advance", () => {
  it("[RU1] goes queued → running ⇄ waiting → one of the five ends, and nowhere else", () => {
    const moves = RUN_STATES.flatMap((state) =>
      EVENTS.flatMap((event) => {
        const next = advance(state, event);
        return next === null ? [] : [`${state} → ${next}`];
      }),
    );
    expect(moves.sort()).toEqual(
      [
        ...["queued → running", "running → waiting", "waiting → running"],
        // What it was to begin after has gone on before its turn came.
        "queued → waiting",
        // Nobody works on one that is queued or waits: it can't be done or time out.
        ...["stopped", "interrupted", "error"].flatMap((end) => [`queued → ${end}`, `waiting → ${end}`]),
        ...ENDS.map((end) => `running → ${end}`),
        ...ENDS.map((end) => `${end} → queued`),
      ].sort(),
    );
  });

  it("[RU2] whatever events race, a run ends once and stays ended until it is sent on", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...EVENTS), { maxLength: 40 }), (events) => {
        let state: RunState = "queued";
        let open = true;
        for (const event of events) {
          const next = advance(state, event);
          if (next === null) continue;
          if (event.type === "end") {
            expect(open).toBe(true);
            open = false;
          }
          if (event.type === "reopen") open = true;
          state = next;
          expect(isUnfinished(state)).toBe(open);
        }
      }),
    );
  });

  it("[RU2] sourcesOf names exactly the states an event may come from", () => {
    for (const event of EVENTS) expect(sourcesOf(event)).toEqual(RUN_STATES.filter((state) => advance(state, event) !== null));
  });
});

it("[AN2] the status word follows from the outcome", () => {
  expect(STATUS_WORD).toEqual({ done: "success", error: "error", timeout: "timeout", stopped: "unknown", interrupted: "unknown" });
});
