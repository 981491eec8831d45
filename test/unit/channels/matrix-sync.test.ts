// The loop of /sync where a life ends or begins: which token is on record when, what a start waits for, answers too long to be read.
import { describe, expect, it } from "vitest";
import { PERSON } from "../../support/fake-matrix.ts";
import { createMatrixRig, DIRECT, type MatrixRig, OTHER } from "../../support/matrix-rig.ts";
import { waitFor } from "../../support/wait.ts";

const textsOf = (rig: MatrixRig): string[] => rig.heard().map(({ text }) => text);

describe("the first token", () => {
  it("[RC3][MX1] is on record before anything is asked from there: a life that ends in that call has missed nothing", async () => {
    await using rig = await createMatrixRig();
    const { fake, channel, inbox } = rig;
    fake.faults.add("sync", "hang", { skip: 1 });
    await rig.started();
    expect(await inbox.cursor()).not.toBeNull();
    await channel.stop();
    fake.say({ room: DIRECT, text: "is anybody there?" });
    fake.room("!new:home.test");
    fake.say({ room: "!new:home.test", text: "and here?" });
    await channel.start(inbox);
    await fake.until(() => textsOf(rig).length === 2, "what was said in between");
    expect(textsOf(rig)).toEqual(["is anybody there?", "and here?"]);
  });

  it("[RC3][MX1] one that takes the place of a token that the server has forgotten is so, too", async () => {
    await using rig = await createMatrixRig();
    const { fake, channel, inbox } = rig;
    await inbox.put([], "s0");
    fake.faults.add("sync", { status: 400, errcode: "M_UNKNOWN_POS" });
    // The one about everything passes, the next one does not.
    fake.faults.add("sync", "hang", { skip: 1 });
    await channel.start(inbox);
    await fake.until(() => fake.calls.filter(({ method }) => method === "sync").length === 3, "the new beginning");
    expect((await inbox.cursor())?.value).not.toBe("s0");
  });

  it("[RC3][MX1] is kept in memory while the disk refuses it: no later one takes its place", async () => {
    await using rig = await createMatrixRig();
    const { fake, channel, inbox } = rig;
    inbox.broken = true;
    await channel.start(inbox);
    await waitFor("a refused token", () => inbox.refused > 1);
    fake.say({ room: DIRECT, text: "meanwhile" });
    inbox.broken = false;
    await fake.until(() => textsOf(rig).includes("meanwhile"), "what was said meanwhile");
    expect(fake.calls.filter(({ method, query }) => method === "sync" && query.since === undefined)).toHaveLength(1);
  });
});

describe("a server that works on an answer for long", () => {
  it("[RC4][MX1] is given more time at each try, so that it is heard at last", async () => {
    await using rig = await createMatrixRig({ syncSeconds: 0.05, timeoutMs: 200 });
    const { fake } = rig;
    for (const call of ["first sync", "sync"]) fake.faults.add(call, "slow", { times: Number.POSITIVE_INFINITY, delayMs: 1_000 });
    await rig.started();
    fake.say({ room: DIRECT, text: "hello" });
    await fake.until(() => textsOf(rig).includes("hello"), "the message");
  });
});

describe("a start with a token", () => {
  it("[DL5][MX1] waits for no answer about everything, however long a server works on it", async () => {
    await using rig = await createMatrixRig();
    const { fake, channel, inbox } = rig;
    await rig.started();
    await channel.stop();
    fake.faults.add("first sync", "hang", { times: Number.POSITIVE_INFINITY });
    fake.say({ room: DIRECT, text: "hello" });
    await channel.start(inbox);
    await fake.until(() => textsOf(rig).includes("hello"), "what was said meanwhile");
    const looks = (): number => fake.calls.filter(({ method, query }) => method === "sync" && query.since === undefined).length;
    await fake.until(() => looks() === 2, "the answer nobody waits for");
    expect(channel.health().state).toBe("on");
  });

  it("[MX1][SC2] follows an invitation from before all the same, once whoever sent it may, and after a failure", async () => {
    let [mayInvite, asked] = [false, 0];
    await using rig = await createMatrixRig({ mayInvite: async () => ++asked > 0 && mayInvite });
    const { fake, channel, inbox } = rig;
    await rig.started();
    fake.invite("!old:home.test", OTHER);
    await waitFor("the decision", () => asked > 0);
    // Recorded with the token that is past the invitation.
    fake.say({ room: DIRECT, text: "later" });
    await fake.until(() => textsOf(rig).includes("later"), "what came behind it");
    await channel.stop();
    mayInvite = true;
    fake.faults.add("first sync", "500", { times: 2 });
    await channel.start(inbox);
    await fake.until(() => fake.isIn("!old:home.test"), "the room");
    expect(fake.calls.filter(({ method }) => method === "join")).toHaveLength(1);
  });
});

describe("an answer that is too long to be read", () => {
  it("[RC3][MX1] is asked for with less of each room, and the rest is read back by pages", { timeout: 60_000 }, async () => {
    await using rig = await createMatrixRig();
    const { fake, channel, inbox } = rig;
    await rig.started();
    await channel.stop();
    const ROOMS = 25;
    const PER_ROOM = 50;
    // More than 64 MB together.
    const extra = { "io.long": "x".repeat(60_000) };
    for (let room = 0; room < ROOMS; room++) {
      const id = `!busy${room}:home.test`;
      fake.room(id, [PERSON]);
      for (let n = 0; n < PER_ROOM; n++) fake.say({ room: id, text: `${room}.${n}`, extra });
    }
    await channel.start(inbox);
    await fake.until(() => rig.heard().length === ROOMS * PER_ROOM, "everything that was said");
    const inOrder = (room: number) => Array.from({ length: PER_ROOM }, (_, n) => `${room}.${n}`);
    expect(textsOf(rig)).toEqual(Array.from({ length: ROOMS }, (_, room) => inOrder(room)).flat());
    const limits = (): number[] =>
      fake.calls.flatMap(({ method, query }) =>
        method === "sync" && query.since !== undefined ? [JSON.parse(query.filter ?? "{}").room.timeline.limit as number] : [],
      );
    // Of what comes next as much as before.
    await fake.until(() => limits().at(-1) === 50, "the next one");
    expect(limits().filter((limit, n) => limit !== limits()[n - 1])).toEqual([50, 5, 50]);
  });
});
