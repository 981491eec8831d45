// What was said while Discord was not heard, and no session brings any more: read to its end, in order, whatever breaks off in between.
import { describe, expect, it } from "vitest";
import { createDiscordRig, type DiscordRig, kill } from "../../support/discord-rig.ts";
import { DIRECT, ROOM } from "../../support/fake-discord.ts";
import { createImpatientClock } from "../../support/fast-clock.ts";

const HOUR_MS = 3_600_000;

const texts = (rig: DiscordRig): string[] => rig.decoded().map(({ text }) => text);

const readsOf = ({ fake }: DiscordRig, one: string): number =>
  fake.calls.filter(({ method, channel }) => method === "getMessages" && channel === one).length;

/** The first start comes so far in reading the thread, and no further. */
async function hangAt(rig: DiscordRig, thread: string, pages: number): Promise<void> {
  rig.fake.faults.add(`getMessages:${thread}`, "hang", { skip: pages });
  await rig.channel.start(rig.inbox);
  await rig.fake.until(() => readsOf(rig, thread) === pages + 1, "the reading of the thread");
}

describe("reading after an outage", () => {
  it("[DC1] a gap that is still open is read before what the session tells when it is taken up again", async () => {
    await using rig = await createDiscordRig();
    await rig.connect();
    rig.fake.say({ channel: DIRECT, text: "known" });
    await rig.fake.until(() => texts(rig).includes("known"), "the first");
    rig.fake.gateway.forget();
    rig.fake.say({ channel: DIRECT, text: "missed", isUntold: true });
    rig.fake.faults.add("getMessages", "500");
    rig.fake.gateway.drop();
    await rig.fake.until(() => rig.fake.gateway.identifies() === 2, "a new session");
    rig.fake.say({ channel: DIRECT, text: "told in it" });
    await rig.fake.until(() => texts(rig).includes("told in it"), "what the session tells");
    expect(texts(rig)).toEqual(["known", "missed", "told in it"]);
  });

  it.each([
    ["none of its messages", 0],
    ["its first hundred", 1],
  ])("[DC1][RC3] killed when %s of a thread begun in an outage are read, the next process reads the rest", async (_, pages) => {
    await using rig = await createDiscordRig();
    const thread = rig.fake.channels.thread(ROOM, true);
    const said = Array.from({ length: 101 }, (_, n) => `before the first start ${n}`);
    for (const text of said) rig.fake.say({ channel: thread, text, isUntold: true });
    await hangAt(rig, thread, pages);
    await kill(rig);
    const second = rig.again();
    await second.start(rig.inbox);
    await rig.fake.until(() => rig.fake.gateway.resumes() === 1, "the same session");
    rig.fake.say({ channel: thread, text: "after it" });
    await rig.fake.until(() => texts(rig).includes("after it"), "the next one");
    await second.stop();
    expect(texts(rig)).toEqual([...said, "after it"]);
  });

  it("[DC1][RC3] stopped before a server's threads are read, and back when the session is forgotten: they are read since the first outage", async () => {
    let ahead = -4 * HOUR_MS;
    const now = (): number => Date.now() + ahead;
    await using rig = await createDiscordRig({ clock: { ...createImpatientClock(30), now } }, { now });
    const thread = rig.fake.channels.thread(ROOM, true);
    rig.fake.say({ channel: thread, text: "before the first start", isUntold: true });
    await hangAt(rig, thread, 0);
    // Everything but the threads was heard until then.
    ahead = -2 * HOUR_MS;
    const beats = rig.fake.gateway.beats();
    await rig.fake.until(() => rig.fake.gateway.beats() >= beats + 3, "heartbeats");
    await rig.channel.stop();
    ahead = 0;
    rig.fake.gateway.forget();
    const second = rig.again();
    await second.start(rig.inbox);
    await rig.fake.until(() => rig.fake.gateway.isUp(), "a new session");
    rig.fake.say({ channel: thread, text: "after it" });
    await rig.fake.until(() => texts(rig).includes("after it"), "the next one");
    await second.stop();
    expect(texts(rig)).toEqual(["before the first start", "after it"]);
  });

  it("[DC1][RC3] heartbeats that are answered before a forgotten session is refused have heard nothing: all of the outage is read", async () => {
    let ahead = -2 * HOUR_MS;
    const now = (): number => Date.now() + ahead;
    await using rig = await createDiscordRig({ clock: { ...createImpatientClock(30), now } }, { now, heartbeatMs: 20 });
    await rig.connect();
    rig.fake.gateway.forget();
    // In a channel that nothing is on record of.
    rig.fake.say({ channel: ROOM, text: "missed", isUntold: true });
    rig.fake.gateway.mute(true);
    rig.fake.gateway.drop();
    ahead = 0;
    await rig.fake.until(() => rig.fake.gateway.resumes() > 0, "the question for the old session");
    const beats = rig.fake.gateway.beats();
    await rig.fake.until(() => rig.fake.gateway.beats() >= beats + 3, "heartbeats");
    rig.fake.gateway.mute(false);
    rig.fake.gateway.frame(JSON.stringify({ op: 9, d: false }));
    await rig.fake.until(() => rig.fake.gateway.identifies() === 2, "a new session");
    rig.fake.say({ channel: ROOM, text: "told in it" });
    await rig.fake.until(() => texts(rig).includes("told in it"), "what the session tells");
    expect(texts(rig)).toEqual(["missed", "told in it"]);
  });

  it("[DC1] a server that is out at the beginning of a session has its threads read when it is back", async () => {
    await using rig = await createDiscordRig();
    const thread = rig.fake.channels.thread(ROOM, true);
    rig.fake.say({ channel: thread, text: "before the first start", isUntold: true });
    rig.fake.gateway.setGuildOut(true);
    await rig.connect();
    rig.fake.gateway.setGuildOut(false);
    rig.fake.say({ channel: thread, text: "after it" });
    await rig.fake.until(() => texts(rig).includes("after it"), "the next one");
    expect(texts(rig)).toEqual(["before the first start", "after it"]);
  });

  it("[DC1] a thread that is read with what is known is not read again with its server", async () => {
    await using rig = await createDiscordRig();
    await rig.connect();
    const thread = rig.fake.channels.thread(ROOM);
    rig.fake.say({ channel: thread, text: "known" });
    await rig.fake.until(() => texts(rig).includes("known"), "the first");
    await rig.channel.send(rig.request({ markdown: "an answer" }, { ...rig.room, thread }));
    rig.fake.calls.length = 0;
    rig.fake.gateway.forget();
    rig.fake.gateway.drop();
    await rig.fake.until(() => rig.fake.gateway.identifies() === 2, "a new session");
    await rig.connected();
    rig.fake.say({ channel: thread, text: "after it" });
    await rig.fake.until(() => texts(rig).includes("after it"), "the next one");
    expect(readsOf(rig, thread)).toBe(1);
  });
});
