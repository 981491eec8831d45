// Kill -9 at every named point of receiving and of sending, per channel. What arrived is handled once; an announcement
// is never lost, never repeated on Slack, Matrix and Discord, and on Telegram only when the kill fell between send and acknowledgement.
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { whoAsks } from "../support/brain.ts";
import { type ChannelScene, createChannelScene, obey } from "../support/channel-scene.ts";
import { ROOM as DISCORD_ROOM, PERSON } from "../support/fake-discord.ts";
import { PERSON as ANN } from "../support/fake-matrix.ts";
import type { Respond } from "../support/fake-model-server.ts";
import { waitFor } from "../support/wait.ts";

/** How often each point is tried; CI asks for more. */
const KILLS = Number(process.env.HERALD_TEST_KILLS ?? 1);

const CHANNELS = ["telegram", "slack", "matrix", "discord"] as const;
const RECEIVING = ["inbox.before-put", "inbox.put", "gateway.routed", "turn.committed"] as const;
/** A spawn by command says three things: started, the answer, and at last the announcement. */
const ANNOUNCING = ["run.ended", "delivery.marked:3", "delivery.sent:3", "delivery.settled:3"] as const;
/** The status line first, then the result edited into it. */
const RESERVED = ["delivery.sent:3", "delivery.marked:4", "delivery.sent:4"] as const;

const GROUP = -1001;
const TOPIC = 77;
const ROOM = "C0ROOM";
const MATRIX_ROOM = "!Room:home.test";
const MARK = "(may be repeated)";

interface Place {
  say(text: string): void;
  /** What people read there. */
  texts(): string[];
  /** What they read anywhere else. */
  elsewhere(): string[];
}

async function setUp(
  channel: (typeof CHANNELS)[number],
  failpoint: string,
  announce = "plain",
  respond: Respond = obey,
): Promise<{ scene: ChannelScene; place: Place }> {
  // A line for each start, in the transaction of the spawn: a status message would be sent whenever it is due, and the count be another.
  const progress = "lines";
  const scene = await createChannelScene({
    telegram: channel === "telegram" ? { allowFrom: ["42"], groups: { [GROUP]: { requireMention: false } }, announce, progress } : null,
    slack: channel === "slack" ? { allowFrom: ["U0PERSON"], channels: { [ROOM]: { requireMention: false } }, progress } : null,
    matrix: channel === "matrix" ? { allowFrom: [ANN], rooms: { [MATRIX_ROOM]: { requireMention: false } }, progress } : null,
    discord: channel === "discord" ? { allowFrom: [PERSON], channels: { [DISCORD_ROOM]: { requireMention: false } }, progress } : null,
    ...(channel === "matrix" ? {} : { failpoint }),
    respond,
  });
  const { telegram, slack, discord } = scene;
  if (channel === "telegram") {
    const place: Place = {
      say: (text) => void telegram.say({ chat: GROUP, thread: TOPIC, from: 42, text }),
      texts: () => telegram.messages(GROUP, TOPIC).map((message) => message.text),
      elsewhere: () => telegram.allMessages().flatMap(({ thread, text }) => (thread === TOPIC ? [] : [text])),
    };
    return { scene, place };
  }
  if (channel === "matrix") return { scene, place: await placeOnMatrix(scene, failpoint) };
  if (channel === "discord") {
    const thread = discord.channels.thread(DISCORD_ROOM);
    await scene.connected();
    const place: Place = {
      say: (text) => void discord.say({ channel: thread, text }),
      texts: () => discord.messages(thread).map((message) => message.content),
      elsewhere: () => discord.allMessages().flatMap((message) => (message.channel === thread ? [] : [message.content])),
    };
    return { scene, place };
  }
  slack.channels.add(ROOM);
  const root = slack.say({ channel: ROOM, text: "the root", extra: { subtype: "channel_topic" } });
  const place: Place = {
    say: (text) => void slack.say({ channel: ROOM, thread: root, text: text.replace(/^\//, "!") }),
    texts: () => slack.messages(ROOM, root).map((message) => message.text),
    elsewhere: () => slack.allMessages().flatMap(({ thread, text }) => (thread === root ? [] : [text])),
  };
  return { scene, place };
}

/** What was said before the first token is on record is history: so that is there before anything is killed. */
async function placeOnMatrix({ matrix, herald }: ChannelScene, failpoint: string): Promise<Place> {
  matrix.room(MATRIX_ROOM, [ANN, "@bob:home.test"]);
  const root = matrix.inject(MATRIX_ROOM, "@bob:home.test", "m.room.topic", { topic: "the root" });
  await waitFor("the first token", () => herald.rows("SELECT 1 FROM channel_cursor WHERE channel = 'matrix'")[0]);
  await herald.crash();
  await herald.restart({ failpoint });
  return {
    say: (text) => void matrix.say({ room: MATRIX_ROOM, thread: root, text }),
    texts: () => matrix.messages(MATRIX_ROOM, root).map((message) => message.text),
    elsewhere: () => matrix.allMessages().flatMap(({ thread, text }) => (thread === root ? [] : [text])),
  };
}

/** Says it to a gateway that dies at the point, starts it again, and waits until nothing is left to do. */
async function sayAndDie(
  { scene, place }: { scene: ChannelScene; place: Place },
  text: string,
  round: number,
  failpoint: string,
): Promise<void> {
  const { herald } = scene;
  if (round > 0) {
    await herald.crash();
    await herald.restart({ failpoint });
  }
  place.say(text);
  await herald.exited();
  // Once the real wait is waited for; otherwise the gateway was simply down for longer.
  if (round > 0 || failpoint !== "delivery.marked:3") ageSends(herald.stateDir);
  await herald.restart();
  await scene.connected();
}

/** As if half a minute had passed while nobody was there. */
function ageSends(stateDir: string): void {
  const db = new DatabaseSync(join(stateDir, "herald.db"));
  db.exec("UPDATE outbox SET sending_at = sending_at - 30000 WHERE state = 'sending'");
  db.close();
}

/** Without the mark: a kill right behind a commit finds the sending already begun. */
const heard = (place: Place): string[] => place.texts().map((text) => text.replace(MARK, "").trim());

const rounds = Array.from({ length: KILLS }, (_, round) => round);
const isAnnouncement = (text: string): boolean => text.includes("Stats: runtime");

describe.concurrent.each(CHANNELS)("%s and kill -9", (channel) => {
  it.each(RECEIVING)("[RC1][RC3] %s: every update is handled once", { timeout: 40_000 * KILLS }, async (point) => {
    const { scene, place } = await setUp(channel, point);
    await using _scene = scene;
    for (const round of rounds) {
      await sayAndDie({ scene, place }, `question ${round}`, round, point);
      await waitFor(`the answer to question ${round}`, () => heard(place).includes(`heard: question ${round}`));
      await scene.settled();
    }
    expect(heard(place)).toEqual(rounds.map((round) => `heard: question ${round}`));
    expect(place.elsewhere()).toEqual([]);
  });

  it.each(ANNOUNCING)(
    "[RC1][DL4] PROC-001 PROC-003 %s: no announcement is lost or silently repeated",
    { timeout: 60_000 * KILLS },
    async (point) => {
      const { scene, place } = await setUp(channel, point);
      await using _scene = scene;
      for (const round of rounds) {
        await sayAndDie({ scene, place }, `/subagents spawn task ${round}`, round, point);
        await scene.settled();
        const copies = place.texts().filter((text) => isAnnouncement(text) && text.includes(`task ${round}`));
        const marks = copies.map((text) => text.startsWith(MARK));
        if (channel !== "telegram" || point === "delivery.settled:3") expect(marks).toEqual([false]);
        else if (point === "delivery.sent:3") expect(marks).toEqual([false, true]);
        // Sending had begun, so nobody can tell; it arrives once all the same.
        else expect(copies).toHaveLength(1);
      }
      expect(place.elsewhere()).toEqual([]);
    },
  );
});

describe.concurrent("Telegram with a reserved place, and kill -9", () => {
  it.each(RESERVED)("[DL4] PROC-003 %s: the result appears exactly once", { timeout: 60_000 * KILLS }, async (point) => {
    const { scene, place } = await setUp("telegram", point, "reserved");
    await using _scene = scene;
    for (const round of rounds) {
      await sayAndDie({ scene, place }, `/subagents spawn task ${round}`, round, point);
      await scene.settled();
      const copies = place.texts().filter((text) => isAnnouncement(text) && text.includes(`task ${round}`));
      expect(copies.map((text) => text.startsWith(MARK))).toEqual([false]);
    }
    const alone = place.texts().filter((text) => text.startsWith("⏳")).length;
    expect(alone).toBe(point === "delivery.sent:3" ? KILLS : 0);
  });
});

describe.concurrent("an answer only one person on Slack sees, and kill -9", () => {
  it.each([
    ["delivery.marked", [true]],
    ["delivery.sent", [false, true]],
    ["delivery.settled", [false]],
  ])("[RC1][DL4] %s: it is not lost, and marked where it may be the second", { timeout: 60_000 }, async (point, marks) => {
    const { scene } = await setUp("slack", point);
    await using _scene = scene;
    const { slack, herald } = scene;
    await scene.connected();
    void slack.slash({ channel: ROOM, command: "/subagents", text: "list" });
    await herald.exited();
    await herald.restart();
    await scene.settled();
    expect(slack.whispers(ROOM).map(({ text }) => text.includes(MARK))).toEqual(marks);
    expect(slack.whispers(ROOM).every(({ text }) => text.includes("🧭 Subagents"))).toBe(true);
    expect(slack.allMessages()).toEqual([]);
  });
});

describe.concurrent("a result that comes as a file, and kill -9", () => {
  /** Started line, answer, the beginning, then the file: one call on Telegram and Discord, elsewhere its upload and its sharing. */
  const POINTS = [
    ["telegram", "delivery.sent:4", 2],
    ["slack", "delivery.sent:4", 1],
    ["slack", "delivery.sent:5", 1],
    ["matrix", "delivery.sent:4", 1],
    ["matrix", "delivery.sent:5", 1],
    ["discord", "delivery.sent:4", 1],
  ] as const;
  const result = "line by line ".repeat(5_000);

  it.each(POINTS)("[AN10][DL4] %s, %s: it is there, whole", { timeout: 60_000 }, async (channel, point, copies) => {
    const respond: Respond = (request, call) => (whoAsks(request) === "main" ? obey(request, call) : { text: result });
    const { scene, place } = await setUp(channel, point, "plain", respond);
    await using _scene = scene;
    await sayAndDie({ scene, place }, "/subagents spawn a long one", 0, point);
    await scene.settled();
    const files = [...scene.telegram.allMessages().flatMap(({ file, text }) => (file === null ? [] : [{ ...file, text }]))];
    files.push(...scene.slack.allMessages().flatMap((message) => message.files.map((file) => ({ ...file, text: message.text }))));
    files.push(
      ...scene.matrix
        .allMessages()
        .flatMap(({ file, text }) => (file === null ? [] : [{ name: file.name, content: file.bytes.toString(), text }])),
    );
    const attached = scene.discord.allMessages().flatMap(({ attachments, content: text }) => attachments.map((file) => ({ file, text })));
    files.push(...(attached.map(({ file, text }) => ({ name: file.filename, content: file.bytes.toString(), text })) as typeof files));
    expect(files.map(({ content }) => content.includes(result.trim()))).toEqual(Array.from({ length: copies }, () => true));
    expect(files.map(({ text }) => text.includes(MARK)).filter((marked) => !marked).length).toBeLessThanOrEqual(1);
    expect(place.texts().filter((text) => text.includes("the whole text is in the file below"))).not.toEqual([]);
  });
});
