// Slack in a chaos run: threads of rooms over Socket Mode, a private chat, presses, slash commands, and calls that fail.
import { randomUUID } from "node:crypto";
import { createFakeSlack, type FakeSlackOptions } from "../support/fake-slack.ts";
import type { Random } from "../support/random.ts";
import type { Ground } from "./ground.ts";
import { placeOf } from "./history.ts";
import { spotPlace } from "./spots.ts";

const ROOM = "C0ROOM";
const DIRECT = "D0PERSON";
/** Short: what was not acknowledged is delivered again. */
const ACK_MS = 300;

export async function createSlackGround(channel: string, rooms: number, options: FakeSlackOptions = {}): Promise<Ground> {
  const fake = await createFakeSlack({ ackTimeoutMs: ACK_MS, ...options });
  const names = Array.from({ length: rooms }, (_, n) => `${ROOM}${n}`);
  for (const name of names) fake.channels.add(name);
  return {
    channel,
    settings: {
      botToken: fake.botToken,
      appToken: fake.appToken,
      apiUrl: fake.apiUrl,
      allowFrom: ["U0PERSON"],
      channels: Object.fromEntries(names.map((name) => [name, { requireMention: false }])),
    },
    newPlace: (n) => ({ channel, chat: `${ROOM}${n % rooms}`, thread: null, opensThread: true, hasOthers: true }),
    direct: { channel, chat: DIRECT, thread: null, opensThread: false, hasOthers: false },
    async say(spot, text, replyTo) {
      const thread = replyTo ?? spot.thread;
      const ts = fake.say({ channel: spot.chat, text, ...(thread === null ? {} : { thread }) });
      if (spot.opensThread) spot.thread ??= ts;
      return { externalId: `msg:${spot.chat}:${ts}`, ref: ts, place: placeOf(channel, spot.chat, replyTo ?? spot.thread), isTaken: true };
    },
    // In a room the thread is the conversation; only in a chat of two one can answer below a message.
    hasReplies: (spot) => !spot.opensThread,
    shown: (spot) =>
      fake
        .messages(spot.chat, spot.thread)
        .map(({ ts, text, buttons }) => ({ id: ts, text, buttons: buttons.map(({ label }) => ({ label, data: label })) })),
    press(spot, message, { label }, isStranger) {
      const shown = fake.messages(spot.chat, spot.thread).find(({ ts }) => ts === message);
      if (shown?.buttons.some((button) => button.label === label) !== true) return null;
      const trigger = `1.3.${randomUUID()}`;
      const user = isStranger ? { user: "U0STRANGER" } : {};
      return fake
        .press({ channel: spot.chat, message, label, ...user, extra: { trigger_id: trigger } })
        .then((isTaken) => ({ place: spotPlace(spot), ref: "", externalId: trigger, isTaken: isTaken && !isStranger, isPressed: true }));
    },
    async slash(spot, line) {
      const trigger = `1.4.${randomUUID()}`;
      const [command = "", ...rest] = line.split(" ");
      const isTaken = await fake.slash({ channel: spot.chat, command, text: rest.join(" "), extra: { trigger_id: trigger } });
      return { externalId: trigger, ref: "", place: spotPlace(spot), isTaken };
    },
    seen: () =>
      fake.allMessages().map((message) => ({
        place: placeOf(channel, message.channel, message.thread),
        // Its names of messages are times.
        order: Number(message.ts),
        at: Math.floor(Number(message.ts) * 1000),
        text: message.text,
        ref: message.ts,
        key: String(message.metadata?.event_payload.key ?? ""),
        replyTo: null,
      })),
    trouble: (random) => void (random === null && fake.faults.clear()),
    stir(random) {
      for (const calls of [fake.calls, fake.statuses, fake.acks]) calls.length = 0;
      stir(fake, random);
    },
    close: () => fake.close(),
  };
}

function stir({ faults, sockets }: Awaited<ReturnType<typeof createFakeSlack>>, random: Random): void {
  // One at a time: faults that pile up while nobody writes would hold a place back for minutes.
  faults.clear();
  if (random.chance(0.3)) {
    const fault = random.pick([
      ...(["drop", "drop_after", "500", "500_after", "truncate_after", "cut_json_after", "429", "slow", "html"] as const),
    ]);
    faults.add("chat.postMessage", fault, { skip: random.between(0, 4) });
  }
  if (random.chance(0.1)) faults.add("chat.update", random.pick(["drop", "drop_after", "500", "429", "html"] as const));
  if (random.chance(0.05)) faults.add("conversations.replies", random.pick(["drop", "500", "html"] as const));
  if (random.chance(0.05)) sockets.drop(1);
  if (random.chance(0.05)) sockets.refresh();
}
