// Kill -9 between every two steps of the path message → answer: every message is answered exactly once on the page.
import { describe, expect, it } from "vitest";
import { FAILPOINTS } from "../../src/core/failpoints.ts";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import { createHarness, type Harness } from "../support/harness.ts";
import { scriptedConfig } from "../support/scripted-model.ts";

/** How often each point is tried; CI asks for more. */
const KILLS = Number(process.env.HERALD_TEST_KILLS ?? 1);

const MESSAGE_POINTS = FAILPOINTS.filter((point) => /^(inbox|gateway|turn|delivery)\./.test(point));
const COMMAND_POINTS = FAILPOINTS.filter((point) => point.startsWith("command."));

describe("[RC1][DL1] kill -9 at each named point from message to answer", () => {
  it.concurrent.each(MESSAGE_POINTS)("[RC1] %s: every message is answered exactly once", { timeout: 60_000 * KILLS }, async (point) => {
    await using model = { server: await createFakeOpenAi({ respond: answer }), [Symbol.asyncDispose]: () => model.server.close() };
    await using herald = await createHarness({ config: scriptedConfig(model.server.url), failpoint: point });
    for (let i = 0; i < KILLS; i++) {
      if (i > 0) await restartAt(herald, point);
      const said = herald.say(`question ${i}`);
      await herald.exited();
      await herald.restart();
      await said;
      await herald.reply(new RegExp(`^answer to question ${i}$`));
    }
    const replies = (await herald.replies()).map((message) => message.text);
    expect(replies).toEqual(Array.from({ length: KILLS }, (_, i) => `answer to question ${i}`));
  });

  it.concurrent.each(COMMAND_POINTS)("[RC1] %s: every command is answered exactly once", { timeout: 60_000 * KILLS }, async (point) => {
    await using herald = await createHarness({ failpoint: point });
    for (let i = 0; i < KILLS; i++) {
      if (i > 0) await restartAt(herald, point);
      const said = herald.say("/status");
      await herald.exited();
      await herald.restart();
      await said;
    }
    await herald.say("/help");
    await herald.reply(/\*\*Commands\*\*/);
    expect((await herald.replies()).filter((message) => message.text.startsWith("**Herald"))).toHaveLength(KILLS);
  });
});

async function restartAt(herald: Harness, point: string): Promise<void> {
  await herald.crash();
  await herald.restart({ failpoint: point });
}

/** Reads a file first, so that a tool call lies on the path; then answers the newest question. */
function answer(request: { messages: { role: string; text: string }[] }) {
  const last = request.messages.at(-1);
  if (last?.role === "user") return { text: "looking", toolCalls: [{ name: "list", args: { path: "." } }] };
  const question = request.messages.findLast((message) => message.role === "user")?.text;
  return { text: `answer to ${question}` };
}
