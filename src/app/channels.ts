// Settings → the channels that are on, behind one look-up. Rendering goes through two gates here, in one place: no text
// reaches a platform with characters nobody sees (IN4) or with a secret's value in it (SC4), in that order: a secret with
// an unseen character inside would pass the redactor and be whole again behind the other gate. A platform's library is
// loaded only when its channel is on.

import { splitMarkdown } from "../channels/split.ts";
import { createWebChannel, WEB, type WebChannel } from "../channels/web/channel.ts";
import type { Config } from "../config/schema.ts";
import type { Channel, OutMessage } from "../core/message.ts";
import { visibleText } from "../core/visible-text.ts";
import type { ChannelRules } from "../gateway/access.ts";
import { createWebPosts } from "../stores/web-posts.ts";
import type { Base } from "./base.ts";
import type { Stores } from "./store-parts.ts";

export interface Channels {
  readonly web: WebChannel;
  find(name: string, account: string): Channel | null;
  list(): readonly Channel[];
  /** What another process has learnt of them is known here too; rejects while it can't be asked. */
  learnAccounts(): Promise<void>;
}

export interface ChannelDeps extends Pick<Base, "clock" | "bus" | "log" | "secrets"> {
  readonly config: Config;
  readonly stores: Pick<Stores, "db" | "inbox" | "webMessages" | "accounts">;
}

/** Throws AppError("config") when a channel's settings can't work. */
export async function createChannels(deps: ChannelDeps): Promise<Channels> {
  const { stores, bus, secrets } = deps;
  const clean = (text: string): string => secrets.redact(visibleText(text));
  const gated = <C extends Channel>(channel: C): C => ({
    ...channel,
    // Not copied: it may still be learnt.
    get account() {
      return channel.account;
    },
    get formerly() {
      return channel.formerly ?? [];
    },
    render: (message, address) => channel.render(cleanMessage(message, clean), address),
  });
  const web = gated(createWebChannel({ posts: createWebPosts(stores, WEB), bus, split: splitMarkdown }));
  const platforms = await Promise.all([createTelegram(deps), createSlack(deps)]);
  const channels: Channel[] = [web, ...platforms.filter((channel) => channel !== null).map(gated)];
  return {
    web,
    find: (name, account) => channels.find((channel) => channel.name === name && isOf(channel, account)) ?? null,
    list: () => channels,
    async learnAccounts() {
      for (const channel of channels) await channel.learnAccount?.();
    },
  };
}

const isOf = ({ account, formerly = [] }: Channel, wanted: string): boolean => account === wanted || formerly.includes(wanted);

function cleanMessage(message: OutMessage, clean: (text: string) => string): OutMessage {
  const { markdown, stats, fileName } = message;
  return {
    ...message,
    markdown: clean(markdown),
    ...(stats === undefined ? {} : { stats: { figures: stats.figures.map(clean), names: stats.names.map(clean) } }),
    ...(fileName === undefined ? {} : { fileName: clean(fileName) }),
  };
}

async function createTelegram({ config, clock, log, secrets }: ChannelDeps): Promise<Channel | null> {
  const { telegram } = config.channels;
  if (!telegram.enabled) return null;
  const { createTelegramChannel } = await import("../channels/telegram/channel.ts");
  return createTelegramChannel({ ...telegram, redact: secrets.redact, clock, log: log.child({ channel: "telegram" }) });
}

async function createSlack({ config, clock, log, stores }: ChannelDeps): Promise<Channel | null> {
  const { slack } = config.channels;
  if (!slack.enabled) return null;
  const { createSlackChannel } = await import("../channels/slack/channel.ts");
  const accounts = {
    last: () => stores.accounts.last("slack"),
    adopt: (account: string, former: readonly string[]) => stores.accounts.adopt("slack", account, former),
  };
  return createSlackChannel({ ...slack, httpPort: slack.port, accounts, clock, log });
}

/** Who may speak where, as the gate wants it. The page has checked its token before. */
export function rulesOf(config: Config, channel: string): ChannelRules | null {
  const { telegram, slack } = config.channels;
  if (channel === "web") return { open: true };
  if (channel === "telegram") return { allowFrom: telegram.allowFrom, groups: telegram.groups };
  if (channel === "slack") return { allowFrom: slack.allowFrom, groups: slack.channels };
  return null;
}
