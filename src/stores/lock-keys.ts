// What a transaction locks, and what that protects. A check and the change that rests on it stand in one transaction under the same
// key as everybody who could make the check untrue; what one statement checks and changes at once (a compare-and-set, a UNIQUE
// key) needs none. The database takes the keys in order, so that two never wait for each other.
import { type Address, addressKey } from "../core/address.ts";

export type LockKey =
  | `${"tree" | "chat" | "page" | "scratchpad" | "lane" | "budget"}:${string}`
  | "inbox"
  | "pairing"
  | "browsers"
  | "accounts";

export const lock = {
  /**
   * A main session's messages and all below it, by that session's key: spawn (its cap, and that the requester still works), send
   * (that it is not archived, ended or at its cap meanwhile), stop (that what it drops has not begun), a message's begin, end of
   * a run (that there is no mail left), wait (that what it waits for has not come, an answer say), archive, a question,
   * its answer and the use of a yes, a file that is sent (that whoever asked or sends was not stopped meanwhile).
   */
  tree: (rootKey: string): LockKey => `tree:${rootKey}`,
  /** The outbox of one address: which parts go out together, and that what was withdrawn is not sent. */
  chat: (address: Address): LockKey => `chat:${addressKey(address)}`,
  /**
   * New rows of the inbox, and of one chat of the page. Whoever reads on behind the last number it has seen would miss a row that
   * was numbered before that one and committed after it: under the lock rows are committed in the order of their numbers.
   */
  inbox: "inbox",
  page: (chat: string): LockKey => `page:${chat}`,
  /** That of the chat where a command was given: what it drops may bring messages back there. */
  pageOf: ({ channel, chat }: Address): LockKey[] => (channel === "web" ? [`page:${chat}`] : []),
  /** The places of a lane that several processes work on: so many and no more. */
  lane: (name: string): LockKey => `lane:${name}`,
  /** A session's notes: their number, and what is added to the end. */
  scratchpad: (sessionKey: string): LockKey => `scratchpad:${sessionKey}`,
  /** What is spent and held at one level of the budgets: what is held must still fit when it is written. */
  budget: (levelId: string): LockKey => `budget:${levelId}`,
  /** Codes that wait and people who were decided about: so many and no more, each answered once. */
  pairing: "pairing",
  /** Signed-in browsers: so many and no more. */
  browsers: "browsers",
  /** Under which name a channel's rows stand. */
  accounts: "accounts",
} as const;
