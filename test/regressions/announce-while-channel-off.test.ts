// Found in review: a run that ended while its channel was off (the operator restarted with Telegram disabled) had its announcement thrown away. It was marked
// `blocked` without a row in the outbox, so `/subagents retry` found nothing to send, and the requester's model was told that the person had seen it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { whoAsks } from "../support/brain.ts";
import { createDoor } from "../support/channel-scene.ts";
import { createLocalApp, type LocalApp } from "../support/local-app.ts";
import { waitFor } from "../support/wait.ts";

const PERSON = 42;

async function restartWith(app: LocalApp, enabled: boolean): Promise<void> {
  const path = join(app.stateDir, "../config/herald.json5");
  const config = JSON.parse(readFileSync(path, "utf8")) as { channels: { telegram: { enabled?: boolean } } };
  config.channels.telegram.enabled = enabled;
  writeFileSync(path, JSON.stringify(config));
  await app.restart();
}

it("[RC1][DL3] a run that ended while its channel was off is announced once by retry when it is on again", {
  timeout: 60_000,
}, async () => {
  const door = createDoor();
  await using app = await createLocalApp({
    telegram: { allowFrom: [PERSON] },
    async respond(request) {
      if (whoAsks(request) === "child") await door.opened;
      return { text: "what I found" };
    },
  });
  const run = () => app.rows<{ state: string; delivery: string; requester_session_id: string }>("SELECT * FROM runs")[0];
  const announcements = () => app.telegram.messages(PERSON).filter(({ text }) => text.includes("Stats: runtime"));
  await app.ask({ chat: PERSON, text: "/subagents spawn look around" });
  await waitFor("it to work", () => app.model.open === 1);
  await restartWith(app, false);
  door.open();
  await waitFor("it to end", () => run()?.state === "done");
  expect(run()?.delivery).toBe("blocked");
  await restartWith(app, true);
  expect(await app.ask({ chat: PERSON, text: "/subagents info last" })).toMatch(/blocked.*the channel telegram is off.*\/subagents retry/);
  expect(announcements()).toEqual([]);
  // The model reads it as it is at that moment.
  await app.ask({ chat: PERSON, text: "anything new?" });
  expect(
    app.model.calls
      .at(-1)
      ?.messages.map((message) => message.text)
      .join("\n"),
  ).toMatch(/could not be delivered \(the channel telegram is off[^)]*\)\. The person has not seen this\./);
  app.telegram.say({ chat: PERSON, text: "/subagents retry last" });
  await app.telegram.until(() => announcements().length > 0, "the announcement");
  expect(announcements()[0]?.text).toMatch(/Status: success\s+Result:\s+what I found\s/);
  await app.settled();
  expect(await app.ask({ chat: PERSON, text: "/subagents retry last" })).toContain("is not blocked (delivered)");
  expect(announcements()).toHaveLength(1);
});
