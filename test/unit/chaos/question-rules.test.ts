// The judge's rules about questions, judged: what went well passes, and each planted bug is found.
import { describe, expect, it } from "vitest";
import { check } from "../../chaos/checker.ts";
import type { History, QuestionFact, Said, SaidKind } from "../../chaos/history.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer U)[] ? Mutable<U>[] : T[K] };
type Draft = Mutable<History>;

const THREAD = "slack/C0ROOM/1.5";

/** A child asks, two people press at once, one reads that he was late; another one asks and nobody answers; a third is stopped. */
function asked(): Draft {
  const draft = empty();
  const child = (label: string) => ({ label, kind: "ask" as const, cleanup: "keep" as const });
  say(draft, "m1", "spawn", { children: [child("m1.1"), child("m1.2"), child("m1.3")] });
  show(draft, "reply:1", "re m1 1/1");
  ask(draft, "m1.1", { state: "answered", answer: "m1.1 red", answeredBy: '{"id":"U0PERSON"}' }, "✅ **person**: m1.1 red");
  ask(draft, "m1.2", { state: "expired" }, "⌛ Nobody answered in time.");
  say(draft, "m2", "press", { target: "m1.1" });
  show(draft, "answer:2", "📨 m1.1 goes on with: m1.1 red");
  say(draft, "m3", "press", { target: "m1.1" });
  show(draft, "answer:3", "Already answered by person: m1.1 red");
  draft.transcripts.push(
    transcript("m1.1", 'from="the answer of person">\nm1.1 red\n'),
    transcript("m1.2", "Nobody answered in time. Go on."),
  );
  end(draft, "m1.1", "success");
  end(draft, "m1.2", "success");
  ask(
    draft,
    "m1.3",
    { state: "void", runState: "stopped", settledAt: 5_000 },
    "This question is closed: what asked it has ended or changed.",
  );
  draft.transcripts.push(transcript("m1.3"));
  Object.assign(draft.runs[2] ?? {}, { state: "stopped" });
  say(draft, "m4", "stop-one", { target: "m1.3" });
  show(draft, "answer:4", "⚙️ Stopped 1 sub-agent", 5_000);
  draft.ends.push({ runId: "run-m1.3", generation: 1, status: "stopped" });
  return draft;
}

const empty = (): Draft => ({
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
    sessions: [],
    incidents: [],
    troubles: [],
    leftUnnamed: [],
  },
  transcripts: [{ name: "main.jsonl", sessionId: "main", problems: [], entries: [{ id: "in:1", text: "" }], answers: [], deeds: [] }],
  slots: { main: 4, subagent: 6, wantedMain: 4, wantedSubagent: 6 },
});

const transcript = (label: string, ...texts: string[]) => ({
  ...{ name: `session-${label}.jsonl`, sessionId: `session-${label}`, problems: [], entries: [] },
  answers: texts.map((text) => ({ call: `call-${label}`, text })),
  deeds: [],
});

function say(draft: Draft, id: string, kind: SaidKind, more: Partial<Said> = {}): void {
  const said = {
    id,
    kind,
    place: THREAD,
    text: `${kind} ${id}`,
    at: 1,
    externalId: id,
    ref: `p-${id}`,
    children: [],
    target: null,
    isTaken: true,
  };
  draft.said.push({ ...said, ...more } as Mutable<Said>);
  draft.inbox.push({ id: draft.inbox.length + 1, channel: "slack", externalId: id, state: "done" });
}

function show(draft: Draft, delivery: string, text: string, createdAt = 1_000): void {
  const id = draft.outbox.length + 1;
  const flags = { isAnswer: delivery.startsWith("answer:"), isAside: false, joinedAs: null, state: "sent" };
  draft.outbox.push({ id, delivery, n: 0, place: THREAD, ref: String(id), createdAt, text, ...flags });
  draft.seen.push({ place: THREAD, order: id, at: id, text, ref: String(id), key: `${delivery}#0`, replyTo: null });
}

function ask(draft: Draft, label: string, changes: Partial<QuestionFact>, shown: string): void {
  const run = { id: `run-${label}`, label, childKey: `k:${label}`, sessionId: `session-${label}`, place: THREAD, state: "done" };
  const rest = {
    delivery: "delivered",
    generation: 1,
    resumes: 0,
    cleanup: "keep",
    createdAt: 900,
    settledAt: 9_000,
    archivedAt: null,
    archiveName: null,
  };
  draft.runs.push({ ...run, ...rest });
  draft.sessions.push(run.sessionId);
  show(draft, `live:status:${label}`, `✓ 1\n✓ ${label} · 3s`);
  draft.questions.push({
    ...{
      id: `q-${label}`,
      kind: "ask" as const,
      verdict: null,
      about: label,
      call: `call-${label}`,
      sessionId: run.sessionId,
      runId: run.id,
      generation: 1,
      place: THREAD,
      answer: null,
      answeredBy: null,
    },
    ...{ createdAt: 1_000, settledAt: 2_000, runState: "done", runGeneration: 1, liveState: "closed", state: "open", ...changes },
  });
  show(draft, `live:question:q-${label}`, `❓ **${label}** asks:\n\nq ${label} secret\n\n${shown}`);
}

function end(draft: Draft, label: string, status: "success"): void {
  draft.ends.push({ runId: `run-${label}`, generation: 1, status });
  show(draft, `announce:v1:k:${label}:run-${label}`, `Sub-agent: ${label}\n\nStatus: ${status}\n\nResult:\nres ${label} m1 1/1`);
}

const found = (draft: Draft): string[] => check(draft as History).violations.map(({ kind, about }) => `${kind} ${about}`);

it("[QA2][QA3] questions that were asked, answered, left and stopped as they should be pass", () => {
  expect(check(asked() as History).violations).toEqual([]);
  expect(check(asked() as History).figures).toMatchObject({ questions: 3, answered: 1, expired: 1 });
});

const question = (draft: Draft, label: string): Mutable<QuestionFact> =>
  draft.questions.find(({ about }) => about === label) ?? expect.unreachable(label);
const answersOf = (draft: Draft, label: string): { call: string; text: string }[] =>
  (draft.transcripts.find(({ sessionId }) => sessionId === `session-${label}`)?.answers as { call: string; text: string }[] | undefined) ??
  expect.unreachable(label);

const reword = (draft: Draft, from: string, to: string): void => {
  for (const seen of draft.seen) seen.text = seen.text.replace(from, to);
};

const did = (draft: Draft, label: string): void => {
  const of = draft.transcripts.find(({ sessionId }) => sessionId === `session-${label}`) ?? expect.unreachable(label);
  of.deeds = [...of.deeds, { call: `call-${label}`, text: `Created "${label}.txt" (5 bytes).` }];
};

describe("a planted bug", () => {
  const BUGS: readonly (readonly [string, string, (draft: Draft) => unknown])[] = [
    ["its message came twice", "repeated m1.1", (draft) => show(draft, "live:question:q-m1.1", "❓ **m1.1** asks:\n\nq m1.1 ✅")],
    [
      "something was done after a No",
      "wrong-answer m1.1",
      (draft) => {
        Object.assign(question(draft, "m1.1"), { kind: "approve", verdict: "no" });
        did(draft, "m1.1");
      },
    ],
    [
      "a call that was allowed was made twice",
      "repeated m1.1",
      (draft) => {
        Object.assign(question(draft, "m1.1"), { kind: "approve", verdict: "yes" });
        did(draft, "m1.1");
        did(draft, "m1.1");
      },
    ],
    ["it asked twice", "repeated m1.1", (draft) => draft.questions.push({ ...question(draft, "m1.1"), id: "q-again" })],
    ["nobody saw it", "lost m1.2", (draft) => (draft.seen = draft.seen.filter(({ text }) => !text.includes("q m1.2 ")))],
    ["it is still open", "stuck m1.2", (draft) => (question(draft, "m1.2").state = "open")],
    ["it asked elsewhere", "misplaced m1.2", (draft) => (question(draft, "m1.2").place = "slack/C0ROOM/2.5")],
    ["an unanswered one is not told expired", "wrong-answer m1.2", (draft) => reword(draft, "⌛ Nobody answered in time.", "Press one.")],
    ["the answer was read twice", "repeated m1.1", (draft) => answersOf(draft, "m1.1").push({ call: "call-m1.1", text: "m1.1 red" })],
    ["the answer was never read", "lost m1.1", (draft) => answersOf(draft, "m1.1").splice(0)],
    ["somebody else read it", "wrong-answer m1.3", (draft) => answersOf(draft, "m1.3").push({ call: "call-m1.3", text: "m1.1 red" })],
    ["a stranger answered", "wrong-answer m1.1", (draft) => (question(draft, "m1.1").answeredBy = '{"id":"U0STRANGER"}')],
    [
      "a button acted on another run",
      "wrong-answer m1.1",
      (draft) => {
        question(draft, "m1.1").answer = "m1.2 red";
        answersOf(draft, "m1.1").splice(0, 1, { call: "call-m1.1", text: "m1.2 red" });
      },
    ],
    ["two were told that theirs counts", "repeated m1.1", (draft) => reword(draft, "Already answered by person:", "📨 m1.1 goes on with:")],
    [
      "a stranger's press was taken",
      "wrong-answer m5",
      (draft) => {
        say(draft, "m5", "stranger", { target: "m1.1", isTaken: false });
        show(draft, "answer:5", "Already answered by person: m1.1 red");
      },
    ],
    ["it asked after its stop", "after-stop m1.3", (draft) => (question(draft, "m1.3").createdAt = 5_001)],
    [
      "it was answered after its stop",
      "after-stop m1.3",
      (draft) =>
        Object.assign(question(draft, "m1.3"), { state: "answered", answer: "m1.3 red", answeredBy: '{"id":"42"}', settledAt: 5_001 }),
    ],
  ];
  it.each(BUGS)("[QA2][QA3][ST2] %s: found as %s", (_what, violation, plant) => {
    const draft = asked();
    plant(draft);
    expect(found(draft)).toContain(violation);
  });
});
