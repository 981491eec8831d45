// What a compaction sums up, on real transcripts: all of it back to the last one, in as many requests as it takes, and how
// long what it leaves lasts.
import { describe, expect, it } from "vitest";
import { stopMark } from "../../../src/agents/context.ts";
import type { ModelReply, ModelRequest } from "../../../src/models/model.ts";
import type { NewEntry } from "../../../src/stores/transcript-entry.ts";
import { user } from "../../contract/transcripts.contract.ts";
import { type Answer, createTurnRig, type TurnRig } from "../../support/turn-rig.ts";

const WINDOW = 2_000;
const isCompaction = ({ system }: ModelRequest): boolean => system.startsWith("[COMPACTION]");
const reply = (text: string): NewEntry => ({ type: "message", role: "assistant", text, model: "a/b", calls: 0 });
const factsIn = (text: string): number[] => [...text.matchAll(/fact-(\d+) /g)].map(([, n]) => Number(n));
const textOf = (request: ModelRequest | undefined): string => request?.messages.map((message) => message.text).join("\n") ?? "";
const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);
const compactionsOf = async (rig: TurnRig) => (await rig.entries()).filter((entry) => entry.type === "compaction");

const down: Partial<ModelReply> = { outcome: "error", error: { kind: "overload", message: "The provider is down." } };

/** Answers, and sums up while `sums` says so. */
const model =
  (sums: (request: ModelRequest) => Partial<ModelReply>): Answer =>
  (request) =>
    isCompaction(request) ? sums(request) : { text: "ok" };
const sum: Partial<ModelReply> = { text: "- a summary" };

async function talk(rig: TurnRig, from: number, count: number, filler = "short"): Promise<void> {
  for (let n = from; n < from + count; n++) await rig.put(user(`fact-${n} ${filler}`), reply("ok"));
}

/** What the summariser and, after it, the model itself read. */
function readFacts(requests: readonly ModelRequest[]): number[] {
  return [...new Set([...requests.filter(isCompaction), requests.at(-1)].flatMap((request) => factsIn(textOf(request))))].toSorted(
    (a, b) => a - b,
  );
}

describe("a history of which a turn reads only a part", () => {
  it("[SE7] is summed up whole, in as many requests as it takes, each within the window", async () => {
    using rig = await createTurnRig({ answers: [model(() => sum)], contextWindow: WINDOW });
    await talk(rig, 0, 300);
    await rig.put(user("the question"));
    expect((await rig.run()).notice).toBeNull();
    expect(readFacts(rig.requests)).toEqual(upTo(300));
    const asked = rig.requests.filter(isCompaction);
    expect(asked.length).toBeGreaterThan(1);
    expect(Math.max(...asked.map((request) => textOf(request).length))).toBeLessThan(WINDOW * 3);
    expect(await compactionsOf(rig)).toHaveLength(1);
  });

  it("[SE7] is counted to its beginning while summing up fails, and summed up whole when it works again", async () => {
    let isDown = true;
    using rig = await createTurnRig({ answers: [model(() => (isDown ? down : sum))], contextWindow: WINDOW });
    await talk(rig, 0, 300);
    await rig.put(user("the question"));
    const end = await rig.run();
    const shown = rig.requests.at(-1)?.messages ?? [];
    const leftOut = Number(/(\d+) earlier messages/.exec(end.notice ?? "")?.[1]);
    // All but the note in their place.
    expect(leftOut + shown.length - 1).toBe(601);
    expect(shown[0]?.text).toContain(`left ${leftOut} earlier messages out here`);
    isDown = false;
    rig.requests.splice(0);
    await rig.put(user("and now?"));
    expect((await rig.run()).notice).toBeNull();
    expect(readFacts(rig.requests)).toEqual(upTo(300));
  });

  it("[SE7] is summed up from what the last compaction kept, which was read before", async () => {
    using rig = await createTurnRig({ answers: [model(() => sum)], contextWindow: WINDOW });
    await talk(rig, 0, 100);
    await rig.put(user("a question"));
    await rig.run();
    const [first] = await compactionsOf(rig);
    const from = first?.type === "compaction" ? first.keptFrom : "";
    const kept = (await rig.entries()).find(
      (entry, at, all) => entry.type === "message" && entry.role === "user" && all.slice(0, at + 1).some(({ id }) => id === from),
    );
    const keptFact = factsIn(kept?.type === "message" ? kept.text : "")[0] ?? 0;
    expect(keptFact).toBeGreaterThan(50);
    rig.requests.splice(0);
    await talk(rig, 100, 300);
    await rig.put(user("the question"));
    await rig.run();
    expect(readFacts(rig.requests)).toEqual(upTo(400).slice(keptFact));
  });

  it("[SE7] too long for the requests one turn may wait for: what is left out is counted, in the summary and for the person", async () => {
    using rig = await createTurnRig({ answers: [model(() => sum)], contextWindow: WINDOW });
    await talk(rig, 0, 400, "x".repeat(300));
    await rig.put(user("the question"));
    const end = await rig.run();
    expect(rig.requests.filter(isCompaction).length).toBeLessThan(30);
    const read = readFacts(rig.requests);
    expect(read).toEqual(upTo(400).slice(-read.length));
    const leftOut = Number(/^(\d+) of the oldest messages were too many/.exec(end.notice ?? "")?.[1]);
    expect(Math.abs(leftOut - 2 * (400 - read.length))).toBeLessThanOrEqual(1);
    expect((await compactionsOf(rig))[0]).toMatchObject({ summary: expect.stringContaining(`(${leftOut} older messages`) });
  });

  it("[SE7] of which the second request fails is left as it was, and read from its beginning the next time", async () => {
    let n = 0;
    using rig = await createTurnRig({ answers: [model(() => (++n === 2 ? down : sum))], contextWindow: WINDOW });
    await talk(rig, 0, 300);
    await rig.put(user("the question"));
    expect((await rig.run()).notice).toMatch(/provider is down/);
    expect(await compactionsOf(rig)).toEqual([]);
    rig.requests.splice(0);
    await rig.put(user("and now?"));
    await rig.run();
    expect(readFacts(rig.requests)).toEqual(upTo(300));
  });

  it("[SE7] of very short messages is not left unread because its lines are long in the file", async () => {
    using rig = await createTurnRig({ answers: [model(() => sum)], contextWindow: WINDOW });
    const usage = { input: 123_456, output: 123_456, cacheRead: 123_456, cacheWrite: 123_456 };
    for (let n = 0; n < 60; n++) await rig.put({ ...reply(`fact-${n} `), usage, model: `a/${"m".repeat(400)}` } as NewEntry);
    await rig.put(user("the question"));
    await rig.run();
    expect(readFacts(rig.requests)).toEqual(upTo(60));
  });
});

describe("the border", () => {
  const STOPPED = "[The person ended the request above with /stop.]";
  const stopNote: NewEntry = { type: "note", about: stopMark("in:7"), text: STOPPED };
  const summed = (rig: TurnRig): string => rig.requests.filter(isCompaction).map(textOf).join("\n");

  it("[ST4] does not keep a stopped request's note from the summary that tells of the request", async () => {
    using rig = await createTurnRig({ answers: [model(() => sum)], contextWindow: WINDOW });
    await rig.put(user("small talk"), reply("ok"), user("delete the archive", "in:7"), reply(`I begin ${"z".repeat(500)}`));
    // As the gateway writes it: the note was read with the message after it.
    await rig.put(user(`something else ${"b".repeat(4_000)}`, "in:8"), stopNote);
    await rig.run();
    expect(summed(rig)).toContain(`delete the archive\n${STOPPED}`);
    expect(summed(rig)).not.toContain("something else");
  });

  it("[ST4] tells of a stop once, beside its request, when both are summed up", async () => {
    using rig = await createTurnRig({ answers: [model(() => sum)], contextWindow: WINDOW });
    await rig.put(user("delete the archive", "in:7"), reply("I begin"), user("another thing", "in:8"), stopNote, reply("ok"));
    await talk(rig, 0, 80);
    await rig.put(user("the question"));
    await rig.run();
    expect(summed(rig).split(STOPPED)).toHaveLength(2);
    expect(summed(rig)).toContain(`delete the archive\n${STOPPED}`);
  });

  it("[SE6] is never a note, which speaks of what stands before it", async () => {
    using rig = await createTurnRig({ answers: [model(() => sum)], contextWindow: WINDOW });
    await talk(rig, 0, 60);
    await rig.put(
      user("the question"),
      { type: "note", text: `[one ended] ${"n".repeat(800)}` },
      { type: "note", text: `[two ended] ${"n".repeat(800)}` },
    );
    await rig.run();
    expect(textOf(rig.requests.at(-1))).toMatch(/\[one ended\].*\[two ended\].*the question$/s);
  });
});

it("[SE8] what is told again after a compaction stands before the question, also when only that was kept", async () => {
  using rig = await createTurnRig({ answers: [model(() => sum)], contextWindow: WINDOW });
  const prompt = async () => ({ system: "s", topics: [{ name: "live", text: "one is at work" }] });
  await rig.put(user("hi"));
  await rig.run({ prompt });
  await talk(rig, 0, 60);
  await rig.put(user(`the question ${"q".repeat(1_500)}`));
  await rig.run({ prompt });
  expect(await compactionsOf(rig)).toHaveLength(1);
  expect(rig.requests.at(-1)?.messages.map((message) => message.text.slice(0, 12))).toEqual([
    "[Summary of ",
    "[The gateway",
    "the question",
  ]);
});

it("[SE6] a compaction lasts for a while also where system prompt and tools take most of a small window", async () => {
  const long: Partial<ModelReply> = { text: "a record of what was said ".repeat(100) };
  using rig = await createTurnRig({ answers: [model(() => long)], contextWindow: 8_000 });
  const prompt = async () => ({ system: "s".repeat(10_000), topics: [] });
  let turns = 0;
  for (; turns < 75; turns++) {
    await rig.put(user(`fact-${turns} ${"a few words ".repeat(8)}`));
    await rig.run({ prompt });
  }
  expect((await compactionsOf(rig)).length).toBeGreaterThan(0);
  expect((await compactionsOf(rig)).length).toBeLessThanOrEqual(8);
});
