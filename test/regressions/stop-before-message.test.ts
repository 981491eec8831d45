// Found by the chaos run: a /stop and a message behind it, fetched in one batch. The command was carried out a moment after
// the whole batch had been looked at, so the /stop dropped words that were said after it.
import { expect, it } from "vitest";
import { createChannelScene } from "../support/channel-scene.ts";

const PERSON = 42;

it.each(["/stop", "/new"])("[ST1] %s drops what came before it, never what came after it in the same batch", async (command) => {
  await using scene = await createChannelScene({ slack: null, telegram: { allowFrom: [String(PERSON)] } });
  const { herald, telegram } = scene;
  await scene.connected();
  await herald.crash();
  telegram.say({ chat: PERSON, text: "before" });
  telegram.say({ chat: PERSON, text: command });
  const after = telegram.say({ chat: PERSON, text: "after" });
  await herald.restart();
  await telegram.until(() => telegram.messages(PERSON).some(({ text }) => text === "heard: after"), "the answer to what came after");
  await scene.settled();
  expect(telegram.messages(PERSON).map(({ text }) => text)).toEqual([
    expect.stringMatching(/^(⚙️ Agent was aborted|✨ New conversation)/),
    "heard: after",
  ]);
  expect(telegram.messages(PERSON).at(-1)?.replyTo).toBe(after);
});
