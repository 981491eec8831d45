// What channels carry: Inbound up, OutMessage → Part down, and the Channel interface itself.
// platform → Channel.start → inbox row → Channel.decode → Inbound → gateway
// gateway → OutMessage → Channel.render → outbox rows (Part) → delivery → Channel.send → platform
import type { Address } from "./address.ts";
import type { Attachment, FetchedFile, SentFile } from "./attachment.ts";
import type { Quoted } from "./fence.ts";
import type { Person } from "./question.ts";

/** One thing a person did, in our words. Text commands, slash commands and buttons all arrive as text. */
export interface Inbound {
  /** `command` = an explicit slash command, `button` = a press; both carry a command line in `text`, e.g. `/subagents stop <runId>`. */
  readonly kind: "message" | "command" | "button";
  readonly address: Address;
  readonly sender: { readonly id: string; readonly name?: string };
  readonly text: string;
  /** What they wrote, where `text` begins with notes on what came with it: a command is looked for here. */
  readonly words?: string;
  /** What the person shows and did not write here: the message they answer, a forwarded one. Models read it behind a fence (IN4). */
  readonly quoted?: Quoted;
  /** True when the bot was addressed: a direct message, a mention, a reply to it, a slash command or a press. */
  readonly mentioned: boolean;
  /** The platform's id of the message this is (for a receipt or a reply); decoration only, never needed for routing. */
  readonly ref?: string;
  /** The platform's id of the message it replies to: a reply to a question answers it (QA1). */
  readonly repliesTo?: string;
  /** The inbox row of the request it stands in the place of, which is set aside with all that answered it (WB3). */
  readonly replaces?: number;
  /** The person wrote nothing: a sticker, a picture alone, something forwarded. */
  readonly isWordless?: true;
  /** What they sent along. */
  readonly files?: readonly SentFile[];
  /** Nothing of it can be read here, and why: whoever may speak is told exactly this, and nothing else comes of it. */
  readonly unreadable?: string;
  /** Nobody said it: the gateway gives the agent a turn of its own. */
  readonly wake?: Wake;
  /** Said where others read along, or pressed: how to answer this person alone, in the channel's own words. */
  readonly onlyTo?: OnlyReader;
}

export type OnlyReader = Readonly<Record<string, string>>;

/** What a turn that no message of a person asked for is about (core/wake.ts). */
export interface Wake {
  readonly sessionKey: string;
  readonly address: Address;
  readonly person: Person | null;
  /** The message that set all of it off: it pays for this as well (`budgets.message`). */
  readonly message: string;
  /** What the session's model reads. */
  readonly text: string;
  /** Who says it, in the transcript; left out: the runtime. */
  readonly from?: string;
}

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

/** What an announcement says of its run, beside the same in words: for places that show it as a card (WB3). */
export interface Card {
  readonly label: string;
  /** Where it was asked for, when it is read elsewhere. */
  readonly asked: string | null;
  readonly status: "success" | "error" | "timeout" | "unknown";
  /** As they stand at the end of the words. */
  readonly notes: string;
}

/** What the gateway wants said, before a platform's limits apply. */
export interface OutMessage {
  readonly markdown: string;
  /** Stands below the words, at the end of the message. */
  readonly stats?: Stats;
  /** Of an announcement of one run: its words begin and end with this. */
  readonly card?: Card;
  /** A text longer than four messages of the platform is posted as its beginning and, whole, as a file of this name (AN10). */
  readonly fileName?: string;
  readonly buttons?: readonly Button[];
  /** A stored file that goes out with the words, which are short then. */
  readonly file?: Attachment;
  /** Channels that can may set an announcement apart from the agent's own words. */
  readonly kind?: "announcement";
  /** A status line nobody needs to be woken for. */
  readonly quiet?: boolean;
  /** `Inbound.ref` of the message this answers. */
  readonly replyTo?: string;
  /** `Inbound.onlyTo` of the command or press this answers: nobody else sees it, as far as the platform can do that. */
  readonly onlyTo?: OnlyReader;
  /** Said in the place of its draft, and not at all where none stands: what was being written was ended. */
  readonly onlyDrafted?: true;
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
  /**
   * When its row was made, which tells it from one of the same key: a database that begins anew, or is brought back from a copy, gives the
   * numbers in keys out again. Left out: the key is one of a kind.
   */
  readonly madeAt?: number;
  /** True when an earlier attempt may have arrived and nothing can tell: the text must say so, but in a reserved place it shows once. */
  readonly repeated: boolean;
  /** What `reserved` gave for this part earlier, or where a draft of it stands: `Drafts.show` gave it, or it is `draftBegun`. */
  readonly ref?: string;
}

/** In place of a reference: a draft was begun then, and nobody lived to record where it stands, or whether it does. */
export const draftBegun = (at: number): string => `begun:${at}`;
export const draftBegunAt = (ref: string): number | null => (/^begun:\d+$/.test(ref) ? Number(ref.slice("begun:".length)) : null);

export interface ReconcileRequest extends Pick<SendRequest, "address" | "part" | "key" | "madeAt" | "ref"> {
  /** When the first attempt in doubt began. */
  readonly since: number;
}

export type Reconciled =
  | { readonly status: "found"; readonly ref: string }
  | { readonly status: "absent" }
  /** It may have, and nobody has to look: while it is this young, sent again it shows once. It stays in doubt since then. */
  | { readonly status: "again" }
  /** Nobody can ever tell for this part: if it is sent again, it must say so. */
  | { readonly status: "untold" }
  /** Not known yet: ask again. */
  | { readonly status: "unknown"; readonly reason: string };

/** A message of ours that stands already, and what it shall say from now on. */
export interface EditRequest {
  readonly address: Address;
  /** What `send` gave for it. */
  readonly ref: string;
  readonly part: Part;
}

/** Outcome of ONE attempt. Editing the same words in twice shows them once, so a lost answer is simply `retry`. */
export type EditResult =
  | { readonly status: "shown" }
  | { readonly status: "retry"; readonly afterMs?: number; readonly reason: string }
  /** Deleted by a person, or not to be edited any more: it is not made again. */
  | { readonly status: "gone"; readonly reason: string }
  /** These words are refused; others may not be. */
  | { readonly status: "refused"; readonly reason: string };

/** An answer as far as it is written. */
export interface DraftRequest {
  readonly address: Address;
  /** Of the message it answers: the same for everything that is shown of one answer, another for the next one. */
  readonly id: number;
  /** The key of the part it will be. */
  readonly key: string;
  readonly markdown: string;
  /** Id of who asked; null: not known, and only needed where a draft stands. */
  readonly reader: string | null;
  /** Where it stands, once it does. */
  readonly ref: string | null;
}

export interface StandingDraft extends Pick<DraftRequest, "address" | "key"> {
  readonly ref: string;
}

/** Outcome of ONE attempt. Of the first one of an answer all but `shown` and `unknown` say that nothing stands there. */
export type DraftResult =
  /** `ref`: where it stands, where it does. The next one not before `againMs`. */
  | { readonly status: "shown"; readonly ref?: string; readonly againMs: number }
  | { readonly status: "retry"; readonly afterMs: number; readonly reason: string }
  /** Nothing more of this answer can be shown before it is whole. */
  | { readonly status: "refused"; readonly reason: string }
  | { readonly status: "unknown"; readonly reason: string };

/** Answers read while they are written (LV6). All of it is best effort, and never what an answer waits for. */
export interface Drafts {
  /**
   * What was shown stays there, also when nobody goes on with it: so that it is begun is on record before, where it stands after
   * it, and the answer is put in its place (`SendRequest.ref`). Left out: it vanishes by itself.
   */
  readonly stands?: true;
  /** Whether anything can be shown there. */
  fits(address: Address): boolean;
  /** All that is written so far, not only what is new. Never throws; called for one answer at a time. */
  show(request: DraftRequest): Promise<DraftResult>;
  /** Takes away what stands there. False: it may still stand. Never throws. */
  remove?(request: StandingDraft): Promise<boolean>;
}

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
   * One chat, all its threads together unless `threadsApart`: so many at once, then one every `everyMs`. Answers to commands may go
   * `answersOnTop` further: a person waits for them, and types no more than a few.
   */
  readonly chat: { readonly burst: number; readonly everyMs: number; readonly answersOnTop: number };
  /** A thread is a chat of its own to the platform: one in trouble must not use up the places of the others. */
  readonly threadsApart?: true;
  /** On top of that, in a chat of several people: never more than `max` within any `perMs`. */
  readonly group?: { readonly max: number; readonly perMs: number };
  /** And in all chats of the account together. */
  readonly account?: { readonly max: number; readonly perMs: number };
  /** Between two edits in one chat: they count for the platform like messages, and must leave room for those (LV2). */
  readonly editEveryMs?: { readonly alone: number; readonly group: number };
}

export type ChannelState = "starting" | "on" | "retrying" | "failed" | "off";

export interface Channel {
  /** As addresses name it: `telegram`, `telegram@work` (core/address.ts). */
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
  /** In its threads nobody can reply to one message, and this stands for the `/` of a command. Left out: they are like any chat. */
  readonly threadSign?: string;
  /** Whoever reads here runs the gateway (the page): advice about keys, settings and files is for them and nobody else. */
  readonly isOperators?: boolean;
  /** Left out where the platform sets no pace (the page). */
  readonly pace?: Pace;
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
  /** The platform doesn't count it as a message, and it helps nobody once it has waited: it takes no place in the pace. Pure. */
  isUncounted?(part: Part): boolean;
  /** ONE attempt, no hidden retries. Never throws. */
  send(request: SendRequest): Promise<SendResult>;
  /**
   * Only where the platform is a table of ours: posts in the transaction `tx`, so that what is sent and that it was sent are one. Gives
   * where it stands. The same key again changes nothing. Rejects when the transaction does.
   */
  postIn?(tx: unknown, request: Pick<SendRequest, "address" | "part" | "key">): Promise<string>;
  /** ONE attempt to bring a message of ours up to date. Never throws. Absent where nothing that stands can be changed. */
  edit?(request: EditRequest): Promise<EditResult>;
  /** After an unknown send: did it arrive? Absent where the platform can't be asked. */
  reconcile?(request: ReconcileRequest): Promise<Reconciled>;
  /** Absent where an answer is only shown when it is whole. */
  readonly drafts?: Drafts;
  /** ONE attempt to open what a person sent (`Inbound.files`). Never throws. Absent where files come another way. */
  fetchFile?(file: SentFile, signal: AbortSignal): Promise<FetchedFile>;
  /** Typing sign. Best effort; called again every few seconds while a turn works, then once with "idle". */
  status?(address: Address, state: "working" | "idle"): Promise<void>;
  /** A light sign on the person's own message that it was taken. Best effort. */
  receipt?(address: Address, ref: string): Promise<void>;
}
