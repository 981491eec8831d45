// The scripted OpenAI server of the bench of several machines, in a thread of its own: `Send N out.` spawns N sub-agents in one answer,
// each of whose model calls takes 50 ms; a task that waits takes for ever. nodes.ts → here.
import { parentPort } from "node:worker_threads";
import { createFakeOpenAi } from "../support/fake-openai.ts";

const MODEL_MS = 50;
const FOR_EVER_MS = 600_000;
const SEND = /Send (\d+) out(, to wait)?\./;

const server = await createFakeOpenAi({
  respond({ messages }) {
    const usage = { input: 1_000, output: 50 };
    const asked = messages.findLastIndex((message) => message.role === "user" && SEND.test(message.text));
    if (asked >= 0) {
      if (messages.slice(asked).some((message) => message.role !== "user")) return { text: "Done.", usage };
      const [, count = "1", waits] = SEND.exec(messages[asked]?.text ?? "") ?? [];
      const task = waits === undefined ? "Count the lines." : "Wait for ever.";
      const spawn = (n: number) => ({ name: "sessions_spawn", args: { task, label: `run ${n}` } });
      return { toolCalls: Array.from({ length: Number(count) }, (_, n) => spawn(n)), usage };
    }
    const reads = (words: string): boolean => messages.some((message) => message.text.includes(words));
    const delayMs = reads("Wait for ever.") ? FOR_EVER_MS : reads("Count the lines.") ? MODEL_MS : 0;
    return { text: "Done.", usage, delayMs };
  },
});
setInterval(() => server.calls.splice(0), 500).unref();
parentPort?.postMessage(server.url);
