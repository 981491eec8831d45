// What every chat channel must keep, whatever the platform: recorded before confirmed, replays once, parts within the
// limits and in order, the fault matrix of DL4, garbage never throws, stop() leaves nothing open.
// A platform's test makes a rig around its fake server and calls channelContract(name, makeRig).
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Address, addressKey } from "../../src/core/address.ts";
import type { Channel, Inbound, InboxSink, OutMessage, Part } from "../../src/core/message.ts";

/** Before: surely or possibly not executed. After: executed, the answer lost. */
const FAULTS = ["flood", "server-error", "html", "drop", "hang", "server-error-after", "drop-after", "truncate-after"] as const;
export type ContractFault = (typeof FAULTS)[number];
const EXECUTED: readonly ContractFault[] = ["server-error-after", "drop-after", "truncate-after"];

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
  /** Faults this platform's fake can't make. */
  readonly without?: readonly ContractFault[];
  /** Longest text of one part. */
  readonly maxLength: number;
  close(): Promise<void>;
}

export interface MemoryInbox extends InboxSink {
  readonly rows: Map<string, unknown>;
  /** Every put refuses until set back, as a full disk does. */
  broken: boolean;
  refused: number;
}

export function createMemoryInbox(): MemoryInbox {
  const rows = new Map<string, unknown>();
  let stored: { value: string; at: number } | null = null;
  const inbox: MemoryInbox = {
    rows,
    broken: false,
    refused: 0,
    put(updates, cursor) {
      if (inbox.broken) {
        inbox.refused++;
        throw Object.assign(new Error("database or disk is full"), { code: "ERR_SQLITE_ERROR" });
      }
      // As in the database: what can't be JSON can't be stored, and a known id changes nothing.
      for (const { externalId, raw } of updates) if (!rows.has(externalId)) rows.set(externalId, JSON.parse(JSON.stringify(raw)));
      if (cursor !== undefined) stored = { value: cursor, at: Date.now() };
    },
    cursor: () => stored,
  };
  return inbox;
}

export async function waitFor<T>(check: () => T, what: string, deadlineMs = 15_000): Promise<NonNullable<T>> {
  const endAt = Date.now() + deadlineMs;
  for (;;) {
    const value = check();
    if (value !== undefined && value !== null && value !== false) return value as NonNullable<T>;
    if (Date.now() > endAt) throw new Error(`waited ${deadlineMs} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
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
      const found = await channel.reconcile?.({ address: to, key, since: 0 });
      if (found?.status === "found") break;
      repeated = found === undefined;
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
      await waitFor(() => inbox.rows.size >= 2, "both updates");
      const texts = decoded(rig.channel, inbox).map(({ text, address }) => [text, addressKey(address)]);
      expect(texts).toContainEqual(["hello there", addressKey(rig.address)]);
      expect(texts).toContainEqual(["hello in the thread", addressKey(rig.threadAddress)]);
      await waitFor(() => rig.unconfirmed() === 0, "the confirmation");
    });

    it("[RC3] confirms nothing while the disk refuses, and gets it again afterwards", async () => {
      inbox.broken = true;
      await rig.channel.start(inbox);
      await rig.say(rig.address, "must not be lost");
      await waitFor(() => inbox.refused > 0, "a refused write");
      expect(rig.unconfirmed()).toBeGreaterThan(0);
      inbox.broken = false;
      await rig.redeliver?.();
      await waitFor(() => decoded(rig.channel, inbox).some((one) => one.text === "must not be lost"), "the update again");
      await waitFor(() => rig.unconfirmed() === 0, "the confirmation");
    });

    it("[RC3] a replayed update is one row", async () => {
      await rig.channel.start(inbox);
      await rig.say(rig.address, "once");
      await waitFor(() => rig.unconfirmed() === 0 && inbox.rows.size > 0, "the update");
      await rig.replay();
      await rig.say(rig.address, "twice");
      await waitFor(() => decoded(rig.channel, inbox).some((one) => one.text === "twice"), "the update after the replay");
      expect(decoded(rig.channel, inbox).map((one) => one.text)).toEqual(["once", "twice"]);
    });

    it("[DL2] renders parts within the limit, never none, and they arrive in order at the thread only", async () => {
      await rig.channel.start(inbox);
      await rig.say(rig.threadAddress, "go");
      await waitFor(() => inbox.rows.size > 0, "the update");
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
      it(`[DL4] ${kind} on part 2 of 3: nothing lost, a repetition only where the answer was lost, and marked`, async (context) => {
        if (rig.without?.includes(kind)) return context.skip("the fake can't make this fault");
        await rig.channel.start(inbox);
        await rig.say(rig.threadAddress, "go");
        await waitFor(() => inbox.rows.size > 0, "the update");
        const before = rig.seen(rig.threadAddress).length;
        const size = Math.floor(rig.maxLength * 0.8);
        const markdown = ["A", "B", "C"].map((letter) => `part ${letter} ${"x".repeat(size)}`).join("\n\n");
        expect(rig.channel.render({ markdown }, rig.threadAddress)).toHaveLength(3);
        rig.fault(kind, 1);
        await deliver(rig.channel, { markdown }, rig.threadAddress, "reply:matrix");
        const texts = rig.seen(rig.threadAddress).slice(before);
        const letters = texts.map((text) => /part ([ABC])/.exec(text)?.[1]);
        if (rig.channel.reconcile === undefined && EXECUTED.includes(kind)) {
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
      await waitFor(() => decoded(rig.channel, inbox).some((one) => one.text === "again"), "the update after a second start");
    });
  });
}
