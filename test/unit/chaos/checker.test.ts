// The judge of the chaos run, judged: a clean history passes, and a planted bug of each class in it is found.
import { appendFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Violation, ViolationKind } from "../../chaos/case.ts";
import { check } from "../../chaos/checker.ts";
import type { EndFact, History, InboxFact, OutboxFact, Place, RunFact, Said, SaidKind, Seen, TranscriptFact } from "../../chaos/history.ts";
import { createTranscriptWatch, readTranscript } from "../../chaos/record.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer U)[] ? U[] : T[K] };
type Draft = Mutable<History>;

const TOPIC = "telegram/-1001/7";
const THREAD = "slack/C0ROOM/1.5";
const PAGE = "web/main/-";

/** A small world in which everything went well, made in the order in which it happened. */
function createStory() {
  const draft: Draft = {
    ...{
      said: [],
      seen: [],
      inbox: [],
      outbox: [],
      runs: [],
      below: [],
      groups: [],
      ends: [],
      questions: [],
      sessions: ["main"],
      transcripts: [],
      incidents: [],
      troubles: [],
      leftUnnamed: [],
    },
    slots: { main: 4, subagent: 6, wantedMain: 4, wantedSubagent: 6 },
  };
  const main: { id: string; text: string }[] = [];
  draft.transcripts.push({ name: "main.jsonl", sessionId: "main", problems: [], entries: main, answers: [], deeds: [] });
  let now = 1_000;
  const say = (id: string, kind: SaidKind, place: Place, more: Partial<Said> = {}): Said => {
    const said: Said = {
      id,
      kind,
      place,
      text: `${kind} ${id}`,
      at: ++now,
      externalId: `x-${id}`,
      ref: `p-${id}`,
      children: [],
      target: null,
      isTaken: true,
      ...more,
    };
    const row: InboxFact = { id: draft.inbox.length + 1, channel: place.split("/")[0] ?? "", externalId: said.externalId, state: "done" };
    draft.said.push(said);
    draft.inbox.push(row);
    if (["say", "long", "spawn", "slow"].includes(kind)) main.push({ id: `in:${row.id}`, text: said.text });
    return said;
  };
  const show = (place: Place, delivery: string, text: string, replyTo: string | null = null): void => {
    const isTelegram = place.startsWith("telegram/");
    const id = draft.outbox.length + 1;
    const flags = { isAnswer: delivery.startsWith("answer:"), isAside: false, joinedAs: null };
    const row: OutboxFact = { id, delivery, n: 0, place, state: "sent", ...flags, ref: String(id), createdAt: ++now, text };
    const seen: Seen = {
      place,
      order: id,
      at: ++now,
      text,
      ref: String(id),
      key: isTelegram ? null : `${delivery}#0`,
      replyTo: isTelegram ? replyTo : null,
    };
    draft.outbox.push(row);
    draft.seen.push(seen);
  };
  const arrival = (said: Said): number => draft.inbox.find((row) => row.externalId === said.externalId)?.id ?? 0;
  return {
    draft,
    say,
    reply: (said: Said, text = `re ${said.id} 1/1`) => show(said.place, `reply:${arrival(said)}`, text, said.ref),
    answer: (said: Said, text: string) => show(said.place, `answer:${arrival(said)}`, text, said.ref),
    spawn(said: Said, label: string, changes: Partial<RunFact> = {}): RunFact {
      const base = {
        id: `run-${label}`,
        label,
        childKey: `agent:main:subagent:${label}`,
        sessionId: `session-${label}`,
        place: said.place,
      };
      const times = { createdAt: ++now, settledAt: now + 500, archivedAt: null, archiveName: null };
      const run: RunFact = {
        ...base,
        state: "done",
        delivery: "delivered",
        generation: 1,
        resumes: 0,
        cleanup: "keep",
        ...times,
        ...changes,
      };
      draft.runs.push(run);
      draft.sessions.push(run.sessionId);
      const name = run.archiveName ?? `${run.sessionId}.jsonl`;
      draft.transcripts.push({
        name,
        sessionId: run.sessionId,
        problems: [],
        entries: [{ id: "task", text: `{${label}} quick` }],
        answers: [],
        deeds: [],
      });
      if (!said.place.startsWith("web/")) show(said.place, `live:status:${label}`, `✓ 1\n✓ ${label} · 3s`);
      return run;
    },
    end(run: RunFact, status: EndFact["status"], generation = 1, token = run.label.split(".")[0]): void {
      draft.ends.push({ runId: run.id, generation, status });
      if (status === "stopped") return;
      const result = status === "success" ? `res ${run.label} ${token} 1/1` : "(not available)";
      const text = `Sub-agent: ${run.label}\n\nStatus: ${status}\n\nResult:\n${result}\n\nNotes:\n- (none)\n\nStats: runtime ${generation}s`;
      show(run.place, `announce:v1:${run.childKey}:${run.id}${generation === 1 ? "" : `:g${generation}`}`, text);
    },
  };
}

function cleanHistory(): Draft {
  const story = createStory();
  const child = (label: string) => ({ label, kind: "quick" as const, cleanup: "keep" as const });
  const m1 = story.say("m1", "say", TOPIC);
  const m2 = story.say("m2", "spawn", TOPIC, { children: [child("m2.1"), child("m2.2")] });
  story.reply(m1);
  const first = story.spawn(m2, "m2.1", { generation: 2 });
  const second = story.spawn(m2, "m2.2", { cleanup: "delete", archivedAt: 2_000, archiveName: "session-m2.2.jsonl.deleted.2026" });
  story.reply(m2);
  story.end(first, "success");
  story.end(second, "timeout");
  (second as Mutable<RunFact>).state = "timeout";
  const m3 = story.say("m3", "send", TOPIC, { target: "m2.1" });
  story.answer(m3, '📨 "m2.1" (12345678) had ended; it goes on with your message in the same session and will announce again.');
  story.end(first, "success", 2, "m3");
  (story.draft.transcripts.find((one) => one.sessionId === "session-m2.1") as Mutable<TranscriptFact>).entries.push({
    id: "mail:1",
    text: "[m3] more",
  });

  const m4 = story.say("m4", "spawn", THREAD, { children: [child("m4.1")] });
  const stopped = story.spawn(m4, "m4.1", { state: "stopped", delivery: "none" });
  story.reply(m4);
  const m5 = story.say("m5", "slow", THREAD);
  const m6 = story.say("m6", "stop", THREAD);
  story.end(stopped, "stopped");
  story.answer(m6, "⚙️ Agent was aborted. Stopped 1 sub-agent.");
  const m7 = story.say("m7", "say", THREAD);
  story.reply(m7);

  const m8 = story.say("m8", "long", PAGE);
  story.reply(m8, "re m8 1/3 and on\n\nre m8 2/3 and on\n\nre m8 3/3");
  const m9 = story.say("m9", "status", PAGE);
  story.answer(m9, "**Herald**");
  expect(m5.id).toBe("m5");
  return story.draft;
}

/** Two children whose announcements went out as one. */
function joinedHistory(place: Place, between: string, key: string | null): Draft {
  const story = createStory();
  const child = (label: string) => ({ label, kind: "quick" as const, cleanup: "keep" as const });
  const m1 = story.say("m1", "spawn", place, { children: [child("m1.1"), child("m1.2")] });
  const runs = ["m1.1", "m1.2"].map((label) => story.spawn(m1, label));
  story.reply(m1);
  for (const run of runs) story.end(run, "success");
  return lastTwoInOne(story.draft, between, key);
}

/** A child that went on before its first announcement had left: both went out as one. */
function joinedGenerations(place: Place, between: string, key: string | null): Draft {
  const story = createStory();
  const m1 = story.say("m1", "spawn", place, { children: [{ label: "m1.1", kind: "quick", cleanup: "keep" }] });
  const run = story.spawn(m1, "m1.1", { generation: 2 });
  story.reply(m1);
  story.end(run, "success");
  const m2 = story.say("m2", "send", place, { target: "m1.1" });
  story.answer(m2, '📨 "m1.1" (12345678) had ended; it goes on with your message in the same session and will announce again.');
  story.end(run, "success", 2, "m2");
  (story.draft.transcripts.at(-1) as Mutable<TranscriptFact>).entries.push({ id: "mail:1", text: "[m2] more" });
  return lastTwoInOne(story.draft, between, key);
}

function lastTwoInOne(draft: Draft, between: string, key: string | null): Draft {
  const rows = draft.outbox.filter((row) => row.delivery.startsWith("announce:")).slice(-2) as Mutable<OutboxFact>[];
  const shown = draft.seen.at(-1) as Mutable<Seen>;
  draft.seen = draft.seen.filter((one) => one === shown || one.ref !== rows[0]?.ref);
  Object.assign(shown, { text: rows.map((row) => row.text).join(between), key });
  for (const row of rows) Object.assign(row, { joinedAs: key ?? "announce:v1:joined#0+2", ref: shown.ref });
  return draft;
}

const kinds = (violations: readonly Violation[]): string[] => [...new Set(violations.map((one) => `${one.kind} ${one.about}`))];

/** The history with one thing made wrong. */
function broken(breakIt: (draft: Draft) => void): readonly Violation[] {
  const draft = cleanHistory();
  breakIt(draft);
  return check(draft).violations;
}

const seenWith = (draft: Draft, text: string): Mutable<Seen> => draft.seen.find((one) => one.text.includes(text)) as Mutable<Seen>;
const without = (draft: Draft, text: string): void => {
  draft.seen = draft.seen.filter((one) => !one.text.includes(text));
};
/** They are seen in each other's place. */
const swap = (draft: Draft, a: string, b: string): void => {
  const [one, two] = [seenWith(draft, a), seenWith(draft, b)];
  [one.order, two.order] = [two.order, one.order];
  draft.seen.sort((x, y) => x.order - y.order);
};
const copy = (draft: Draft, text: string, changes: Partial<Seen> = {}): void =>
  void draft.seen.push({ ...seenWith(draft, text), order: 900, ref: "copy", ...changes });
const run = (draft: Draft, label: string): Mutable<RunFact> => draft.runs.find((one) => one.label === label) as Mutable<RunFact>;

describe("a clean history", () => {
  it("[RC1] passes, and its figures are right", () => {
    const { violations, figures, markedRepeats } = check(cleanHistory());
    expect(violations).toEqual([]);
    expect(figures).toMatchObject({
      messages: 6,
      commands: 3,
      runs: 3,
      generations: 4,
      announcements: 3,
      dropped: 1,
      stopped: 1,
      archived: 1,
    });
    expect(markedRepeats).toEqual([]);
  });

  it("[DL4] a marked repeat on Telegram is counted and listed, not held against it", () => {
    const draft = cleanHistory();
    copy(draft, "re m1 1/1", { text: "(may be repeated)\n\nre m1 1/1" });
    const { violations, figures, markedRepeats } = check(draft);
    expect(violations).toEqual([]);
    expect([figures.marked, markedRepeats]).toEqual([1, ["reply m1"]]);
  });

  it("[DL4] two generations in the same words are told apart, also when an attempt of the first is not on record", () => {
    const draft = cleanHistory();
    const [first, second] = draft.outbox.filter((row) => row.text.includes("Sub-agent: m2.1")) as Mutable<OutboxFact>[];
    const texts = draft.seen.filter((one) => one.text.includes("Sub-agent: m2.1")) as Mutable<Seen>[];
    for (const one of [second, ...texts]) if (one !== undefined) one.text = first?.text ?? "";
    const lost = { ...(texts[0] as Seen), ref: String(Number(texts[0]?.ref) - 0.5), order: (texts[0]?.order ?? 0) - 0.5 };
    draft.seen = [...draft.seen, lost].toSorted((a, b) => a.order - b.order);
    (texts[0] as Mutable<Seen>).text = `(may be repeated)\n\n${first?.text}`;
    expect(check(draft)).toMatchObject({ violations: [], markedRepeats: ["announcement m2.1"] });
  });

  it("[SP2] what a kill left of a session that never came to be is counted, not held against it", () => {
    const draft = cleanHistory();
    draft.transcripts.push({ name: "nobody.jsonl", sessionId: "nobody", problems: ["it is empty"], entries: [], answers: [], deeds: [] });
    expect(check(draft)).toMatchObject({ violations: [], figures: { leftovers: 1 } });
  });

  it("[DL6] what stepped aside may come late, and the answer to a command before what waits", () => {
    const draft = cleanHistory();
    seenWith(draft, "re m1 ").order = seenWith(draft, "re m2 ").order + 0.5;
    swap(draft, "Sub-agent: m2.2", "had ended; it goes on");
    (draft.outbox.find((row) => row.text.includes("re m1 ")) as Mutable<OutboxFact>).isAside = true;
    expect(check(draft).violations).toEqual([]);
  });

  it.each([
    ["Telegram", TOPIC, "\n\n――――――――――\n\n", null],
    ["Slack", THREAD, "\n", "announce:v1:joined#0+2"],
  ])("[DL7] announcements in one message on %s are seen each by itself", (_where, place, between, key) => {
    const draft = joinedHistory(place, between, key);
    expect(check(draft)).toMatchObject({ violations: [], figures: { announcements: 2 } });
    const torn = joinedHistory(place, between, key);
    seenWith(torn, "Sub-agent: m1.2").text = torn.outbox.at(-2)?.text ?? "";
    expect(kinds(check(torn).violations)).toEqual(["lost m1.2"]);
    const doubled = joinedHistory(place, between, key);
    copy(doubled, "Sub-agent: m1.2", { text: doubled.outbox.at(-1)?.text ?? "" });
    expect(kinds(check(doubled).violations)).toContain("repeated m1.2");
    const generations = joinedGenerations(place, between, key);
    expect(check(generations)).toMatchObject({ violations: [], figures: { announcements: 2 } });
    const cut = joinedGenerations(place, between, key);
    seenWith(cut, "Sub-agent: m1.1").text = cut.outbox.find((row) => row.delivery.startsWith("announce:"))?.text ?? "";
    expect(kinds(check(cut).violations)).toEqual(["lost m1.1"]);
  });

  it("[DL6] [ST2] what had ended before a stop may be seen after its answer", () => {
    const draft = cleanHistory();
    const stop = draft.said.find((one) => one.id === "m9") as Said;
    Object.assign(stop, { kind: "stop", place: TOPIC });
    Object.assign(draft.inbox.at(-1) ?? {}, { channel: "telegram" });
    const answer = seenWith(draft, "**Herald**");
    Object.assign(answer, { place: TOPIC, replyTo: stop.ref, key: null });
    for (const text of ["re m1 ", "Sub-agent: m2.2"]) {
      seenWith(draft, text).order = answer.order + 0.5;
      (draft.outbox.find((row) => row.text.includes(text)) as Mutable<OutboxFact>).isAside = true;
    }
    expect(check(draft).violations).toEqual([]);
  });

  it("[RC1] an apology after three crashes is an answer", () => {
    const draft = cleanHistory();
    seenWith(draft, "re m1 1/1").text = "⚠️ This message could not be answered";
    const { violations, figures } = check(draft);
    expect([violations, figures.apologies]).toEqual([[], 1]);
  });
});

type Planted = readonly [name: string, kind: ViolationKind, about: string, breakIt: (draft: Draft) => void];

const DROPS: readonly Planted[] = [
  ["a reply", "lost", "m1", (draft) => without(draft, "re m1 ")],
  ["a command's answer", "lost", "m9", (draft) => without(draft, "**Herald**")],
  [
    "a piece of a long reply",
    "lost",
    "m8",
    (draft) => {
      seenWith(draft, "re m8").text = "re m8 1/3 and on\n\nre m8 3/3";
    },
  ],
  ["an announcement", "lost", "m2.2", (draft) => without(draft, "Sub-agent: m2.2")],
  ["a later generation's announcement", "lost", "m2.1", (draft) => without(draft, "res m2.1 m3")],
  ["a message that was never recorded", "lost", "m1", (draft) => void draft.inbox.splice(0, 1)],
  [
    "a run of an answered spawn",
    "lost",
    "m2.2",
    (draft) => {
      draft.runs = draft.runs.filter((one) => one.label !== "m2.2");
    },
  ],
  ["a status message", "lost", "m2.1", (draft) => without(draft, "✓ m2.1")],
  [
    "a message that was lost before a stop, overtaken by a later one",
    "lost",
    "m1",
    (draft) => {
      without(draft, "re m1 ");
      const last = draft.said.find((one) => one.id === "m9") as Said;
      Object.assign(last, { kind: "stop", place: TOPIC });
      Object.assign(draft.inbox.at(-1) ?? {}, { channel: "telegram" });
    },
  ],
  ["a message a stop dropped although it came later", "lost", "m7", (draft) => without(draft, "re m7 ")],
  [
    "a run that is stopped although nobody stopped it",
    "lost",
    "m2.2",
    (draft) => {
      without(draft, "Sub-agent: m2.2");
      run(draft, "m2.2").state = "stopped";
      draft.ends = draft.ends.map((end) => (end.runId === "run-m2.2" ? { ...end, status: "stopped" } : end));
    },
  ],
  [
    "a sent message nobody read",
    "lost",
    "m3",
    (draft) => {
      draft.transcripts = draft.transcripts.map((one) =>
        one.sessionId === "session-m2.1" ? { ...one, entries: [{ id: "task", text: "" }], answers: [], deeds: [] } : one,
      );
    },
  ],
];

const WITHDRAWN: readonly Planted[] = [
  [
    "a withdrawn reply",
    "lost",
    "m7",
    (draft) => {
      without(draft, "re m7 ");
      (draft.outbox.find((row) => row.text.includes("re m7 ")) as Mutable<OutboxFact>).state = "withdrawn";
    },
  ],
  [
    "a withdrawn announcement",
    "lost",
    "m2.2",
    (draft) => {
      without(draft, "Sub-agent: m2.2");
      (draft.outbox.find((row) => row.text.includes("Sub-agent: m2.2")) as Mutable<OutboxFact>).state = "withdrawn";
    },
  ],
];

const DOUBLES: readonly Planted[] = [
  ["a reply on Telegram, unmarked", "repeated", "m1", (draft) => copy(draft, "re m1 1/1")],
  ["a reply on Slack", "repeated", "m7", (draft) => copy(draft, "re m7 1/1")],
  ["a reply on Slack, marked", "repeated", "m7", (draft) => copy(draft, "re m7 1/1", { text: "(may be repeated)\n\nre m7 1/1" })],
  ["an announcement", "repeated", "m2.2", (draft) => copy(draft, "Sub-agent: m2.2")],
  ["a command's answer on the page", "repeated", "m9", (draft) => copy(draft, "**Herald**")],
  ["two runs for one spawn", "repeated", "m2.1", (draft) => void draft.runs.push({ ...run(draft, "m2.1"), id: "run-again" })],
  ["an answer and an apology", "repeated", "m1", (draft) => copy(draft, "re m1 1/1", { text: "⚠️ This message could not be answered" })],
  [
    "a sent message read twice",
    "repeated",
    "m3",
    (draft) => {
      const extra = { id: "mail:2", text: "[m3] more" };
      draft.transcripts = draft.transcripts.map((one) =>
        one.sessionId === "session-m2.1" ? { ...one, entries: [...one.entries, extra], answers: [], deeds: [] } : one,
      );
    },
  ],
];

const MISPLACED: readonly Planted[] = [
  [
    "a reply in the group's root",
    "misplaced",
    "m1",
    (draft) => {
      seenWith(draft, "re m1 ").place = "telegram/-1001/-";
    },
  ],
  [
    "an announcement in another topic",
    "misplaced",
    "m2.2",
    (draft) => {
      seenWith(draft, "Sub-agent: m2.2").place = "telegram/-1001/8";
    },
  ],
  [
    "a copy of an announcement outside the thread",
    "misplaced",
    "m2.2",
    (draft) => copy(draft, "Sub-agent: m2.2", { place: "telegram/-1001/-" }),
  ],
  [
    "a run pinned elsewhere",
    "misplaced",
    "m2.1",
    (draft) => {
      run(draft, "m2.1").place = PAGE;
    },
  ],
];

const AFTER_STOP: readonly Planted[] = [
  ["a reply to a message from before", "after-stop", "m5", (draft) => copy(draft, "re m7 1/1", { text: "re m5 1/1", key: "reply:5#0" })],
  [
    "an announcement of a stopped run",
    "after-stop",
    "m4.1",
    (draft) => {
      const text = "Sub-agent: m4.1\n\nStatus: unknown\n\nResult:\n(not available)\n\nStats: runtime 1s";
      copy(draft, "re m7 1/1", { text, key: "announce:v1:agent:main:subagent:m4.1:run-m4.1#0" });
    },
  ],
  [
    "an announcement of a run that was done, seen behind the answer",
    "after-stop",
    "m4.1",
    (draft) => {
      const text = "Sub-agent: m4.1\n\nStatus: success\n\nResult:\nres m4.1 m4 1/1\n\nStats: runtime 1s";
      copy(draft, "re m7 1/1", { text, key: "announce:v1:agent:main:subagent:m4.1:run-m4.1#0" });
      run(draft, "m4.1").state = "done";
      draft.ends = draft.ends.map((end) => (end.runId === "run-m4.1" ? { ...end, status: "success" } : end));
    },
  ],
];

const REORDERED: readonly Planted[] = [
  ["two replies swapped", "reordered", "m1", (draft) => swap(draft, "re m1 ", "re m2 ")],
  ["an announcement before an older reply", "reordered", "reply:2", (draft) => swap(draft, "re m2 ", "Sub-agent: m2.1")],
  [
    "an announcement before the older answer to a command",
    "reordered",
    "answer:3",
    (draft) => swap(draft, "had ended; it goes on", "res m2.1 m3"),
  ],
  [
    "parts of a message that stepped aside, swapped",
    "reordered",
    "reply:8",
    (draft) => {
      const row = draft.outbox.find((one) => one.text.includes("re m8")) as Mutable<OutboxFact>;
      row.isAside = true;
      draft.outbox.push({ ...row, id: 900, n: 1, text: "re m8 3/3" });
      copy(draft, "re m8", { text: "re m8 1/3\n\nre m8 2/3", key: "reply:8#0" });
      Object.assign(seenWith(draft, "re m8"), { text: "re m8 3/3", key: "reply:8#1" });
    },
  ],
  [
    "pieces of a reply, swapped",
    "reordered",
    "m8",
    (draft) => {
      seenWith(draft, "re m8").text = "re m8 3/3";
      copy(draft, "re m8", { text: "re m8 1/3\n\nre m8 2/3" });
    },
  ],
  [
    "words recorded before earlier ones",
    "reordered",
    "m2",
    (draft) => {
      const ids = draft.inbox.map((row) => row.id);
      draft.inbox = draft.inbox.map((row, n) => ({ ...row, id: [ids[1], ids[0], ...ids.slice(2)][n] ?? 0 }));
    },
  ],
];

const OTHERS: readonly Planted[] = [
  ["words about nothing", "stray", "copy", (draft) => copy(draft, "re m1 1/1", { text: "hello?", replyTo: null })],
  [
    "a message under the name of no row",
    "stray",
    "-",
    (draft) => Object.assign(seenWith(draft, "re m8"), { mark: "herald.unheard-of", key: "", ref: "-" }),
  ],
  ["a run below another left waiting", "stuck", "m2.1.1", (draft) => void draft.below.push({ label: "m2.1.1", state: "waiting" })],
  [
    "two runs below another for one spawn",
    "repeated",
    "m2.1.1",
    (draft) => void draft.below.push({ label: "m2.1.1", state: "done" }, { label: "m2.1.1", state: "done" }),
  ],
  ["a message left waiting", "stuck", "m1", (draft) => void Object.assign(draft.inbox[0] ?? {}, { state: "waiting" })],
  [
    "a run left running",
    "stuck",
    "m2.1",
    (draft) => {
      run(draft, "m2.1").state = "running";
    },
  ],
  [
    "a wrong status",
    "wrong-run",
    "m2.2",
    (draft) => {
      // Telegram shows no key: the words are recognised by the outbox.
      const row = draft.outbox.find((one) => one.text.includes("Sub-agent: m2.2")) as Mutable<OutboxFact>;
      row.text = row.text.replace("timeout", "error");
      seenWith(draft, "Sub-agent: m2.2").text = row.text;
    },
  ],
  [
    "an announcement the outbox knows nothing of",
    "stray",
    "m2.2",
    (draft) => copy(draft, "Sub-agent: m2.2", { text: "Sub-agent: m2.2\n\nStatus: success" }),
  ],
  [
    "another child's result",
    "wrong-run",
    "m2.1",
    (draft) => {
      seenWith(draft, "res m2.1 m2").key = "announce:v1:agent:main:subagent:m2.1:run-m2.1#0";
      seenWith(draft, "res m2.1 m2").text = seenWith(draft, "res m2.1 m2").text.replace("res m2.1", "res m2.2");
    },
  ],
  [
    "a damaged transcript",
    "transcript",
    "main.jsonl",
    (draft) => {
      draft.transcripts[0] = { ...(draft.transcripts[0] as TranscriptFact), problems: ["line 3 is no JSON"] };
    },
  ],
  [
    "a session without its transcript",
    "transcript",
    "session-m2.1",
    (draft) => {
      draft.transcripts = draft.transcripts.filter((one) => one.sessionId !== "session-m2.1");
    },
  ],
  [
    "an answered message that stands in no transcript",
    "transcript",
    "m1",
    (draft) => void ((draft.transcripts[0] as TranscriptFact).entries as unknown[]).shift(),
  ],
  ["a settled run that was to be archived", "archive", "m2.2", (draft) => void Object.assign(run(draft, "m2.2"), { archivedAt: null })],
  [
    "an archived transcript under its old name, too",
    "archive",
    "m2.2",
    (draft) =>
      void draft.transcripts.push({
        name: "session-m2.2.jsonl",
        sessionId: "session-m2.2",
        problems: [],
        entries: [],
        answers: [],
        deeds: [],
      }),
  ],
  [
    "a leaked slot",
    "slot",
    "subagent",
    (draft) => {
      draft.slots = { ...draft.slots, subagent: 5 };
    },
  ],
  ["trouble on the way", "trouble", "-", (draft) => void draft.troubles.push("it ended by itself")],
];

describe("a planted bug is found", () => {
  it.each([...DROPS, ...WITHDRAWN])("[RC1] lost: %s", (_name, kind, about, breakIt) =>
    expect(kinds(broken(breakIt))).toContain(`${kind} ${about}`),
  );
  it.each(DOUBLES)("[RC1] repeated: %s", (_name, kind, about, breakIt) => expect(kinds(broken(breakIt))).toContain(`${kind} ${about}`));
  it.each(MISPLACED)("[AN3] misplaced: %s", (_name, kind, about, breakIt) => expect(kinds(broken(breakIt))).toContain(`${kind} ${about}`));
  it.each(AFTER_STOP)("[ST2] after a stop: %s", (_name, kind, about, breakIt) =>
    expect(kinds(broken(breakIt))).toContain(`${kind} ${about}`),
  );
  it.each(REORDERED)("[DL5] reordered: %s", (_name, kind, about, breakIt) => expect(kinds(broken(breakIt))).toContain(`${kind} ${about}`));
  it("[AR2] a transcript under its own name is none that was archived, unless it was said to be left there", () => {
    const left = (leftUnnamed: string[]): string[] =>
      kinds(
        broken((draft) => {
          for (const one of draft.transcripts) if (one.sessionId === "session-m2.2") Object.assign(one, { name: "session-m2.2.jsonl" });
          Object.assign(draft, { leftUnnamed });
        }),
      );
    expect(left([])).toContain("archive m2.2");
    expect(left(["run-of-somebody-else"])).toContain("archive m2.2");
    expect(left([run(cleanHistory(), "m2.2").id])).not.toContain("archive m2.2");
  });
  it("[LV6] not reordered: what was shown while it was written, before the row that says it is whole", () => {
    const shown = broken((draft) => {
      swap(draft, "re m2 ", "Sub-agent: m2.1");
      const { at } = seenWith(draft, "Sub-agent: m2.1");
      for (const row of draft.outbox) if (row.text.includes("Sub-agent: m2.1")) (row as Mutable<OutboxFact>).createdAt = at + 1;
    });
    expect(kinds(shown)).not.toContain("reordered reply:2");
  });
  it.each(OTHERS)("[RC1] %s", (_name, kind, about, breakIt) => expect(kinds(broken(breakIt))).toContain(`${kind} ${about}`));
});

describe("transcripts", () => {
  const header = '{"type":"session","id":"s"}\n';
  const line = (id: string, parentId: string | null) => `${JSON.stringify({ type: "message", role: "user", text: "x", id, parentId })}\n`;

  it.each([
    ["whole", header + line("a", null) + line("b", "a"), []],
    ["torn", `${header}${line("a", null)}{"type":"mess`, ["its last line is torn"]],
    ["damaged", `${header}oops\n${line("a", null)}`, ["line 2 is no JSON"]],
    ["without a header", line("a", null) + line("b", "a"), ["line 1 is no header", "line 2 follows a, but null stands before it"]],
    ["with a repeated id", header + line("a", null) + line("a", "a"), ["line 3 repeats the id a"]],
    ["with a lost line", header + line("a", null) + line("c", "b"), ["line 3 follows b, but a stands before it"]],
  ])("[SE3] one that is %s", (_name, text, problems) => expect(readTranscript(`${"0".repeat(36)}.jsonl`, text).problems).toEqual(problems));

  it("[SE2] a line that was there must stay there; a torn one may be cut off", () => {
    const folder = mkdtempSync(join(tmpdir(), "herald-watch-"));
    try {
      const path = join(folder, `${"1".repeat(36)}.jsonl`);
      const watch = createTranscriptWatch(folder);
      writeFileSync(path, `${header}${line("a", null)}{"torn`);
      expect(watch.look()).toEqual([]);
      truncateSync(path, Buffer.byteLength(header + line("a", null)));
      appendFileSync(path, line("b", "a"));
      expect(watch.look()).toEqual([]);
      truncateSync(path, Buffer.byteLength(header));
      appendFileSync(path, line("a", null).replace("x", "y") + line("b", "a"));
      expect(watch.look()).toEqual([expect.stringContaining("lost or changed lines")]);
      rmSync(path);
      expect(watch.look()).toEqual([expect.stringContaining("is gone")]);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
