// One platform as a chaos run uses it, whatever it is called: places, people who speak and press there, what they see, and its troubles.
// telegram-ground.ts, slack-ground.ts and so on → scene.ts, hands.ts
import type { Random } from "../support/random.ts";
import type { Seen } from "./history.ts";
import type { Delivered, Spot } from "./spots.ts";

export interface ShownButton {
  readonly label: string;
  /** What a client sends when it is pressed. */
  readonly data: string;
}

/** A message of the bot as it stands there now. */
export interface Shown {
  readonly id: string;
  readonly text: string;
  readonly buttons: readonly ShownButton[];
}

export interface Ground {
  /** The name of the channel, with its account where it is not the first of its platform: `telegram@second`. */
  readonly channel: string;
  /** Its part of the settings. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** False until the bot was there for the first time: what stood there before is none of its business. Left out: it reads that too. */
  isKnown?(): boolean;
  /** Place number `n`: nobody has spoken there before. */
  newPlace(n: number): Spot;
  /** A chat of two. */
  readonly direct: Spot;
  /** `replyTo`: the message of the bot it points at. */
  say(spot: Spot, text: string, replyTo?: string): Promise<Delivered>;
  /** A reply there points at a message; elsewhere a thread is the conversation. */
  hasReplies(spot: Spot): boolean;
  /** What the bot says there, in order. */
  shown(spot: Spot): Shown[];
  /** Also a button that the message does not show any more: a client may show it for hours. Null: this platform refuses that itself. */
  press(spot: Spot, message: string, button: ShownButton, isStranger: boolean): Promise<Delivered> | null;
  /** A slash command; left out: words must do. */
  slash?(spot: Spot, line: string): Promise<Delivered>;
  /** Takes down when people saw what; called often. */
  look?(): void;
  seen(): Seen[];
  /** Now and then a call fails, or works and loses its answer; null: no more. */
  trouble(random: Random | null): void;
  /** A little more trouble, at a restart. */
  stir(random: Random): void;
  close(): Promise<void>;
}
