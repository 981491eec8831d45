// Settings → the channels that are on, behind one look-up. Rendering goes through two gates here, in one place, and so do drafts: no text
// reaches a platform with characters nobody sees (IN4) or with a secret's value in it (SC4), in that order: a secret with
// an unseen character inside would pass the redactor and be whole again behind the other gate.

import { splitMarkdown } from "../channels/split.ts";
import { createWebChannel, WEB, type WebChannel } from "../channels/web/channel.ts";
import type { Channel, Drafts, OutMessage } from "../core/message.ts";
import { visibleText } from "../core/visible-text.ts";
import { readWake } from "../core/wake.ts";
import { createWebPosts } from "../stores/web-posts.ts";
import { type AccountDeps, openAccounts } from "./accounts.ts";
import type { Base } from "./base.ts";
import type { Stores } from "./store-parts.ts";

export interface Channels {
  readonly web: WebChannel;
  find(name: string, account: string): Channel | null;
  list(): readonly Channel[];
  /** What another process has learnt of them is known here too; rejects while it can't be asked. */
  learnAccounts(): Promise<void>;
}

export interface ChannelDeps extends AccountDeps, Pick<Base, "bus"> {
  readonly stores: Pick<Stores, "db" | "inbox" | "webMessages" | "accounts" | "attachments" | "attachmentBytes" | "pairing">;
}

/** Throws AppError("config") when a channel's settings can't work. */
export async function createChannels(deps: ChannelDeps): Promise<Channels> {
  const { stores, bus, secrets } = deps;
  const clean = (text: string): string => secrets.redact(visibleText(text));
  // What still grows ends before what may be the beginning of a secret: half of one has no name to be replaced by.
  const grown = (text: string): string => {
    const seen = visibleText(text);
    return secrets.redact(seen.slice(0, seen.length - secrets.heldBack(seen)));
  };
  const gatedDrafts = (drafts: Drafts): Drafts => ({
    ...drafts,
    show: (request) => drafts.show({ ...request, markdown: grown(request.markdown) }),
  });
  const gated = <C extends Channel>(channel: C): C => ({
    ...channel,
    // Not copied: it may still be learnt.
    get account() {
      return channel.account;
    },
    get formerly() {
      return channel.formerly ?? [];
    },
    // What we have put into the inbox ourselves is read the same way on every platform.
    decode: (raw) => readWake(raw) ?? channel.decode(raw),
    render: (message, address) => channel.render(cleanMessage(message, clean), address),
    ...(channel.drafts === undefined ? {} : { drafts: gatedDrafts(channel.drafts) }),
  });
  const web = gated(createWebChannel({ posts: createWebPosts(stores, WEB), bus, split: splitMarkdown }));
  const channels: Channel[] = [web, ...(await openAccounts(deps)).map(gated)];
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
  const { markdown, stats, card, fileName, file } = message;
  return {
    ...message,
    markdown: clean(markdown),
    ...(stats === undefined ? {} : { stats: { figures: stats.figures.map(clean), names: stats.names.map(clean) } }),
    ...(card === undefined
      ? {}
      : { card: { ...card, label: clean(card.label), notes: clean(card.notes), asked: card.asked && clean(card.asked) } }),
    ...(fileName === undefined ? {} : { fileName: clean(fileName) }),
    ...(file === undefined ? {} : { file: { ...file, name: clean(file.name) } }),
  };
}
