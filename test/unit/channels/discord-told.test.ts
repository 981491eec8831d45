// What is told of a direct chat while its gap is open: the event says where it stands, and Discord need not be asked for that.
import { describe, expect, it } from "vitest";
import { createDiscordRig, type DiscordRig, kill } from "../../support/discord-rig.ts";
import { DIRECT, ROOM } from "../../support/fake-discord.ts";
import { waitFor } from "../../support/wait.ts";

const LASTING = { times: Number.POSITIVE_INFINITY };
const REFUSED = { status: 403, code: 50_001, message: "Missing Access" };

const texts = (rig: DiscordRig): string[] => rig.decoded().flatMap(({ address, text }) => (address.chat === DIRECT ? [text] : []));

/** Its process was killed with a gap in the direct chat, of which nothing else is on record; the next one finds Discord well. */
async function createKilled(edit?: (cursor: object) => object): Promise<DiscordRig> {
  const rig = await createDiscordRig();
  rig.fake.say({ channel: DIRECT, text: "missed", isUntold: true });
  rig.fake.faults.add(`getMessages:${DIRECT}`, "500", LASTING);
  await rig.channel.start(rig.inbox);
  await rig.fake.until(() => rig.channel.health().detail !== undefined, "a word about it");
  rig.fake.mention({ channel: ROOM, text: "put on record" });
  await waitFor("the gap", async () => {
    const { gaps, direct } = JSON.parse((await rig.inbox.cursor())?.value ?? "{}") as { gaps?: object; direct?: object };
    return DIRECT in (gaps ?? {}) && Object.values(direct ?? {}).includes(DIRECT);
  });
  await kill(rig, edit);
  rig.fake.faults.clear();
  rig.fake.calls.length = 0;
  return rig;
}

describe("a direct chat with a gap", () => {
  it("[DC1][RC3] killed, the next process knows what it is, and reads it without asking", async () => {
    await using rig = await createKilled();
    rig.fake.faults.add(`getChannel:${DIRECT}`, REFUSED, LASTING);
    const second = rig.again();
    await second.start(rig.inbox);
    rig.fake.say({ channel: DIRECT, text: "told" });
    await rig.fake.until(() => texts(rig).includes("told"), "what is told");
    await second.stop();
    expect(texts(rig)).toEqual(["missed", "told"]);
    expect(rig.fake.calls.filter(({ method }) => method === "getChannel")).toEqual([]);
  });

  // As one of more direct chats than are written.
  const unknown = (cursor: object): object => ({ ...cursor, direct: {} });

  it("[DC1][RC3] when it is not known, what is told there says what it is: nobody waits for Discord to say so", async () => {
    await using rig = await createKilled(unknown);
    rig.fake.faults.add(`getChannel:${DIRECT}`, "500", LASTING);
    const second = rig.again();
    await second.start(rig.inbox);
    await rig.fake.until(() => second.health().detail !== undefined, "a word about it");
    rig.fake.say({ channel: DIRECT, text: "told" });
    await rig.fake.until(() => texts(rig).includes("told"), "what is told");
    await second.stop();
    expect(texts(rig)).toEqual(["missed", "told"]);
  });

  it("[DC1][RC3] when Discord says that it is none, what was told there meanwhile is not dropped", async () => {
    await using rig = await createKilled(unknown);
    const { promise: answeredAfter, resolve: answer } = Promise.withResolvers<void>();
    rig.fake.channels.break(DIRECT, [403, 50_001, "Missing Access"]);
    rig.fake.faults.add(`getChannel:${DIRECT}`, { answeredAfter });
    const second = rig.again();
    await second.start(rig.inbox);
    await rig.fake.until(() => rig.fake.calls.some(({ method }) => method === "getChannel"), "the question");
    rig.fake.say({ channel: DIRECT, text: "told" });
    rig.fake.mention({ channel: ROOM, text: "behind it" });
    await rig.fake.until(() => rig.decoded().some(({ text }) => text.includes("behind it")), "what comes behind it");
    answer();
    await rig.fake.until(() => texts(rig).includes("told"), "what was told");
    await second.stop();
  });

  it("[DC1][RC3] when it may be read no more, what was told there meanwhile is not dropped", async () => {
    await using rig = await createDiscordRig();
    rig.fake.faults.add(`getMessages:${DIRECT}`, "500", LASTING);
    await rig.channel.start(rig.inbox);
    await rig.fake.until(() => rig.channel.health().detail !== undefined, "a word about it");
    rig.fake.say({ channel: DIRECT, text: "told" });
    rig.fake.mention({ channel: ROOM, text: "behind it" });
    await rig.fake.until(() => rig.decoded().length === 1, "what comes behind it");
    rig.fake.faults.clear();
    for (const method of ["getMessages", "getChannel"]) rig.fake.faults.add(`${method}:${DIRECT}`, REFUSED, LASTING);
    await rig.fake.until(() => texts(rig).includes("told"), "what was told");
  });
});
