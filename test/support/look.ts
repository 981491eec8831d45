// A look at PostgreSQL without an `await`, as one at a SQLite file is: the same suites run over both. Another thread asks, this one
// stands still until the answer is there.
import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads";
import { createStatements } from "../../src/stores/postgres/statement.ts";

export interface Look {
  /** With `?` for each parameter, as the stores write it. */
  rows<T>(sql: string, ...params: (string | number)[]): T[];
  close(): Promise<void>;
}

const PATIENCE_MS = 20_000;

export function createLook(url: string): Look {
  const { port1, port2 } = new MessageChannel();
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL("./look-worker.ts", import.meta.url), {
    workerData: { url, port: port2, signal },
    transferList: [port2],
  });
  const { numbered } = createStatements();
  return {
    rows<T>(sql: string, ...params: (string | number)[]) {
      Atomics.store(signal, 0, 0);
      port1.postMessage({ text: numbered(sql).text, values: params });
      Atomics.wait(signal, 0, 0, PATIENCE_MS);
      const answer = receiveMessageOnPort(port1)?.message as { rows?: T[]; error?: string } | undefined;
      if (answer?.rows === undefined) throw new Error(answer?.error ?? `no answer from PostgreSQL to ${sql}`);
      return answer.rows;
    },
    async close() {
      port1.close();
      await worker.terminate();
    },
  };
}
