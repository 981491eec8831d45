// The places people talk in during a chaos run, whoever serves them: platforms (ground.ts), the page's clients, and the scripted model.
// They outlive every kill, so what they saw is the truth.
import { randomUUID } from "node:crypto";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import type { Random } from "../support/random.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { createDiscordGround } from "./discord-ground.ts";
import type { Ground } from "./ground.ts";
import { createHands, type Hands } from "./hands.ts";
import type { Seen } from "./history.ts";
import { createMatrixGround } from "./matrix-ground.ts";
import { createDoor, createScript, type Door } from "./script.ts";
import { plantSecrets, type Secrets } from "./secrets.ts";
import { createSlackGround } from "./slack-ground.ts";
import { type Delivered, type Front, type Spot, sayOnPage, WEB } from "./spots.ts";
import { createTabs, type Tabs } from "./tabs.ts";
import { createTelegramGround } from "./telegram-ground.ts";

export interface Scene {
  readonly door: Door;
  readonly secrets: Secrets;
  readonly tabs: Tabs;
  readonly lanes: { readonly main: number; readonly subagent: number };
  /** The names of all channels, the page's among them. */
  readonly channels: readonly string[];
  /** A place nobody has spoken in. A Slack thread begins with the first message said there. */
  newPlace(channel: string): Spot;
  /** Private chats: one on each platform. */
  readonly direct: readonly Spot[];
  /** Says it there; resolves when the platform (or the page) has taken it. */
  say(spot: Spot, text: string): Promise<Delivered>;
  readonly hands: Hands;
  /** Takes down when people saw what; called often. */
  watch(): void;
  /** What they saw on the platforms; what the page shows stands in its table. */
  seenOnPlatforms(): Seen[];
  /** The bot was on every platform once. */
  isKnown(): boolean;
  /** Makes trouble on the platforms: now and then a call fails, or works and loses its answer. */
  trouble(random: Random | null): void;
  /** A little more trouble, at a restart. */
  stir(random: Random): void;
  /** Who serves it is gone by now. */
  close(): Promise<void>;
}

/** How many groups and rooms there are on each: a platform takes so much a minute in one, and settings hold only so many values. */
const GROUPS = { usual: 2_000, all: 600 };
/** After a lost session they are read one after the other: with hundreds no life would be long enough to be heard in. */
const DISCORD_ROOMS = 100;
const LANES = { main: 4, subagent: 6 };
const DOOR_PATIENCE_MS = 15_000;
const KEPT_CALLS = 200;

/** Those people use most; or all there are, with two accounts of Telegram and Slack. */
export type Platforms = "usual" | "all";

async function createGrounds(platforms: Platforms): Promise<Ground[]> {
  const count = GROUPS[platforms];
  const usual = [createTelegramGround("telegram", count), createSlackGround("slack", count)];
  if (platforms === "usual") return Promise.all(usual);
  return Promise.all([
    ...usual,
    createTelegramGround("telegram@second", count, "7000002:another-token-for-tests-0123456789"),
    createSlackGround("slack@second", count, { team: "SECOND" }),
    createMatrixGround("matrix", count),
    createDiscordGround("discord", DISCORD_ROOMS),
  ]);
}

/** `serve`: given the settings and the secrets, who will serve these places. */
export async function createScene<T extends Front>(
  { seed, platforms = "usual" }: { readonly seed: number; readonly platforms?: Platforms },
  serve: (config: Record<string, unknown>, secrets: Secrets) => T | Promise<T>,
): Promise<Scene & { readonly front: T }> {
  const secrets = plantSecrets(seed);
  const door = createDoor(LANES, DOOR_PATIENCE_MS);
  const [model, all] = await Promise.all([
    createFakeOpenAi({ respond: createScript({ door, slip: secrets.pick }) }),
    createGrounds(platforms),
  ]);
  const grounds = new Map(all.map((ground) => [ground.channel, ground]));
  const front = await serve(configFor(all, model.url, secrets), secrets);
  const tabs = createTabs(front);
  let places = 0;
  return {
    ...{ front, door, secrets, tabs, lanes: LANES, channels: [...grounds.keys(), WEB] },
    newPlace(channel) {
      const n = places++;
      const ground = grounds.get(channel);
      if (ground !== undefined) return ground.newPlace(n);
      const chat = randomUUID();
      tabs.open(chat);
      return { channel, chat, thread: null, opensThread: false, hasOthers: false };
    },
    direct: all.map((ground) => ground.direct),
    say: (spot, text) => grounds.get(spot.channel)?.say(spot, text) ?? sayOnPage(front, spot, text),
    hands: createHands(grounds, front),
    watch() {
      for (const ground of all) ground.look?.();
    },
    seenOnPlatforms: () => all.flatMap((ground) => ground.seen()),
    isKnown: () => all.every((ground) => ground.isKnown?.() !== false),
    trouble(random) {
      for (const ground of all) ground.trouble(random);
    },
    stir(random) {
      // Nobody reads the record of calls here, and it would only fill the memory.
      model.calls.splice(0, Math.max(0, model.calls.length - KEPT_CALLS));
      for (const ground of all) ground.stir(random);
    },
    async close() {
      await tabs.close();
      await Promise.all([model.close(), ...all.map((ground) => ground.close())]);
    },
  };
}

function configFor(grounds: readonly Ground[], modelUrl: string, secrets: Secrets): Record<string, unknown> {
  const subagents = {
    maxConcurrent: LANES.subagent,
    maxSpawnDepth: 2,
    maxChildrenPerSession: 100,
    archiveAfterMinutes: 1,
    announceTimeoutSeconds: 10,
  };
  const config = scriptedConfig(modelUrl, { maxConcurrent: LANES.main, subagents }, { channels: channelsOf(grounds) });
  const { providers } = config.models as { providers: object };
  return {
    ...config,
    models: { providers: { ...providers, ...secrets.providers }, probeLocal: false },
    web: { port: 0 },
    tools: { approve: ["write"] },
    logging: { level: "warn" },
  };
}

/** A platform's first account is its block, further ones stand in it by their names. */
function channelsOf(grounds: readonly Ground[]): Record<string, Record<string, unknown>> {
  const channels: Record<string, Record<string, unknown>> = {};
  for (const { channel, settings } of grounds) {
    const [platform = "", account] = channel.split("@");
    const known = channels[platform] ?? {};
    channels[platform] =
      account === undefined ? { ...known, ...settings } : { ...known, accounts: { ...(known.accounts as object), [account]: settings } };
  }
  return channels;
}
