// What /sync brings and what is recorded of it, where people or servers do the unusual: events that nobody can look up or write down,
// presses by number, gaps in which the room itself changed, who was ever in one.
import { describe, expect, it } from "vitest";
import { type Logger, silentLogger } from "../../../src/core/logger.ts";
import { PERSON } from "../../support/fake-matrix.ts";
import { DEEP } from "../../support/fake-matrix-state.ts";
import { createMatrixRig, DIRECT, type MatrixRig, OTHER, ROOM } from "../../support/matrix-rig.ts";
import { waitFor } from "../../support/wait.ts";

const textsOf = (rig: MatrixRig): string[] => rig.heard().map(({ text }) => text);

/** More than a sync shows of a room. */
const MANY = 60;

async function offer(rig: MatrixRig, chat: string, labels: readonly string[]): Promise<string> {
  const { channel, at } = rig;
  const buttons = labels.map((label) => ({ label, command: `/subagents stop ${label}@1` }));
  const part = channel.render({ markdown: "what now?", buttons }, at(chat))[0] ?? {};
  const sent = await channel.send({ address: at(chat), part, key: `live:${labels.join()}#0`, repeated: false });
  return sent.status === "sent" ? sent.ref : "";
}

describe("an event that means harm", () => {
  const annotation = (id: unknown) => ({ "m.relates_to": { rel_type: "m.annotation", event_id: id, key: "1" } });
  it.each([
    ["a reaction to an id no address can hold", "m.reaction", annotation(`$${"x".repeat(40_000)}`)],
    ["a reaction to half a letter", "m.reaction", annotation("$\ud800")],
    [
      "a thread of half a letter",
      "m.room.message",
      { msgtype: "m.text", body: "x", "m.relates_to": { rel_type: "m.thread", event_id: "$\ud800" } },
    ],
    ["lists inside lists", "m.room.message", { msgtype: "m.text", body: "x", "io.deep": DEEP }],
    [
      "a file inside lists",
      "m.room.message",
      { msgtype: "m.image", body: "x", url: "mxc://home.test/a", file: DEEP, info: { deep: DEEP } },
    ],
    ["encrypted lists inside lists", "m.room.encrypted", { ciphertext: DEEP }],
  ])("[MX1][SC5][DL5] %s keeps nobody else waiting", async (_what, type, content) => {
    await using rig = await createMatrixRig();
    const { fake, channel } = rig;
    await rig.started();
    fake.inject(ROOM, OTHER, type, content);
    fake.say({ room: DIRECT, text: "hello" });
    await fake.until(() => textsOf(rig).includes("hello"), "the message");
    await waitFor("the token to move on", () => fake.unconfirmed() === 0);
    expect(channel.health().state).toBe("on");
  });
});

it("[CH2][MX1] a sticker and an encrypted file are recorded as what they are", async () => {
  await using rig = await createMatrixRig();
  const { fake } = rig;
  await rig.started();
  fake.inject(DIRECT, PERSON, "m.sticker", { body: "waves", url: "mxc://home.test/a", info: {} });
  fake.inject(DIRECT, PERSON, "m.room.message", { msgtype: "m.file", body: "enc.txt", file: { url: "mxc://home.test/b", key: {} } });
  await fake.until(() => textsOf(rig).length === 2, "both");
  expect(rig.heard()).toMatchObject([
    { text: "[sticker waves]", isWordless: true },
    { text: "[file enc.txt]", isWordless: true, files: [{ source: { remote: "encrypted" } }] },
  ]);
});

describe("a room the server can't say anything about", () => {
  it("[MX1][DL5] is waited for, but not for ever; the next time nobody waits, and it is heard again once it is in order", async () => {
    await using rig = await createMatrixRig();
    const { fake, channel } = rig;
    await rig.started();
    const asked = (): number => fake.calls.filter(({ method, room }) => method === "state" && room === ROOM).length;
    fake.break(ROOM, { status: 500, errcode: "M_UNKNOWN" });
    fake.say({ room: ROOM, text: "Herald: missed" });
    fake.say({ room: DIRECT, text: "hello" });
    await fake.until(() => textsOf(rig).includes("hello"), "the other room", 25_000);
    const tries = asked();
    expect(tries).toBeGreaterThanOrEqual(10);
    fake.say({ room: ROOM, text: "Herald: missed too" });
    fake.say({ room: DIRECT, text: "and now?" });
    await fake.until(() => textsOf(rig).includes("and now?"), "the other room again");
    expect(asked()).toBeLessThanOrEqual(tries + 2);
    fake.break(ROOM, null);
    fake.say({ room: ROOM, text: "Herald: heard" });
    await fake.until(() => textsOf(rig).includes("heard"), "the room itself");
    expect(textsOf(rig)).toEqual(["hello", "and now?", "heard"]);
    expect(channel.health().state).toBe("on");
  });
});

describe("presses by number", () => {
  it("[LV4][MX1] two numbers are two presses, whatever a client or a person writes around them; the same one twice is one", async () => {
    await using rig = await createMatrixRig();
    const { fake } = rig;
    await rig.started();
    const ref = await offer(rig, ROOM, ["a", "b", "c"]);
    const reply = (text: string): string => fake.say({ room: ROOM, text, replyTo: ref });
    reply("> <@herald:home.test> what now?\n\n1");
    reply("> <@herald:home.test> what now?\n\n2");
    reply("Herald: 3");
    await fake.until(() => rig.heard().length === 3, "three presses");
    reply("> <@herald:home.test> what now?\n\n1");
    reply("2.");
    fake.react(ROOM, ref, "3\ufe0f\u20e3");
    fake.say({ room: ROOM, text: "Herald: done" });
    await fake.until(() => textsOf(rig).includes("done"), "the end");
    expect(textsOf(rig)).toEqual([..."abc"].map((one) => `/subagents stop ${one}@1`).concat("done"));
  });
});

describe("a gap in which the room changed", () => {
  it("[SE1][MX1] who came during it reads along: what is said from then on is no direct chat", async () => {
    await using rig = await createMatrixRig();
    const { fake } = rig;
    await rig.started();
    fake.say({ room: DIRECT, text: "alone" });
    await fake.until(() => textsOf(rig).includes("alone"), "the first one");
    // Nothing is heard of it until all of it has happened.
    fake.faults.add("sync", "500", { times: 1 });
    fake.enter(DIRECT, OTHER);
    for (let n = 0; n < MANY; n++) fake.say({ room: DIRECT, text: `${n}` });
    await fake.until(() => textsOf(rig).includes(`${MANY - 1}`), "the last one");
    expect(rig.heard().map(({ address }) => address.kind)).toEqual(["dm", ...Array.from({ length: MANY }, () => "channel")]);
  });

  it("[MX1] what was said before the bot was asked to come is not for it, however much was said since", async () => {
    await using rig = await createMatrixRig();
    const { fake, channel, inbox } = rig;
    await rig.started();
    await waitFor("the first token", () => inbox.cursor());
    await channel.stop();
    const late = "!late:home.test";
    fake.enter(late, PERSON);
    fake.say({ room: late, text: "before it was asked" });
    fake.room(late, []);
    for (let n = 0; n < MANY; n++) fake.say({ room: late, text: `${n}` });
    await channel.start(inbox);
    await fake.until(() => textsOf(rig).includes(`${MANY - 1}`), "the last one");
    expect(textsOf(rig)).toEqual(Array.from({ length: MANY }, (_, n) => `${n}`));
  });

  it("[MX1][RC3] a page of it of which nothing is shown is not its end", async () => {
    await using rig = await createMatrixRig();
    const { fake, channel, inbox } = rig;
    await rig.started();
    await waitFor("the first token", () => inbox.cursor());
    await channel.stop();
    fake.say({ room: DIRECT, text: "the oldest" });
    // Servers leave out whom the bot ignores after they have cut the page.
    for (let n = 0; n < 250; n++) fake.say({ room: DIRECT, from: "@ignored:home.test", text: "spam" });
    for (let n = 0; n < MANY; n++) fake.say({ room: DIRECT, text: `${n}` });
    fake.ignore("@ignored:home.test");
    await channel.start(inbox);
    await fake.until(() => textsOf(rig).includes(`${MANY - 1}`), "the last one");
    expect(textsOf(rig)).toEqual(["the oldest", ...Array.from({ length: MANY }, (_, n) => `${n}`)]);
  });
});

describe("which rooms are direct", () => {
  it("[SE1][MX1] a room is direct with one other who was ever there; a third makes it a room, and so does somebody who left", async () => {
    await using rig = await createMatrixRig();
    const { fake } = rig;
    await rig.started();
    const kindOf = async (text: string, room = DIRECT, from = PERSON): Promise<string | undefined> => {
      fake.say({ room, text, from });
      return (await fake.until(() => rig.heard().find((one) => one.text === text), text)).address.kind;
    };
    expect(await kindOf("alone")).toBe("dm");
    fake.enter(DIRECT, OTHER);
    expect(await kindOf("with another")).toBe("channel");
    fake.leave(DIRECT, OTHER);
    expect(await kindOf("after they left")).toBe("channel");
    fake.room("!first:home.test", [PERSON]);
    fake.leave("!first:home.test", PERSON);
    fake.enter("!first:home.test", OTHER);
    expect(await kindOf("the next person", "!first:home.test", OTHER)).toBe("channel");
  });

  it("[CF4][MX1] a room is what the settings say by now", async () => {
    let listed: string[] = [];
    await using rig = await createMatrixRig({ isListed: (room) => listed.includes(room) });
    const { fake } = rig;
    await rig.started();
    const kindOf = async (text: string): Promise<string | undefined> => {
      fake.say({ room: DIRECT, text });
      return (await fake.until(() => rig.heard().find((one) => one.text === text), text)).address.kind;
    };
    expect(await kindOf("one")).toBe("dm");
    listed = [DIRECT];
    expect(await kindOf("two")).toBe("channel");
    listed = [];
    expect(await kindOf("three")).toBe("dm");
  });

  it("[SE1][MX1] an invitation that is taken back makes nobody forget that they were there; one that was refused changes nothing", async () => {
    await using rig = await createMatrixRig();
    const { fake } = rig;
    await rig.started();
    const kindOf = async (text: string, room: string, from: string): Promise<string | undefined> => {
      fake.say({ room, text, from });
      return (await fake.until(() => rig.heard().find((one) => one.text === text), text)).address.kind;
    };
    fake.ask(DIRECT, OTHER);
    fake.leave(DIRECT, OTHER);
    expect(await kindOf("never came", DIRECT, PERSON)).toBe("dm");
    const theirs = "!theirs:home.test";
    fake.room(theirs, [OTHER]);
    expect(await kindOf("private", theirs, OTHER)).toBe("dm");
    fake.enter(theirs, PERSON);
    fake.leave(theirs, OTHER);
    fake.ask(theirs, OTHER);
    fake.leave(theirs, OTHER);
    expect(await kindOf("what did they say?", theirs, PERSON)).toBe("channel");
  });
});

describe("invitations", () => {
  it("[MX1][DL5] one to a server that does not answer keeps nobody else's waiting", async () => {
    await using rig = await createMatrixRig({ mayInvite: async () => true });
    const { fake } = rig;
    await rig.started();
    fake.faults.add("join", "hang");
    fake.invite("!slow:far.test", PERSON);
    await fake.until(() => fake.calls.some(({ method }) => method === "join"), "the first try");
    fake.invite("!other:home.test", OTHER);
    await fake.until(() => fake.isIn("!other:home.test"), "the other room");
    expect(fake.isIn("!slow:far.test")).toBe(false);
  });

  it("[MX1][SC1] one of somebody unknown is not followed, and the log names them and the room, though not without end", async () => {
    const denied: unknown[] = [];
    const log: Logger = { ...silentLogger, info: (fields) => void denied.push(fields), child: () => log };
    await using rig = await createMatrixRig({ log });
    const { fake } = rig;
    await rig.started();
    for (let n = 0; n < 30; n++) fake.invite(`!trap${n}:far.test`, OTHER);
    fake.invite("!welcome:home.test", PERSON);
    await fake.until(() => fake.isIn("!welcome:home.test"), "the room of somebody known");
    const written = denied.filter((fields) => (fields as { audit?: string }).audit === "denied");
    expect(written[0]).toEqual({ audit: "denied", sender: OTHER, chat: "!trap0:far.test", reason: "invited by an unknown person" });
    expect(written).toHaveLength(20);
    expect(fake.isIn("!trap0:far.test")).toBe(false);
  });
});

it("[CH1] log lines bear the name of the account they were given, and no other beside it", async () => {
  const named: object[] = [];
  const log: Logger = {
    ...silentLogger,
    child(fields) {
      named.push(fields);
      return log;
    },
  };
  await using rig = await createMatrixRig({ log });
  await rig.started();
  expect(named).toEqual([]);
});
