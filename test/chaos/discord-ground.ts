// Discord in a chaos run: channels of a server and threads in them, a direct chat, presses, replies, a gateway that hangs up, and calls
// that fail.
import { createFakeDiscord, DIRECT, PERSON } from "../support/fake-discord.ts";
import type { Random } from "../support/random.ts";
import type { Ground } from "./ground.ts";
import { placeOf } from "./history.ts";
import { type Spot, spotPlace } from "./spots.ts";

const STRANGER = "6660000000000000666";
/** Where the times in its ids begin. */
const EPOCH_MS = 1_420_070_400_000;
const FIRST_ROOM = 5_100_000_000_000_000_000n;
const roomOf = (n: number): string => String(FIRST_ROOM + BigInt(n));
const FAULTS = ["drop", "drop_after", "500", "500_after", "truncate_after", "429", "slow", "html"] as const;

export async function createDiscordGround(channel: string, rooms: number): Promise<Ground> {
  const fake = await createFakeDiscord({ ackMs: 600 });
  const names = Array.from({ length: rooms }, (_, n) => roomOf(n));
  for (const id of names) fake.channels.add({ id, type: 0 });
  const placeIn = (parent: string | null, id: string) => (parent === null ? placeOf(channel, id, null) : placeOf(channel, parent, id));
  /** Where it is said and seen: a thread is a channel of its own. */
  const idOf = ({ chat, thread }: Spot): string => thread ?? chat;
  let unrest: Random | null = null;
  let places = 0;
  return {
    channel,
    settings: {
      botToken: fake.botToken,
      apiUrl: fake.apiUrl,
      allowFrom: [PERSON],
      channels: Object.fromEntries(names.map((name) => [name, { requireMention: false }])),
    },
    newPlace() {
      const n = places++;
      const chat = roomOf(n % rooms);
      return { channel, chat, thread: n % 2 === 0 ? fake.channels.thread(chat) : null, opensThread: false, hasOthers: true };
    },
    direct: { channel, chat: DIRECT, thread: null, opensThread: false, hasOthers: false },
    async say(spot, text, replyTo) {
      const ref = fake.say({ channel: idOf(spot), text, ...(replyTo === undefined ? {} : { replyTo }) });
      return { externalId: `msg:${idOf(spot)}:${ref}`, ref, place: spotPlace(spot), isTaken: true };
    },
    hasReplies: () => true,
    shown: (spot) =>
      fake.messages(idOf(spot)).map(({ id, content, buttons }) => ({
        ...{ id, text: content },
        buttons: buttons.map(({ label, customId }) => ({ label, data: customId })),
      })),
    async press(spot, message, { data }, isStranger) {
      const pressed = fake.press({ channel: idOf(spot), message, customId: data, ...(isStranger ? { user: STRANGER } : {}) });
      const externalId = `interaction:${fake.lastInteraction()}`;
      const isTaken = await pressed;
      return { externalId, ref: "", place: spotPlace(spot), isTaken: isTaken && !isStranger, isPressed: true };
    },
    seen: () =>
      fake.allMessages().map((message) => ({
        place: placeIn(fake.parentOf(message.channel), message.channel),
        order: Number(BigInt(message.id) >> 12n),
        at: Number(BigInt(message.id) >> 22n) + EPOCH_MS,
        text: message.content,
        ref: message.id,
        key: null,
        mark: message.nonce ?? "",
        replyTo: message.replyTo,
      })),
    // Hangs up on whoever listens (at a restart nobody does), and may have forgotten them when they are back.
    look() {
      if (unrest?.chance(0.004) !== true) return;
      if (unrest.chance(0.3)) fake.gateway.forget();
      fake.gateway.drop();
    },
    trouble(random) {
      unrest = random;
      if (random === null) fake.faults.clear();
    },
    stir(random) {
      for (const calls of [fake.calls, fake.typing]) calls.length = 0;
      fake.faults.clear();
      if (random.chance(0.3)) fake.faults.add("createMessage", random.pick(FAULTS), { skip: random.between(0, 4) });
      if (random.chance(0.1)) fake.faults.add("editMessage", random.pick(["drop", "drop_after", "500", "429", "html"] as const));
      if (random.chance(0.05)) fake.gateway.forget();
    },
    close: () => fake.close(),
  };
}
