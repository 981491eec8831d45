// The end of a run on real stores: the announce step's answer taken apart, and the one transaction that ends it.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Turns } from "../../../src/agents/turn.ts";
import { noFailpoints } from "../../../src/core/failpoints.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { Channel, OutMessage } from "../../../src/core/message.ts";
import { isUnfinished } from "../../../src/core/run.ts";
import type { ModelErrorKind, ModelReply, ModelRequest, Models } from "../../../src/models/model.ts";
import { parseAnnounceReply, resultOf, toResult } from "../../../src/subagents/announce.ts";
import { endNow } from "../../../src/subagents/ending.ts";
import { noteEntries } from "../../../src/subagents/notes.ts";
import { announceDelivery } from "../../../src/subagents/posting.ts";
import { answeredBy } from "../../../src/subagents/transcript-view.ts";
import { createManualClock, type ManualClock } from "../../support/manual-clock.ts";
import { paymentsOf } from "../../support/payments.ts";
import { makeRun } from "../../support/runs.ts";
import { createStage, okReply, type Stage } from "../../support/stage.ts";
import { waitFor } from "../../support/wait.ts";

describe("toResult", () => {
  it("[AN8] posts the last text where the reply names it, or copies the part of it that it was shown", () => {
    expect(toResult(null, "the words")).toEqual({ result: "the words", notes: "" });
    expect(toResult(" ANNOUNCE_AS_IS\n", "the words")).toEqual({ result: "the words", notes: "" });
    expect(toResult("Result:\nANNOUNCE_AS_IS\n\nNotes:\n- a doubt", "the words")).toEqual({ result: "the words", notes: "- a doubt" });
    const copied = "Result:\nbegin\n… [900 characters of your own words left out here; the gateway has them all] …\nend\n\nNotes:\n- none";
    expect(toResult(copied, "the words")).toEqual({ result: "the words", notes: "- none" });
    expect(toResult("Result:\nI said ANNOUNCE_AS_IS once", "the words")?.result).toBe("I said ANNOUNCE_AS_IS once");
    expect(toResult("ANNOUNCE_SKIP", "the words")).toBeNull();
  });
});

describe("parseAnnounceReply", () => {
  it("[AN1] takes Result and Notes apart, however the model decorates the headings", () => {
    for (const text of [
      "Result:\nfine\n\nNotes:\nsome doubt",
      "**Result:**\nfine\n\n**Notes:** some doubt",
      "## Result:\nfine\n## Notes:\nsome doubt",
      "status: error\n\nresult: fine\nnotes: some doubt",
      "**Status**: error\nResult: fine\n\n  Notes:  some doubt\n",
    ]) {
      expect(parseAnnounceReply(text), text).toEqual({ result: "fine", notes: "some doubt" });
    }
  });

  it("[AN1] without headings the whole text is the result; of several Notes the last one counts", () => {
    expect(parseAnnounceReply("just words\nin two lines")).toEqual({ result: "just words\nin two lines", notes: "" });
    expect(parseAnnounceReply("Result:\na\nNotes: of the text\nb\n\nNotes:\nreal")).toEqual({
      result: "a\nNotes: of the text\nb",
      notes: "real",
    });
    expect(parseAnnounceReply("")).toEqual({ result: "", notes: "" });
  });
});

it("[DL1] the delivery's id is made of the child key and the run id, one per generation", () => {
  const run = makeRun();
  expect(announceDelivery(run)).toBe(`announce:v1:${run.childKey}:${run.id}`);
  expect(announceDelivery({ ...run, generation: 2 })).toBe(`announce:v1:${run.childKey}:${run.id}:g2`);
});

describe("ending a run", () => {
  let clock: ManualClock;
  let stage: Stage;
  let reply: (request: ModelRequest) => ModelReply | Promise<ModelReply>;
  const isAnnounce = (request: ModelRequest): boolean => request.messages.at(-1)?.text.startsWith("Your work is over.") === true;
  beforeEach(async () => {
    clock = createManualClock();
    reply = (request) => okReply(isAnnounce(request) ? "Result:\nthe report\n\nNotes:\nthe doubts" : "the work");
    stage = await createStage({ clock, call: async (request) => reply(request), subagents: { announceTimeoutSeconds: 30 } });
  });
  afterEach(async () => stage[Symbol.asyncDispose]());

  const ended = (id: string) => waitFor("it to end", async () => (isUnfinished((await stage.get(id)).state) ? null : await stage.get(id)));
  const posted = async (id: string): Promise<string> =>
    (await stage.stores.db.all<{ part: string }>("SELECT part FROM outbox WHERE run_id = ?", id))
      .map((row) => (JSON.parse(row.part) as { text: string }).text)
      .join("");

  /** What breakOff takes beside models and a channel. */
  const endingDeps = () => ({
    ...{ ...stage.stores, agents: stage.agents, clock, log: silentLogger, failpoint: noFailpoints },
    payments: paymentsOf({ ...stage.stores, clock, bus: stage.bus, failpoint: noFailpoints }),
    ...{ turns: {} as Turns, tools: () => [], childPrompt: async () => ({ system: "", topics: [] }) },
    settings: () => ({ archiveAfterMinutes: 60, purgeAfterDays: null, onRestart: "resume" as const, publicUrl: null }),
  });

  it("[AN4] writes the end, the outbox row and the note to the requester together", async () => {
    const seen: number[][] = [];
    const { id } = await stage.spawn();
    stage.bus.on(async (event) => {
      if (event.type === "run.ended" && event.runId === id)
        seen.push([(await stage.announced(await stage.get(id))).length, await stage.notes(await stage.get(id))]);
    });
    await ended(id);
    expect(seen).toEqual([[1, 1]]);
    expect(await posted(id)).toContain("Status: success\n\nResult:\nthe report\n\nNotes:\nthe doubts\n");
  });

  it("[AN1] an announce step that takes too long is given up: the last words are used", async () => {
    reply = (request) =>
      isAnnounce(request)
        ? new Promise((resolve) => request.signal.addEventListener("abort", () => resolve({ ...okReply(""), outcome: "aborted" })))
        : okReply("the work");
    const { id } = await stage.spawn();
    await waitFor("the announce step", async () =>
      (await stage.stores.transcripts.tail(await stage.get(id), 9)).some((entry) => entry.phase === "announce"),
    );
    expect((await stage.get(id)).state).toBe("running");
    await clock.advance(31_000);
    await ended(id);
    expect(await posted(id)).toContain("Status: success\n\nResult:\nthe work\n");
  });

  it("[AN2] usage of the work and of the announce step is summed in the stats", async () => {
    const usage = { input: 5_342, output: 258, cacheRead: 0, cacheWrite: 0 };
    reply = () => ({ ...okReply("counted"), usage, costUsd: 0.06 });
    const { id } = await stage.spawn();
    await ended(id);
    expect(await posted(id)).toContain("tokens 11.2k (in 10.7k / out 516) • est $0.12 • sessionKey");
    reply = (request) => ({ ...okReply("counted"), usage, costUsd: isAnnounce(request) ? null : 0.06 });
    const unpriced = await stage.spawn();
    await ended(unpriced.id);
    expect(await posted(unpriced.id)).toContain("tokens 11.2k (in 10.7k / out 516) • sessionKey");
  });

  it("[CM6] a model that stood in for the one asked for is named in the notes, once", async () => {
    reply = () => ({ ...okReply("Result:\nfine"), model: "other/stand-in" });
    const { id } = await stage.spawn();
    await ended(id);
    expect(await posted(id)).toContain("Notes:\n- other/stand-in answered instead of scripted/model-1, which failed.\n");
    expect(await answeredBy(stage.stores.transcripts, await stage.get(id))).toEqual(["other/stand-in"]);
    reply = () => okReply("Result:\nfine");
    const plain = await stage.spawn();
    await ended(plain.id);
    expect(await posted(plain.id)).toContain("Notes:\n- (none)");
  });

  it("[CM7] a message that comes during the announce step is read before the run ends, and it is announced once", async () => {
    let sent = false;
    reply = async (request) => {
      if (isAnnounce(request) && !sent) {
        sent = true;
        expect(
          await stage.stores.db.transaction([], async (tx) => stage.parts.steering.send(tx, await stage.get(id), "me", "one more thing")),
        ).toBe("running");
      }
      return okReply(request.messages.some((message) => message.text === "one more thing") ? "with that thing" : "without it");
    };
    const { id } = await stage.spawn();
    expect(await ended(id)).toMatchObject({ state: "done", generation: 1 });
    expect(await stage.unread(await stage.get(id))).toBe(0);
    expect(await stage.announced(await stage.get(id))).toHaveLength(1);
    expect(await posted(id)).toContain("Result:\nwith that thing");
  });

  const send = (id: string) =>
    stage.stores.db.transaction([], async (tx) => stage.parts.steering.send(tx, await stage.get(id), "me", "once more"));

  it("[AN1] a generation that failed before it said anything doesn't announce the words of the one before", async () => {
    const { id } = await stage.spawn();
    await ended(id);
    await clock.advance(1_000);
    reply = () => ({ ...okReply(""), outcome: "error", error: { kind: "auth", message: "The key is wrong." } });
    await send(id);
    expect((await ended(id)).state).toBe("error");
    expect((await posted(id)).split("**Sub-agent").at(-1)).toContain(
      "Status: error\n\nResult:\n(not available)\n\nNotes:\n- It failed: The key is wrong.\n",
    );
    expect((await resultOf(stage.stores.transcripts, await stage.get(id))).result).toBe("");
    expect((await stage.get(id)).sections).toBeNull();
  });

  it("[AN1] the notes of a failed run say what can be done about it there, and settings only to whoever runs the gateway", async () => {
    const fails = (kind: ModelErrorKind) => (): ModelReply => ({
      ...okReply(""),
      outcome: "error",
      error: { kind, message: "It is down.", remedy: "Set something." },
    });
    const notes = async (kind: ModelErrorKind): Promise<string | undefined> => {
      reply = fails(kind);
      const { id } = await stage.spawn();
      await ended(id);
      return (await posted(id)).split("Notes:\n")[1]?.split("\n\n")[0]?.replace(id.slice(0, 8), "ID");
    };
    // The stage's chat is on the page.
    expect(await notes("overload")).toBe("- It failed: It is down.\n- `/subagents send ID go on` lets it try again.\n- Set something.");
    expect(await notes("auth")).toBe("- It failed: It is down.\n- Set something.");
    expect(await notes("context")).toBe(
      "- It failed: It is down.\n- What it read is more than its model can hold: ask for it in smaller parts.",
    );

    const elsewhere = { render: ({ markdown }: OutMessage) => [{ text: markdown }] } as Partial<Channel> as Channel;
    const deps = { ...endingDeps(), models: {} as Models };
    const { id } = await stage.spawn();
    const error = { kind: "auth", message: "It is down.", remedy: "Set something." } as const;
    await endNow({ ...deps, channel: () => elsewhere }, await stage.get(id), {
      as: "error",
      reason: error.message,
      incomplete: false,
      error,
    });
    expect(await posted(id)).toMatch(/Notes:\n- It failed: It is down\.$/);
    expect(await posted(id)).not.toContain("Set something");
  });

  it("[CM7] a run below another goes on after that one has ended: it announces in the chat, and the chat's model hears of it", async () => {
    stage.reconfigure({ maxSpawnDepth: 2 });
    const door = Promise.withResolvers<void>();
    reply = async (request) => {
      if (request.messages[0]?.text.includes("above")) await door.promise;
      return okReply(isAnnounce(request) ? "Result:\nthe report" : "the work");
    };
    const above = await stage.spawn({ task: "above" });
    const below = await stage.spawn({}, { sessionKey: above.childKey, sessionId: above.sessionId, runId: above.id });
    expect(await ended(below.id)).toMatchObject({ depth: 2, delivery: "skipped" });
    door.resolve();
    await ended(above.id);
    expect(await stage.announced(below)).toEqual([]);
    await send(below.id);
    await ended(below.id);
    expect(await stage.announced(below)).toEqual([announceDelivery(await stage.get(below.id))]);
    expect(announceDelivery(await stage.get(below.id))).toMatch(/:g2$/);
    const { mail, runs } = stage.stores;
    expect((await noteEntries(runs, await mail.listNotes(above.requesterSessionId))).at(-1)).toMatchObject({
      text: expect.stringContaining("The person has already seen this"),
    });
  });

  it("[DL3] while its channel is off it can't be retried, and says what to do", async () => {
    const address = { channel: "telegram", account: "nobody", chat: "7", kind: "dm" as const };
    const { id } = await stage.spawn({}, { address });
    await waitFor("it to be settled", async () => (await stage.get(id)).settledAt !== null);
    expect(await stage.get(id)).toMatchObject({
      state: "done",
      delivery: "blocked",
      deliveryReason: expect.stringContaining("/subagents retry"),
    });
    expect(await stage.stores.db.transaction([], async (tx) => stage.parts.steering.retry(tx, await stage.get(id)))).toBe(false);
    expect((await stage.get(id)).delivery).toBe("blocked");
    expect(await stage.announced(await stage.get(id))).toEqual([]);
  });

  it("[AN4] an announcement that can't be rendered is replaced by a sentence: the run ends all the same", async () => {
    const said: string[] = [];
    const render = ({ markdown }: OutMessage) => {
      if (said.push(markdown) === 1) throw new Error("no font");
      return [{ text: markdown }];
    };
    const channel = { render } as Partial<Channel> as Channel;
    const { id } = await stage.spawn();
    const models: Models = { call: async (request) => reply(request), contextWindow: () => 1, check: () => null };
    const deps = { ...endingDeps(), models, channel: () => channel };
    expect(await endNow(deps, await stage.get(id), { as: "interrupted", reason: null, incomplete: false })).toBe(true);
    expect(await posted(id)).toMatch(/^⚠️ The announcement of "run 1" could not be shown: no font\. `\/subagents log [0-9a-f]{8}` shows/);
    expect(said[0]).toContain("Status: unknown");
  });

  it("[RC4] a deleted transcript doesn't keep a run from ending: it is announced as an error", async () => {
    const { rmSync } = await import("node:fs");
    reply = async () => {
      rmSync(stage.stores.transcripts.path(await stage.get(id)), { force: true });
      return { ...okReply("x"), outcome: "error", error: { kind: "unknown", message: "It broke." } };
    };
    const { id } = await stage.spawn();
    expect((await ended(id)).state).toBe("error");
    expect(await posted(id)).toContain("Status: error\n");
  });
});
