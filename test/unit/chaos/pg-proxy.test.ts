import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createPgProxy, type PgProxy } from "../../chaos/pg-proxy.ts";
import { createSchema, type Schema } from "../../support/postgres.ts";
import { hasPostgres } from "../../support/shared-folder.ts";
import { waitFor } from "../../support/wait.ts";

describe.runIf(hasPostgres())("the line to PostgreSQL in a chaos run", () => {
  let schema: Schema;
  let proxy: PgProxy;
  const clients: Client[] = [];
  beforeAll(async () => {
    schema = await createSchema();
    proxy = await createPgProxy(Number(new URL(schema.url).port));
  });
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.end().catch(() => {})));
    await proxy.close();
    await schema[Symbol.asyncDispose]();
  });
  const connect = async (through: boolean): Promise<Client> => {
    const url = new URL(schema.url);
    if (through) url.port = String(proxy.port);
    const client = new Client({ connectionString: url.href });
    client.on("error", () => {});
    await client.connect();
    clients.push(client);
    return client;
  };

  it("[SO2] swallows notifications while it is told to, and carries the rest", async () => {
    const heard: string[] = [];
    const [listener, speaker] = [await connect(true), await connect(false)];
    listener.on("notification", ({ payload }) => heard.push(payload ?? ""));
    await listener.query(`LISTEN "${schema.name}"`);
    const say = (word: string): Promise<unknown> => speaker.query("SELECT pg_notify($1, $2)", [schema.name, word]);
    await say("one");
    await waitFor("the first", () => heard.length === 1);
    proxy.deafen(true);
    await say("two");
    await waitFor("the loss", () => proxy.counts().bells === 1);
    expect((await listener.query("SELECT 1 AS n")).rows).toEqual([{ n: 1 }]);
    proxy.deafen(false);
    await say("three");
    await waitFor("the third", () => heard.length === 2);
    expect(heard).toEqual(["one", "three"]);
  });

  it("[SO3] loses the answer to a commit that the server carries out", async () => {
    const [writer, reader] = [await connect(true), await connect(false)];
    await writer.query("CREATE TABLE things (n int)");
    await writer.query("BEGIN");
    proxy.loseAnswer();
    // As Herald ends a transaction: its mark and COMMIT in one.
    await expect(writer.query("INSERT INTO things VALUES (1); COMMIT")).rejects.toThrow(/terminated|ECONNRESET/);
    await waitFor("the row", async () => (await reader.query("SELECT n FROM things")).rowCount === 1);
  });

  it("[SO3] holds everything back, and lets it through afterwards", async () => {
    const client = await connect(true);
    proxy.hold(true);
    const order: string[] = [];
    const answered = client.query("SELECT 1").then(() => order.push("answered"));
    await (await connect(false)).query("SELECT pg_sleep(0.2)");
    order.push("let go");
    proxy.hold(false);
    await answered;
    expect(order).toEqual(["let go", "answered"]);
  });
});
