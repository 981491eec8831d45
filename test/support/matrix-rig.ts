// A Matrix channel with its fake homeserver and an inbox in memory: for tests of the channel without the rest.
import { createMatrixChannel, type MatrixOptions } from "../../src/channels/matrix/channel.ts";
import type { Address } from "../../src/core/address.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Channel, Inbound } from "../../src/core/message.ts";
import { createFakeMatrix, type FakeMatrix, PERSON } from "./fake-matrix.ts";
import { createImpatientClock } from "./fast-clock.ts";
import { createMemoryAccounts } from "./memory-accounts.ts";
import { createMemoryInbox, type MemoryInbox } from "./memory-inbox.ts";

export const DIRECT = "!direct:home.test";
export const ROOM = "!Room:home.test";
export const OTHER = "@bob:home.test";

export interface MatrixRig extends AsyncDisposable {
  readonly channel: Channel;
  readonly fake: FakeMatrix;
  readonly inbox: MemoryInbox;
  at(chat: string, thread?: string): Address;
  /** Everything in the inbox that is somebody's message. */
  heard(): Inbound[];
  /** Started, and past the first sync. */
  started(): Promise<void>;
}

export async function createMatrixRig(options: Partial<MatrixOptions> = {}): Promise<MatrixRig> {
  const fake = await createFakeMatrix();
  const inbox = createMemoryInbox();
  const channel = await createMatrixChannel({
    ...{ homeserver: fake.homeserver, accessToken: fake.token, accounts: createMemoryAccounts(fake.bot) },
    mayInvite: async (_account, person) => person === PERSON,
    isListed: (room) => room === ROOM,
    ...{ clock: createImpatientClock(50), log: silentLogger, timeoutMs: 3_000, settleMs: 0, syncSeconds: 2 },
    ...options,
  });
  fake.room(DIRECT);
  fake.room(ROOM, [PERSON, OTHER]);
  return {
    ...{ channel, fake, inbox },
    at: (chat, thread) => ({
      ...{ channel: "matrix", account: channel.account, chat, kind: chat === ROOM ? "channel" : "dm" },
      ...(thread === undefined ? {} : { thread }),
    }),
    heard: () => [...inbox.rows.values()].map((raw) => channel.decode(raw)).filter((one) => one !== null),
    async started() {
      await channel.start(inbox);
      await fake.connected();
    },
    async [Symbol.asyncDispose]() {
      await channel.stop();
      channel.hangUp?.();
      await fake.close();
    },
  };
}
