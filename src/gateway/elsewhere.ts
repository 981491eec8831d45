// Answers that other processes write: what they say so far, for a stop that ends one of them (ST3).
import type { Bus } from "../core/events.ts";
import type { Channel } from "../core/message.ts";
import type { Inbox } from "../stores/inbox.ts";
import type { Job } from "./main-turn.ts";

/** A message and where its answer goes. */
export type Answered = Pick<Job, "row" | "inbound" | "channel">;

export interface ElsewhereDeps {
  readonly inbox: Pick<Inbox, "underWay">;
  channel(name: string, account: string): Channel | null;
}

/** What answers say so far that other processes write, by session. Best effort: a piece may be missing, or the end of it. */
export function followDrafts(bus: Bus): ReadonlyMap<string, string> {
  const drafts = new Map<string, string>();
  bus.on((event) => {
    if (event.type === "turn.text") drafts.set(event.sessionKey, event.text);
    if (event.type === "turn.started" || event.type === "turn.ended") drafts.delete(event.sessionKey);
  }, "elsewhere");
  return drafts;
}

/** The message of a session that another process answers just now, with what its answer says so far. Null: there is none. */
export async function answeredElsewhere(
  deps: ElsewhereDeps,
  drafts: ReadonlyMap<string, string>,
  sessionKey: string,
): Promise<(Answered & { readonly written: string }) | null> {
  const row = await deps.inbox.underWay(sessionKey);
  const channel = row === null ? null : deps.channel(row.channel, row.account);
  const inbound = row === null ? null : (channel?.decode(row.raw) ?? null);
  return row === null || channel === null || inbound === null ? null : { row, channel, inbound, written: drafts.get(sessionKey) ?? "" };
}
