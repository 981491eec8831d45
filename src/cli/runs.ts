// `herald runs`: which of its words was meant, and which flags go with it.
import { didYouMean } from "../config/nearest.ts";
import { visibleLine } from "../core/visible-text.ts";
import { type Call, refuseFlags, UsageError } from "./command.ts";
import { GatewayAway } from "./gateway.ts";

interface Doing {
  /** Beside --json. */
  readonly flags: readonly string[];
  /** It changes nothing: without a gateway it looks into the folder. */
  readonly isLooking?: true;
  run(call: Call): Promise<number>;
}

const DOINGS: Readonly<Record<string, Doing>> = {
  list: { flags: ["once"], isLooking: true, run: async (call) => (await import("./run-list.ts")).list(call) },
  info: { flags: [], isLooking: true, run: async (call) => (await import("./run-info.ts")).info(call) },
  log: { flags: ["follow", "lines"], isLooking: true, run: async (call) => (await import("./run-log.ts")).log(call) },
  stop: { flags: [], run: async (call) => (await import("./run-steering.ts")).stop(call) },
  send: { flags: [], run: async (call) => (await import("./run-steering.ts")).send(call) },
  spawn: { flags: ["chat"], run: async (call) => (await import("./run-steering.ts")).spawn(call) },
  rerun: { flags: ["model"], run: async (call) => (await import("./run-steering.ts")).rerun(call) },
  answer: { flags: [], run: async (call) => (await import("./run-steering.ts")).answer(call) },
};

export async function runs(call: Call): Promise<number> {
  const [word = "list", ...words] = call.words;
  const doing = Object.hasOwn(DOINGS, word) ? DOINGS[word] : undefined;
  if (doing === undefined) throw new UsageError(`runs has no "${visibleLine(word, 40)}".${didYouMean(word, Object.keys(DOINGS))}`);
  refuseFlags(call, `runs ${word}`, ["json", ...doing.flags]);
  try {
    return await doing.run({ ...call, words });
  } catch (error) {
    if (!(error instanceof GatewayAway) || error.isRunning || doing.isLooking === true) throw error;
    throw new GatewayAway(`${error.message} herald start starts it.`);
  }
}
