// The connections to PostgreSQL: every one has its limits, and a pooler in session mode lets them pass.
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { describe, expect, it } from "vitest";
import { openConnections } from "../../../src/stores/postgres/connections.ts";
import { POSTGRES_ENV } from "../../support/postgres.ts";
import { hasPostgres } from "../../support/shared-folder.ts";

const LIMITS = "SELECT current_setting('statement_timeout') AS statement, current_setting('idle_in_transaction_session_timeout') AS idle";

describe.runIf(hasPostgres())("connections", () => {
  it("[SO1] no statement, lock or pause inside a transaction is longer than eight seconds, on any connection", async () => {
    const connections = await openConnections({ url: process.env[POSTGRES_ENV] ?? "", poolSize: 3, name: "test" });
    const single = await connections.single(() => {});
    const pooled = await Promise.all(Array.from({ length: 3 }, () => connections.pool.connect()));
    try {
      for (const client of [single, ...pooled]) expect((await client.query(LIMITS)).rows).toEqual([{ statement: "8s", idle: "8s" }]);
    } finally {
      for (const client of pooled) client.release();
      await single.end();
      await connections.close();
    }
  });
});

it("[SO1] it asks for nothing at the door that PgBouncer refuses", async () => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const greeting = new Promise<string>((resolve) => {
    server.on("connection", (socket) => {
      socket.on("error", () => {});
      socket.once("data", (bytes) => {
        resolve(bytes.subarray(8).toString());
        socket.destroy();
      });
    });
  });
  const url = `postgres://herald@127.0.0.1:${(server.address() as AddressInfo).port}/herald`;
  const connections = await openConnections({ url, poolSize: 1, name: "test" });
  await expect(connections.pool.query("SELECT 1")).rejects.toThrow();
  const names = (await greeting).split("\0").filter((_, at) => at % 2 === 0);
  expect(names.filter((name) => name !== "").sort()).toEqual(["application_name", "client_encoding", "database", "user"]);
  await connections.close();
  server.close();
});
