// Kill -9 at every named point between the end of a run and the delivery of its digest: one digest, with everybody in it, once.
import { describe, expect, it } from "vitest";
import { FAILPOINTS, type Failpoint } from "../../src/core/failpoints.ts";
import { child, plan, spawns } from "../support/brain.ts";

import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { hasPostgres } from "../support/shared-folder.ts";
import { waitFor } from "../support/wait.ts";

/** How often each point is tried; CI asks for more. */
const KILLS = Number(process.env.HERALD_TEST_KILLS ?? 1);
const config = { agents: { list: [{ id: "main", subagents: { announce: { when: "digest", everyMinutes: 60 } } }] } };
/** A start after the hour is over. */
const LATER = {
  NODE_OPTIONS: `--import=${new URL("../support/fast-time.ts", import.meta.url).href}`,
  FAST_TIME_AHEAD_MS: String(61 * 60_000),
};

const BEFORE: readonly Failpoint[] = ["run.before-end", "run.ended"];
const OWN = FAILPOINTS.filter((point) => point.startsWith("digest."));
const AFTER: readonly Failpoint[] = ["delivery.marked", "delivery.sent", "delivery.settled"];
const LABELS = ["one", "two", "three"];
const sends = plan([spawns(...LABELS.map((label) => child(label, `result ${label}`))), { text: "sent" }]);

/** Everybody has ended, nothing is on its way. */
const held = (chat: Chat): Promise<boolean> =>
  waitFor("all to be held", () => chat.runs().filter(({ ended_at, delivery }) => ended_at !== null && delivery === "pending").length === 3);

async function expectOneDigest(scene: Scene, chat: Chat): Promise<void> {
  await waitFor("all to be delivered", () => chat.runs().every(({ delivery }) => delivery === "delivered"), 30_000);
  const [digest = "", ...more] = (await chat.announcements()).map(({ text }) => text);
  expect(more).toEqual([]);
  expect(digest).toMatch(/^\*\*Digest: 3 sub-agents finished\*\*/);
  for (const label of LABELS) expect(digest.split(`\nresult ${label}\n`)).toHaveLength(2);
  expect(scene.herald.rows("SELECT 1 FROM digest_items")).toEqual([]);
}

describe("[RC1][AP1] kill -9 from the end of a run to the delivery of its digest", () => {
  it("[RC1] no point of a digest is left out", () => expect(OWN).toEqual(["digest.gathered", "digest.posted"]));

  it.concurrent.each(BEFORE)("[RC1][AP1] %s: every result is in the one digest, once", { timeout: 60_000 * KILLS }, async (point) => {
    for (let i = 0; i < KILLS; i++) {
      await using scene = await createScene({ failpoint: point, config });
      const chat = scene.chat();
      const said = chat.say(sends);
      await scene.herald.exited();
      await scene.herald.restart();
      await said;
      await held(chat);
      await scene.herald.reply(/^sent$/, chat.id);
      await scene.herald.crash();
      await scene.herald.restart({ env: LATER });
      await expectOneDigest(scene, chat);
    }
  });

  it.concurrent.each([...OWN, ...AFTER])(
    "[RC1][AP1] %s: every result is in the one digest, once",
    { timeout: 60_000 * KILLS },
    async (point) => {
      for (let i = 0; i < KILLS; i++) {
        await using scene = await createScene({ config });
        const chat = scene.chat();
        await chat.say(sends);
        await held(chat);
        await scene.herald.reply(/^sent$/, chat.id);
        await scene.herald.crash();
        await scene.herald.restart({ failpoint: point, env: LATER });
        await scene.herald.exited();
        await scene.herald.restart({ env: LATER });
        await expectOneDigest(scene, chat);
      }
    },
  );

  it.runIf(hasPostgres())(
    "[AP1][SO3] of two processes that find it due at the same moment one posts it, once",
    { timeout: 120_000 },
    async () => {
      await using scene = await createScene({ config, nodes: [{}, {}] });
      const chat = scene.chat();
      await chat.say(sends);
      await held(chat);
      await scene.herald.reply(/^sent$/, chat.id);
      await scene.herald.crash();
      await scene.herald.restart({ env: LATER });
      await expectOneDigest(scene, chat);
    },
  );
});
