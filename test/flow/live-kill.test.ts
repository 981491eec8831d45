// Kill -9 at every named point of painting, and between the platform's yes and the record of it: the same message is edited on, there is
// no second one on Slack and at most one orphan on Telegram, whose buttons mean what they always meant.
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { type ChannelScene, createChannelScene, createDoor, obeyBehind } from "../support/channel-scene.ts";
import { waitFor } from "../support/wait.ts";

/** How often each point is tried; CI asks for more. */
const KILLS = Number(process.env.HERALD_TEST_KILLS ?? 3);
const rounds = Array.from({ length: KILLS }, (_, round) => round);

const PERSON = 42;
const GROUP = -1001;
const ROOM = "C0ROOM";

/** What is posted in a thread is the answer to the command, then the status. */
const BEFORE_REF = "delivery.sent:2";
const POINTS = ["live.posted", BEFORE_REF, "live.before-edit", "live.edited"] as const;

interface Status {
  readonly id: string;
  readonly text: string;
  readonly edits: number;
  readonly buttons: readonly string[];
}

interface Thread {
  say(text: string): void;
  statuses(): Status[];
}

let topics = 100;

/** A topic or thread of its own for each round: a group has its limits, a kill doesn't wait for them. */
function threadIn({ telegram, slack }: ChannelScene, channel: "telegram" | "slack", round: number): Thread {
  if (channel === "telegram") {
    const thread = topics++;
    const chat = GROUP - round;
    return {
      say: (text) => void telegram.say({ chat, thread, from: PERSON, text }),
      statuses: () =>
        telegram
          .messages(chat, thread)
          .filter(isStatus)
          .map(({ id, text, edits, buttons }) => ({ id: String(id), text, edits, buttons: buttons.map(({ data }) => data) })),
    };
  }
  const root = slack.say({ channel: ROOM, text: "the root", extra: { subtype: "channel_topic" } });
  return {
    say: (text) => void slack.say({ channel: ROOM, thread: root, text: text.replace(/^\//, "!") }),
    statuses: () =>
      slack
        .messages(ROOM, root)
        .filter(isStatus)
        .map(({ ts, text, edits, buttons }) => ({ id: ts, text, edits, buttons: buttons.map(({ value }) => value) })),
  };
}

const isStatus = ({ text }: { text: string }): boolean => /(?:^|\n|\*\*)[▶⏳✓✗⏹] 1\b/u.test(text.replace("(may be repeated)\n\n", ""));

/** As if half a minute had passed while nobody was there: Slack is asked at once whether a send arrived. */
function ageSends(stateDir: string): void {
  const db = new DatabaseSync(join(stateDir, "herald.db"));
  db.exec("UPDATE outbox SET sending_at = sending_at - 30000 WHERE state = 'sending'");
  db.close();
}

describe.concurrent.each(["telegram", "slack"] as const)("a status message on %s and kill -9", (channel) => {
  it.each(POINTS)("[LV3][RC1] LIVE-003 %s: the same message is edited on", { timeout: 90_000 * KILLS }, async (point) => {
    let door = createDoor();
    const groups = Object.fromEntries(rounds.map((round) => [GROUP - round, { requireMention: false }]));
    await using scene = await createChannelScene({
      telegram: channel === "telegram" ? { allowFrom: [String(PERSON)], groups } : null,
      slack: channel === "slack" ? { allowFrom: ["U0PERSON"], channels: { [ROOM]: { requireMention: false } } } : null,
      respond: obeyBehind(() => door.opened),
      failpoint: point,
    });
    const { herald, telegram } = scene;
    scene.slack.channels.add(ROOM);
    for (const round of rounds) {
      door = createDoor();
      if (round > 0) {
        await herald.crash();
        await herald.restart({ failpoint: point });
      }
      const thread = threadIn(scene, channel, round);
      thread.say(`/subagents spawn slowly, round ${round}`);
      if (point.startsWith("live.") && point !== "live.posted") {
        await waitFor("the status", () => thread.statuses().length === 1);
        // Its end is what is painted.
        door.open();
      }
      await herald.exited();
      ageSends(herald.stateDir);
      await herald.restart();
      await scene.connected();
      // With several of them a press on the one that nobody edits still means its run, and nothing else.
      await waitFor("the status", () => thread.statuses().length >= 1);
      door.open();
      const closed = () => herald.rows("SELECT 1 FROM live_messages WHERE state = 'closed'").length === round + 1;
      await waitFor("the last word", closed, 60_000);
      await scene.settled();
      const all = thread.statuses();
      const [orphan, kept = orphan] = all.length === 2 ? all : [undefined, all[0]];
      expect(all.length).toBeLessThanOrEqual(channel === "telegram" && point === BEFORE_REF ? 2 : 1);
      expect(kept).toMatchObject({ buttons: [] });
      expect(kept?.text).toMatch(/✓ 1/);
      if (orphan === undefined) continue;
      expect(orphan.edits).toBe(0);
      const [run] = herald.rows<{ id: string }>("SELECT id FROM runs WHERE label LIKE ?", `%round ${round}%`);
      expect(orphan.buttons[0]).toBe(`/subagents stop ${run?.id}@1`);
      const press = telegram.press({ chat: GROUP - round, from: PERSON, message: Number(orphan.id), label: "Stop" });
      // Its poll may meet the one of the process before.
      await telegram.until(() => telegram.toasts().has(press), "its answer", 60_000);
      expect(telegram.toasts().get(press)).toBe("That run has ended.");
    }
    expect(herald.rows("SELECT 1 FROM runs WHERE state <> 'done'")).toEqual([]);
  });
});
