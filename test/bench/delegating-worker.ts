// The scripted OpenAI server in a thread of its own: whoever is told to send one out calls sessions_spawn once, all else is
// answered in a few words. cost.ts → here.
import { parentPort } from "node:worker_threads";
import { createFakeOpenAi } from "../support/fake-openai.ts";

const SEND_OUT = "Send one out.";

const server = await createFakeOpenAi({
  respond({ messages }) {
    const asked = messages.findLastIndex((message) => message.role === "user" && message.text.includes(SEND_OUT));
    const isAsked = asked >= 0 && !messages.slice(asked).some((message) => message.role !== "user");
    const usage = { input: 1_000, output: 50 };
    return isAsked ? { toolCalls: [{ name: "sessions_spawn", args: { task: "Count the lines." } }], usage } : { text: "Done.", usage };
  },
});
// The server keeps what it saw for tests to look at; here that would only grow.
setInterval(() => server.calls.splice(0), 500).unref();
parentPort?.postMessage(server.url);
