// What can be done with a run of the board: when, by which key, in which words. The row's menu, the keyboard and the line of shortcuts are
// made of this one table.
import { isUnfinished } from "./run-words.js";

/** What is done: runs-doing.js. */
export const ACTIONS = [
  { name: "open", key: "Enter", text: () => "Open", isFor: () => true },
  { name: "answer", key: "a", text: () => "Answer", isFor: (run) => run.isAsking },
  { name: "send", key: "m", text: (run) => (isUnfinished(run) ? "Tell it something…" : "Give it more to do…"), isFor: () => true },
  { name: "stop", key: "s", text: () => "Stop…", isFor: isUnfinished, isDanger: true },
  { name: "again", key: "r", text: () => "Run again…", isFor: () => true },
  { name: "retry", key: "t", text: () => "Retry delivery", isFor: (run) => run.delivery === "blocked" },
  { name: "raise", key: "b", text: (run) => run.goOn?.label ?? "Raise its budget…", isFor: (run) => run.hasBudget },
  { name: "compare", key: "c", text: () => "Compare with…", isFor: () => true },
  { name: "select", key: "x", text: () => "Select", isFor: () => true },
];

/** What a key does with this run; null: nothing. */
export const actionOf = (key, run) => ACTIONS.find((action) => action.key === key && action.isFor(run)) ?? null;

/** A letter that does nothing here is told, so that nobody wonders. */
export const whyNot = (key) =>
  ({
    a: "It asks nothing.",
    s: "It has ended.",
    t: "Its announcement is not blocked.",
    b: "It has no limit of its own.",
  })[key] ?? null;

export const SHORTCUTS = [
  ["↑ ↓", "move"],
  ["← →", "fold"],
  ["Enter", "open"],
  ["s", "stop"],
  ["a", "answer"],
  ["m", "send"],
  ["r", "rerun"],
  ["t", "retry"],
  ["b", "budget"],
  ["c", "compare"],
  ["x", "select"],
  [".", "menu"],
  ["/", "search"],
];
