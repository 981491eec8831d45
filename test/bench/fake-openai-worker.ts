// The scripted OpenAI server in a thread of its own, so that its work is not counted as the client's. models.ts → here.
import { parentPort } from "node:worker_threads";
import { createFakeOpenAi } from "../support/fake-openai.ts";

const TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. ".repeat(5);
const server = await createFakeOpenAi({ respond: () => ({ text: TEXT, usage: { input: 1_000, output: 100 } }) });
// The server keeps what it saw for tests to look at; here that would only grow.
setInterval(() => server.calls.splice(0), 500).unref();
parentPort?.postMessage(server.url);
