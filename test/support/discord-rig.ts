// A Discord channel with its fake and an inbox in memory: for tests of the channel without the rest.
import { createDiscordChannel, type DiscordOptions } from "../../src/channels/discord/channel.ts";
import type { Address } from "../../src/core/address.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Channel, Inbound, OutMessage, SendRequest } from "../../src/core/message.ts";
import { createFakeDiscord, DIRECT, type FakeDiscord, type FakeDiscordOptions, PERSON, ROOM } from "./fake-discord.ts";
import { createImpatientClock } from "./fast-clock.ts";
import { createMemoryInbox, type MemoryInbox } from "./memory-inbox.ts";
import { waitFor } from "./wait.ts";

export interface DiscordRig extends AsyncDisposable {
  readonly fake: FakeDiscord;
  readonly channel: Channel;
  readonly inbox: MemoryInbox;
  readonly direct: Address;
  readonly room: Address;
  /** Another process on the same inbox. */
  again(): Channel;
  /** Started, and so far. */
  connect(): Promise<void>;
  /** Resolves when it is on record that there is a session, and nothing before it is missing. */
  connected(): Promise<unknown>;
  decoded(): Inbound[];
  /** What delivery would send for it, first part. */
  request(message: OutMessage, address: Address, key?: string): SendRequest;
}

export async function createDiscordRig(options: Partial<DiscordOptions> = {}, forFake: FakeDiscordOptions = {}): Promise<DiscordRig> {
  const fake = await createFakeDiscord({ ackMs: 20_000, ...forFake });
  const inbox = createMemoryInbox(options.clock?.now);
  const again = (): Channel =>
    createDiscordChannel({
      ...{ botToken: fake.botToken, apiUrl: fake.apiUrl, listed: () => [ROOM], people: () => [PERSON] },
      ...{ clock: createImpatientClock(30), log: silentLogger, timeoutMs: 5_000 },
      ...options,
    });
  const channel = again();
  const connected = (): Promise<unknown> =>
    waitFor("the connection", async () => /"session":\{.*"gaps":\{\},"unopened":\{\}/.test((await inbox.cursor())?.value ?? ""));
  const base = { channel: "discord", account: channel.account };
  return {
    ...{ fake, channel, inbox, again },
    direct: { ...base, chat: DIRECT, kind: "dm" },
    room: { ...base, chat: ROOM, kind: "channel" },
    connected,
    async connect() {
      await channel.start(inbox);
      await connected();
    },
    decoded: () => [...inbox.rows.values()].map((raw) => channel.decode(raw)).filter((one) => one !== null),
    request: (message, address, key = "reply:1#0") => ({
      ...{ address, key, repeated: false },
      part: channel.render(message, address)[0] ?? {},
    }),
    async [Symbol.asyncDispose]() {
      await channel.stop();
      await fake.close();
    },
  };
}

/** Ends as a process that was killed does: nothing was written behind this. `edit`: what is found on record instead. */
export async function kill({ channel, inbox }: DiscordRig, edit: (cursor: object) => object = (cursor) => cursor): Promise<void> {
  const cursor = await inbox.cursor();
  await channel.stop();
  await inbox.put([], JSON.stringify(edit(JSON.parse(cursor?.value ?? "{}") as object)));
}
