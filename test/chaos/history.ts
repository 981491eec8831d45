// What a chaos run leaves behind, as plain data: everything people said, everything they saw, and what the gateway has on
// record. world.ts and traffic.ts write it down, checker.ts judges it and nothing else.

/** `channel/chat/thread`: where something is said and seen. One place is one session. */
export type Place = string;
export const placeOf = (channel: string, chat: string | number, thread: string | number | null | undefined): Place =>
  `${channel}/${chat}/${thread ?? "-"}`;

/** Messages go to the agent; the others are commands. */
const MESSAGE_KINDS = ["say", "tool", "slow", "long", "spawn", "door"] as const;
export type MessageKind = (typeof MESSAGE_KINDS)[number];
export type CommandKind = "send" | "stop-one" | "stop-all" | "stop" | "new" | "list" | "status";
export type SaidKind = MessageKind | CommandKind;
export const isMessage = (kind: SaidKind): kind is MessageKind => (MESSAGE_KINDS as readonly string[]).includes(kind);

/** What a child is told to do; `door` waits until all slots are taken. */
/** `parent` and `wait` send one out below them (`m17.2.1`) and wait for it: by having nothing more to do, or with the tool. */
export type ChildKind = "quick" | "tool" | "slow" | "hang" | "skip" | "fail" | "parent" | "wait" | "door";
export interface ChildPlan {
  /** `m17.2`: the second child of message m17. */
  readonly label: string;
  readonly kind: ChildKind;
  readonly cleanup: "keep" | "delete";
}

export interface Said {
  /** `m17`. */
  readonly id: string;
  readonly kind: SaidKind;
  readonly place: Place;
  readonly text: string;
  readonly at: number;
  /** The name under which the gateway's inbox knows it. */
  readonly externalId: string;
  /** The platform's id of the message, to which Telegram's answers point. */
  readonly ref: string;
  readonly children: readonly ChildPlan[];
  /** The child a send or stop is about. */
  readonly target: string | null;
  /** False: nobody acknowledged it in time, and Slack delivers a press or a slash command only once; it may have arrived all the same. */
  readonly isTaken: boolean;
}

/** One message of the bot as people see it. */
export interface Seen {
  readonly place: Place;
  /** Order of appearance within its channel. */
  readonly order: number;
  readonly at: number;
  readonly text: string;
  readonly ref: string;
  /** The outbox key it carries (Slack's metadata, the page's id); Telegram shows none. */
  readonly key: string | null;
  /** The message it answers (Telegram). */
  readonly replyTo: string | null;
}

export interface InboxFact {
  readonly id: number;
  readonly channel: string;
  readonly externalId: string;
  readonly state: string;
}

export interface OutboxFact {
  readonly id: number;
  readonly delivery: string;
  readonly n: number;
  readonly place: Place;
  readonly state: string;
  /** The answer to a command: it may go before what waits (DL6). */
  readonly isAnswer: boolean;
  /** A try of it failed or took long, so that others went ahead (DL6). */
  readonly isAside: boolean;
  /** The key of the message it shared with others (DL7). */
  readonly joinedAs: string | null;
  readonly ref: string | null;
  readonly createdAt: number;
  /** The words of this part. */
  readonly text: string;
}

export interface RunFact {
  readonly id: string;
  readonly label: string;
  readonly childKey: string;
  readonly sessionId: string;
  readonly place: Place;
  readonly state: string;
  readonly delivery: string;
  readonly generation: number;
  readonly resumes: number;
  readonly cleanup: string;
  readonly createdAt: number;
  readonly settledAt: number | null;
  readonly archivedAt: number | null;
  readonly archiveName: string | null;
}

/** How one generation of a run ended, from the note its requester got. */
export interface EndFact {
  readonly runId: string;
  readonly generation: number;
  readonly status: "success" | "error" | "timeout" | "unknown" | "stopped";
}

export interface TranscriptFact {
  /** The file's name. */
  readonly name: string;
  readonly sessionId: string;
  /** Damage found while reading: a line that is no JSON, a header that isn't first, a broken chain. */
  readonly problems: readonly string[];
  readonly entries: readonly { readonly id: string; readonly text: string }[];
}

export interface Incident {
  readonly at: number;
  readonly what: string;
}

export interface History {
  readonly said: readonly Said[];
  readonly seen: readonly Seen[];
  readonly inbox: readonly InboxFact[];
  readonly outbox: readonly OutboxFact[];
  readonly runs: readonly RunFact[];
  /** Runs of runs: their results go to their requester, not to the chat. */
  readonly below: readonly { readonly label: string; readonly state: string }[];
  readonly ends: readonly EndFact[];
  /** Ids of the sessions on record. A file of no session is what a kill left of one that never came to be. */
  readonly sessions: readonly string[];
  readonly transcripts: readonly TranscriptFact[];
  /** Starts and kills. */
  readonly incidents: readonly Incident[];
  /** How many worked at once when as many as there are slots were asked for, after the drain. */
  readonly slots: { readonly main: number; readonly subagent: number; readonly wantedMain: number; readonly wantedSubagent: number };
  /** What was noticed on the way: a transcript that changed behind its end, a process that ended by itself. */
  readonly troubles: readonly string[];
}
