// Which row of the outbox a message on a platform is, where it carries only a digest of it: read wrongly, two announcements are one.
import { expect, it } from "vitest";
import type { Address } from "../../../src/core/address.ts";
import type { Channel } from "../../../src/core/message.ts";
import { placeOf, type Seen } from "../../chaos/history.ts";
import { readTables, withKeys } from "../../chaos/record.ts";
import { createDiscordRig } from "../../support/discord-rig.ts";
import { createMatrixRig, DIRECT } from "../../support/matrix-rig.ts";

const MADE_AT = 1_794_978_910_462;

/** A row is sent as delivery sends it; `joinedAs`: with others, under a key of their own. */
async function keyShown(channel: Channel, address: Address, marks: () => string[], joinedAs: string | null): Promise<string | null> {
  const part = channel.render({ markdown: "an announcement" }, address)[0] ?? {};
  const delivery = "announce:v1:agent:main:subagent:1:2:g2";
  const named = joinedAs === null ? { key: `${delivery}#0`, madeAt: MADE_AT } : { key: joinedAs };
  expect(await channel.send({ address, part, ...named, repeated: false })).toMatchObject({ status: "sent" });
  const row = {
    ...{ id: 1, delivery, n: 0, state: "sent", rank: 1, aside: 0, ref: null, createdAt: MADE_AT, address: JSON.stringify(address) },
    ...{ part: JSON.stringify(part), joinedAs, joinedPart: joinedAs === null ? null : JSON.stringify(part) },
  };
  const { outbox } = await readTables(<T>(sql: string): T[] => (/FROM outbox/.test(sql) ? [row as T] : []));
  const place = placeOf(address.channel, address.chat, null);
  const seen = marks().map((mark): Seen => ({ ...{ place, order: 1, at: 1, text: "", ref: "1", key: null, replyTo: null }, mark }));
  return withKeys(seen, outbox)[0]?.key ?? null;
}

it.each([null, "join:1,2"])(
  "[DL1] the row of a message is known by what it carries, joined as %s, on Matrix and Discord",
  async (joinedAs) => {
    await using matrix = await createMatrixRig();
    await using discord = await createDiscordRig();
    const expected = joinedAs ?? "announce:v1:agent:main:subagent:1:2:g2#0";
    const marksOnMatrix = () => matrix.fake.allMessages().map(({ mark }) => mark);
    expect(await keyShown(matrix.channel, matrix.at(DIRECT), marksOnMatrix, joinedAs)).toBe(expected);
    const marksOnDiscord = () => discord.fake.allMessages().map(({ nonce }) => nonce ?? "");
    expect(await keyShown(discord.channel, discord.room, marksOnDiscord, joinedAs)).toBe(expected);
  },
);
