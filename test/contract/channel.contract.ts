// What every chat channel must keep, whatever the platform: recorded before confirmed, replays once, parts within the
// limits and in order, the fault matrix of DL4, garbage never throws, stop() leaves nothing open.
// A platform's test makes a rig around its fake server and calls channelContract(name, makeRig).
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Address, addressKey } from "../../src/core/address.ts";
import type { Channel, Inbound, OutMessage, Part } from "../../src/core/message.ts";
import { isAfter, type PlatformFault } from "../support/fake-platform.ts";
import { createMemoryInbox, type MemoryInbox } from "../support/memory-inbox.ts";
import { waitFor } from "../support/wait.ts";

const FAULTS = ["429", "500", "html", "drop", "hang", "500_after", "drop_after", "truncate_after"] as const satisfies PlatformFault[];
export type ContractFault = (typeof FAULTS)[number];

export interface ChannelRig {
  readonly channel: Channel;
  /** A chat itself, and a topic or thread inside a chat; both can be written to. */
  readonly address: Address;
  readonly threadAddress: Address;
  /** A person writes at the address. */
  say(address: Address, text: string): void | Promise<void>;
  /** The platform delivers the last update once more although it was confirmed. */
  replay(): void | Promise<void>;
  /** Makes the platform repeat what it got no confirmation for, where it doesn't by itself. */
  redeliver?(): void | Promise<void>;
  /** How many updates the platform still holds as unconfirmed. */
  unconfirmed(): number;
  /** Texts of the bot that people see at exactly this address, in order. */
  seen(address: Address): string[];
  /** The next send but `skip` goes wrong. */
  fault(kind: ContractFault, skip: number): void;
  /** Longest text of one part. */
  readonly maxLength: number;
  close(): Promise<void>;
}

const decoded = (channel: Channel, inbox: MemoryInbox): Inbound[] =>
  [...inbox.rows.values()].map((raw) => channel.decode(raw)).filter((one) => one !== null);

/** What delivery does with one message, without its clock: in order, each outcome heeded, at most 8 attempts a part. */
export async function deliver(channel: Channel, message: OutMessage, address: Address, delivery: string): Promise<void> {
  const parts = channel.render(message, address);
  let to = address;
  for (const [n, rendered] of parts.entries()) {
    let part: Part = rendered;
    let repeated = false;
    let ref: string | undefined;
    for (let attempt = 0; ; attempt++) {
      if (attempt === 8) throw new Error(`part ${n} was not delivered`);
      const key = `${delivery}#${n}`;
      const result = await channel.send({ address: to, part, key, repeated, ...(ref === undefined ? {} : { ref }) });
      if (result.status === "sent") break;
      if (result.status === "failed") throw new Error(result.reason);
      if (result.status === "reserved") ref = result.ref;
      if (result.status === "retarget") to = result.address;
      if (result.status === "rerender") part = result.part;
      if (result.status !== "unknown") continue;
      const found = await channel.reconcile?.({ address: to, part, key, since: 0, ...(ref === undefined ? {} : { ref }) });
      if (found?.status === "found") break;
      repeated = found === undefined || found.status === "untold";
    }
  }
}

const LONG = Array.from({ length: 60 }, (_, n) => `Paragraph ${n}: ${"words and more words ".repeat(8)}`).join("\n\n");

export function channelContract(name: string, makeRig: () => Promise<ChannelRig>): void {
  describe(`${name} keeps the channel contract`, () => {
    let rig: ChannelRig;
    let inbox: MemoryInbox;
    beforeEach(async () => {
      rig = await makeRig();
      inbox = createMemoryInbox();
    });
    afterEach(async () => {
      await rig.channel.stop();
      await rig.close();
    });

    it("[RC3] records an update before it is confirmed, with its address", async () => {
      await rig.channel.start(inbox);
      await rig.say(rig.address, "hello there");
      await rig.say(rig.threadAddress, "hello in the thread");
      await waitFor("both updates", () => inbox.rows.size >= 2);
      const texts = decoded(rig.channel, inbox).map(({ text, address }) => [text, addressKey(address)]);
      expect(texts).toContainEqual(["hello there", addressKey(rig.address)]);
      expect(texts).toContainEqual(["hello in the thread", addressKey(rig.threadAddress)]);
      await waitFor("the confirmation", () => rig.unconfirmed() === 0);
    });

    it("[RC3] confirms nothing while the disk refuses, and gets it again afterwards", async () => {
      inbox.broken = true;
      await rig.channel.start(inbox);
      await rig.say(rig.address, "must not be lost");
      await waitFor("a refused write", () => inbox.refused > 0);
      expect(rig.unconfirmed()).toBeGreaterThan(0);
      inbox.broken = false;
      await rig.redeliver?.();
      await waitFor("the update again", () => decoded(rig.channel, inbox).some((one) => one.text === "must not be lost"));
      await waitFor("the confirmation", () => rig.unconfirmed() === 0);
    });

    it("[RC3] a replayed update is one row", async () => {
      await rig.channel.start(inbox);
      await rig.say(rig.address, "once");
      await waitFor("the update", () => rig.unconfirmed() === 0 && inbox.rows.size > 0);
      await rig.replay();
      await rig.say(rig.address, "twice");
      await waitFor("the update after the replay", () => decoded(rig.channel, inbox).some((one) => one.text === "twice"));
      expect(decoded(rig.channel, inbox).map((one) => one.text)).toEqual(["once", "twice"]);
    });

    it("[DL2] renders parts within the limit, never none, and they arrive in order at the thread only", async () => {
      await rig.channel.start(inbox);
      await rig.say(rig.threadAddress, "go");
      await waitFor("the update", () => inbox.rows.size > 0);
      const before = rig.seen(rig.threadAddress).length;
      await deliver(rig.channel, { markdown: LONG }, rig.threadAddress, "reply:1");
      const texts = rig.seen(rig.threadAddress).slice(before);
      expect(texts.length).toBeGreaterThan(1);
      expect(texts.every((text) => text.length <= rig.maxLength)).toBe(true);
      expect([...texts.join("\n").matchAll(/Paragraph (\d+):/g)].map((match) => Number(match[1]))).toEqual(
        Array.from({ length: 60 }, (_, n) => n),
      );
      for (const markdown of ["", " \n", "```", "<!channel>", "\u0000\ud800", "> ".repeat(300)]) {
        expect(rig.channel.render({ markdown }, rig.address).length).toBeGreaterThan(0);
        await deliver(rig.channel, { markdown }, rig.threadAddress, `reply:odd:${markdown.length}`);
      }
      expect(rig.seen({ ...rig.threadAddress, thread: undefined } as unknown as Address)).toEqual([]);
    });

    for (const kind of FAULTS) {
      it(`[DL4] ${kind} on part 2 of 3: nothing lost, a repetition only where the answer was lost, and marked`, async () => {
        await rig.channel.start(inbox);
        await rig.say(rig.threadAddress, "go");
        await waitFor("the update", () => inbox.rows.size > 0);
        const before = rig.seen(rig.threadAddress).length;
        const size = Math.floor(rig.maxLength * 0.8);
        const markdown = ["A", "B", "C"].map((letter) => `part ${letter} ${"x".repeat(size)}`).join("\n\n");
        expect(rig.channel.render({ markdown }, rig.threadAddress)).toHaveLength(3);
        rig.fault(kind, 1);
        await deliver(rig.channel, { markdown }, rig.threadAddress, "reply:matrix");
        const texts = rig.seen(rig.threadAddress).slice(before);
        const letters = texts.map((text) => /part ([ABC])/.exec(text)?.[1]);
        if (rig.channel.reconcile === undefined && isAfter(kind)) {
          expect(letters).toEqual(["A", "B", "B", "C"]);
          expect(texts[2]).toContain("(may be repeated)");
          expect(texts.filter((text) => text.includes("(may be repeated)"))).toHaveLength(1);
        } else expect(letters).toEqual(["A", "B", "C"]);
      });
    }

    it("[SC5] decoding garbage gives null or an Inbound, and never throws", () => {
      fc.assert(
        fc.property(fc.anything({ withNullPrototype: true }), fc.object({ maxDepth: 4 }), (any, object) => {
          for (const raw of [any, object]) {
            const inbound = rig.channel.decode(raw);
            if (inbound !== null) expect(typeof inbound.address.chat).toBe("string");
          }
        }),
        { numRuns: 200 },
      );
    });

    it("[RN4] stop() ends promptly, also in the middle of a poll and before start, and start works again", async () => {
      await rig.channel.stop();
      await rig.channel.start(inbox);
      await rig.channel.stop();
      expect(rig.channel.health().state).toBe("off");
      await rig.channel.start(inbox);
      await rig.say(rig.address, "again");
      await waitFor("the update after a second start", () => decoded(rig.channel, inbox).some((one) => one.text === "again"));
    });
  });
}
