// What channels carry: Inbound up, OutMessage → Part down, and the Channel interface itself.
// platform → Channel.start → inbox row → Channel.decode → Inbound → gateway
// gateway → OutMessage → Channel.render → outbox rows (Part) → delivery → Channel.send → platform
import type { Address } from "./address.ts";
import type { Quoted } from "./fence.ts";

/** One thing a person did, in our words. Text commands, slash commands and buttons all arrive as text. */
export interface Inbound {
  /** `command` = an explicit slash command, `button` = a press; both carry a command line in `text`, e.g. `/subagents stop <runId>`. */
  readonly kind: "message" | "command" | "button";
  readonly address: Address;
  readonly sender: { readonly id: string; readonly name?: string };
  readonly text: string;
  /** What the person shows and did not write here: the message they answer, a forwarded one. Models read it behind a fence (IN4). */
  readonly quoted?: Quoted;
  /** True when the bot was addressed: a direct message, a mention, a reply to it, a slash command or a press. */
  readonly mentioned: boolean;
  /** The platform's id of the message this is (for a receipt or a reply); decoration only, never needed for routing. */
  readonly ref?: string;
  /** Said where others read along: how to answer this person alone, in the channel's own words. */
  readonly onlyTo?: OnlyReader;
}

export type OnlyReader = Readonly<Record<string, string>>;

/** A button under a message; `command` is run as if the presser had typed it. */
export interface Button {
  readonly label: string;
  readonly command: string;
  readonly danger?: boolean;
}

/** The stats line of an announcement as data, so that each platform folds it in its own way and nobody parses text back. */
export interface Stats {
  /** Runtime, tokens, cost: what a person sees first. */
  readonly figures: readonly string[];
  /** Session key, session id, transcript: folded where the platform can fold (AN9). */
  readonly names: readonly string[];
}

/** The whole line, for places that don't fold. */
export const statsLine = ({ figures, names }: Stats): string => `Stats: ${[...figures, ...names].join(" • ")}`;

/** What the gateway wants said, before a platform's limits apply. */
export interface OutMessage {
  readonly markdown: string;
  /** Stands below the words, at the end of the message. */
  readonly stats?: Stats;
  /** A text longer than four messages of the platform is posted as its beginning and, whole, as a file of this name (AN10). */
  readonly fileName?: string;
  readonly buttons?: readonly Button[];
  /** Channels that can may set an announcement apart from the agent's own words. */
  readonly kind?: "announcement";
  /** A status line nobody needs to be woken for. */
  readonly quiet?: boolean;
  /** `Inbound.ref` of the message this answers. */
  readonly replyTo?: string;
  /** `Inbound.onlyTo` of the command this answers: nobody else sees it. */
  readonly onlyTo?: OnlyReader;
}

/** One rendered piece within the platform's limit: the exact JSON the channel will send, stored as it is. */
export type Part = Readonly<Record<string, unknown>>;

/** Outcome of ONE attempt. `retry`: surely not executed. `unknown`: may have been executed. */
export type SendResult =
  | { readonly status: "sent"; readonly ref: string }
  /** A place for the text was made, the text itself is still to come: store `ref`, then send again with it. */
  | { readonly status: "reserved"; readonly ref: string }
  /** `afterMs`: the platform takes nothing there before that, whatever it is. Without it, it is this message that failed. */
  | { readonly status: "retry"; readonly afterMs?: number; readonly reason: string }
  | { readonly status: "unknown"; readonly reason: string }
  | { readonly status: "retarget"; readonly address: Address; readonly reason: string }
  | { readonly status: "rerender"; readonly part: Part; readonly reason: string }
  | { readonly status: "failed"; readonly reason: string };

export interface SendRequest {
  readonly address: Address;
  readonly part: Part;
  /** Stable over retries and restarts: `<delivery>#<n>`. */
  readonly key: string;
  /** True when an earlier attempt may have arrived and nothing can tell: the text must say so, but in a reserved place it shows once. */
  readonly repeated: boolean;
  /** What `reserved` gave for this part earlier. */
  readonly ref?: string;
}

export interface ReconcileRequest extends Pick<SendRequest, "address" | "part" | "key" | "ref"> {
  /** When the attempt in doubt began. */
  readonly since: number;
}

export type Reconciled =
  | { readonly status: "found"; readonly ref: string }
  | { readonly status: "absent" }
  /** Nobody can ever tell for this part: if it is sent again, it must say so. */
  | { readonly status: "untold" }
  /** Not known yet: ask again. */
  | { readonly status: "unknown"; readonly reason: string };

/** The receive side's door to the inbox. */
export interface InboxSink {
  /**
   * Records raw updates in one transaction; returns when they are durable, so that the caller may confirm
   * to the platform. Replays of a known `externalId` are dropped. `cursor` (a poll offset, what is put aside) is stored with them.
   * Throws when the disk refuses: then nothing may be confirmed.
   */
  put(updates: readonly { readonly externalId: string; readonly raw: unknown }[], cursor?: string): Promise<void>;
  /** The cursor stored last, and when. */
  cursor(): Promise<{ readonly value: string; readonly at: number } | null>;
}

/**
 * How much a platform takes before it says 429. Data: delivery does the counting (gateway/pace.ts). What a person alone in a chat
 * does never comes near it.
 */
export interface Pace {
  /**
   * One chat, all its threads together: so many at once, then one every `everyMs`. Answers to commands may go `answersOnTop`
   * further: a person waits for them, and types no more than a few.
   */
  readonly chat: { readonly burst: number; readonly everyMs: number; readonly answersOnTop: number };
  /** On top of that, in a chat of several people: never more than `max` within any `perMs`. */
  readonly group?: { readonly max: number; readonly perMs: number };
  /** And in all chats of the account together. */
  readonly account?: { readonly max: number; readonly perMs: number };
}

export type ChannelState = "starting" | "on" | "retrying" | "failed" | "off";

export interface Channel {
  readonly name: string;
  /** May change once, when the platform first says which one it is; before any update of this process is recorded. */
  readonly account: string;
  /** Names the account had in earlier versions: addresses pinned then are still its own. */
  readonly formerly?: readonly string[];
  /**
   * Where another process receives, it is that one that is told by the platform which account it is: looks whether it was, as long as
   * this one doesn't know it. Left out where the settings say it.
   */
  learnAccount?(): Promise<void>;
  /** The channel has a list of runs of its own (the page), so a chat line for every start would only be noise. */
  readonly showsRuns?: boolean;
  /** Whoever reads here runs the gateway (the page): advice about keys, settings and files is for them and nobody else. */
  readonly isOperators?: boolean;
  /** Left out where the platform sets no pace (the page). */
  readonly pace?: Pace;
  /** Sending the same key again shows nothing twice, so that nobody has to be asked after a crash. */
  readonly isIdempotent?: boolean;
  /** Any number of processes may receive at the same time: people call us, and each call comes to one of them. Left out: only one may. */
  readonly isCalled?: boolean;
  /** Resolves once receiving is under way; connection trouble is retried inside and shown in `health()`. */
  start(inbox: InboxSink): Promise<void>;
  /** Ends receiving, at once; what is being sent goes on. */
  stop(): Promise<void>;
  /** For good: gives up the sends under way, whose outcome is unknown then. */
  hangUp?(): void;
  health(): { readonly state: ChannelState; readonly detail?: string };
  /** Raw update → Inbound, or null for what is nobody's message (own echo, bots, joins). Pure. */
  decode(raw: unknown): Inbound | null;
  /** Cuts a message into parts within the platform's limits. Pure; never returns an empty list. */
  render(message: OutMessage, address: Address): Part[];
  /**
   * Parts of several announcements for one address as one part, each of them whole, in order; null when they don't fit together.
   * Pure. Absent: they never do.
   */
  join?(parts: readonly Part[]): Part | null;
  /** ONE attempt, no hidden retries. Never throws. */
  send(request: SendRequest): Promise<SendResult>;
  /** After an unknown send: did it arrive? Absent where the platform can't be asked. */
  reconcile?(request: ReconcileRequest): Promise<Reconciled>;
  /** Typing sign. Best effort; called again every few seconds while a turn works, then once with "idle". */
  status?(address: Address, state: "working" | "idle"): Promise<void>;
  /** A light sign on the person's own message that it was taken. Best effort. */
  receipt?(address: Address, ref: string): Promise<void>;
}
