import { describe, expect, it } from "vitest";
import { createChannels } from "../../../src/app/channels.ts";
import { configSchema } from "../../../src/config/schema.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createSecrets } from "../../../src/core/secrets.ts";
import { createSharedFolder, hasPostgres } from "../../support/shared-folder.ts";

describe.runIf(hasPostgres())("channels of a process that does not receive", () => {
  it("[SO3] it learns which account a channel is from the process that was told, without a start of its own", async () => {
    await using folder = await createSharedFolder();
    const { stores, clock, bus } = folder;
    await stores.nodes.enter();
    const slack = { enabled: true, botToken: "xoxb-1", appToken: "xapp-1-A0APP-1" };
    const config = configSchema.parse({ channels: { slack } });
    const channels = await createChannels({
      config,
      current: () => config,
      stores,
      clock,
      bus,
      log: silentLogger,
      secrets: createSecrets(),
    });
    await channels.learnAccounts();
    expect([channels.find("slack", "A0APP")?.name, channels.find("slack", "T0HOME")]).toEqual(["slack", null]);
    await stores.accounts.adopt("slack", "T0HOME", ["A0APP"]);
    await channels.learnAccounts();
    expect(channels.find("slack", "T0HOME")?.name).toBe("slack");
  });
});
