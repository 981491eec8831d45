// Matrix in a chaos run: rooms and threads in them, a chat of two, presses as reactions, replies, and calls that fail.
import { commandAt, numberOf, signOf } from "../../src/channels/matrix/buttons.ts";
import { createFakeMatrix, PERSON } from "../support/fake-matrix.ts";
import type { Ground, ShownButton } from "./ground.ts";
import { placeOf } from "./history.ts";
import { spotPlace } from "./spots.ts";

const OTHER = "@bob:home.test";
const DIRECT = "!Direct:home.test";
const roomOf = (n: number): string => `!Room${n}:home.test`;
const FAULTS = ["drop", "drop_after", "500", "500_after", "truncate_after", "429", "slow", "html"] as const;

export async function createMatrixGround(channel: string, rooms: number): Promise<Ground> {
  const fake = await createFakeMatrix();
  const names = Array.from({ length: rooms }, (_, n) => roomOf(n));
  fake.room(DIRECT, [PERSON]);
  const known = new Set<string>();
  return {
    channel,
    settings: {
      homeserver: fake.homeserver,
      accessToken: fake.token,
      allowFrom: [PERSON],
      rooms: Object.fromEntries(names.map((name) => [name, { requireMention: false }])),
    },
    isKnown: fake.isConnected,
    newPlace(n) {
      const chat = roomOf(n % rooms);
      if (!known.has(chat)) fake.room(chat, [PERSON, OTHER]);
      known.add(chat);
      // Half of them are threads, below something that was none of the bot's business.
      const thread = n % 2 === 0 ? fake.say({ room: chat, from: OTHER, text: "a thread" }) : null;
      return { channel, chat, thread, opensThread: false, hasOthers: true };
    },
    direct: { channel, chat: DIRECT, thread: null, opensThread: false, hasOthers: false },
    async say(spot, text, replyTo) {
      const thread = spot.thread === null ? {} : { thread: spot.thread };
      const ref = fake.say({ room: spot.chat, text, ...thread, ...(replyTo === undefined ? {} : { replyTo }) });
      return { externalId: `event ${spot.chat} ${ref}`, ref, place: spotPlace(spot), isTaken: true };
    },
    hasReplies: () => true,
    shown: (spot) =>
      fake.messages(spot.chat, spot.thread).map(({ id, text, buttons }) => ({ id, text, buttons: buttonsOf(text, buttons) })),
    async press(spot, message, { data }, isStranger) {
      const sender = isStranger ? OTHER : PERSON;
      fake.react(spot.chat, message, signOf(Number(data)), sender);
      // The same press twice is one; below what is over they all are. Which it was is decided by whoever reads it (receive.ts).
      const idOf = (which: string): string => `press ${spot.chat} ${message} ${which} ${sender}`;
      const ids = { externalId: idOf(data), lateId: idOf("over") };
      return { ...ids, ref: "", place: spotPlace(spot), isTaken: false, isPressed: true };
    },
    seen: () =>
      fake.allMessages().map((message) => ({
        place: placeOf(channel, message.room, message.thread),
        order: message.pos,
        at: message.at,
        text: message.text,
        ref: message.id,
        key: null,
        mark: message.mark,
        replyTo: message.replyTo,
      })),
    trouble: (random) => void (random === null && fake.faults.clear()),
    stir(random) {
      for (const calls of [fake.calls, fake.typing, fake.read]) calls.length = 0;
      fake.faults.clear();
      if (random.chance(0.3)) fake.faults.add("send", random.pick(FAULTS), { skip: random.between(0, 4) });
      if (random.chance(0.1)) fake.faults.add("sync", random.pick(["drop", "drop_after", "500", "truncate_after", "html"] as const));
    },
    close: () => fake.close(),
  };
}

/** What stands there with a number, as far as it is still offered. */
function buttonsOf(
  text: string,
  numbered: readonly { readonly n: number; readonly command: string; readonly isOver?: boolean }[],
): ShownButton[] {
  return text.split("\n").flatMap((line) => {
    const [sign = "", ...label] = line.split(" ");
    const n = numberOf(sign);
    const isOffered = n !== null && commandAt(numbered, n)?.isOver !== true && sign === signOf(n);
    return isOffered && n !== null ? [{ label: label.join(" "), data: String(n) }] : [];
  });
}
