// A provider in a thread of its own whose models take their time: the main session sends out as many children as it is
// told, each of them speaks for some seconds, piece by piece. children.ts → here.
import { parentPort, workerData } from "node:worker_threads";
import { whoAsks } from "../support/brain.ts";
import type { FakeRequest, Script } from "../support/fake-model-server.ts";
import { createFakeOpenAi } from "../support/fake-openai.ts";

export interface Streaming {
  readonly children: number;
  /** On average: models don't end in step. */
  readonly seconds: number;
  readonly piecesPerSecond: number;
}

const { children, seconds, piecesPerSecond } = workerData as Streaming;
const PIECE = "four more words come ";
/** The quickest takes so much less than the average, the slowest so much more. */
const SPREAD = 0.25;

const SPAWNS = Array.from({ length: children }, (_, n) => ({
  name: "sessions_spawn",
  id: `c${n}`,
  args: { task: `Speak for a while (${n}).`, label: `speaker ${n}` },
}));

/** By the number in its task. */
function speech(request: FakeRequest): Script {
  const n = Number(/Speak for a while \((\d+)\)/.exec(request.messages[0]?.text ?? "")?.[1]);
  const share = 1 - SPREAD + (2 * SPREAD * n) / (children - 1);
  return { pieces: new Array<string>(Math.round(seconds * piecesPerSecond * share)).fill(PIECE), pieceMs: 1000 / piecesPerSecond };
}

function respond(request: FakeRequest): Script {
  const usage = { input: 1_000, output: 100 };
  const isFirst = !request.messages.some((message) => message.role === "tool");
  switch (whoAsks(request)) {
    case "main":
      return isFirst ? { text: "", toolCalls: SPAWNS, usage } : { text: "They are on their way.", usage };
    case "child":
      return { ...speech(request), usage };
    case "announce":
      return { text: "Result:\nSpoken.\n\nNotes:\n- (none)", usage };
  }
}

const server = await createFakeOpenAi({ respond });
parentPort?.postMessage(server.url);
