import { describe } from "vitest";
import type { Address } from "../../src/core/address.ts";
import { createMatrixRig, DIRECT, ROOM } from "../support/matrix-rig.ts";
import { type ChannelRig, channelContract } from "./channel.contract.ts";

async function makeRig(): Promise<ChannelRig> {
  const rig = await createMatrixRig();
  const { channel, fake } = rig;
  const root = fake.say({ room: ROOM, text: "the root" });
  return {
    channel,
    address: rig.at(DIRECT),
    threadAddress: rig.at(ROOM, root),
    async say({ chat, thread }: Address, text) {
      // What was said before the first sync is history; a disk that refuses its token keeps the second one waiting.
      await fake.until(() => fake.calls.some(({ method, executed }) => method === "sync" && executed), "the first sync");
      fake.say({ room: chat, text, ...(thread === undefined ? {} : { thread }) });
    },
    replay: () => fake.replay(),
    unconfirmed: () => fake.unconfirmed(),
    seen: ({ chat, thread }) => fake.messages(chat, thread ?? null).map(({ text }) => text),
    fault: (kind, skip) => fake.faults.add("send", kind, { skip, retryAfter: 0 }),
    maxLength: 8_000,
    close: async () => rig[Symbol.asyncDispose](),
  };
}

describe("Matrix", () => {
  channelContract("sync", makeRig);
});
