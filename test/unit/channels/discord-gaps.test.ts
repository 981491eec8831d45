// One channel that can't be read after an outage, while all others can: it holds up nobody but itself, and nothing said there is lost.
import { describe, expect, it } from "vitest";
import { createDiscordRig, type DiscordRig, kill } from "../../support/discord-rig.ts";
import { DIRECT, PERSON, ROOM } from "../../support/fake-discord.ts";
import { createImpatientClock } from "../../support/fast-clock.ts";
import { waitFor } from "../../support/wait.ts";

const OTHER_ROOM = "5100000000000000051";
const OTHER_PERSON = "4300000000000000043";
const OTHER_CHAT = "6100000000000000061";
const HOUR_MS = 3_600_000;
const LASTING = { times: Number.POSITIVE_INFINITY };

const createRig = async (...[options, forFake]: Parameters<typeof createDiscordRig>): Promise<DiscordRig> => {
  const rig = await createDiscordRig({ listed: () => [ROOM, OTHER_ROOM], ...options }, forFake);
  rig.fake.channels.add({ id: OTHER_ROOM, type: 0 });
  return rig;
};

const textsIn = (rig: DiscordRig, channel: string): string[] =>
  rig.decoded().flatMap(({ address, text }) => ((address.thread ?? address.chat) === channel ? [text] : []));

const heard = (rig: DiscordRig, channel: string, text: string): Promise<unknown> =>
  rig.fake.until(() => textsIn(rig, channel).includes(text), `"${text}"`);

const readsOf = ({ fake }: DiscordRig, channel: string): number =>
  fake.calls.filter((call) => call.method === "getMessages" && call.channel === channel && call.executed).length;

const gapsOnRecord = async ({ inbox }: DiscordRig): Promise<string[]> =>
  Object.keys((JSON.parse((await inbox.cursor())?.value ?? "{}") as { gaps?: object }).gaps ?? {});

/** An outage that no session spans, over now. */
async function loseSession({ fake }: DiscordRig): Promise<void> {
  const before = fake.gateway.identifies();
  fake.gateway.forget();
  fake.gateway.drop();
  await fake.until(() => fake.gateway.identifies() > before && fake.gateway.isUp(), "a new session");
}

describe("a channel that can't be read", () => {
  it.each(["500", "hang", "html"] as const)(
    "[DC1] after an outage (%s) holds up only itself: others are read and heard at once, its own come later and in order",
    async (fault) => {
      await using rig = await createRig({ timeoutMs: 1_000 });
      await rig.connect();
      for (const channel of [ROOM, OTHER_ROOM, DIRECT]) rig.fake.say({ channel, text: "known" });
      await rig.fake.until(() => rig.decoded().length === 3, "the first ones");
      for (const channel of [ROOM, OTHER_ROOM, DIRECT]) rig.fake.say({ channel, text: "missed", isUntold: true });
      rig.fake.faults.add(`getMessages:${ROOM}`, fault, LASTING);
      await loseSession(rig);
      for (const channel of [ROOM, OTHER_ROOM, DIRECT]) rig.fake.say({ channel, text: "told" });
      for (const channel of [OTHER_ROOM, DIRECT]) await heard(rig, channel, "told");
      expect(textsIn(rig, OTHER_ROOM)).toEqual(["known", "missed", "told"]);
      expect(textsIn(rig, DIRECT)).toEqual(["known", "missed", "told"]);
      await rig.fake.until(() => rig.channel.health().detail !== undefined, "a word about it");
      expect(rig.channel.health()).toMatchObject({ state: "on", detail: expect.stringMatching(/^one channel can't be read yet/) });
      expect(await rig.fake.slash({ channel: ROOM, name: "status" }), "a command there is taken").toBe(true);
      // The connection is the same, and what comes later goes the same ways.
      rig.fake.say({ channel: ROOM, text: "told later" });
      rig.fake.say({ channel: DIRECT, text: "told later" });
      await heard(rig, DIRECT, "told later");
      expect(textsIn(rig, ROOM).filter((text) => text !== "/status")).toEqual(["known"]);
      rig.fake.faults.clear();
      await heard(rig, ROOM, "told later");
      expect(textsIn(rig, ROOM).filter((text) => text !== "/status")).toEqual(["known", "missed", "told", "told later"]);
      await rig.fake.until(() => rig.channel.health().detail === undefined, "the end of it");
      expect(rig.fake.gateway.identifies()).toBe(2);
    },
  );

  it.each([
    ["goes on with the session", false],
    ["finds the session forgotten, too", true],
  ])("[DC1][RC3] killed meanwhile: the next process %s, and reads it when it can; the others are not behind", async (_, isForgotten) => {
    await using rig = await createRig();
    await rig.connect();
    for (const channel of [ROOM, OTHER_ROOM]) rig.fake.say({ channel, text: "known" });
    await rig.fake.until(() => rig.decoded().length === 2, "the first ones");
    for (const channel of [ROOM, OTHER_ROOM]) rig.fake.say({ channel, text: "missed", isUntold: true });
    rig.fake.faults.add(`getMessages:${ROOM}`, "500", LASTING);
    await loseSession(rig);
    rig.fake.say({ channel: ROOM, text: "told to the first" });
    rig.fake.mention({ channel: OTHER_ROOM, text: "told to the first" });
    // Recorded behind it, so that Discord tells none of it again.
    await rig.fake.until(() => textsIn(rig, OTHER_ROOM).length === 3, "the others");
    await waitFor("the cursor", async () => (await gapsOnRecord(rig)).join() === ROOM);
    await kill(rig);
    if (isForgotten) rig.fake.gateway.forget();
    for (const channel of [ROOM, OTHER_ROOM]) rig.fake.say({ channel, text: "said meanwhile", isUntold: isForgotten });
    const known = readsOf(rig, OTHER_ROOM);
    const second = rig.again();
    await second.start(rig.inbox);
    await heard(rig, OTHER_ROOM, "said meanwhile");
    await rig.fake.until(() => second.health().detail !== undefined, "a word about it");
    rig.fake.say({ channel: ROOM, text: "told to the second" });
    expect(textsIn(rig, ROOM)).toEqual(["known"]);
    rig.fake.faults.clear();
    await heard(rig, ROOM, "told to the second");
    await second.stop();
    expect(textsIn(rig, ROOM)).toEqual(["known", "missed", "told to the first", "said meanwhile", "told to the second"]);
    expect(textsIn(rig, OTHER_ROOM)).toHaveLength(4);
    expect(readsOf(rig, OTHER_ROOM) > known).toBe(isForgotten);
  });

  it("[DC1][RC3] what is told while its last page is on its way, and is not in that, is not lost", async () => {
    await using rig = await createRig();
    await rig.connect();
    const { promise: answeredAfter, resolve: answer } = Promise.withResolvers<void>();
    rig.fake.say({ channel: ROOM, text: "missed", isUntold: true });
    rig.fake.faults.add(`getMessages:${ROOM}`, { answeredAfter });
    const before = readsOf(rig, ROOM);
    await loseSession(rig);
    await rig.fake.until(() => readsOf(rig, ROOM) > before, "the page");
    rig.fake.say({ channel: ROOM, text: "told meanwhile" });
    rig.fake.say({ channel: DIRECT, text: "behind it" });
    await heard(rig, DIRECT, "behind it");
    answer();
    await heard(rig, ROOM, "told meanwhile");
    expect(textsIn(rig, ROOM)).toEqual(["missed", "told meanwhile"]);
  });

  it("[DC1][RC3] what is said in a second outage, while a page from before it is on its way, is not lost", async () => {
    await using rig = await createRig();
    await rig.connect();
    const { promise: answeredAfter, resolve: answer } = Promise.withResolvers<void>();
    rig.fake.say({ channel: ROOM, text: "missed", isUntold: true });
    rig.fake.faults.add(`getMessages:${ROOM}`, { answeredAfter });
    const before = readsOf(rig, ROOM);
    await loseSession(rig);
    await rig.fake.until(() => readsOf(rig, ROOM) > before, "the page");
    rig.fake.say({ channel: ROOM, text: "missed, too", isUntold: true });
    await loseSession(rig);
    rig.fake.say({ channel: DIRECT, text: "in the third session" });
    await heard(rig, DIRECT, "in the third session");
    answer();
    rig.fake.say({ channel: ROOM, text: "told" });
    await heard(rig, ROOM, "told");
    expect(textsIn(rig, ROOM)).toEqual(["missed", "missed, too", "told"]);
  });

  it("[DC1][RC3] more than is kept in memory is told of it: the rest is read from its history, in order", async () => {
    await using rig = await createRig();
    await rig.connect();
    const { promise: answeredAfter, resolve: answer } = Promise.withResolvers<void>();
    rig.fake.say({ channel: ROOM, text: "missed", isUntold: true });
    rig.fake.faults.add(`getMessages:${ROOM}`, { answeredAfter });
    const before = readsOf(rig, ROOM);
    await loseSession(rig);
    await rig.fake.until(() => readsOf(rig, ROOM) > before, "the page");
    const told = Array.from({ length: 700 }, (_, n) => `told ${n}`);
    for (const text of told) rig.fake.say({ channel: ROOM, text });
    rig.fake.say({ channel: DIRECT, text: "behind them" });
    await heard(rig, DIRECT, "behind them");
    answer();
    rig.fake.say({ channel: ROOM, text: "the last" });
    await heard(rig, ROOM, "the last");
    expect(textsIn(rig, ROOM)).toEqual(["missed", ...told, "the last"]);
  });

  it("[DC1] of too much that was said in an outage the rest is left out, however often reading it breaks off; of what was told behind it nothing", async () => {
    let ahead = -2 * HOUR_MS;
    const now = (): number => Date.now() + ahead;
    await using rig = await createRig({ clock: { ...createImpatientClock(2), now } }, { now });
    await rig.connect();
    rig.fake.gateway.forget();
    for (let n = 0; n < 5_200; n++) rig.fake.say({ channel: ROOM, text: `missed ${n}`, isUntold: true });
    ahead = 0;
    rig.fake.faults.add(`getMessages:${ROOM}`, "500", LASTING);
    await loseSession(rig);
    await rig.fake.until(() => rig.channel.health().detail !== undefined, "a word about it");
    const told = Array.from({ length: 600 }, (_, n) => `told ${n}`);
    for (const text of told) rig.fake.say({ channel: ROOM, text });
    rig.fake.faults.clear();
    rig.fake.faults.add(`getMessages:${ROOM}`, "500", { skip: 30 });
    rig.fake.faults.add(`getMessages:${ROOM}`, "500", { skip: 45 });
    await rig.fake.until(() => rig.inbox.rows.size >= 5_600, "all of it");
    const texts = textsIn(rig, ROOM);
    expect(texts.filter((text) => text.startsWith("missed"))).toHaveLength(5_000);
    expect(texts.slice(5_000)).toEqual(told);
  });

  it("[DC1] a thread begun in the outage that can't be read holds up nobody, and is read by the process after a kill", async () => {
    await using rig = await createRig();
    await rig.connect();
    const thread = rig.fake.channels.thread(ROOM, true);
    rig.fake.say({ channel: thread, text: "missed", isUntold: true });
    rig.fake.faults.add(`getMessages:${thread}`, "500", LASTING);
    await loseSession(rig);
    rig.fake.say({ channel: thread, text: "told" });
    rig.fake.say({ channel: ROOM, text: "told" });
    rig.fake.say({ channel: DIRECT, text: "told" });
    await heard(rig, ROOM, "told");
    await heard(rig, DIRECT, "told");
    await kill(rig);
    rig.fake.faults.clear();
    const second = rig.again();
    await second.start(rig.inbox);
    await heard(rig, thread, "told");
    await second.stop();
    expect(textsIn(rig, thread)).toEqual(["missed", "told"]);
    expect(rig.fake.gateway.identifies()).toBe(2);
  });

  it("[DC1] a direct chat that can't be opened holds up nobody; whoever writes in it has opened it", async () => {
    await using rig = await createRig({ people: () => [OTHER_PERSON, PERSON] });
    rig.fake.channels.add({ id: OTHER_CHAT, type: 1, recipient: OTHER_PERSON });
    for (const channel of [OTHER_CHAT, DIRECT]) rig.fake.say({ channel, text: "missed", isUntold: true });
    rig.fake.faults.add(`createDM:${OTHER_PERSON}`, "500", LASTING);
    await rig.channel.start(rig.inbox);
    await rig.fake.until(() => rig.fake.gateway.isUp(), "a session");
    rig.fake.say({ channel: DIRECT, text: "told" });
    await heard(rig, DIRECT, "told");
    expect(textsIn(rig, DIRECT)).toEqual(["missed", "told"]);
    await rig.fake.until(() => rig.channel.health().detail !== undefined, "a word about it");
    expect(rig.channel.health().detail).toMatch(/^one channel can't be read yet/);
    rig.fake.say({ channel: OTHER_CHAT, user: OTHER_PERSON, text: "told" });
    await heard(rig, OTHER_CHAT, "told");
    expect(textsIn(rig, OTHER_CHAT)).toEqual(["missed", "told"]);
  });

  it("[DC1][RC3] a direct chat that could not be opened is opened by the process after a kill", async () => {
    await using rig = await createRig();
    rig.fake.say({ channel: DIRECT, text: "missed", isUntold: true });
    rig.fake.faults.add(`createDM:${PERSON}`, "500", LASTING);
    await rig.channel.start(rig.inbox);
    await rig.fake.until(() => rig.channel.health().detail !== undefined, "a word about it");
    await kill(rig);
    rig.fake.faults.clear();
    const second = rig.again();
    await second.start(rig.inbox);
    await heard(rig, DIRECT, "missed");
    await second.stop();
    expect(rig.fake.gateway.identifies()).toBe(1);
  });

  it("[DC1][RC3] while the disk refuses, nothing that is read counts; then all of it is there, in order", async () => {
    await using rig = await createRig();
    await rig.connect();
    for (const text of ["one", "two"]) rig.fake.say({ channel: ROOM, text, isUntold: true });
    rig.fake.gateway.forget();
    rig.inbox.broken = true;
    rig.fake.gateway.drop();
    await rig.fake.until(() => rig.inbox.refused > 3, "refused writes");
    rig.inbox.broken = false;
    await rig.fake.until(() => rig.fake.gateway.isUp(), "a session");
    rig.fake.say({ channel: ROOM, text: "three" });
    await heard(rig, ROOM, "three");
    expect(textsIn(rig, ROOM)).toEqual(["one", "two", "three"]);
  });
});
