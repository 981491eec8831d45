// Telegram in a chaos run: topics of groups, a private chat, presses, replies, and calls that fail.
import { createFakeTelegram } from "../support/fake-telegram.ts";
import type { Random } from "../support/random.ts";
import type { Ground } from "./ground.ts";
import { placeOf, type Seen } from "./history.ts";
import { type Delivered, PERSON, type Spot, STRANGER, spotPlace } from "./spots.ts";

const FIRST_GROUP = -1001;

/** `groups`: how many there are; Telegram takes twenty messages a minute in each. */
export async function createTelegramGround(channel: string, groups: number, token?: string): Promise<Ground> {
  const fake = await createFakeTelegram(token === undefined ? {} : { token });
  const { look, seen } = createWatch(fake, channel);
  const taken = (spot: Spot, ref: string, isPressed: boolean, isTaken = true): Delivered => ({
    ...{ externalId: String(fake.pending().at(-1)?.update_id), ref, place: spotPlace(spot), isTaken },
    ...(isPressed ? { isPressed } : {}),
  });
  return {
    channel,
    settings: {
      botToken: fake.token,
      apiRoot: fake.apiRoot,
      allowFrom: [String(PERSON)],
      groups: Object.fromEntries(Array.from({ length: groups }, (_, n) => [FIRST_GROUP - n, { requireMention: false }])),
    },
    newPlace: (n) => ({ channel, chat: String(FIRST_GROUP - (n % groups)), thread: String(101 + n), opensThread: false, hasOthers: true }),
    direct: { channel, chat: String(PERSON), thread: null, opensThread: false, hasOthers: false },
    async say(spot, text, replyTo) {
      const ref = fake.say({
        ...{ chat: Number(spot.chat), from: PERSON, text },
        ...(spot.thread === null ? {} : { thread: Number(spot.thread) }),
        ...(replyTo === undefined ? {} : { replyTo: Number(replyTo) }),
      });
      return taken(spot, String(ref), false);
    },
    hasReplies: () => true,
    shown: (spot) =>
      fake.messages(Number(spot.chat)).map(({ id, text, buttons }) => ({
        ...{ id: String(id), text },
        buttons: buttons.map((one) => ({ label: one.text, data: one.data ?? "" })),
      })),
    async press(spot, message, { data }, isStranger) {
      fake.press({ chat: Number(spot.chat), message: Number(message), data, from: isStranger ? STRANGER : PERSON });
      return taken(spot, "", true, !isStranger);
    },
    look,
    seen,
    trouble(random) {
      if (random === null) {
        fake.faults.choose(null);
        return fake.faults.clear();
      }
      fake.faults.choose((method) => faultFor(method, random));
    },
    stir() {
      // Nobody reads the record of calls here, and it would only fill the memory.
      for (const calls of [fake.calls, fake.actions]) calls.length = 0;
    },
    close: () => fake.close(),
  };
}

function faultFor(method: string, random: Random) {
  if (method === "sendMessage" && random.chance(0.06))
    return random.pick(["drop", "drop_after", "500", "500_after", "truncate_after", "429", "slow", "html"] as const);
  if (method === "editMessageText" && random.chance(0.05)) return random.pick(["drop", "drop_after", "500", "429", "html"] as const);
  return method === "getUpdates" && random.chance(0.01) ? random.pick(["drop", "drop_after", "500", "409"] as const) : null;
}

/** The fake doesn't keep the time; looking often tells it well enough. */
function createWatch(fake: Awaited<ReturnType<typeof createFakeTelegram>>, channel: string) {
  const times = new Map<number, number>();
  const first = new Map<number, string>();
  return {
    look() {
      const now = Date.now();
      for (const { id, text } of fake.allMessages()) {
        if (times.has(id)) continue;
        times.set(id, now);
        first.set(id, text);
      }
    },
    seen: (): Seen[] =>
      fake.allMessages().map((message) => ({
        place: placeOf(channel, message.chat, message.thread),
        order: message.id,
        at: times.get(message.id) ?? Date.now(),
        text: message.text,
        firstText: first.get(message.id) ?? message.text,
        ref: String(message.id),
        key: null,
        replyTo: message.replyTo === null ? null : String(message.replyTo),
      })),
  };
}
