// The connection to Discord: who is let in, what is heard again, what is read after an outage, and what it does not survive.
import { type AddressInfo, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createDiscordChannel } from "../../../src/channels/discord/channel.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createDiscordRig } from "../../support/discord-rig.ts";
import { DIRECT, PERSON, ROOM } from "../../support/fake-discord.ts";
import { createImpatientClock } from "../../support/fast-clock.ts";
import { waitFor } from "../../support/wait.ts";

const HOUR_MS = 3_600_000;

const texts = (rig: { decoded(): { text: string }[] }): string[] => rig.decoded().map(({ text }) => text);

describe("the token", () => {
  it("[DC1] the bot's id stands in it; anything else is refused before the network is asked", () => {
    for (const botToken of ["", "abc", "a.b.c", `${Buffer.from("not a number").toString("base64url")}.abcdef.${"x".repeat(30)}`])
      expect(() => createDiscordChannel({ botToken, clock: createImpatientClock(1), log: silentLogger })).toThrow(
        "channels.discord.botToken",
      );
  });
});

describe("sessions", () => {
  it("[DC1][RC3] cut, it resumes from what is on record; another process goes on with the session of the first", async () => {
    await using rig = await createDiscordRig();
    await rig.connect();
    rig.fake.say({ channel: DIRECT, text: "one" });
    await rig.fake.until(() => texts(rig).includes("one"), "one");
    rig.fake.gateway.drop();
    rig.fake.say({ channel: DIRECT, text: "two" });
    await rig.fake.until(() => texts(rig).includes("two"), "two");
    await rig.channel.stop();
    rig.fake.say({ channel: DIRECT, text: "three" });
    const second = rig.again();
    await second.start(rig.inbox);
    await rig.fake.until(() => texts(rig).includes("three"), "three");
    await second.stop();
    expect(rig.fake.gateway.identifies()).toBe(1);
    expect(texts(rig)).toEqual(["one", "two", "three"]);
  });

  it("[RC3] a frame that can't be read, a heartbeat asked for, a request to reconnect: it goes on", async () => {
    await using rig = await createDiscordRig();
    await rig.connect();
    for (const frame of ["{", "null", "7", '{"op":10,"d":null}', '{"op":0,"t":"MESSAGE_CREATE","s":3,"d":null}', '{"op":1,"d":null}'])
      rig.fake.gateway.frame(frame);
    rig.fake.gateway.frame('{"op":7,"d":null}');
    await rig.fake.until(() => rig.fake.gateway.resumes() > 0, "a resume");
    rig.fake.say({ channel: DIRECT, text: "still here" });
    await rig.fake.until(() => texts(rig).includes("still here"), "the message");
  });

  it.each(["500", "hang"] as const)(
    "[DC1][RC3] what can't be placed (%s) is not lost: Discord is asked again, its thread keeps its order, and nobody else waits for it",
    async (fault) => {
      await using rig = await createDiscordRig({ timeoutMs: 1_000 });
      await rig.connect();
      const thread = rig.fake.channels.thread(ROOM, true);
      rig.fake.faults.add(`getChannel:${thread}`, fault, { times: Number.POSITIVE_INFINITY });
      rig.fake.say({ channel: thread, text: "in a thread nobody told of" });
      rig.fake.say({ channel: thread, text: "and once more" });
      rig.fake.say({ channel: DIRECT, text: "behind it" });
      await rig.fake.until(() => texts(rig).includes("behind it"), "what comes behind it");
      expect(texts(rig)).toHaveLength(1);
      rig.fake.faults.clear();
      await rig.fake.until(() => texts(rig).length === 3, "all");
      expect(rig.decoded().map(({ text, address }) => [text, address.thread])).toEqual([
        ["behind it", undefined],
        ["in a thread nobody told of", thread],
        ["and once more", thread],
      ]);
    },
  );

  it("[DC1] the first message of somebody on the list, said while nobody listened, is found; and one that came both ways is one", async () => {
    await using rig = await createDiscordRig();
    rig.fake.say({ channel: DIRECT, text: "before the first start", isUntold: true });
    await rig.connect();
    await rig.fake.until(() => texts(rig).includes("before the first start"), "the message");
    const id = rig.fake.say({ channel: DIRECT, text: "both ways" });
    rig.fake.gateway.forget();
    rig.fake.gateway.drop();
    await rig.fake.until(() => rig.fake.gateway.identifies() === 2, "a new session");
    rig.fake.replay(DIRECT, id);
    rig.fake.say({ channel: DIRECT, text: "after it" });
    await rig.fake.until(() => texts(rig).includes("after it"), "the next one");
    expect(texts(rig)).toEqual(["before the first start", "both ways", "after it"]);
    expect(rig.decoded()[0]?.sender.id).toBe(PERSON);
  });

  it("[DC1] a gap is still open when the connection fails in the middle of reading", async () => {
    await using rig = await createDiscordRig();
    await rig.connect();
    rig.fake.say({ channel: DIRECT, text: "known" });
    await rig.fake.until(() => texts(rig).includes("known"), "the first");
    rig.fake.gateway.forget();
    rig.fake.say({ channel: DIRECT, text: "missed", isUntold: true });
    rig.fake.faults.add("getMessages", "500", { times: 2 });
    rig.fake.gateway.drop();
    await rig.fake.until(() => texts(rig).includes("missed"), "what was missed");
    expect(texts(rig)).toEqual(["known", "missed"]);
  });

  it("[DC1] a listed channel that holds no messages of its own (a forum) keeps no other from being read and heard", async () => {
    const forum = "5200000000000000052";
    await using rig = await createDiscordRig({ listed: () => [forum, ROOM] });
    rig.fake.channels.add({ id: forum, type: 15, trouble: [400, 50_024, "Cannot execute action on this channel type"] });
    rig.fake.say({ channel: ROOM, text: "before the first start", isUntold: true });
    await rig.connect();
    rig.fake.say({ channel: DIRECT, text: "after it" });
    await rig.fake.until(() => texts(rig).includes("after it"), "the next one");
    expect(texts(rig)).toEqual(["before the first start", "after it"]);
  });

  it("[DC1] restarted while Discord was out of reach, it reads from when it last heard it, not from when it was stopped", async () => {
    let ahead = -4 * HOUR_MS;
    const clock = { ...createImpatientClock(30), now: () => Date.now() + ahead };
    await using rig = await createDiscordRig({ clock }, { now: () => Date.now() + ahead });
    await rig.connect();
    rig.fake.gateway.setDown(true);
    rig.fake.gateway.drop();
    await rig.fake.until(() => rig.channel.health().state === "retrying", "the outage");
    ahead = -2 * HOUR_MS;
    rig.fake.say({ channel: ROOM, text: "said in the outage", isUntold: true });
    ahead = 0;
    await rig.channel.stop();
    rig.fake.gateway.forget();
    rig.fake.gateway.setDown(false);
    const second = rig.again();
    await second.start(rig.inbox);
    await rig.fake.until(() => rig.fake.gateway.isUp(), "a new session");
    // In the same channel: told in the session, it comes behind all that is read.
    rig.fake.say({ channel: ROOM, text: "after it" });
    await rig.fake.until(() => texts(rig).includes("after it"), "the next one");
    await second.stop();
    expect(texts(rig)).toEqual(["said in the outage", "after it"]);
  });

  it("[CM1] the slash commands are made known with the next connection when that failed with the first", async () => {
    await using rig = await createDiscordRig();
    rig.fake.faults.add("getApplication", "500");
    await rig.connect();
    await rig.fake.until(() => rig.fake.calls.some(({ method }) => method === "getApplication"), "the first try");
    rig.fake.gateway.drop();
    await rig.fake.until(() => rig.fake.commands.list().length > 0, "the commands");
  });

  it("[DC1] a session Discord says can be resumed and never resumes is given up, and what was missed is read", async () => {
    await using rig = await createDiscordRig();
    await rig.connect();
    rig.fake.gateway.putOff(true);
    rig.fake.say({ channel: ROOM, text: "missed", isUntold: true });
    rig.fake.gateway.drop();
    await rig.fake.until(() => rig.fake.gateway.identifies() === 2, "a new session");
    await rig.fake.until(() => texts(rig).includes("missed"), "what was missed");
    expect(rig.fake.gateway.resumes()).toBeLessThan(20);
  });
});

describe("interactions", () => {
  it("[RC3] are acknowledged only once they are on record, and not while the disk refuses", async () => {
    await using rig = await createDiscordRig({}, { ackMs: 1_500 });
    await rig.connect();
    rig.inbox.broken = true;
    const acknowledged = rig.fake.slash({ channel: ROOM, name: "status" });
    await rig.fake.until(() => rig.inbox.refused > 0, "a refused write");
    expect(rig.fake.calls.some(({ method }) => method === "callback")).toBe(false);
    rig.inbox.broken = false;
    await rig.fake.until(() => rig.decoded().some(({ kind }) => kind === "command"), "the command");
    await acknowledged;
    expect(rig.decoded().filter(({ kind }) => kind === "command")).toHaveLength(1);
  });

  it("[CM9] one is acknowledged while an outage is still being read, which takes as long as it takes", async () => {
    await using rig = await createDiscordRig();
    rig.fake.faults.add("getMessages", "hang");
    await rig.channel.start(rig.inbox);
    await rig.fake.until(() => rig.fake.calls.some(({ method }) => method === "getMessages"), "the reading");
    expect(await rig.fake.slash({ channel: ROOM, name: "status" })).toBe(true);
  });

  it("[RC3] one that is told again after a restart is not taken away with the answer it has by now", async () => {
    const waits = { longestMs: 60_000, over: 0 };
    const sleep = async (ms: number, signal?: AbortSignal): Promise<void> => {
      await systemClock.sleep(Math.min(ms, waits.longestMs), signal);
      if (signal?.aborted !== true) waits.over += 1;
    };
    await using rig = await createDiscordRig({ clock: { now: systemClock.now, sleep } });
    await rig.connect();
    expect(await rig.fake.slash({ channel: ROOM, name: "status" })).toBe(true);
    const onlyTo = rig.decoded().at(-1)?.onlyTo ?? {};
    expect(await rig.channel.send(rig.request({ markdown: "all is well", onlyTo }, rig.room, "answer:1#0"))).toMatchObject({
      status: "sent",
    });
    // As a process that was killed leaves it: nothing was written behind the first connection.
    const cursor = await rig.inbox.cursor();
    await rig.channel.stop();
    await rig.inbox.put([], cursor?.value);
    Object.assign(waits, { longestMs: 30, over: 0 });
    const second = rig.again();
    await second.start(rig.inbox);
    await waitFor("the end of all patience", () => waits.over === 1);
    rig.fake.say({ channel: DIRECT, text: "long after it" });
    await rig.fake.until(() => texts(rig).includes("long after it"), "what came behind it");
    await second.stop();
    expect(rig.fake.calls.filter(({ method }) => method === "callback")).toHaveLength(2);
    expect(rig.fake.whispers(ROOM).map(({ content }) => content)).toEqual(["all is well"]);
  });
});

describe("stopping", () => {
  it("[RN4] at once, also while a server that never answers is being connected to, or one that is not there", async () => {
    const { promise: called, resolve } = Promise.withResolvers<void>();
    const open: Socket[] = [];
    const silent = createServer((socket) => {
      open.push(socket.on("error", () => undefined));
      resolve();
    });
    await new Promise<void>((ready) => silent.listen(0, "127.0.0.1", ready));
    const { port } = silent.address() as AddressInfo;
    await using rig = await createDiscordRig();
    rig.fake.gateway.lead(`ws://127.0.0.1:${port}`);
    await rig.channel.start(rig.inbox);
    await called;
    await rig.channel.stop();
    for (const socket of open) socket.destroy();
    await new Promise((closed) => silent.close(closed));
    await rig.channel.start(rig.inbox);
    await rig.fake.until(() => rig.channel.health().state === "retrying", "a failure");
    await rig.channel.stop();
    expect(rig.channel.health().state).toBe("off");
  });

  it("[RN4] at once, also while it waits to try again", async () => {
    await using rig = await createDiscordRig({
      clock: { now: Date.now, sleep: (ms, signal) => sleep(ms, undefined, signal && { signal }).catch(() => undefined) },
    });
    rig.fake.faults.add("getGateway", "500", { times: 100 });
    await rig.channel.start(rig.inbox);
    await rig.fake.until(() => rig.channel.health().state === "retrying", "a failure");
    await rig.channel.stop();
    expect(rig.channel.health().state).toBe("off");
  });
});
