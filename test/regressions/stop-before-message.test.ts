// Found by the chaos run: a /stop and a message behind it, fetched in one batch. The command was carried out a moment after
// the whole batch had been looked at, so the /stop dropped words that were said after it.
import { expect, it } from "vitest";
import { createChannelScene } from "../support/channel-scene.ts";

const PEOPLE = [
  { id: 42, command: "/stop", answer: /^⚙️ Agent was aborted/ },
  { id: 43, command: "/new", answer: /^✨ New conversation/ },
];

it("[ST1] /stop and /new drop what came before them, never what came after them in the same batch", async () => {
  await using scene = await createChannelScene({ slack: null, telegram: { allowFrom: PEOPLE.map(({ id }) => String(id)) } });
  const { herald, telegram } = scene;
  await scene.connected();
  await herald.crash();
  const last = PEOPLE.map(({ id: chat, command }) => {
    telegram.say({ chat, text: "before" });
    telegram.say({ chat, text: command });
    return telegram.say({ chat, text: "after" });
  });
  await herald.restart();
  for (const [n, { id, answer }] of PEOPLE.entries()) {
    await telegram.until(() => telegram.messages(id).some(({ text }) => text === "heard: after"), "the answer to what came after");
    await scene.settled();
    expect(telegram.messages(id).map(({ text }) => text)).toEqual([expect.stringMatching(answer), "heard: after"]);
    expect(telegram.messages(id).at(-1)?.replyTo).toBe(last[n]);
  }
});
