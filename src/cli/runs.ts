// `herald runs`: which of its words was meant.
import { didYouMean } from "../config/nearest.ts";
import { visibleLine } from "../core/visible-text.ts";
import { type Call, UsageError } from "./command.ts";

type Doing = (call: Call) => Promise<number>;

const DOINGS: Readonly<Record<string, Doing>> = {
  list: async (call) => (await import("./run-list.ts")).list(call),
  info: async (call) => (await import("./run-info.ts")).info(call),
  log: async (call) => (await import("./run-log.ts")).log(call),
  stop: async (call) => (await import("./run-steering.ts")).stop(call),
  send: async (call) => (await import("./run-steering.ts")).send(call),
  spawn: async (call) => (await import("./run-steering.ts")).spawn(call),
  rerun: async (call) => (await import("./run-steering.ts")).rerun(call),
  answer: async (call) => (await import("./run-steering.ts")).answer(call),
};

export async function runs(call: Call): Promise<number> {
  const [word = "list", ...words] = call.words;
  const doing = Object.hasOwn(DOINGS, word) ? DOINGS[word] : undefined;
  if (doing === undefined) throw new UsageError(`runs has no "${visibleLine(word, 40)}".${didYouMean(word, Object.keys(DOINGS))}`);
  return doing({ ...call, words });
}
