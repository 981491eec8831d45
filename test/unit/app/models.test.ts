// What a provider is sent, put together from settings and secrets.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createModelParts } from "../../../src/app/models.ts";
import { loadConfig } from "../../../src/config/config.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { createBus } from "../../../src/core/events.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createSecrets } from "../../../src/core/secrets.ts";
import { createFakeOpenAi } from "../../support/fake-openai.ts";
import { scriptedConfig } from "../../support/scripted-model.ts";

it("[SC4] a secret that becomes known between two calls is taken out of the same tools and prompt from then on", async () => {
  const folder = mkdtempSync(join(tmpdir(), "herald-models-"));
  const server = await createFakeOpenAi({ respond: () => ({ text: "Done." }) });
  try {
    writeFileSync(join(folder, "herald.json5"), JSON.stringify(scriptedConfig(server.url)), { mode: 0o600 });
    const env = { HOME: folder, HERALD_STATE_DIR: join(folder, "state"), HERALD_CONFIG: join(folder, "herald.json5") };
    const loaded = loadConfig({ env, cwd: folder });
    const secrets = createSecrets();
    const parts = {
      clock: systemClock,
      bus: createBus(() => expect.unreachable()),
      log: silentLogger,
      secrets,
      loaded: () => loaded,
      readPicture: async () => null,
    };
    const { models } = await createModelParts(parts);
    const tools = [{ name: "look", description: "Uses sesame-0123456789.", parameters: { type: "object", properties: {} } }];
    const say = async (): Promise<string> => {
      const messages = [{ role: "user", text: "Hi" }] as const;
      const prompt = { system: "Say sesame-0123456789.", messages, tools, fallbacks: [], thinking: "off" } as const;
      const reply = await models.call(
        { ...prompt, model: "scripted/model-1", agentId: "main", signal: AbortSignal.timeout(10_000) },
        () => {},
      );
      expect(reply.outcome).toBe("ok");
      return JSON.stringify(server.calls.at(-1)?.body);
    };
    expect((await say()).match(/sesame-0123456789/g)).toHaveLength(2);
    secrets.add("the word", "sesame-0123456789");
    for (let n = 0; n < 2; n++) {
      const sent = await say();
      expect(sent).not.toContain("sesame");
      expect(sent.match(/\[the word\]/g)).toHaveLength(2);
    }
  } finally {
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
