// What a newcomer can try without a key: brief a sub-agent while it works, and take the brief back.
import { expect, it } from "vitest";
import { createHarness } from "../support/harness.ts";
import { waitFor } from "../support/wait.ts";

it("[BF3] with the offline model, a brief given in the middle of a run is seen at its next step, and after revoke it is gone", async () => {
  await using herald = await createHarness();
  const isWaiting = (n: number) =>
    waitFor(
      "the sub-agent to be at work",
      () => herald.rows<{ doing: string }>("SELECT doing FROM runs WHERE state = 'running' AND doing = 'thinking'").length === 1 && n,
    );
  await herald.say("in the background, wait 3 seconds and list .");
  await isWaiting(1);
  await herald.say("brief last: find the oldest file");
  await herald.reply(/^Briefed last/);
  const first = await herald.reply(/Sub-agent: wait 3 seconds/);
  expect(first.text).toContain("My brief says: find the oldest file");

  await herald.say("in the background, wait 4 seconds and list .");
  await isWaiting(2);
  await herald.say("brief last: find the newest file");
  await waitFor(
    "the second brief",
    async () => (await herald.replies()).filter((message) => message.text.startsWith("Briefed last")).length === 2,
  );
  await herald.say("revoke the brief of last");
  await herald.reply(/^Revoked: last/);
  const second = await herald.reply(/Sub-agent: wait 4 seconds/);
  expect(second.text).not.toContain("My brief says");
  expect(second.text).toContain("Waited 4 seconds");
});
