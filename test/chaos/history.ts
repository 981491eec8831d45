// What a chaos run leaves behind, as plain data: everything people said, everything they saw, and what the gateway has on
// record. world.ts and traffic.ts write it down, checker.ts judges it and nothing else.

/** `channel/chat/thread`: where something is said and seen. One place is one session. */
export type Place = string;
export const placeOf = (channel: string, chat: string | number, thread: string | number | null | undefined): Place =>
  `${channel}/${chat}/${thread ?? "-"}`;

/**
 * Messages go to the agent, unless they answer what it asks; the others are commands. `ask` makes it ask, `reply` points at a question,
 * `group` has it send out several that belong together.
 */
const MESSAGE_KINDS = ["say", "tool", "slow", "long", "spawn", "group", "door", "ask", "reply"] as const;
export type MessageKind = (typeof MESSAGE_KINDS)[number];
/** `press` is one option of a question; `stranger` the same by somebody who may not write there. */
export type CommandKind =
  | "send"
  | "stop-one"
  | "stop-group"
  | "stop-all"
  | "stop"
  | "new"
  | "list"
  | "status"
  | "answer"
  | "press"
  | "stranger";
export type SaidKind = MessageKind | CommandKind;
export const isMessage = (kind: SaidKind): kind is MessageKind => (MESSAGE_KINDS as readonly string[]).includes(kind);

/** What a child is told to do; `door` waits until all slots are taken. */
/** `parent` and `wait` send one out below them (`m17.2.1`) and wait for it: by having nothing more to do, or with the tool. */
export type ChildKind = "quick" | "tool" | "slow" | "hang" | "skip" | "fail" | "parent" | "wait" | "ask" | "approve" | "door";
export interface ChildPlan {
  /** `m17.2`: the second child of message m17; `g17.2` where it belongs to the group m17 asks for. */
  readonly label: string;
  readonly kind: ChildKind;
  readonly cleanup: "keep" | "delete";
  /** Of a group: it begins after the first one. */
  readonly isAfter?: true;
}

/** The group that the message m17 asks for is g17, so that no rule about what m17 sent out takes its runs for its own. */
export const groupOf = (saidId: string): string => saidId.replace(/^m/, "g");
/** m17 for m17, m17.2, g17 and g17.2. */
export const rootOf = (about: string): string => (about.split(".")[0] ?? about).replace(/^g/, "m");

export interface Said {
  /** `m17`. */
  readonly id: string;
  readonly kind: SaidKind;
  readonly place: Place;
  readonly text: string;
  readonly at: number;
  /** The name under which the gateway's inbox knows it. */
  readonly externalId: string;
  /** The name it has there instead, where whoever read it found that it came too late (Matrix). */
  readonly lateId?: string;
  /** The platform's id of the message, to which Telegram's answers point. */
  readonly ref: string;
  readonly children: readonly ChildPlan[];
  /** The child a send or stop is about, or the group; who asked (`m17.2`, or `m17` where the agent itself did) what an answer is meant for. */
  readonly target: string | null;
  /** False: nobody acknowledged it in time, and Slack delivers a press or a slash command only once; it may have arrived all the same. */
  readonly isTaken: boolean;
  /** A button: its answer is for whoever pressed, and passes; after a kill it may not come at all. */
  readonly isPressed?: true;
}

/** One message of the bot as people see it. */
export interface Seen {
  readonly place: Place;
  /** Order of appearance within its channel. */
  readonly order: number;
  readonly at: number;
  readonly text: string;
  /** As it stood at first, where it was edited since. */
  readonly firstText?: string;
  readonly ref: string;
  /** The outbox key it carries (Slack's metadata, the page's id); Telegram shows none. */
  readonly key: string | null;
  /** A digest of that key, where it carries nothing else (Matrix, Discord). */
  readonly mark?: string;
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
  /** What stands in a message for its key, and that key. */
  readonly marks?: readonly (readonly [string, string])[];
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

/** One of a group. */
export interface MemberFact extends RunFact {
  readonly reason: string | null;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
}

export interface GroupFact {
  /** `g17`. */
  readonly name: string;
  readonly place: Place;
  readonly state: string;
  /** So many successes are enough; null: all have to end. */
  readonly enough: number | null;
  readonly createdAt: number;
  readonly completedAt: number | null;
  readonly members: readonly MemberFact[];
  /** The inbox rows that wake its requester. */
  readonly wakes: readonly Pick<InboxFact, "id" | "state">[];
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
  /** What came back of each `ask`, by the entry that made the call. */
  readonly answers: readonly { readonly call: string; readonly text: string }[];
  /** And of each `write`, which needs a yes. */
  readonly deeds: readonly { readonly call: string; readonly text: string }[];
}

/** What people were asked, and how that ended. */
export interface QuestionFact {
  readonly id: string;
  readonly kind: "ask" | "approve";
  /** Of an approval. */
  readonly verdict: string | null;
  /** `m17.2`, or `m17`: from its words. */
  readonly about: string;
  readonly sessionId: string;
  /** The entry that asks. */
  readonly call: string;
  readonly runId: string | null;
  readonly generation: number;
  readonly place: Place;
  readonly state: string;
  readonly answer: string | null;
  readonly answeredBy: string | null;
  readonly createdAt: number;
  readonly settledAt: number | null;
  /** Where its run stands by now. */
  readonly runState: string | null;
  readonly runGeneration: number | null;
  /** Its message as the gateway knows it: closed once it shows the end. */
  readonly liveState: string | null;
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
  /** Groups and their runs, which are not among the others. */
  readonly groups: readonly GroupFact[];
  readonly ends: readonly EndFact[];
  readonly questions: readonly QuestionFact[];
  /** Ids of the sessions on record. A file of no session is what a kill left of one that never came to be. */
  readonly sessions: readonly string[];
  readonly transcripts: readonly TranscriptFact[];
  /** Runs whose transcripts it left where they lay, and said so: it had ended too often while it renamed them. */
  readonly leftUnnamed: readonly string[];
  /** Starts and kills. */
  readonly incidents: readonly Incident[];
  /** How many worked at once when as many as there are slots were asked for, after the drain. */
  readonly slots: { readonly main: number; readonly subagent: number; readonly wantedMain: number; readonly wantedSubagent: number };
  /** What was noticed on the way: a transcript that changed behind its end, a process that ended by itself. */
  readonly troubles: readonly string[];
}
