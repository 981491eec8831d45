// The other side of look.ts: asks PostgreSQL and says when the answer is there.
import { type MessagePort, workerData } from "node:worker_threads";
import { Client, types } from "pg";

const { url, port, signal } = workerData as { url: string; port: MessagePort; signal: Int32Array };
// Sums and numbers of rows as SQLite gives them.
for (const oid of [20, 1700]) types.setTypeParser(oid, Number);
const client = new Client({ connectionString: url, application_name: "a test that looks" });
client.on("error", () => {});
const connected = client.connect();

port.on("message", async ({ text, values }: { text: string; values: unknown[] }) => {
  try {
    await connected;
    port.postMessage({ rows: (await client.query({ text, values })).rows });
  } catch (error) {
    port.postMessage({ error: String(error) });
  }
  Atomics.store(signal, 0, 1);
  Atomics.notify(signal, 0);
});
port.once("close", () => void client.end());
