// Found while the chaos run's rule for sends was written: a message sent to a run while its announce step was under way. The run was still `running`, so the
// person was told that it would be read at the next step; but there was no next step, and nobody ever read it.
import { expect, it } from "vitest";
import { brain, child, spawns, whoAsks } from "../support/brain.ts";
import { createDoor } from "../support/channel-scene.ts";
import { createScene } from "../support/scene.ts";

it("[CM7] a message sent during the announce step is read before the run ends, and announced once", { timeout: 60_000 }, async () => {
  const asked = createDoor();
  const door = createDoor();
  await using scene = await createScene({
    async respond(request, call) {
      if (whoAsks(request) === "announce") {
        asked.open();
        await door.opened;
      }
      return brain(request, call);
    },
  });
  const chat = scene.chat();
  await chat.act([spawns(child("worker", [{ text: "what I found first" }, { text: "what I found after your message" }]))]);
  await asked.opened;
  expect(await chat.ask("/subagents send worker look once more")).toMatch(/^📨 Sent to "worker"/);
  door.open();
  expect(await chat.announced("worker")).toContain("what I found after your message");
  await chat.reached("worker", "done");
  expect(await chat.announcements()).toHaveLength(1);
  expect(scene.herald.rows("SELECT 1 FROM run_messages WHERE taken_at IS NULL")).toEqual([]);
});
