// Every account of every platform as a channel (CH1), and what the settings say of one. A platform is a line of `PLATFORMS`; its library is
// loaded only when an account of it is on.
//
// A platform's own code knows nothing of other accounts beside it: it calls its channel `telegram`, and so its addresses and settings. Here
// they get the account's name, in one place: an update of one bot that was read as another's would be answered there.
import { type Account, accountsOf, findAccount, type Platform } from "../config/accounts.ts";
import type { Config } from "../config/schema.ts";
import type { Address } from "../core/address.ts";
import { AppError } from "../core/errors.ts";
import type { Channel } from "../core/message.ts";
import type { ChannelRules } from "../gateway/access.ts";
import type { Progress } from "../subagents/start-line.ts";
import type { Base } from "./base.ts";
import type { Stores } from "./store-parts.ts";

export interface AccountDeps extends Pick<Base, "clock" | "log" | "secrets"> {
  /** As at start. */
  readonly config: Config;
  /** Who may do what is asked for anew each time. */
  current(): Config;
  readonly stores: Pick<Stores, "accounts" | "attachmentBytes" | "pairing">;
}

interface OpenDeps extends AccountDeps {
  /** Which account has turned out to be which user of Matrix: a token doesn't tell, and two that are the same would both answer. */
  readonly users: Map<string, string>;
}

type Groups = Extract<ChannelRules, { allowFrom: unknown }>["groups"];
type On<P extends Platform> = Extract<Account<P>["settings"], { enabled: true }>;

interface Opener<P extends Platform> {
  /** Throws AppError("config") when its settings can't work. `channel`: the account's name. */
  open(settings: On<P>, channel: string, deps: OpenDeps): Promise<Channel>;
  /** Chats of several people in which it answers. */
  groups(settings: Account<P>["settings"]): Groups;
}

const PLATFORMS: { readonly [P in Platform]: Opener<P> } = {
  telegram: { open: openTelegram, groups: ({ groups }) => groups },
  slack: { open: openSlack, groups: ({ channels }) => channels },
  matrix: { open: openMatrix, groups: ({ rooms }) => rooms },
  discord: { open: openDiscord, groups: ({ channels }) => channels },
};

async function openTelegram(telegram: On<"telegram">, channel: string, { clock, log, secrets, stores }: AccountDeps): Promise<Channel> {
  const { createTelegramChannel } = await import("../channels/telegram/channel.ts");
  const { read: readFile } = stores.attachmentBytes;
  return createTelegramChannel({ ...telegram, redact: secrets.redact, readFile, clock, log: log.child({ channel }) });
}

async function openSlack(slack: On<"slack">, channel: string, { clock, log, stores }: AccountDeps): Promise<Channel> {
  const { createSlackChannel } = await import("../channels/slack/channel.ts");
  const accounts = knownAs(stores, channel);
  const { read: readFile } = stores.attachmentBytes;
  return createSlackChannel({ ...slack, httpPort: slack.port, accounts, readFile, clock, log: log.child({ channel }) });
}

/** What the platform calls it, as far as it was told before. */
const knownAs = ({ accounts }: AccountDeps["stores"], channel: string) => ({
  last: () => accounts.last(channel),
  adopt: (account: string, former: readonly string[]) => accounts.adopt(channel, account, former),
});

async function openMatrix(matrix: On<"matrix">, channel: string, deps: OpenDeps): Promise<Channel> {
  const { clock, log, secrets, stores } = deps;
  const { createMatrixChannel } = await import("../channels/matrix/channel.ts");
  const now = settingsOf("matrix", channel, deps, matrix);
  const isListed = (room: string): boolean => Object.hasOwn(now().rooms, room);
  const accounts = knownAs(stores, channel);
  return createMatrixChannel({
    ...matrix,
    accounts: {
      ...accounts,
      async adopt(user, former) {
        claim(deps.users, user, channel);
        await accounts.adopt(user, former);
      },
    },
    isListed,
    async mayInvite(account, person, room) {
      const { allowFrom, rooms } = now();
      if (allowFrom.includes(person) || (isListed(room) && rooms[room]?.allowFrom.includes(person) === true)) return true;
      return stores.pairing.isPaired(channel, account, person);
    },
    redact: secrets.redact,
    readFile: stores.attachmentBytes.read,
    clock,
    log: log.child({ channel }),
  });
}

/** Throws AppError("config") when it is another account's already. */
function claim(users: Map<string, string>, user: string, channel: string): void {
  const other = users.get(user) ?? channel;
  if (other !== channel)
    throw new AppError("config", `channels.matrix.accessToken is a token of ${user}, as is that of ${other}; each account needs its own`);
  users.set(user, channel);
}

/** As they are by now; `atStart`: while the account stands in no settings any more. */
function settingsOf<P extends Platform>(platform: P, channel: string, { current }: AccountDeps, atStart: On<P>) {
  return (): Account<P>["settings"] => {
    const account = findAccount(current().channels, channel);
    return account?.platform === platform ? (account as Account<P>).settings : atStart;
  };
}

async function openDiscord(discord: On<"discord">, channel: string, deps: AccountDeps): Promise<Channel> {
  const { clock, log, stores } = deps;
  const { createDiscordChannel } = await import("../channels/discord/channel.ts");
  const now = settingsOf("discord", channel, deps, discord);
  const places = { listed: () => Object.keys(now().channels), people: () => now().allowFrom };
  const { read: readFile } = stores.attachmentBytes;
  return createDiscordChannel({ ...discord, ...places, readFile, clock, log: log.child({ channel }) });
}

/** Those that are on, in the order of the settings. Throws AppError("config") when one can't work. */
export async function openAccounts(deps: AccountDeps): Promise<Channel[]> {
  const all = { ...deps, users: new Map<string, string>() };
  const opened = await Promise.all(accountsOf(deps.config.channels).map((account) => openAccount(account, all)));
  return opened.filter((channel) => channel !== null);
}

async function openAccount<P extends Platform>(account: Account<P>, deps: OpenDeps): Promise<Channel | null> {
  const { platform, channel, settings } = account;
  if (!settings.enabled) return null;
  const opener: Opener<P> = PLATFORMS[platform as P];
  const opened = await opener.open(settings as On<P>, channel, deps).catch(rethrow(wordsFor(account)));
  return channel === platform ? opened : named(opened, account);
}

const rethrow =
  (words: (text: string) => string) =>
  (error: unknown): never => {
    throw error instanceof AppError ? new AppError(error.code, words(error.message)) : error;
  };

/** A channel as a further account: under its own name, wherever it says what it is called. */
function named<P extends Platform>(channel: Channel, account: Account<P>): Channel {
  const words = wordsFor(account);
  const worded = <R extends object>(result: R): R =>
    "reason" in result && typeof result.reason === "string" ? { ...result, reason: words(result.reason) } : result;
  const here = (address: Address): Address => ({ ...address, channel: account.channel });
  const { edit } = channel;
  return {
    ...channel,
    name: account.channel,
    get account() {
      return channel.account;
    },
    get formerly() {
      return channel.formerly ?? [];
    },
    start: (inbox) => channel.start(inbox).catch(rethrow(words)),
    health() {
      const { state, detail } = channel.health();
      return detail === undefined ? { state } : { state, detail: words(detail) };
    },
    decode(raw) {
      const inbound = channel.decode(raw);
      return inbound === null ? null : { ...inbound, address: here(inbound.address) };
    },
    async send(request) {
      const result = worded(await channel.send(request));
      return result.status === "retarget" ? { ...result, address: here(result.address) } : result;
    },
    ...(edit === undefined ? {} : { edit: async (request) => worded(await edit(request)) }),
  };
}

/** A platform names its settings as they stand in its own block. */
const wordsFor =
  ({ platform, at }: { readonly platform: string; readonly at: string }) =>
  (text: string): string =>
    text.replaceAll(`channels.${platform}.`, `${at}.`);

/** How a channel shows the runs of a chat; one without the setting shows them in its own way. */
export const progressOf = ({ channels }: Config, channel: string): Progress => findAccount(channels, channel)?.settings.progress ?? "off";

/** Who may speak where, as the gate wants it. The page has checked its token before. Null: no such account is in the settings. */
export function rulesOf(config: Config, channel: string): ChannelRules | null {
  if (channel === "web") return { open: true };
  const account = findAccount(config.channels, channel);
  return account === null ? null : { allowFrom: account.settings.allowFrom, groups: groupsOf(account) };
}

const groupsOf = <P extends Platform>({ platform, settings }: Account<P>): Groups =>
  (PLATFORMS[platform as P] as Opener<P>).groups(settings);
