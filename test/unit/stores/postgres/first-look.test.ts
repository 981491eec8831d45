// The first look at a server, where it goes away in the middle of it.
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../../../src/core/logger.ts";
import { openPostgres } from "../../../../src/stores/postgres/database.ts";
import { createSchema } from "../../../support/postgres.ts";
import { hasPostgres } from "../../../support/shared-folder.ts";

describe.runIf(hasPostgres())("the first look", () => {
  it("[SO3][RN4] a server that takes one connection and no other: it is told, and nothing is waited for that nobody gives back", async () => {
    await using schema = await createSchema();
    const url = new URL(schema.url);
    const { port, hostname } = url;
    let taken = 0;
    const door = createServer((inner) => {
      if (taken++ > 0) return void inner.destroy();
      const outer = connect(Number(port), hostname);
      inner.pipe(outer).pipe(inner);
      for (const end of [inner, outer]) end.on("error", () => {});
    });
    door.listen(0, "127.0.0.1");
    await once(door, "listening");
    url.port = String((door.address() as AddressInfo).port);
    const opening = openPostgres({ url: url.href, poolSize: 2, log: silentLogger, name: "test", steady: () => performance.now() });
    await expect(opening).rejects.toThrow(/terminated|ECONNRESET|closed/i);
    // Everything is given back: else this would not come to its end.
    await new Promise((resolve) => door.close(resolve));
  });
});
