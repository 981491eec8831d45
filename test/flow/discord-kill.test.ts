// Kill -9 on Discord where it differs from others: answers to commands, answers that are being written, sends whose nonce Discord has
// forgotten, sessions it has forgotten; and kills at any moment while calls fail and connections break.
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { beforeKill } from "../support/before-kill.ts";
import { plan } from "../support/brain.ts";
import { type ChannelScene, createChannelScene } from "../support/channel-scene.ts";
import { DIRECT, PERSON, ROOM } from "../support/fake-discord.ts";
import { waitFor } from "../support/wait.ts";

/** How often; CI asks for more. */
const KILLS = Number(process.env.HERALD_TEST_KILLS ?? 1);
const MARK = "(may be repeated)";

async function setUp(failpoint?: string): Promise<ChannelScene> {
  const scene = await createChannelScene({
    ...{ telegram: null, slack: null, ...(failpoint === undefined ? {} : { failpoint }) },
    discord: { allowFrom: [PERSON], channels: { [ROOM]: { requireMention: false } }, progress: "lines" },
  });
  await scene.connected();
  return scene;
}

/** As if so much time had passed while nobody was there. */
function ageSends(stateDir: string, ms: number): void {
  const db = new DatabaseSync(join(stateDir, "herald.db"));
  db.prepare("UPDATE outbox SET sending_at = sending_at - ? WHERE state = 'sending'").run(ms);
  db.close();
}

describe.concurrent("Discord and kill -9", () => {
  it.each(["delivery.marked", "delivery.sent"])(
    "[RC1][DL4] the answer to a slash command, %s: in its place, once and unmarked; a message where nobody lived to acknowledge it",
    { timeout: 60_000 },
    async (point) => {
      await using scene = await setUp(point);
      const { discord, herald } = scene;
      void discord.slash({ channel: ROOM, name: "subagents" });
      await herald.exited();
      await herald.restart();
      await scene.settled();
      const told = [...discord.whispers(ROOM), ...discord.messages(ROOM)].map(({ content }) => content.startsWith("🧭 Subagents"));
      expect(told).toEqual([true]);
      await discord.until(() => discord.thinking() === 0, "the end of thinking", 30_000);
    },
  );

  it.each([
    ["delivery.sent:3", [false]],
    ["delivery.marked:3", [true]],
  ])(
    "[DL4] DSC-002 killed at %s and back after Discord has forgotten the nonce: not lost, not silently repeated",
    { timeout: 60_000 },
    async (point, marks) => {
      await using scene = await setUp(point);
      const { discord, herald } = scene;
      discord.forgetNonces();
      discord.say({ channel: ROOM, text: "/subagents spawn task" });
      await herald.exited();
      ageSends(herald.stateDir, 15 * 60_000);
      await herald.restart();
      await scene.settled();
      const copies = discord.messages(ROOM).filter(({ content }) => content.includes("Stats: runtime"));
      expect(copies.map(({ content }) => content.startsWith(MARK))).toEqual(marks);
    },
  );

  it.each(["draft.shown", "delivery.sent"])(
    "[LV6] %s while an answer is being written: it ends whole, in one message",
    { timeout: 60_000 },
    async (point) => {
      await using scene = await setUp(point);
      const { discord, herald } = scene;
      const words = "An answer that is long enough to be read while it is written.";
      discord.say({ channel: DIRECT, text: plan([{ pieces: words.match(/[\s\S]{1,6}/g) ?? [], pieceMs: 500 }]) });
      await herald.exited();
      await herald.restart();
      await waitFor("the whole answer", () => discord.messages(DIRECT).some(({ content }) => content === words), 40_000);
      await scene.settled();
      expect(discord.messages(DIRECT).map(({ content }) => content)).toEqual([words]);
    },
  );

  it.each(["inbox.before-put", "inbox.put"])(
    "[DC1][RC3] %s, and Discord has forgotten the session meanwhile: read on, handled once",
    { timeout: 60_000 * KILLS },
    async (point) => {
      await using scene = await setUp(point);
      const { discord, herald } = scene;
      for (let round = 0; round < KILLS; round++) {
        if (round > 0) {
          await herald.crash();
          await herald.restart({ failpoint: point });
          await scene.connected();
        }
        discord.say({ channel: ROOM, text: `question ${round}` });
        await herald.exited();
        discord.gateway.forget();
        discord.say({ channel: ROOM, text: `meanwhile ${round}`, isUntold: true });
        await herald.restart();
        await waitFor("both answers", () => discord.messages(ROOM).length === 2 * (round + 1));
        await scene.settled();
      }
      const heard = Array.from({ length: KILLS }, (_, n) => [`heard: question ${n}`, `heard: meanwhile ${n}`]).flat();
      expect(discord.messages(ROOM).map(({ content }) => content)).toEqual(heard);
    },
  );

  it("[DC1][RC3] again and again, while one channel can't be read: the others are answered, and its own once it can be", {
    timeout: 60_000 + 60_000 * KILLS,
  }, async () => {
    await using scene = await setUp();
    const { discord, herald } = scene;
    const answered = (channel: string, text: string, waitMs = 40_000): Promise<unknown> =>
      waitFor(text, () => discord.messages(channel).some(({ content }) => content === `heard: ${text}`), waitMs);
    discord.say({ channel: ROOM, text: "known" });
    await answered(ROOM, "known");
    discord.faults.add(`getMessages:${ROOM}`, "500", { times: Number.POSITIVE_INFINITY });
    const said = ["known"];
    for (let round = 0; round < 2 * KILLS; round++) {
      await beforeKill(herald);
      await herald.crash();
      // Every other time its session lives on, and the gap is known from the disk alone.
      if (round % 2 === 0) discord.gateway.forget();
      said.push(`meanwhile ${round}`, `told ${round}`);
      discord.say({ channel: ROOM, text: `meanwhile ${round}`, isUntold: round % 2 === 0 });
      await herald.restart();
      await scene.connected();
      discord.say({ channel: ROOM, text: `told ${round}` });
      discord.say({ channel: DIRECT, text: `direct ${round}` });
      await answered(DIRECT, `direct ${round}`);
    }
    expect(discord.messages(ROOM)).toHaveLength(1);
    discord.faults.clear();
    // All its answers come now, no faster than Discord takes them in one channel.
    await answered(ROOM, said.at(-1) ?? "", 40_000 + 2_000 * said.length);
    await scene.settled();
    expect(discord.messages(ROOM).map(({ content }) => content)).toEqual(said.map((text) => `heard: ${text}`));
  });

  it("[RC1][DL4] at any moment, with limits, errors, lost answers, cut connections and forgotten sessions: each answered once", {
    timeout: 60_000 + 60_000 * KILLS,
  }, async () => {
    await using scene = await setUp();
    const { discord, herald } = scene;
    const said: string[] = [];
    for (let round = 0; round < 2 * KILLS; round++) {
      for (const [n, fault] of (["429", "500", "500_after", "drop_after"] as const).entries()) {
        discord.faults.add("createMessage", fault, { skip: n, retryAfter: 0.2 });
        const text = `round ${round}, ${fault}`;
        said.push(text);
        discord.say({ channel: n % 2 === 0 ? DIRECT : ROOM, text });
      }
      if (round % 2 === 1) discord.gateway.drop();
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 1_500));
      await beforeKill(herald);
      await herald.crash();
      if (round % 3 === 2) discord.gateway.forget();
      await herald.restart();
      await scene.connected();
      // Discord takes a message a second: what is said must not run away from what is answered.
      if (round % 3 === 0) await scene.settled();
    }
    const answers = (text: string) => discord.allMessages().filter(({ content }) => content.replace(MARK, "").trim() === `heard: ${text}`);
    await waitFor(
      "all to be heard",
      () => herald.rows("SELECT 1 FROM inbox WHERE external_id LIKE 'msg:%'").length === said.length,
      30_000,
    );
    await scene.settled();
    expect(said.filter((text) => answers(text).length !== 1)).toEqual([]);
  });
});
