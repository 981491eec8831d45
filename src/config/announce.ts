// The setting `agents.list[].subagents.announce` (AP1): when and where results are posted. Where, other than in the asking thread,
// stands in the settings alone; an address that this gateway doesn't serve would swallow every result, so it is refused at start.
// announce.ts → schema.ts.
import { z } from "zod";
import { channelName, isAccountName } from "../core/address.ts";
import type { discord, matrix, slack, telegram } from "./channels.ts";
import type { Path, Problem } from "./text.ts";
import { block, whole } from "./values.ts";

const MAX_DIGEST_MINUTES = 7 * 24 * 60;

const address = block({
  channel: z.enum(["telegram", "slack", "matrix", "discord", "web"]).describe("The channel; it must be on."),
  account: z.string().min(1).max(255).optional().describe("The name of a further account there; unset: the first one."),
  chat: z
    .string()
    .min(1)
    .max(255)
    .describe(
      "Telegram chat id, Slack channel or member id, Matrix room or user id, Discord channel or user id, or a chat of the page (main).",
    ),
  thread: z.string().min(1).max(255).optional().describe("Telegram topic, Slack, Matrix or Discord thread; unset: the chat itself."),
});

// The block first: what is said of a wrong value is said by the first kind that fits its type.
const policy = block({
  when: z
    .enum(["always", "failures", "digest"])
    .default("always")
    .describe("always: each result; failures: only what failed; digest: failures at once, the rest together every so often."),
  everyMinutes: whole(1, MAX_DIGEST_MINUTES).optional().describe("Of a digest: the longest a result waits for it."),
  to: z
    .union([address, z.enum(["thread", "dm"])])
    .default("thread")
    .describe("thread: where it was asked for; dm: the direct chat of the person who asked; or an address."),
}).superRefine(({ when, everyMinutes }, context) => {
  if (when !== "digest" || everyMinutes !== undefined) return;
  const message = `is missing: when "digest" needs it; accepted: a whole number from 1 to ${MAX_DIGEST_MINUTES}`;
  context.addIssue({ code: "custom", path: ["everyMinutes"], message });
});

export const announce = z.union([policy, z.enum(["post", "silent"])]);

type Announce = z.output<typeof announce>;
export type AnnouncePlace = z.output<typeof address>;

interface Settings {
  readonly agents: { readonly list: readonly { readonly subagents: { readonly announce: Announce } }[] };
  readonly channels: {
    readonly telegram: z.output<typeof telegram>;
    readonly slack: z.output<typeof slack>;
    readonly matrix: z.output<typeof matrix>;
    readonly discord: z.output<typeof discord>;
  };
  readonly web: { readonly enabled: boolean };
}

/** Targets that this gateway can't post to, whoever asks for it. */
export function unservedTargets(settings: Settings): Problem[] {
  return settings.agents.list.flatMap(({ subagents: { announce: chosen } }, i) => {
    if (typeof chosen === "string" || typeof chosen.to === "string") return [];
    const path: Path = ["agents", "list", i, "subagents", "announce", "to"];
    return problemsOf(chosen.to, settings).map(([key, text]) => ({ path: [...path, key], text }));
  });
}

type Found = [key: keyof AnnouncePlace, text: string];

interface Form {
  readonly chat: RegExp;
  readonly chatWords: string;
  readonly thread: RegExp;
  readonly threadWords: string;
}

/** What platforms call their chats: an id of another form is nobody's, and its sends would fail one by one. */
const FORMS: Readonly<Record<AnnouncePlace["channel"], Form>> = {
  telegram: {
    chat: /^-?[1-9][0-9]{0,19}$/,
    chatWords: "must be a numeric Telegram chat id in quotes",
    thread: /^[1-9][0-9]{0,9}$/,
    threadWords: "must be the number of a Telegram topic in quotes",
  },
  slack: {
    chat: /^[CGDUW][A-Z0-9]{2,30}$/,
    chatWords: 'must be a Slack channel id like "C012AB3CD", or a member id for their direct chat (not a name)',
    thread: /^[0-9]{1,12}\.[0-9]{1,12}$/,
    threadWords: 'must be the ts of a Slack thread like "1700000000.000100"',
  },
  matrix: {
    chat: /^(?:!\P{Cc}+|@[^:\s]*:[A-Za-z0-9.:[\]-]+)$/u,
    chatWords: 'must be a Matrix room id like "!abc:example.org", or a user id for their direct room (not an alias)',
    thread: /^\$\P{Cc}+$/u,
    threadWords: 'must be the id of a thread\'s first event like "$abc"',
  },
  discord: {
    chat: /^[1-9][0-9]{0,19}$/,
    chatWords: "must be the numeric id of a Discord channel, or of a person for their direct chat, in quotes",
    thread: /^[1-9][0-9]{0,19}$/,
    threadWords: "must be the numeric id of a Discord thread in quotes",
  },
  web: {
    chat: /^(?:main|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/,
    chatWords: 'must be a chat of the page: "main", or the id in its address',
    thread: /^(?!)/,
    threadWords: "the page has no threads; leave it out",
  },
};

function problemsOf(place: AnnouncePlace, { channels, web }: Settings): Found[] {
  const { channel, account, chat, thread } = place;
  const off = channel === "web" ? (web.enabled ? null : ["channel", "set web.enabled to true"]) : offReason(place, channels[channel]);
  if (off !== null) return [[off[0] as Found[0], `${channelOf(place, channels)} is off, so nothing can be posted there: ${off[1]}`]];
  const form = FORMS[channel];
  const found: Found[] = [];
  if (!form.chat.test(chat)) found.push(["chat", form.chatWords]);
  if (thread !== undefined && !form.thread.test(thread)) found.push(["thread", form.threadWords]);
  if (account !== undefined && !isServed(place, channels)) {
    const accepted = acceptedAccounts(channel, channels);
    found.push(["account", `this gateway has no such account of ${channel}; accepted: ${accepted}`]);
  }
  return found;
}

type Channels = Settings["channels"];

/** The settings of further accounts by name; the page has none. */
const namedOf = (channel: AnnouncePlace["channel"], channels: Channels): Channels[keyof Channels]["accounts"] =>
  channel === "web" ? {} : channels[channel].accounts;

const isNamed = ({ channel, account }: AnnouncePlace, channels: Channels): boolean =>
  account !== undefined && Object.hasOwn(namedOf(channel, channels), account);

/** The channel a target is on: `telegram`, `telegram@work`. */
export const channelOf = (place: AnnouncePlace, channels: Channels): string =>
  channelName(place.channel, isNamed(place, channels) ? (place.account ?? null) : null);

function offReason({ account }: AnnouncePlace, settings: Channels[keyof Channels]): [key: Found[0], how: string] | null {
  const { accounts } = settings;
  const named = account === undefined || !Object.hasOwn(accounts, account) ? undefined : accounts[account];
  if (named !== undefined) return named.enabled ? null : ["account", named.off];
  if (settings.enabled) return null;
  const names = Object.keys(accounts).filter((name) => accounts[name]?.enabled === true);
  if (names.length === 0) return ["channel", settings.off];
  return ["account", `name one of its accounts: ${names.map((name) => JSON.stringify(name)).join(", ")}`];
}

/** The first account may also be named as its platform calls it. Which Slack workspace that is only Slack knows: another is blocked by name later. */
function isServed(place: AnnouncePlace, channels: Channels): boolean {
  const { channel, account = "" } = place;
  return isNamed(place, channels) || account === soleAccount(channel, channels) || (channel === "slack" && !isAccountName(account));
}

function acceptedAccounts(channel: AnnouncePlace["channel"], channels: Channels): string {
  const names = Object.keys(namedOf(channel, channels));
  const sole = soleAccount(channel, channels);
  const all = [...names, ...(sole === null ? [] : [sole])].map((name) => JSON.stringify(name));
  return [...all, names.length === 0 ? "or leave it out: it is the only one" : "or leave it out: the first one"].join(", ");
}

/** What the platform calls the first account, where that is known here. */
function soleAccount(channel: AnnouncePlace["channel"], { telegram: bot }: Channels): string | null {
  if (channel === "web") return "local";
  return channel === "telegram" && bot.enabled ? (bot.botToken.split(":")[0] ?? null) : null;
}
