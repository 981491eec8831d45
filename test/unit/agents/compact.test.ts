// Compaction on real transcripts: what is summed up, what stays, and what a turn does when summing up fails.
import { describe, expect, it } from "vitest";
import type { ChatMessage, ModelReply } from "../../../src/models/model.ts";
import { user } from "../../contract/transcripts.contract.ts";
import { type Answer, createTurnRig, say, type TurnRig } from "../../support/turn-rig.ts";

const WINDOW = 2_000;
const CHARS = WINDOW * 3;

const isCompaction = ({ system }: { system: string }): boolean => system.startsWith("[COMPACTION]");

/** Summing up goes as `summaries` say, one after the other; everything else is answered. */
function withSummaries(...summaries: readonly Answer[]): Answer {
  let n = 0;
  return (request, onEvent) => {
    if (!isCompaction(request)) return { text: "the answer" };
    const answer = summaries[Math.min(n++, summaries.length - 1)];
    return answer?.(request, onEvent) ?? {};
  };
}

async function fill(rig: TurnRig, from: number, count = 20): Promise<void> {
  for (let n = from; n < from + count; n++) await rig.put(user(`message ${n} ${"x".repeat(200)}`));
}

const textOf = (messages: readonly ChatMessage[]): string => messages.map((message) => message.text).join("\n");
const compactions = async (rig: TurnRig) => (await rig.entries()).filter((entry) => entry.type === "compaction");
const failed: Partial<ModelReply> = { outcome: "error", error: { kind: "overload", message: "The provider is down." } };

describe("a compaction that fails", () => {
  it.each<[string, Answer, RegExp]>([
    ["a provider that is down", () => failed, /The provider is down/],
    ["an empty answer", say("  \n"), /said nothing/],
    ["half an answer", () => ({ text: "they tal", finish: "length" }), /cut off at its length limit/],
    ["a content filter", () => ({ text: "I can", finish: "filter" }), /content filter/],
    ["an end without a reason", () => ({ text: "they tal", finish: "other" }), /did not say that .* is whole/],
    [
      "words before a call",
      () => ({ text: "Let me look", toolCalls: [{ id: "1", name: "read", args: {} }], finish: "tool-calls" }),
      /called a tool/,
    ],
    [
      "a call instead of words",
      () => ({ text: "", toolCalls: [{ id: "1", name: "read", args: {} }], finish: "tool-calls" }),
      /said nothing/,
    ],
  ])("[SE7] by %s changes nothing; the turn goes on with what fits and says so", async (_how, summary, reason) => {
    using rig = await createTurnRig({ answers: [withSummaries(summary)], contextWindow: WINDOW });
    await fill(rig, 0, 30);
    await rig.put(user("the question"));
    const end = await rig.run();
    expect(end).toMatchObject({ outcome: "done", text: "the answer" });
    expect(end.notice).toMatch(reason);
    expect(end.notice).toMatch(/\d+ earlier messages/);
    expect(await compactions(rig)).toEqual([]);
    expect(await rig.entries()).toHaveLength(32);

    const sent = rig.requests.at(-1);
    expect(sent?.messages.at(-1)).toEqual({ role: "user", text: "the question" });
    expect(sent?.messages[0]?.text).toMatch(/^\[The gateway left \d+ earlier messages out/);
    expect(textOf(sent?.messages ?? [])).toContain("message 29 ");
    expect(textOf(sent?.messages ?? []).length).toBeLessThan(CHARS);
  });

  it("[SE7] says so also when everything still fits", async () => {
    using rig = await createTurnRig({ answers: [withSummaries(() => failed)], contextWindow: WINDOW });
    await fill(rig, 0, 17);
    await rig.put(user("the question"));
    expect((await rig.run()).notice).toMatch(/could not be summed up: The provider is down\. Nothing of it is lost/);
    expect(rig.requests.at(-1)?.messages).toHaveLength(18);
  });

  it("[SE7] is not tried again at every step of the turn, but in the next one", async () => {
    const step: Answer = () => ({ toolCalls: [{ id: "1", name: "none", args: {} }], finish: "tool-calls" });
    const answers: Answer = (request, onEvent) => {
      if (isCompaction(request)) return failed;
      return request.messages.at(-1)?.role === "user" ? step(request, onEvent) : { text: "done" };
    };
    using rig = await createTurnRig({ answers: [answers], contextWindow: WINDOW });
    await fill(rig, 0);
    await rig.put(user("the question"));
    await rig.run();
    expect(rig.requests.map(isCompaction)).toEqual([true, false, false]);
    await rig.put(user("another"));
    await rig.run();
    expect(rig.requests.slice(3).map(isCompaction)).toEqual([true, false, false]);
  });

  it("[SE7] later succeeds over all that stayed, and what was summed up before is still there", async () => {
    const answer = withSummaries(say("FIRST: they greeted"), () => failed, say("SECOND: they worked"));
    using rig = await createTurnRig({ answers: [answer], contextWindow: WINDOW });
    await fill(rig, 0);
    await rig.run();
    await fill(rig, 100);
    expect((await rig.run()).notice).toMatch(/provider is down/);
    expect(textOf(rig.requests.at(-1)?.messages ?? [])).toContain("FIRST: they greeted");
    expect(await compactions(rig)).toHaveLength(1);
    await rig.put(user("the question"));
    expect((await rig.run()).notice).toBeNull();
    const protocols = rig.requests.filter(isCompaction).slice(2);
    expect(textOf(protocols.flatMap((request) => request.messages))).toContain("message 100 ");
    const read = textOf(rig.requests.at(-1)?.messages ?? []);
    expect(read).toContain("FIRST: they greeted");
    expect(read).toContain("SECOND: they worked");
  });
});

it.each(["other", "stop"] as const)(
  "[SE7] a summary that says itself it is whole is taken from a provider that says `%s`, without its last line",
  async (finish) => {
    using rig = await createTurnRig({
      answers: [withSummaries(() => ({ text: "they greeted\nEND OF SUMMARY", finish }))],
      contextWindow: WINDOW,
    });
    await fill(rig, 0, 18);
    expect((await rig.run()).notice).toBeNull();
    expect(await compactions(rig)).toMatchObject([{ summary: "they greeted" }]);
  },
);

describe("a compaction after another", () => {
  it("[SE7] carries the summary before it whole, however long it was", async () => {
    const first = `FIRST BEGINS ${"a long record ".repeat(80)} FIRST ENDS`;
    using rig = await createTurnRig({ answers: [withSummaries(say(first), say("SECOND"), say("THIRD"))], contextWindow: WINDOW });
    for (let round = 0; round < 3; round++) {
      await fill(rig, round * 100, round === 0 ? 17 : 14);
      await rig.put(user(`question ${round}`));
      await rig.run();
    }
    expect(await compactions(rig)).toHaveLength(3);
    const messages = rig.requests.at(-1)?.messages ?? [];
    expect(messages[0]?.text).toBe(`[Summary of the earlier conversation]\n${first}\n\nSECOND\n\nTHIRD`);
    expect(messages.filter((message) => message.text.startsWith("[Summary of"))).toHaveLength(1);
    // A later reader of the file sees the same.
    await rig.put(user("and now?"));
    await rig.run();
    expect(rig.requests.at(-1)?.messages[0]).toEqual(messages[0]);
  });

  it("[SE7] that would outgrow the window has the model merge them, and is given the one before whole", async () => {
    const long = (name: string): string => `${name} BEGINS ${"a long record ".repeat(85)} ${name} ENDS`;
    using rig = await createTurnRig({
      answers: [withSummaries(say(long("FIRST")), say(long("SECOND")), say("FIRST and SECOND merged"))],
      contextWindow: WINDOW,
    });
    for (let round = 0; round < 2; round++) {
      await fill(rig, round * 100, round === 0 ? 17 : 14);
      await rig.put(user(`question ${round}`));
      await rig.run();
    }
    const merging = rig.requests.filter(isCompaction)[2]?.messages[0]?.text ?? "";
    expect(merging).toContain(long("FIRST"));
    expect(merging).toContain(long("SECOND"));
    expect(rig.requests.at(-1)?.messages[0]?.text).toBe("[Summary of the earlier conversation]\nFIRST and SECOND merged");
  });

  it("[SE7] finds the one before also when more stands behind it than a window holds", async () => {
    using rig = await createTurnRig({ answers: [withSummaries(say("FIRST"), () => failed)], contextWindow: WINDOW });
    await fill(rig, 0);
    await rig.run();
    await fill(rig, 100, 400);
    await rig.put(user("the question"));
    await rig.run();
    expect(rig.requests.at(-1)?.messages[0]?.text).toBe("[Summary of the earlier conversation]\nFIRST");
    expect(rig.requests.at(-1)?.messages.at(-1)?.text).toBe("the question");
  });
});

describe("more than a window", () => {
  it("[SE7] CACHE-006 a message longer than the window is cut in its middle with a note, not dropped, and nothing loops", async () => {
    using rig = await createTurnRig({ answers: [withSummaries(say("a summary"))], contextWindow: WINDOW });
    await rig.put(user(`BEGINS ${"x".repeat(4 * CHARS)} ENDS with the question`));
    const end = await rig.run();
    expect(end).toMatchObject({ outcome: "done", text: "the answer" });
    expect(end.notice).toMatch(/\d+ characters .* left out/);
    expect(rig.requests).toHaveLength(1);
    const text = rig.requests[0]?.messages.at(-1)?.text ?? "";
    expect(text).toMatch(/^BEGINS x+\n… \[The gateway left \d+ characters out here: .*\] …\nx+ ENDS with the question$/s);
    expect(text.length).toBeLessThan(CHARS);
    expect((await rig.entries())[0]).toMatchObject({ text: expect.stringMatching(/^BEGINS x{24000} ENDS/) });
  });

  it("[SE7] a provider that finds it too long all the same gets it shorter, a few times at most", async () => {
    const tooLong: Partial<ModelReply> = { outcome: "error", error: { kind: "context", message: "It does not fit." } };
    const sizes: number[] = [];
    const answer: Answer = (request) => {
      if (isCompaction(request)) return failed;
      sizes.push(textOf(request.messages).length);
      return sizes.length < 3 ? tooLong : { text: "the answer" };
    };
    using rig = await createTurnRig({ answers: [answer], contextWindow: WINDOW });
    await fill(rig, 0, 15);
    await rig.put(user("the question"));
    expect(await rig.run()).toMatchObject({ outcome: "done", text: "the answer" });
    expect(sizes).toEqual(sizes.toSorted((a, b) => b - a));
    expect(new Set(sizes).size).toBe(3);

    using hopeless = await createTurnRig({ answers: [() => tooLong], contextWindow: WINDOW });
    await hopeless.put(user("hi"));
    expect(await hopeless.run()).toMatchObject({ outcome: "error", reason: "It does not fit." });
    expect(hopeless.requests.length).toBeLessThanOrEqual(4);
  });
});
