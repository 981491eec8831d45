// How the judge of the chaos run knows what it sees on Matrix: by the mark a message carries, and by the rows that presses are.
import { describe, expect, it } from "vitest";
import { check } from "../../chaos/checker.ts";
import type { History, Said, Seen } from "../../chaos/history.ts";
import { createMatrixGround } from "../../chaos/matrix-ground.ts";
import { type Rows, readTables, unread, withKeys } from "../../chaos/record.ts";
import { createMatrixRig, DIRECT } from "../../support/matrix-rig.ts";

const SEEN: Seen = { place: "matrix/!a:home.test/-", order: 1, at: 1, text: "", ref: "$1", key: null, replyTo: null };

describe("a message of the outbox", () => {
  const stored = { id: 1, delivery: "answer:7", n: 0, state: "sent", rank: 0, aside: 0, ref: "$1", createdAt: 1_234, joinedPart: null };
  it.each([
    ["alone", null, { key: "answer:7#0", madeAt: 1_234 }],
    ["together with others", "announce:together#0+2", { key: "announce:together#0+2" }],
  ])("[DL1][MX1] that went out %s is known by what the program gave it", async (_how, joinedAs, sent) => {
    await using rig = await createMatrixRig();
    await rig.started();
    const part = rig.channel.render({ markdown: "hello" }, rig.at(DIRECT))[0] ?? {};
    await rig.channel.send({ address: rig.at(DIRECT), part, ...sent, repeated: false });
    const rows: Rows = (sql) =>
      (/FROM outbox/.test(sql)
        ? [{ ...stored, joinedAs, address: JSON.stringify(rig.at(DIRECT)), part: JSON.stringify(part) }]
        : []) as never;
    const { outbox } = await readTables(rows);
    const seen = rig.fake.messages(DIRECT).map(({ mark }) => ({ ...SEEN, mark }));
    expect(withKeys(seen, outbox).map(({ key }) => key)).toEqual([sent.key]);
  });

  it("[DL1] of which none is known by its mark is trouble", () => {
    expect(unread([{ ...SEEN, mark: "one", key: "" }])).toEqual(["none of 1 messages of matrix could be told by its mark"]);
    expect(
      unread([
        { ...SEEN, mark: "one", key: "" },
        { ...SEEN, mark: "two", key: "reply:1#0" },
        { ...SEEN, mark: "", key: "" },
      ]),
    ).toEqual([]);
  });
});

describe("a press", () => {
  /** Presses of one person, and the rows that came of them, each answered once. */
  async function judge(presses: readonly { n: string; isStranger?: boolean }[], rows: readonly string[]) {
    const ground = await createMatrixGround("matrix", 1);
    const spot = ground.newPlace(1);
    const said: Said[] = [];
    for (const [index, { n, isStranger = false }] of presses.entries()) {
      const pressed = await ground.press(spot, "$question", { label: "", data: n }, isStranger);
      const words = { text: "", at: index, children: [], target: null };
      if (pressed !== null) said.push({ id: `m${index + 1}`, kind: isStranger ? "stranger" : "press", ...words, ...pressed });
    }
    await ground.close();
    const { place = "" } = said[0] ?? {};
    const history: History = {
      ...{
        said,
        runs: [],
        below: [],
        groups: [],
        ends: [],
        questions: [],
        sessions: [],
        transcripts: [],
        incidents: [],
        troubles: [],
        leftUnnamed: [],
      },
      inbox: rows.map((which, n) => ({ id: n + 1, channel: "matrix", externalId: `press ${spot.chat} $question ${which}`, state: "done" })),
      outbox: [],
      seen: rows.map((_, n) => ({ ...SEEN, place, order: n, ref: `$${n}`, text: "Already answered by @x", key: `answer:${n + 1}#0` })),
      slots: { main: 1, subagent: 1, wantedMain: 1, wantedSubagent: 1 },
    };
    return check(history).violations.map(({ kind, about }) => `${kind} ${about}`);
  }

  it.each([
    ["twice is one row", [{ n: "1" }, { n: "1" }], ["1 @ann:home.test"]],
    ["of two numbers is two rows", [{ n: "1" }, { n: "2" }], ["1 @ann:home.test", "2 @ann:home.test"]],
    ["of two numbers too late is one row", [{ n: "1" }, { n: "2" }], ["over @ann:home.test"]],
    ["once in time and once too late is two rows", [{ n: "1" }, { n: "1" }], ["1 @ann:home.test", "over @ann:home.test"]],
    [
      "too late, and once more of what is offered again, is two rows",
      [{ n: "1" }, { n: "2" }],
      ["over @ann:home.test", "2 @ann:home.test"],
    ],
  ])("[LV4][MX1] %s, and nothing is stray", async (_what, presses, rows) => {
    expect(await judge(presses, rows)).toEqual([]);
  });

  it("[LV4][MX1] that is two rows by itself is a repeat", async () => {
    expect(await judge([{ n: "1" }], ["1 @ann:home.test", "over @ann:home.test"])).toEqual(["repeated m1"]);
  });

  it("[QA3][MX1] of a stranger is no row, too late or not", async () => {
    expect(await judge([{ n: "1", isStranger: true }], ["over @bob:home.test"])).toEqual(["wrong-answer m1"]);
    expect(await judge([{ n: "1", isStranger: true }], ["1 @bob:home.test"])).toEqual(["wrong-answer m1"]);
  });
});
