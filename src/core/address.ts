// Where something came from and where text must go: channel + account + chat + thread. Plain JSON,
// made by a channel's decode, pinned on a run at spawn (SP7) and never merged with later session state.
import { escapeId } from "./platform-id.ts";

export interface Address {
  /**
   * The platform, `telegram`; for a further account of it with the operator's name for that one, `telegram@work` (CH1). So two bots
   * differ in whatever is told apart by channel: sessions, rules, pairing, pace, figures.
   */
  readonly channel: string;
  /** Bot or workspace as the platform calls it; never defaulted later, or two bots could swap their answers. */
  readonly account: string;
  readonly chat: string;
  /** Telegram topic, Slack root ts or Matrix root event, as text. Absent: the chat itself. */
  readonly thread?: string;
  readonly kind: "dm" | "group" | "channel";
}

/** One string per chat, whatever its threads. */
export const wholeChatKey = ({ channel, account, chat }: Pick<Address, "channel" | "account" | "chat">): string =>
  [channel, ...[account, chat].map(escapeId)].join("/");

/** One string per conversation: delivery keeps order within it (DL5). */
export const addressKey = (a: Address): string => `${wholeChatKey(a)}/${a.thread === undefined ? "-" : escapeId(a.thread)}`;

const PLATFORM = "[a-z]{1,32}";
const ACCOUNT = "[a-z0-9][a-z0-9_-]{0,31}";
const CHANNEL_NAME = new RegExp(`^${PLATFORM}(?:@${ACCOUNT})?$`);
const ACCOUNT_NAME = new RegExp(`^${ACCOUNT}$`);

/** What an operator may call a further account. */
export const isAccountName = (text: string): boolean => ACCOUNT_NAME.test(text);
export const isChannelName = (text: string): boolean => CHANNEL_NAME.test(text);
/** `name`: null for a platform's first account. */
export const channelName = (platform: string, name: string | null): string => (name === null ? platform : `${platform}@${name}`);
export const platformOf = (channel: string): string => channel.split("@", 1)[0] ?? "";
/** As people read it: `Telegram`, `Telegram (work)`. */
export function channelWords(channel: string): string {
  const [platform = "", name] = channel.split("@");
  const words = platform.charAt(0).toUpperCase() + platform.slice(1);
  return name === undefined ? words : `${words} (${name})`;
}
/** Why nothing goes there. */
export const channelIsOff = (channel: string): string =>
  channel.includes("@") ? `the account ${channel} is off or not in the settings` : `the channel ${channel} is off`;
