// The rules about what people are asked: each question stands there once and shows how it ended, the first answer counts and reaches
// whoever asked, once, and nothing of it goes on after a stop. Pure.
import { PERSON as DISCORD_PERSON } from "../support/fake-discord.ts";
import { PERSON as MATRIX_PERSON } from "../support/fake-matrix.ts";
import { type Case, covers, isSessionStop, isStop, repeatedly, type Violation } from "./case.ts";
import type { QuestionFact, Said } from "./history.ts";
import { optionsOf } from "./script.ts";

/** QA1, LV1: its message is seen once, in its place, and shows its end; one that nobody saw was taken back with whoever asked. */
export function askedOnce({ history, sightings, index }: Case): Violation[] {
  const twice = [...Map.groupBy(history.questions, ({ about }) => about)].filter(([, same]) => same.length > 1);
  const rows = new Map(history.outbox.map((row) => [row.delivery, row]));
  return [
    ...twice.map(([about, same]): Violation => ({ kind: "repeated", about, text: `it asked ${same.length} times` })),
    ...history.questions.flatMap((question): Violation[] => {
      const { id, about, state, place } = question;
      if (state === "open") return [{ kind: "stuck", about, text: "its question is still open" }];
      if (place !== index.placeOfLabel(about)) return [{ kind: "misplaced", about, text: `it asked in ${place}` }];
      const facts = sightings.find("question", about);
      const isTakenBack = state === "void" && rows.get(`live:question:${id}`)?.state === "withdrawn";
      if (facts.length === 0) return isTakenBack ? [] : [{ kind: "lost", about, text: "nobody saw what it asked" }];
      return [
        ...facts.flatMap(repeatedly),
        ...(isTakenBack
          ? []
          : showsEnd(
              question,
              facts.flatMap((fact) => fact.sightings).map(({ text }) => text),
            )),
      ];
    }),
  ];
}

const END: Readonly<Record<string, RegExp>> = {
  answered: /✅|✖/,
  expired: /⌛ Nobody answered in time/,
  void: /This question is closed/,
};

/** A repeat on Telegram may be left as it was: only one of the two is known. */
function showsEnd({ about, state }: QuestionFact, texts: readonly string[]): Violation[] {
  if (texts.some((text) => END[state]?.test(text) === true)) return [];
  return [{ kind: "wrong-answer", about, text: `it is ${state}, and its message does not say so: ${texts.at(-1)?.slice(0, 120)}` }];
}

/** QA2: what came of a question is read by whoever asked, once, and by nobody else. */
export function answersRead({ history, sightings }: Case): Violation[] {
  const questions = history.questions.filter(({ kind }) => kind === "ask");
  const bySession = Map.groupBy(questions, ({ sessionId }) => sessionId);
  const read = new Map(history.transcripts.map(({ sessionId, answers }) => [sessionId, answers]));
  const strange = [...read].flatMap(([sessionId, answers]): Violation[] => {
    const own = bySession.get(sessionId) ?? [];
    return answers
      .filter(({ call, text }) => !isRefusal(text) && !own.some((question) => question.call === call && isResultOf(question, text)))
      .map(({ text }) => ({
        kind: "wrong-answer",
        about: own[0]?.about ?? sessionId,
        text: `it read what was not for it: ${text.slice(0, 200)}`,
      }));
  });
  const counted = questions.flatMap((question): Violation[] => {
    const { about, state, sessionId } = question;
    const count = (read.get(sessionId) ?? []).filter(({ call, text }) => call === question.call && isResultOf(question, text)).length;
    if (count > 1) return [{ kind: "repeated", about, text: `what came of its question stands in its transcript ${count} times` }];
    const goesOn =
      question.runId === null
        ? hasReplied(sightings, about)
        : question.runState === "done" && question.runGeneration === question.generation;
    return count === 0 && goesOn ? [{ kind: "lost", about, text: `its question is ${state}, and it went on without reading that` }] : [];
  });
  return [...strange, ...counted];
}

const hasReplied = (sightings: Case["sightings"], about: string): boolean => sightings.find("reply", about).some((fact) => !fact.isApology);
/** Nobody was asked. */
const isRefusal = (text: string): boolean => /nobody is asked any more|Not started: /.test(text);

function isResultOf({ state, answer }: QuestionFact, text: string): boolean {
  if (state === "answered") return text.includes(answer ?? "?");
  return state === "expired" ? text.startsWith("Nobody answered in time") : text.includes("closed without an answer");
}

const PEOPLE = new Set(["42", "U0PERSON", MATRIX_PERSON, DISCORD_PERSON, "local"]);

/** QA3: one answer counts, that of somebody who may answer, to the question it was for; whoever gave it was told so, and nobody else. */
export function firstCounts({ history, sightings }: Case): Violation[] {
  const won = history.said.filter((said) => /^📨 .* goes on with: /.test(sightings.answer(said.id)?.text ?? ""));
  return history.questions.flatMap((question): Violation[] => {
    const { about, answer, answeredBy, state, kind } = question;
    const by = (JSON.parse(answeredBy ?? "{}") as { id?: string }).id ?? "nobody";
    if (state === "answered" && !PEOPLE.has(by)) return [{ kind: "wrong-answer", about, text: `${by} answered it` }];
    // Its words are the same for all of them: whose press it was is told by nothing else.
    if (kind === "approve") return [];
    const winners = won.filter((said) => isWordOf(question, said));
    if (state !== "answered")
      return winners.map(({ id }) => ({
        kind: "wrong-answer",
        about,
        text: `it is ${state}, but ${id} was told that it goes on with that`,
      }));
    if (/ (?:red|blue)$/.test(answer ?? "") && !answer?.includes("from") && !optionsOf(about).some((option) => answer?.endsWith(option)))
      return [{ kind: "wrong-answer", about, text: `it was answered with another one's option: ${answer}` }];
    // Whoever presses reads it where nobody else does, or in the message itself.
    const isPressed = history.said.some((said) => said.isPressed === true && isWordOf(question, said));
    return winners.length === 1 || (winners.length === 0 && isPressed)
      ? []
      : [
          {
            kind: winners.length === 0 ? "lost" : "repeated",
            about,
            text: `${winners.length} people were told that "${answer}" is its answer`,
          },
        ];
  });
}

/** QA4: nothing is done without a yes to that very call, and what became of it is told once. */
export function onlyWithYes({ history }: Case): Violation[] {
  const asked = new Map(history.questions.filter(({ kind }) => kind === "approve").map((question) => [question.call, question]));
  return history.transcripts.flatMap(({ deeds }) =>
    [...Map.groupBy(deeds, ({ call }) => call)].flatMap(([call, results]): Violation[] => {
      const question = asked.get(call);
      const about = question?.about ?? "?";
      if (results.length > 1) return [{ kind: "repeated", about, text: `its call has ${results.length} results` }];
      const isAllowed = question?.state === "answered" && question.verdict !== "no";
      const isDone = results.some(({ text }) => /^(?:Created|Replaced) /m.test(text));
      // A standing yes to an earlier call of the same run needs no further question.
      return isDone && question !== undefined && !isAllowed
        ? [{ kind: "wrong-answer", about, text: `it was done although its question is ${question.state} (${question.verdict})` }]
        : [];
    }),
  );
}

/** Every said thing has words of its own: its number, or for a press the option of one question alone. */
function isWordOf({ about, answer, place, state }: QuestionFact, said: Said): boolean {
  const isHere = said.place === place || said.place.split("/").slice(0, 2).join() === place.split("/").slice(0, 2).join();
  if (!isHere) return false;
  if (state !== "answered") return said.kind === "press" && said.target === about;
  const own = [`from ${said.id}`, `[${said.id}]`];
  return (
    own.some((words) => `${answer} `.includes(`${words} `)) ||
    (said.kind === "press" && said.target === about && !/from m|\[m/.test(answer ?? ""))
  );
}

/** ST2: whoever was stopped asks nothing more, and no answer counts for it. */
export function nothingAskedAfterStop({ history, index, runsByLabel }: Case): Violation[] {
  const rows = new Map(history.outbox.map((row) => [row.delivery, row]));
  return history.said.filter(isStop).flatMap((stop): Violation[] => {
    const at = index.arrival(stop.id);
    const effectAt = rows.get(`answer:${at}`)?.createdAt;
    if (at === null || effectAt === undefined) return [];
    return history.questions
      .filter((question) => isEndedBy(question, stop, { at, effectAt }))
      .flatMap(({ about, createdAt, state, settledAt }): Violation[] => {
        if (createdAt > effectAt) return [{ kind: "after-stop", about, text: `it asked after ${stop.id} (${stop.text}) was carried out` }];
        const isLate = state !== "void" && (settledAt ?? 0) > effectAt;
        return isLate
          ? [{ kind: "after-stop", about, text: `its question was ${state} after ${stop.id} (${stop.text}) was carried out` }]
          : [];
      });
  });

  function isEndedBy(
    { about, place, runId, generation }: QuestionFact,
    stop: Said,
    { at, effectAt }: { at: number; effectAt: number },
  ): boolean {
    if (stop.place !== place) return false;
    const root = about.split(".").slice(0, 2).join(".");
    if (runId === null) return isSessionStop(stop) && (index.arrival(about) ?? Number.POSITIVE_INFINITY) < at;
    const run = runsByLabel.get(root)?.[0];
    return generation === 1 && covers(stop, root, place) && run !== undefined && run.createdAt < effectAt;
  }
}
