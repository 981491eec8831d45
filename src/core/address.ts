// Where something came from and where text must go: channel + account + chat + thread. Plain JSON,
// made by a channel's decode, pinned on a run at spawn (SP7) and never merged with later session state.

export interface Address {
  readonly channel: string;
  /** Bot or workspace the chat belongs to; never defaulted later, or two bots could swap their answers. */
  readonly account: string;
  readonly chat: string;
  /** Telegram topic or Slack root ts, as text. Absent: the chat itself. */
  readonly thread?: string;
  readonly kind: "dm" | "group" | "channel";
}

/** One string per conversation: delivery keeps order within it (DL5). */
export const addressKey = (a: Address): string => [a.channel, a.account, a.chat, a.thread ?? "-"].join("/");
