import { createServer, type Server } from "node:net";
import { afterEach, expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { createBus } from "../../../src/core/events.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createBell } from "../../../src/stores/postgres/bell.ts";
import { openConnections } from "../../../src/stores/postgres/connections.ts";
import type { PostgresDatabase } from "../../../src/stores/postgres/database.ts";

let server: Server;
afterEach(() => new Promise((resolve) => server.close(resolve)));

const message = (type: string, body: string | Buffer): Buffer => {
  const bytes = Buffer.from(body);
  const head = Buffer.alloc(5);
  head.write(type, 0);
  head.writeUInt32BE(bytes.length + 4, 1);
  return Buffer.concat([head, bytes]);
};

it("[SO3] a server that lets somebody in and shuts down in the same breath is a failed try, not the end of the process", async () => {
  const last = [
    message("R", Buffer.alloc(4)),
    message("Z", "I"),
    message("E", "SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"),
  ];
  server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end(Buffer.concat(last)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const connections = await openConnections({ url: `postgres://x@127.0.0.1:${port}/x`, poolSize: 1, name: "test" });
  const db = { namespace: "test", connections } as PostgresDatabase;
  const bus = createBus(() => {});
  const bell = createBell({ db, bus, clock: systemClock, log: silentLogger, bootId: "a", steady: () => performance.now() });
  await expect(bell.start()).rejects.toThrow(/not queryable|terminated|administrator/);
  await bell.close();
  await connections.close();
});
