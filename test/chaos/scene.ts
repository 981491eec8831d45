// The places people talk in during a chaos run, whoever serves them: fake Telegram with topics, fake Slack with threads over Socket
// Mode, the page's clients, and the scripted model. They outlive every kill, so what they saw is the truth.
import { randomUUID } from "node:crypto";
import type { FakeModelServer } from "../support/fake-model-server.ts";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import { createFakeSlack, type FakeSlack } from "../support/fake-slack.ts";
import { createFakeTelegram, type FakeTelegram } from "../support/fake-telegram.ts";
import type { Random } from "../support/random.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { delay, type GatewayProcess } from "./gateway-process.ts";
import { type Place, placeOf, type Seen } from "./history.ts";
import { createDoor, createScript, type Door } from "./script.ts";
import { plantSecrets, type Secrets } from "./secrets.ts";
import { createTabs, type Tabs } from "./tabs.ts";

export interface Scene {
  readonly door: Door;
  readonly secrets: Secrets;
  readonly tabs: Tabs;
  readonly lanes: { readonly main: number; readonly subagent: number };
  /** A place nobody has spoken in. A Slack thread begins with the first message said there. */
  newPlace(channel: "telegram" | "slack" | "web"): Spot;
  /** Private chats: one each on Telegram and Slack. */
  readonly direct: readonly Spot[];
  /** Says it there; resolves when the platform (or the page) has taken it. */
  say(spot: Spot, text: string): Promise<Delivered>;
  /** Presses Stop below the line that says this child was sent out. Null: there is no such line to be seen there (any more). */
  press(spot: Spot, label: string): Promise<Delivered> | null;
  /** A slash command of Slack, where there is no thread. */
  slash(spot: Spot, line: string): Promise<Delivered>;
  /** Takes down when people saw what; called often. */
  watch(): void;
  /** What they saw on Telegram and Slack; what the page shows stands in its table. */
  seenOnPlatforms(): Seen[];
  /** Makes trouble on the platforms: now and then a call fails, or works and loses its answer. */
  trouble(random: Random | null): void;
  /** A little more trouble, at a restart. */
  stir(random: Random): void;
  /** Who serves it is gone by now. */
  close(): Promise<void>;
}

/** Where the page is. */
export type Front = Pick<GatewayProcess, "request">;

export interface Spot {
  readonly channel: "telegram" | "slack" | "web";
  readonly chat: string;
  /** A Slack thread is known once its root was said. */
  thread: string | null;
  /** A Slack channel, where the first message makes the thread. */
  readonly opensThread: boolean;
}

const spotPlace = (spot: Spot): Place => placeOf(spot.channel, spot.chat, spot.thread);

export interface Delivered {
  readonly externalId: string;
  readonly ref: string;
  readonly place: Place;
  readonly isTaken: boolean;
}

const PERSON = 42;
const GROUP = -1001;
const ROOM = "C0ROOM";
/** How many groups and rooms there are. */
const GROUPS = 2_000;
const LANES = { main: 4, subagent: 6 };
const DOOR_PATIENCE_MS = 15_000;
const POST_RETRY_MS = 20;

interface Fakes {
  readonly telegram: FakeTelegram;
  readonly slack: FakeSlack;
  readonly model: FakeModelServer;
}

/** `serve`: given the settings and the secrets, who will serve these places. */
export async function createScene<T extends Front>(
  seed: number,
  serve: (config: Record<string, unknown>, secrets: Secrets) => T | Promise<T>,
): Promise<Scene & { readonly front: T }> {
  const secrets = plantSecrets(seed);
  const door = createDoor(LANES, DOOR_PATIENCE_MS);
  const [model, telegram, slack] = await Promise.all([
    createFakeOpenAi({ respond: createScript({ door, slip: secrets.pick }) }),
    createFakeTelegram(),
    createFakeSlack({ ackTimeoutMs: 300 }),
  ]);
  const fakes: Fakes = { telegram, slack, model };
  for (let n = 0; n < GROUPS; n++) slack.channels.add(`${ROOM}${n}`);
  const front = await serve(configFor(fakes, secrets), secrets);
  const tabs = createTabs(front);
  let places = 0;
  const watching = createWatch(fakes);
  return {
    ...{ front, door, secrets, tabs, lanes: LANES },
    newPlace(channel) {
      // Telegram takes twenty messages a minute in a group: each place is a topic of another one.
      const n = places++ % GROUPS;
      if (channel === "telegram") return { channel, chat: String(GROUP - n), thread: String(100 + places), opensThread: false };
      if (channel === "slack") return { channel, chat: `${ROOM}${n}`, thread: null, opensThread: true };
      const chat = randomUUID();
      tabs.open(chat);
      return { channel, chat, thread: null, opensThread: false };
    },
    direct: [
      { channel: "telegram", chat: String(PERSON), thread: null, opensThread: false },
      { channel: "slack", chat: "D0PERSON", thread: null, opensThread: false },
    ],
    say: (spot, text) => say(fakes, front, spot, text),
    press: (spot, label) => press(fakes, spot, label),
    slash: (spot, line) => slash(fakes, spot, line),
    watch: watching.look,
    seenOnPlatforms: watching.seen,
    trouble: (random) => trouble(fakes, random),
    stir: (random) => stir(fakes, random),
    async close() {
      await tabs.close();
      await Promise.all([model.close(), telegram.close(), slack.close()]);
    },
  };
}

function configFor({ telegram, slack, model }: Fakes, secrets: Secrets): Record<string, unknown> {
  const subagents = {
    maxConcurrent: LANES.subagent,
    maxSpawnDepth: 2,
    maxChildrenPerSession: 100,
    archiveAfterMinutes: 1,
    announceTimeoutSeconds: 10,
  };
  const channels = {
    telegram: {
      botToken: telegram.token,
      apiRoot: telegram.apiRoot,
      allowFrom: [String(PERSON)],
      groups: Object.fromEntries(Array.from({ length: GROUPS }, (_, n) => [GROUP - n, { requireMention: false }])),
    },
    slack: {
      botToken: slack.botToken,
      appToken: slack.appToken,
      apiUrl: slack.apiUrl,
      allowFrom: ["U0PERSON"],
      channels: Object.fromEntries(Array.from({ length: GROUPS }, (_, n) => [`${ROOM}${n}`, { requireMention: false }])),
    },
  };
  const config = scriptedConfig(model.url, { maxConcurrent: LANES.main, subagents }, { channels });
  const { providers } = config.models as { providers: object };
  return {
    ...config,
    models: { providers: { ...providers, ...secrets.providers }, probeLocal: false },
    web: { port: 0 },
    logging: { level: "warn" },
  };
}

async function say(fakes: Fakes, gateway: Front, spot: Spot, text: string): Promise<Delivered> {
  if (spot.channel === "telegram") {
    const ref = fakes.telegram.say({
      chat: Number(spot.chat),
      from: PERSON,
      text,
      ...(spot.thread === null ? {} : { thread: Number(spot.thread) }),
    });
    const update = fakes.telegram.pending().at(-1);
    return { externalId: String(update?.update_id), ref: String(ref), place: spotPlace(spot), isTaken: true };
  }
  if (spot.channel === "slack") {
    const ts = fakes.slack.say({ channel: spot.chat, text, ...(spot.thread === null ? {} : { thread: spot.thread }) });
    if (spot.opensThread) spot.thread ??= ts;
    return { externalId: `msg:${spot.chat}:${ts}`, ref: ts, place: spotPlace(spot), isTaken: true };
  }
  const id = randomUUID();
  await postUntilTaken(gateway, `/api/chats/${spot.chat}/messages`, { id, text, kind: "message" });
  return { externalId: id, ref: id, place: spotPlace(spot), isTaken: true };
}

const startLine = (label: string): string => `Sub-agent started: ${label} (`;

function press(fakes: Fakes, spot: Spot, label: string): Promise<Delivered> | null {
  const where = { place: spotPlace(spot), ref: "" };
  if (spot.channel === "telegram") {
    const line = fakes.telegram.messages(Number(spot.chat)).find((one) => one.text.includes(startLine(label)) && one.buttons.length > 0);
    if (line === undefined) return null;
    fakes.telegram.press({ chat: Number(spot.chat), message: line.id, label: "Stop", from: PERSON });
    const update = fakes.telegram.pending().at(-1);
    return Promise.resolve({ ...where, externalId: String(update?.update_id), isTaken: true });
  }
  const line = fakes.slack.messages(spot.chat, spot.thread).find((one) => one.text.includes(startLine(label)) && one.buttons.length > 0);
  if (line === undefined) return null;
  const trigger = `1.3.${randomUUID()}`;
  const taken = fakes.slack.press({ channel: spot.chat, message: line.ts, label: "Stop", extra: { trigger_id: trigger } });
  return taken.then((isTaken) => ({ ...where, externalId: trigger, isTaken }));
}

async function slash({ slack }: Fakes, spot: Spot, line: string): Promise<Delivered> {
  const trigger = `1.4.${randomUUID()}`;
  const [command = "", ...rest] = line.split(" ");
  const isTaken = await slack.slash({ channel: spot.chat, command, text: rest.join(" "), extra: { trigger_id: trigger } });
  return { externalId: trigger, ref: "", place: spotPlace(spot), isTaken };
}

/** A tab repeats its post under the same id until somebody takes it. */
async function postUntilTaken(gateway: Front, path: string, body: unknown): Promise<void> {
  const deadline = performance.now() + 120_000;
  for (;;) {
    try {
      const response = await gateway.request(path, { method: "POST", body: JSON.stringify(body) });
      await response.arrayBuffer();
      const { status } = response;
      if (status < 300) return;
      if (status !== 429 && status < 500) throw new RangeError(`the page refused a post: ${status}`);
    } catch (error) {
      if (error instanceof RangeError) throw error;
      // Nobody there right now: killed or not up yet.
    }
    if (performance.now() > deadline) throw new RangeError("the page took no post for two minutes");
    await delay(POST_RETRY_MS);
  }
}

/** The fakes don't keep the time; looking often tells it well enough. Slack's message names are times. */
function createWatch({ telegram, slack }: Fakes) {
  const times = new Map<number, number>();
  return {
    look() {
      const now = Date.now();
      for (const { id } of telegram.allMessages()) if (!times.has(id)) times.set(id, now);
    },
    seen(): Seen[] {
      const onTelegram = telegram.allMessages().map(
        (message): Seen => ({
          place: placeOf("telegram", message.chat, message.thread),
          order: message.id,
          at: times.get(message.id) ?? Date.now(),
          text: message.text,
          ref: String(message.id),
          key: null,
          replyTo: message.replyTo === null ? null : String(message.replyTo),
        }),
      );
      const onSlack = slack.allMessages().map(
        (message): Seen => ({
          place: placeOf("slack", message.channel, message.thread),
          order: Number(message.ts),
          at: Math.floor(Number(message.ts) * 1000),
          text: message.text,
          ref: message.ts,
          key: String(message.metadata?.event_payload.key ?? ""),
          replyTo: null,
        }),
      );
      return [...onTelegram, ...onSlack];
    },
  };
}

function trouble({ telegram, slack }: Fakes, random: Random | null): void {
  if (random === null) {
    telegram.faults.choose(null);
    telegram.faults.clear();
    return slack.faults.clear();
  }
  telegram.faults.choose((method) => {
    if (method === "sendMessage" && random.chance(0.06))
      return random.pick(["drop", "drop_after", "500", "500_after", "truncate_after", "429", "slow", "html"] as const);
    return method === "getUpdates" && random.chance(0.01) ? random.pick(["drop", "drop_after", "500", "409"] as const) : null;
  });
}

function stir({ telegram, slack, model }: Fakes, random: Random): void {
  // Nobody reads the record of calls here, and it would only fill the memory.
  for (const calls of [telegram.calls, slack.calls, telegram.actions, slack.statuses, slack.acks]) calls.length = 0;
  model.calls.splice(0, Math.max(0, model.calls.length - 200));
  // One at a time: faults that pile up while nobody writes would hold a place back for minutes.
  slack.faults.clear();
  if (random.chance(0.3)) {
    const fault = random.pick([
      "drop",
      "drop_after",
      "500",
      "500_after",
      "truncate_after",
      "cut_json_after",
      "429",
      "slow",
      "html",
    ] as const);
    slack.faults.add("chat.postMessage", fault, { skip: random.between(0, 4) });
  }
  if (random.chance(0.05)) slack.faults.add("conversations.replies", random.pick(["drop", "500", "html"] as const));
  if (random.chance(0.05)) slack.sockets.drop(1);
  if (random.chance(0.05)) slack.sockets.refresh();
}
