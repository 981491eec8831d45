// What changes while a conversation goes on: told where it changed, and never moved. Pure.
import { expect, it } from "vitest";
import { toMessages } from "../../../src/agents/context.ts";
import { newsOf, type Topic } from "../../../src/agents/topics.ts";
import type { Entry, NewEntry } from "../../../src/stores/transcript-entry.ts";

const live = (...names: string[]): Topic => ({ name: "live", text: names.join(" "), over: "none at work" });
const brief = (text: string): Topic => ({ name: "brief", text, isHeld: true });

/** A conversation that is told its news as model-step.ts does. */
function conversation() {
  const entries: Entry[] = [];
  const push = (...fresh: readonly NewEntry[]): void => {
    for (const entry of fresh) entries.push({ ...entry, id: `e${entries.length}`, parentId: null, timestamp: "" });
  };
  return {
    entries,
    asked: (text: string) => push({ type: "message", role: "user", text, from: "Ann" }),
    said: (text: string) => push({ type: "message", role: "assistant", text, model: "a/b", calls: 0 }),
    tell: (topics: readonly Topic[], moment: "turn" | "step" = "turn") => push(...newsOf(entries, topics, moment)),
    read: (topics: readonly Topic[] = []) => toMessages(entries, topics).map((message) => message.text.split("\n").at(-1)),
  };
}

it("[SE8] a change is told at the end, before the question; what was told stays, and nothing is told twice", () => {
  const chat = conversation();
  chat.asked("one");
  chat.tell([live()]);
  expect(chat.read()).toEqual(["one"]);
  chat.said("first");
  chat.asked("two");
  chat.tell([live("a")]);
  chat.tell([live("a")]);
  const before = ["one", "first", "a", "two"];
  expect(chat.read()).toEqual(before);
  chat.said("second");
  chat.asked("three");
  chat.tell([live("a")]);
  expect(chat.read()).toEqual([...before, "second", "three"]);
  chat.said("third");
  chat.asked("four");
  chat.tell([live("b")]);
  chat.said("fourth");
  chat.asked("five");
  chat.tell([live()]);
  chat.tell([live()]);
  expect(chat.read()).toEqual([...before, "second", "three", "third", "b", "four", "fourth", "none at work", "five"]);
});

it("[SE8] in the middle of a turn only what can be taken back is told: the last thing read is the tool's result", () => {
  const chat = conversation();
  chat.asked("one");
  chat.said("calling");
  chat.tell([live("a"), brief("")], "step");
  expect(chat.read()).toEqual(["one", "calling"]);
  const topics = [live("a"), brief("mind the API")];
  chat.tell(topics, "step");
  expect(chat.read(topics)).toEqual(["one", "calling", "mind the API"]);
});

it("[SE6] what a summary left out is told again", () => {
  const chat = conversation();
  chat.asked("one");
  chat.tell([live("a")]);
  chat.entries.splice(0, 2);
  chat.asked("two");
  chat.tell([live("a")]);
  expect(chat.read()).toEqual(["a", "two"]);
});

it("[BF3] a brief keeps its place while it stands, is shown once when it was replaced, and is gone when it was revoked", () => {
  const chat = conversation();
  const first = [brief("first")];
  chat.asked("task");
  chat.tell(first);
  chat.said("calling");
  chat.tell(first, "step");
  expect(chat.read(first)).toEqual(["task", "first", "calling"]);
  const second = [brief("second")];
  chat.tell(second, "step");
  expect(chat.read(second)).toEqual(["task", "calling", "second"]);
  expect(chat.read([brief("")])).toEqual(["task", "calling"]);
  expect(JSON.stringify(chat.entries)).not.toMatch(/first|second/);
  // The first one again: in its first place, so that the requests of then are still the beginning.
  expect(chat.read(first)).toEqual(["task", "first", "calling"]);
});
