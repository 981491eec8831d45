// The announce policy with a clock the test drives, on real stores: what is posted at once, what is held, and the one digest that
// follows, whatever happens to the runs in it and to the process meanwhile.
import { rmSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Run } from "../../src/core/run.ts";
import type { ModelReply, ModelRequest } from "../../src/models/model.ts";
import { noteEntries } from "../../src/subagents/notes.ts";
import { infoText, listText } from "../../src/subagents/overview.ts";
import { createManualClock, type ManualClock } from "../support/manual-clock.ts";
import { createStage, makeStateDir, okReply, type Stage } from "../support/stage.ts";
import { waitFor } from "../support/wait.ts";

const MINUTE = 60_000;
const HOURLY = { when: "digest", everyMinutes: 60 };
const SESSION_ID = "00000000-0000-4000-8000-000000000000";

let clock: ManualClock;
let stateDir: string;
let stage: Stage;
let reply: (request: ModelRequest) => ModelReply | Promise<ModelReply>;

const settings = (announce: unknown): Record<string, unknown> => ({ agents: { list: [{ id: "main", subagents: { announce } }] } });
const open = async (announce: unknown, subagents: Record<string, unknown> = {}): Promise<void> => {
  const common = { maxChildrenPerSession: 50, ...subagents };
  stage = await createStage({ clock, stateDir, subagents: common, config: settings(announce), call: async (request) => reply(request) });
};
beforeEach(() => {
  clock = createManualClock();
  stateDir = makeStateDir();
  reply = () => okReply("the answer");
});
afterEach(async () => {
  await stage[Symbol.asyncDispose]();
  rmSync(stateDir, { recursive: true, force: true });
});

const ended = (id: string): Promise<Run> =>
  waitFor("it to end", async () => ((await stage.get(id)).endedAt === null ? null : stage.get(id)));
const reached = (id: string, ...states: string[]): Promise<Run> =>
  waitFor(`its announcement to be ${states.join(" or ")}`, async () => {
    const run = await stage.get(id);
    return states.includes(run.delivery) ? run : null;
  });
const posted = async (): Promise<string[]> => (await stage.stores.webMessages.list("main", { limit: 200 })).map(({ text }) => text);
const held = async (): Promise<number> =>
  (await stage.stores.db.get<{ n: number }>("SELECT count(*) AS n FROM digest_items WHERE delivery IS NULL"))?.n ?? -1;
const items = async (): Promise<number> => (await stage.stores.db.get<{ n: number }>("SELECT count(*) AS n FROM digest_items"))?.n ?? -1;
const noteOf = async (run: Run): Promise<string> => {
  const notes = (await stage.stores.mail.listNotes(SESSION_ID)).filter(({ from }) => from.startsWith(run.id));
  return (await noteEntries(stage.stores.runs, notes)).map((entry) => ("text" in entry ? entry.text : "")).join("\n");
};
/** Answers by its task; a task that says so fails, or waits for the door. */
const byTask = ({ messages, system }: ModelRequest): ModelReply => {
  const all = [system, ...messages.map(({ text }) => text)].join("\n");
  const label = /work on (\w+)/.exec(all)?.[1] ?? "nothing";
  return /work on bad/.test(all)
    ? { ...okReply(""), outcome: "error", error: { kind: "auth", message: "no key", retryable: false } as never }
    : okReply(`found out about ${label}`);
};

describe('[AP1] when: "digest"', () => {
  it("[AP1] a fan-out of 20 successes and 2 failures: 2 announcements at once, one digest of 20 when it is due", async () => {
    reply = byTask;
    await open(HOURLY);
    const labels = Array.from({ length: 20 }, (_, n) => `good${n}`);
    const runs: Run[] = [];
    for (const label of [...labels, "bad1", "bad2"]) runs.push(await stage.spawn({ task: `work on ${label}`, label }));
    for (const { id } of runs) await ended(id);
    await waitFor("both failures to be posted", async () => (await posted()).length === 2);
    for (const text of await posted()) expect(text).toMatch(/^\*\*Sub-agent: bad\d\*\*\n\nStatus: error\n/);
    expect(await held()).toBe(20);
    await clock.advance(59 * MINUTE);
    expect(await posted()).toHaveLength(2);
    await clock.advance(2 * MINUTE);
    await waitFor("the digest to arrive", async () => (await items()) === 0);
    const [, , digest = "", ...more] = await posted();
    expect(more).toEqual([]);
    expect(digest).toMatch(/^\*\*Digest: 20 sub-agents finished\*\*\n/);
    for (const label of labels) {
      const [, own = ""] = digest.split(`**Sub-agent: ${label}**`);
      expect(own).toMatch(/^\n\nStatus: success\n\nResult:\n/);
      expect(own).toContain(`found out about ${label}\n`);
      expect(own.split("**Sub-agent:")[0]).toMatch(/Stats: runtime /);
    }
    for (const { id, label } of runs)
      expect(await stage.get(id)).toMatchObject({ delivery: "delivered", deliveryReason: null, label, settledAt: expect.any(Number) });
    await clock.advance(3 * 60 * MINUTE);
    expect(await posted()).toHaveLength(3);
  });

  it("[AP1][AR1][NV3] until then it is pending, says until when, is not archived, and its requester's model is told that nobody has seen it", async () => {
    await open(HOURLY, { archiveAfterMinutes: 5 });
    const run = await ended((await stage.spawn({ label: "one" })).id);
    const due = new Date(clock.now() + 60 * MINUTE).toISOString();
    expect(run).toMatchObject({
      delivery: "pending",
      deliveryReason: `held for the digest that is due at ${due} at the latest`,
      settledAt: null,
    });
    const facts = { run, now: clock.now(), transcript: "t", archiveDue: null, position: null, answeredBy: [], limit: null, group: null };
    expect(infoText(facts)).toContain(`**Delivery:** pending – held for the digest that is due at ${due}`);
    const list = {
      runs: [run],
      now: clock.now(),
      boots: new Set<string>(),
      title: "t",
      leftOut: 0,
      position: () => null,
      groups: [],
      limitOf: () => null,
      waitsFor: () => null,
    };
    expect(listText(list)).toContain(`held for the digest that is due at ${due}`);
    expect(await noteOf(run)).toContain(
      `Its announcement is held for the digest that is due at ${due} at the latest: the person has not seen it yet.`,
    );
    await clock.advance(30 * MINUTE);
    expect(await stage.get(run.id)).toMatchObject({ settledAt: null, archivedAt: null });
    await clock.advance(31 * MINUTE);
    expect(await reached(run.id, "delivered")).toMatchObject({ settledAt: expect.any(Number) });
    expect(await noteOf(run)).toContain("The person has already seen this as an announcement in the chat");
    await clock.advance(6 * MINUTE);
    await waitFor("it to be archived", async () => (await stage.get(run.id)).archivedAt !== null);
  });

  it("[AP1] the first that is held decides when; what ends afterwards begins the next period", async () => {
    await open(HOURLY);
    await ended((await stage.spawn({ label: "first" })).id);
    await clock.advance(50 * MINUTE);
    await ended((await stage.spawn({ label: "second" })).id);
    await clock.advance(11 * MINUTE);
    await waitFor("the digest", async () => (await items()) === 0);
    const third = await ended((await stage.spawn({ label: "third" })).id);
    await clock.advance(59 * MINUTE);
    expect(await posted()).toEqual([expect.stringContaining("first · second")]);
    await clock.advance(2 * MINUTE);
    await reached(third.id, "delivered");
    expect(await posted()).toEqual([
      expect.stringContaining("first · second"),
      expect.stringMatching(/^\*\*Digest: 1 sub-agent finished\*\*\n\nthird\n/),
    ]);
  });

  it("[AP1] a setting that changes loses nothing: what is held goes out with whatever is due first, what ends later as it says now", async () => {
    await open(HOURLY);
    await ended((await stage.spawn({ label: "held" })).id);
    stage.reconfigure({}, settings({ when: "digest", everyMinutes: 5 }));
    await ended((await stage.spawn({ label: "sooner" })).id);
    stage.reconfigure({}, settings("post"));
    const now = await stage.spawn({ label: "at once" });
    await reached(now.id, "delivered");
    await clock.advance(6 * MINUTE);
    await waitFor("the digest", async () => (await items()) === 0);
    expect((await posted()).map((text) => text.split("\n")[0])).toEqual(["**Sub-agent: at once**", "**Digest: 2 sub-agents finished**"]);
  });

  it("[AP1][RC1] the due time survives a restart, also one while everything was down, and the digest is posted once", async () => {
    await open(HOURLY);
    await ended((await stage.spawn({ label: "kept" })).id);
    await stage[Symbol.asyncDispose]();
    await clock.leap(5 * 60 * MINUTE);
    await open("post");
    await waitFor("the digest", async () => (await items()) === 0);
    expect(await posted()).toEqual([expect.stringContaining("kept")]);
    await clock.advance(2 * 60 * MINUTE);
    expect(await posted()).toHaveLength(1);
  });

  it("[AP1] however many look for what is due at the same moment, one of them posts it", async () => {
    await open(HOURLY);
    const run = await ended((await stage.spawn({ label: "only once" })).id);
    const over = new AbortController();
    const others = Array.from({ length: 5 }, () => stage.parts.digester.run(over.signal));
    await clock.advance(61 * MINUTE);
    await reached(run.id, "delivered");
    over.abort();
    await Promise.all(others);
    expect(await posted()).toHaveLength(1);
  });

  it("[AP1] POLI-006 with nobody's direct chat to go to it is blocked at once, as a success and as a failure, and retry says why", async () => {
    reply = byTask;
    await open({ ...HOURLY, to: "dm" });
    for (const task of ["work on good", "work on bad1"]) {
      const run = await reached((await stage.spawn({ task, label: task })).id, "blocked");
      expect(run).toMatchObject({ deliveryReason: expect.stringContaining("no person did"), settledAt: expect.any(Number) });
      expect(await stage.stores.db.transaction(stage.parts.steering.locks([run]), (tx) => stage.parts.steering.retry(tx, run))).toBe(false);
    }
    expect([await items(), await posted()]).toEqual([0, []]);
  });

  it("[AP1] a clock that was set back keeps nothing waiting", async () => {
    await open(HOURLY);
    await ended((await stage.spawn({ label: "old time" })).id);
    clock.set(clock.now() - 400 * 24 * 60 * MINUTE);
    await clock.advance(10_000);
    await waitFor("the digest", async () => (await items()) === 0);
    expect(await posted()).toHaveLength(1);
  });

  it("[AP1] a run that goes on before it is due has its newer result in the digest, and only that", async () => {
    await open(HOURLY);
    const run = await ended((await stage.spawn({ label: "twice" })).id);
    reply = () => okReply("the second answer");
    await stage.stores.db.transaction(stage.parts.steering.locks([run]), (tx) => stage.parts.steering.send(tx, run, "person", "go on"));
    await waitFor("its second end", async () => (await stage.get(run.id)).generation === 2 && (await stage.get(run.id)).endedAt !== null);
    expect(await held()).toBe(1);
    await clock.advance(61 * MINUTE);
    await reached(run.id, "delivered");
    expect(await posted()).toEqual([expect.stringContaining("the second answer")]);
    expect((await posted())[0]).not.toContain("the answer\n");
  });

  it("[AP1] a run that goes on and fails says so at once; what it had found before is still in the digest", async () => {
    await open(HOURLY);
    const run = await ended((await stage.spawn({ label: "turns bad", task: "work on bad1" })).id);
    await stage.stores.db.transaction(stage.parts.steering.locks([run]), (tx) => {
      reply = byTask;
      return stage.parts.steering.send(tx, run, "person", "go on");
    });
    await reached(run.id, "delivered");
    expect((await posted())[0]).toContain("Status: error");
    await clock.advance(61 * MINUTE);
    await waitFor("the digest", async () => (await items()) === 0);
    expect(await posted()).toEqual([expect.stringContaining("Status: error"), expect.stringMatching(/Status: success[\s\S]*the answer/)]);
  });

  it("[AP1][ST2] what is stopped before its digest drops out of it, held or gathered; the others follow", async () => {
    await open(HOURLY);
    const [one, two, three] = [
      await stage.spawn({ label: "one" }),
      await stage.spawn({ label: "two" }),
      await stage.spawn({ label: "three" }),
    ];
    for (const { id } of [one, two, three]) await ended(id);
    const leave = async ({ id }: Run): Promise<boolean> => {
      const run = await stage.get(id);
      return stage.stores.db.transaction(stage.parts.steering.locks([run]), (tx) => stage.parts.steering.leaveUnsaid(tx, run));
    };
    expect(await leave(one)).toBe(true);
    expect(await stage.get(one.id)).toMatchObject({ delivery: "skipped", deliveryReason: "stopped before it was sent" });
    await clock.advance(61 * MINUTE);
    await reached(three.id, "delivered");
    const [digest = "", ...more] = await posted();
    expect(more).toEqual([]);
    expect(digest).toMatch(/^\*\*Digest: 2 sub-agents finished\*\*/);
    expect(digest).not.toContain("**Sub-agent: one**");
    expect(await leave(two)).toBe(false);
  });

  it("[AP1][ST2] a generation that is stopped takes along what the one before it has held", async () => {
    await open(HOURLY);
    const run = await ended((await stage.spawn({ label: "stopped later" })).id);
    const working = Promise.withResolvers<void>();
    reply = ({ signal }) =>
      new Promise((resolve) => {
        working.resolve();
        signal.addEventListener("abort", () => resolve({ ...okReply(""), outcome: "aborted" }));
      });
    await stage.stores.db.transaction(stage.parts.steering.locks([run]), (tx) => stage.parts.steering.send(tx, run, "person", "go on"));
    await working.promise;
    const now = await stage.get(run.id);
    await stage.stores.db.transaction(stage.parts.steering.locks([now]), (tx) => stage.parts.steering.stop(tx, [now], "by /stop"));
    expect(await items()).toBe(0);
    await clock.advance(2 * 60 * MINUTE);
    expect(await posted()).toEqual([]);
  });

  it("[AP1][AN10] a digest is complete: long results stand whole in it", async () => {
    const long = `${"word ".repeat(4_000)}the end`;
    reply = () => okReply(long);
    await open(HOURLY);
    for (const label of ["a", "b", "c"]) await ended((await stage.spawn({ label })).id);
    await clock.advance(61 * MINUTE);
    await waitFor("the digest", async () => (await items()) === 0);
    expect((await posted()).join("").split("the end")).toHaveLength(4);
  });
});

describe('[AP1] when: "failures"', () => {
  it("[AP1][NV3] a success is not posted and its requester's model knows; a failure and a timeout are, at once", async () => {
    reply = (request) =>
      request.messages.some(({ text }) => text.includes("take long"))
        ? new Promise((resolve) => request.signal.addEventListener("abort", () => resolve({ ...okReply("half"), outcome: "aborted" })))
        : byTask(request);
    await open({ when: "failures" });
    const good = await ended((await stage.spawn({ task: "work on good", label: "good" })).id);
    expect(good).toMatchObject({
      delivery: "skipped",
      deliveryReason: "only failures are announced (subagents.announce)",
      settledAt: expect.any(Number),
    });
    expect(await noteOf(good)).toMatch(/found out about good/);
    expect(await noteOf(good)).toContain("It was not announced. The person has not seen this.");
    const bad = await stage.spawn({ task: "work on bad1", label: "bad" });
    await reached(bad.id, "delivered");
    const slow = await stage.spawn({ task: "take long", label: "slow", runTimeoutSeconds: 5 });
    await waitFor("it to run", async () => (await stage.get(slow.id)).state === "running");
    await clock.advance(6_000);
    await reached(slow.id, "delivered");
    expect((await posted()).map((text) => /Status: (\w+)/.exec(text)?.[1])).toEqual(["error", "timeout"]);
  });
});
