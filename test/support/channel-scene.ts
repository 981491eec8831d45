// A gateway as a real process with a fake Telegram, Slack and Discord, a fake homeserver and a scripted model around it. The fakes outlive
// the process, so a test can kill it at any moment and look at what people saw.
import { brain, whoAsks } from "./brain.ts";
import { createFakeDiscord, type FakeDiscord } from "./fake-discord.ts";
import { createFakeMatrix, type FakeMatrix } from "./fake-matrix.ts";
import type { FakeModelServer, FakeRequest, Respond } from "./fake-model-server.ts";
import { createFakeOpenAi } from "./fake-openai.ts";
import { createFakeSlack, type FakeSlack } from "./fake-slack.ts";
import { createFakeTelegram, type FakeTelegram } from "./fake-telegram.ts";
import type { FloodLimits } from "./flood-limits.ts";
import type { Harness, HarnessOptions } from "./harness.ts";
import { createHerald } from "./nodes.ts";
import { scriptedConfig } from "./scripted-model.ts";
import { waitFor } from "./wait.ts";

export interface ChannelScene extends AsyncDisposable {
  readonly herald: Harness;
  readonly model: FakeModelServer;
  readonly telegram: FakeTelegram;
  readonly slack: FakeSlack;
  readonly matrix: FakeMatrix;
  readonly discord: FakeDiscord;
  /** Resolves when the channels receive. */
  connected(): Promise<void>;
  /** Resolves when nothing is left to send; runs may go on. A kill from here on falls into no send. */
  delivered(): Promise<void>;
  /** Resolves when nothing is left to do at all. */
  settled(): Promise<void>;
}

export interface PeerOptions {
  /** Settings besides token and address; null: the channel is off. */
  readonly telegram?: Record<string, unknown> | null;
  readonly slack?: Record<string, unknown> | null;
  /** Left out: off. */
  readonly matrix?: Record<string, unknown> | null;
  /** Off unless it is asked for. */
  readonly discord?: Record<string, unknown> | null;
  /** Telegram says 429 where the real one would. */
  readonly limits?: FloodLimits;
  /** Instead of `obey`. */
  readonly respond?: Respond;
}

export interface ChannelSceneOptions extends Omit<HarnessOptions, "config">, PeerOptions {
  readonly config?: Record<string, unknown>;
  /** agents.defaults */
  readonly defaults?: Record<string, unknown>;
}

/** Everybody around a gateway, also for one in the test's own process (local-app.ts), and the `channels` settings that lead to them. */
export async function createPeers(options: PeerOptions) {
  const { telegram: forTelegram = {}, slack: forSlack = {}, limits, respond = obey } = options;
  const { matrix: forMatrix = null, discord: forDiscord = null } = options;
  const [model, telegram, slack, matrix, discord] = await Promise.all([
    createFakeOpenAi({ respond }),
    createFakeTelegram(limits === undefined ? {} : { limits }),
    createFakeSlack({ ackTimeoutMs: 300 }),
    createFakeMatrix(),
    // Discord waits for three seconds, and a process of a busy machine may take longer than that to be awake.
    createFakeDiscord({ ackMs: 20_000 }),
  ]);
  const channels = {
    ...(forTelegram === null ? {} : { telegram: { botToken: telegram.token, apiRoot: telegram.apiRoot, ...forTelegram } }),
    ...(forSlack === null ? {} : { slack: { botToken: slack.botToken, appToken: slack.appToken, apiUrl: slack.apiUrl, ...forSlack } }),
    ...(forMatrix === null ? {} : { matrix: { homeserver: matrix.homeserver, accessToken: matrix.token, ...forMatrix } }),
    ...(forDiscord === null ? {} : { discord: { botToken: discord.botToken, apiUrl: discord.apiUrl, ...forDiscord } }),
  };
  return {
    ...{ model, telegram, slack, matrix, discord, channels },
    /** Resolves when the channels that are on receive. */
    async connected(): Promise<void> {
      if (forTelegram !== null) await telegram.until(() => telegram.calls.some((call) => call.method === "getUpdates"), "the first poll");
      if (forSlack !== null) await slack.until(() => slack.sockets.open() > 0, "a socket");
      if (forMatrix !== null) await matrix.connected();
      if (forDiscord !== null) await discord.until(() => discord.gateway.isUp(), "a session");
    },
    async close(): Promise<void> {
      await Promise.all([model.close(), telegram.close(), slack.close(), matrix.close(), discord.close()]);
    },
  };
}

export async function createChannelScene(options: ChannelSceneOptions = {}): Promise<ChannelScene> {
  const { channels, close, ...peers } = await createPeers(options);
  const config = scriptedConfig(peers.model.url, options.defaults ?? {}, { gateway: { drainSeconds: 0 }, channels, ...options.config });
  const herald = await createHerald({ ...options, config });
  return {
    ...peers,
    herald,
    delivered: () => noneLeft(herald, UNSENT),
    settled: () => noneLeft(herald, `${UNSENT} + ${UNFINISHED}`),
    async [Symbol.asyncDispose]() {
      try {
        await herald[Symbol.asyncDispose]();
      } finally {
        await close();
      }
    },
  };
}

const UNSENT = `(SELECT count(*) FROM outbox WHERE state IN ('queued','sending','unknown'))
  + (SELECT count(*) FROM live_messages WHERE state IN ('new','posted'))`;
const UNFINISHED = `(SELECT count(*) FROM inbox WHERE state <> 'done') + (SELECT count(*) FROM runs WHERE state IN ('queued','running'))`;

async function noneLeft(herald: Harness, what: string): Promise<void> {
  await waitFor("everything to be answered and sent", () => herald.rows<{ n: number }>(`SELECT ${what} AS n`)[0]?.n === 0, 40_000);
}

/** Follows a plan (brain.ts) when the newest words carry one, else says what it heard. */
export const obey: Respond = (request, call) => {
  if (whoAsks(request) !== "main" || newestWords(request).includes("!plan ")) return brain(request, call);
  return { text: `heard: ${newestWords(request)}` };
};

/** Obeys too, but "wait for it" and a child that is told to work slowly wait for the door of that moment. */
export const obeyBehind =
  (opened: () => Promise<void>): Respond =>
  async (request, call) => {
    const words = newestWords(request);
    if (words.includes("wait for it") || (whoAsks(request) === "child" && words.includes("slowly"))) await opened();
    return obey(request, call);
  };

/** What the person said last, without the name that stands before it in a group. */
export const newestWords = (request: FakeRequest): string =>
  (request.messages.findLast((message) => message.role === "user" && !message.text.startsWith("[Sub-agent"))?.text ?? "").replace(
    /^\[from .*\]\n/,
    "",
  );

/** Holds whoever waits until it is opened. */
export function createDoor(): { readonly opened: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
