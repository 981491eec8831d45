// What the page does with a chat as a whole, and with its last exchange (WB3): app/chat-desk.ts does it.

export interface Resend {
  readonly id: string;
  readonly chat: string;
  /** Empty: its files alone. */
  readonly text: string;
  /** The id under which the message was posted that this one stands in the place of. */
  readonly replaces: string;
}

/** `refused`: nothing was changed, and why. `conflict`: this id was used for other words. */
export type Resent = { readonly status: "accepted" | "known" | "conflict" | "off" } | { readonly status: "refused"; readonly text: string };

export interface ChatAbout {
  readonly messages: number;
  /** A message is being answered or waits for it. */
  readonly isAtWork: boolean;
  /** Sub-agents of it that are not through. */
  readonly running: number;
}

/** A command as the message box completes it. */
export interface CommandHint {
  /** What is put into the box: `/subagents stop`. */
  readonly text: string;
  /** The whole form: `/subagents stop <id|#>`. */
  readonly usage: string;
  readonly summary: string;
}

export interface ChatDesk {
  /** Puts other words in the place of the person's last ones, and sets aside what answered those. Durable on return. */
  resend(post: Resend): Promise<Resent>;
  /** Null: it is called by its first words again. */
  rename(chat: string, title: string | null): Promise<void>;
  about(chat: string): Promise<ChatAbout>;
  /** Its messages are gone, its transcripts archived. Null: done; else why not. */
  remove(chat: string): Promise<string | null>;
  commands(): readonly CommandHint[];
}
