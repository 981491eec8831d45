// Bad inputs of Discord: sends nobody knows the outcome of, a gateway that closes for good or forgets, texts that would call people.
import { describe, expect, it } from "vitest";
import type { DiscordPart } from "../../src/channels/discord/render.ts";
import type { Clock } from "../../src/core/clock.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createDiscordRig } from "../support/discord-rig.ts";
import { DIRECT, ROOM } from "../support/fake-discord.ts";
import { createImpatientClock } from "../support/fast-clock.ts";
import { waitFor } from "../support/wait.ts";

/** Shows the wall's time and `ahead()` more; waits are cut short. */
const shiftedClock = (ahead: () => number): Clock => ({ ...createImpatientClock(30), now: () => systemClock.now() + ahead() });

describe("a send nobody knows the outcome of", () => {
  it("[DL4] DSC-002 asked again within two minutes: the same nonce, one message", async () => {
    let ahead = 0;
    await using rig = await createDiscordRig({ clock: shiftedClock(() => ahead) }, { now: () => Date.now() + ahead });
    const request = rig.request({ markdown: "the result" }, rig.direct, `announce:v1:${"k".repeat(200)}#0`);
    const since = Date.now();
    rig.fake.faults.add("createMessage", "drop_after");
    expect(await rig.channel.send(request)).toMatchObject({ status: "unknown" });
    ahead = 30_000;
    expect(await rig.channel.reconcile?.({ ...request, since })).toEqual({ status: "again" });
    expect(await rig.channel.send(request)).toMatchObject({ status: "sent", ref: rig.fake.messages(DIRECT)[0]?.id });
    expect(rig.fake.messages(DIRECT)).toHaveLength(1);
    const nonces = rig.fake.calls.filter(({ method }) => method === "createMessage").map(({ body }) => String(body.nonce));
    expect(new Set(nonces).size).toBe(1);
    expect(nonces[0]?.length).toBeLessThanOrEqual(25);
  });

  it("[DL4] DSC-002 asked again after a quarter of an hour: the channel is read; found it counts as sent, else it is sent once more and says so", async () => {
    let ahead = 0;
    await using rig = await createDiscordRig({ clock: shiftedClock(() => ahead) }, { now: () => Date.now() + ahead });
    const arrived = rig.request({ markdown: "it **arrived**\n\n- one\n- two" }, rig.direct, "announce:1#0");
    const lost = rig.request({ markdown: "it did not" }, rig.direct, "announce:2#0");
    const since = Date.now();
    rig.fake.faults.add("createMessage", "drop_after");
    await rig.channel.send(arrived);
    rig.fake.faults.add("createMessage", "drop");
    await rig.channel.send(lost);
    for (let n = 0; n < 150; n++) rig.fake.say({ channel: DIRECT, text: `noise ${n}`, isUntold: true });
    ahead = 15 * 60_000;
    expect(await rig.channel.reconcile?.({ ...arrived, since })).toEqual({ status: "found", ref: rig.fake.messages(DIRECT)[0]?.id });
    expect(await rig.channel.reconcile?.({ ...lost, since })).toEqual({ status: "untold" });
    expect(await rig.channel.send({ ...lost, repeated: true })).toMatchObject({ status: "sent" });
    expect(rig.fake.messages(DIRECT).map(({ content }) => content)).toEqual([
      expect.stringContaining("arrived"),
      "(may be repeated)\n\nit did not",
    ]);
    // That one, too, is found by its words.
    expect(await rig.channel.reconcile?.({ ...lost, since })).toMatchObject({ status: "found" });
  });

  it("[DL4] DSC-002 heard of over the gateway it is known by its nonce; where the channel can't be read, nothing is concluded", async () => {
    let ahead = 0;
    await using rig = await createDiscordRig({ clock: shiftedClock(() => ahead) });
    await rig.connect();
    const request = rig.request({ markdown: "same words" }, rig.direct, "reply:1#0");
    const other = rig.request({ markdown: "other words" }, rig.direct, "reply:2#0");
    rig.fake.faults.add("createMessage", "drop_after");
    await rig.channel.send(request);
    ahead = 15 * 60_000;
    const since = Date.now();
    const id = rig.fake.messages(DIRECT)[0]?.id ?? "";
    await waitFor("the echo", async () => (await rig.channel.reconcile?.({ ...request, since }))?.status === "found");
    expect(await rig.channel.reconcile?.({ ...request, since })).toEqual({ status: "found", ref: id });
    rig.fake.faults.add("getMessages", "500");
    expect(await rig.channel.reconcile?.({ ...other, since })).toMatchObject({ status: "unknown" });
    // Another message that reads the same is not this one.
    const same = rig.request({ markdown: "same words" }, rig.direct, "reply:3#0");
    expect(await rig.channel.reconcile?.({ ...same, since: since - 60_000 })).toEqual({ status: "untold" });
  });
});

describe("a gateway that refuses or forgets", () => {
  it("[DC1] DSC-004 4014 names the Message Content intent and 4004 the token, once, and nobody tries again", async () => {
    for (const [code, words] of [
      [4014, /Message Content intent is off/],
      [4004, /channels\.discord\.botToken/],
    ] as const) {
      await using rig = await createDiscordRig();
      rig.fake.gateway.refuse(code);
      await rig.channel.start(rig.inbox);
      await rig.fake.until(() => rig.channel.health().state === "failed", `the end after ${code}`);
      expect(rig.channel.health().detail).toMatch(words);
      // Stopping waits for the receive side, which is over: nothing could connect again behind our back.
      await rig.channel.stop();
      expect(rig.fake.gateway.identifies()).toBe(1);
    }
  });

  it("[DC1] DSC-004 messages that come without their words name the intent", async () => {
    await using rig = await createDiscordRig();
    await rig.connect();
    rig.fake.say({ channel: ROOM, text: "" });
    rig.fake.say({ channel: ROOM, text: "" });
    await rig.fake.until(() => rig.channel.health().detail !== undefined, "a word about it");
    expect(rig.channel.health()).toMatchObject({ state: "on", detail: expect.stringContaining("Message Content intent") });
  });

  it("[DC1] DSC-004 closed right after each identify, it waits longer and longer; with few left for the day it waits for the next", async () => {
    const waits: number[] = [];
    const clock: Clock = {
      now: systemClock.now,
      sleep(ms, signal) {
        waits.push(ms);
        return systemClock.sleep(Math.min(ms, 5), signal);
      },
    };
    await using rig = await createDiscordRig({ clock });
    rig.fake.gateway.refuse(4000);
    await rig.channel.start(rig.inbox);
    await rig.fake.until(() => rig.fake.gateway.identifies() >= 12, "a dozen identifies", 30_000);
    expect(Math.max(...waits)).toBeGreaterThanOrEqual(150_000);
    rig.fake.gateway.setStartsLeft(10);
    const before = rig.fake.gateway.identifies();
    await rig.fake.until(() => waits.includes(60_000), "the wait until there are more", 30_000);
    expect(rig.fake.gateway.identifies() - before).toBeLessThanOrEqual(1);
  });

  it("[DC1] DSC-004 not resumable after two hours with 500 missed messages in 30 channels: each is read once, in order", {
    timeout: 60_000,
  }, async () => {
    const rooms = Array.from({ length: 30 }, (_, n) => String(5_000_000_000_000_000_100n + BigInt(n)));
    let ahead = 0;
    await using rig = await createDiscordRig({ listed: () => rooms, clock: shiftedClock(() => ahead) }, { now: () => Date.now() + ahead });
    for (const id of rooms) rig.fake.channels.add({ id, type: 0 });
    await rig.connect();
    for (const id of rooms) rig.fake.mention({ channel: id, text: "before" });
    await rig.fake.until(() => rig.decoded().length === rooms.length, "the first ones");
    rig.fake.gateway.forget();
    const missed = Array.from({ length: 500 }, (_, n) => ({ channel: rooms[n % 7 === 0 ? 0 : n % 30] ?? "", text: `missed ${n}` }));
    for (const one of missed) rig.fake.mention({ ...one, isUntold: true });
    ahead = 2 * 3_600_000;
    rig.fake.faults.add("getMessages", "429", { skip: 3, times: 2, retryAfter: 0.01 });
    rig.fake.gateway.drop();
    await rig.fake.until(() => rig.decoded().length === rooms.length + missed.length, "all that was missed", 40_000);
    for (const id of rooms) {
      const heard = rig
        .decoded()
        .filter(({ address }) => address.chat === id)
        .map(({ text }) => text);
      expect(heard).toEqual(["before", ...missed.filter(({ channel }) => channel === id).map(({ text }) => text)]);
    }
    expect(rig.fake.gateway.identifies()).toBe(2);
  });
});

describe("texts", () => {
  it("[DL2][IN4] DSC-006 a result with mentions, a masked link and an open fence calls nobody and is cut without breaking", async () => {
    await using rig = await createDiscordRig();
    const body = Array.from({ length: 300 }, (_, n) => `line ${n} of the code block, long enough`).join("\n");
    const markdown = `@everyone <@&77> <@42> [your bank](https://evil.example/x)\n\n\`\`\`ts\n${body}`;
    const parts = rig.channel.render({ markdown, fileName: "result.md" }, rig.direct) as DiscordPart[];
    expect(parts.some(({ file }) => file !== undefined)).toBe(true);
    const whole = rig.channel.render({ markdown }, rig.direct) as DiscordPart[];
    expect(whole.length).toBeGreaterThan(4);
    for (const { content } of [...parts, ...whole]) {
      expect(content.length).toBeLessThanOrEqual(2_000);
      expect((content.match(/^```/gm) ?? []).length % 2, content.slice(0, 80)).toBe(0);
    }
    expect(whole[0]?.content).toContain("(evil.example)");
    for (const [n, part] of [...parts, ...whole].entries())
      expect(await rig.channel.send({ address: rig.direct, part, key: `k${n}#0`, repeated: false })).toMatchObject({ status: "sent" });
    const [first] = rig.fake.messages(DIRECT);
    await rig.channel.edit?.({ address: rig.direct, ref: first?.id ?? "", part: { content: "@everyone <@42> again" } });
    expect(rig.fake.messages(DIRECT).some(({ pinged }) => pinged)).toBe(false);
    expect(
      rig.fake.calls
        .filter(({ method }) => /createMessage|editMessage/.test(method))
        .every(({ body: sent }) => JSON.stringify(sent.allowed_mentions) === '{"parse":[],"replied_user":false}'),
    ).toBe(true);
  });
});
