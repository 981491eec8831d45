// A person's request in the transcript of its session: appended once however often its turn is tried, and marked when the
// person ended it. conversation.ts → here → stores
import { stopMark, stoppedBy } from "../agents/context.ts";
import { transcriptOf } from "../agents/open-session.ts";
import type { Attachment } from "../core/attachment.ts";
import { errorText } from "../core/errors.ts";
import { fence, newFenceToken, quotedLine } from "../core/fence.ts";
import type { Logger } from "../core/logger.ts";
import type { Inbound } from "../core/message.ts";
import { visibleText } from "../core/visible-text.ts";
import { readWake } from "../core/wake.ts";
import type { Tx } from "../stores/database.ts";
import type { InboxRow } from "../stores/inbox.ts";
import type { MailStore } from "../stores/mail.ts";
import type { Session, Sessions } from "../stores/sessions.ts";
import { type Entry, isTopicNote, type NewEntry } from "../stores/transcript-entry.ts";
import type { Transcripts } from "../stores/transcripts.ts";
import type { Gathered } from "./attaching.ts";

export interface RequestDeps {
  readonly sessions: Sessions;
  readonly transcripts: Transcripts;
  readonly mail: MailStore;
  readonly log: Logger;
}

export interface Request {
  readonly row: { readonly id: number };
  readonly inbound: Inbound;
  readonly session: Session;
  /** What came with it. */
  readonly gathered?: Gathered;
}

/** How many entries of a transcript's end are looked at, further and further back: no turn makes more. */
const LOOK_BACK = [10, 100, 1_000, 20_000];

/** A request's in its session's transcript. */
const entryId = (inboxId: number): string => `in:${inboxId}`;

/** A second attempt finds the person's words there. They are on the disk in the inbox (SE2); whoever calls brings these there. */
export async function appendRequest(deps: Pick<RequestDeps, "transcripts">, { row, inbound, session, gathered }: Request): Promise<void> {
  const ref = transcriptOf(session);
  const id = entryId(row.id);
  // Again, because the first try may have come to an end right here.
  if ((await lastRequest(deps, session))?.id === id) return;
  if (inbound.wake !== undefined) {
    await deps.transcripts.append(ref, [{ type: "message", role: "user", text: inbound.text, from: inbound.wake.from ?? "runtime", id }]);
    return;
  }
  const from = inbound.sender.name ?? inbound.sender.id;
  // Theirs, but perhaps pasted from a page that hid something in it: nobody can type what nobody can see.
  const words = visibleText(inbound.text);
  // In a group several people speak; the name is theirs to choose, so it stands as data in the text.
  const said = inbound.address.kind === "dm" ? words : `[from ${quotedLine(from)}]\n${words}`;
  // Before their own words, which are the last thing the model reads (SE8); stored with its token, so that it stays the same bytes.
  const shown = inbound.quoted === undefined ? [] : [fence(inbound.quoted, newFenceToken())];
  const text = [...shown, ...(gathered?.words ?? []), said].filter((part) => part !== "").join("\n");
  const files = gathered === undefined || gathered.files.length === 0 ? {} : { files: gathered.files };
  // One write: killed in its middle, the same is written once more and sets all of it aside.
  const asked: NewEntry = { type: "message", role: "user", text, from, id, ...files };
  await deps.transcripts.append(ref, [...(await rewinding(deps, inbound, session)), asked]);
}

/**
 * What goes before a request that stands in the place of the last one: the line that sets that one aside, and once more what was
 * told with it of runs. Nothing where another conversation was begun since.
 */
async function rewinding({ transcripts }: Pick<RequestDeps, "transcripts">, { replaces }: Inbound, session: Session): Promise<NewEntry[]> {
  if (replaces === undefined) return [];
  const from = entryId(replaces);
  for (const count of LOOK_BACK) {
    const entries = await transcripts.tail(transcriptOf(session), count);
    const at = entries.findLastIndex((entry) => entry.id.startsWith("in:"));
    if (at < 0 && entries.length === count) continue;
    if (entries[at]?.id !== from) return [];
    const notes = entries
      .slice(at)
      .flatMap((entry) => (isOfRuns(entry) ? [{ type: "note" as const, text: entry.text, about: entry.about }] : []));
    return [{ type: "rewound", from }, ...notes];
  }
  return [];
}

/** A note about something that happened, not about how things stood or how that request ended. */
const isOfRuns = (entry: Entry): entry is Extract<Entry, { type: "note" }> & { about: string } =>
  entry.type === "note" && typeof entry.about === "string" && !isTopicNote(entry) && stoppedBy(entry) === null;

/** Whether a turn has begun with this message. A transcript that can't be read has begun with none. */
export async function isOnRecord(
  deps: Pick<RequestDeps, "sessions" | "transcripts">,
  sessionKey: string,
  inboxId: number,
): Promise<boolean> {
  const session = await deps.sessions.find(sessionKey);
  const last = session === null ? undefined : await lastRequest(deps, session).catch(() => undefined);
  return last?.id === entryId(inboxId);
}

/** The files that came with this message, as its request in the transcript has them; null: it is not there. */
export async function filesOnRecord(
  deps: Pick<RequestDeps, "transcripts">,
  session: Session,
  inboxId: number,
): Promise<readonly Attachment[] | null> {
  const last = await lastRequest(deps, session);
  return last?.id === entryId(inboxId) && last.type === "message" && last.role === "user" ? (last.files ?? []) : null;
}

/** The last request on record. One turn at a time, in order: what an earlier try of this message appended is the last one. */
async function lastRequest({ transcripts }: Pick<RequestDeps, "transcripts">, session: Session): Promise<Entry | undefined> {
  // As a rule just before the answer that came last, with a call or two in between; before a long turn seldom.
  for (const count of LOOK_BACK) {
    const entries = await transcripts.tail(transcriptOf(session), count);
    const last = entries.findLast((entry) => entry.id.startsWith("in:"));
    if (last !== undefined || entries.length < count) return last;
  }
  return undefined;
}

/** That a request was stopped is not said any more once another stands in its place: nobody reads of it. With that one's first line. */
export async function dropStopMark({ mail }: Pick<RequestDeps, "mail">, tx: Tx, { replaces }: Inbound): Promise<void> {
  if (replaces !== undefined) await mail.dropNote(tx, stopMark(entryId(replaces)));
}

const STOPPED = {
  request:
    "[The gateway notes: the person ended the request above with /stop before it was finished. It is not to be carried out, now or later, unless they ask for it again.]",
  answer:
    "[The gateway notes: the person stopped the answer above while it was written and has read it up to there. Don't go on with it unless they ask.]",
};

/**
 * In the transaction that ends these messages: what later turns read says so (ST4). As a note, because the turn may still be
 * appending to the transcript, and a process killed right after the commit would never get to it. Only the last request can
 * be among them: what waits behind it is in no transcript yet.
 */
export async function noteStopped(
  deps: RequestDeps,
  tx: Tx,
  sessionKey: string,
  inboxIds: readonly number[],
  what: keyof typeof STOPPED,
): Promise<void> {
  const session = inboxIds.length === 0 ? null : await deps.sessions.find(sessionKey);
  if (session === null) return;
  try {
    const last = (await lastRequest(deps, session))?.id;
    if (last !== undefined && inboxIds.some((id) => entryId(id) === last))
      await deps.mail.addNote(tx, session.id, stopMark(last), STOPPED[what]);
  } catch (error) {
    // A transcript that can't be read must not keep anybody from stopping; nobody will read it to a model either.
    deps.log.warn({ sessionKey, reason: errorText(error) }, "a stopped request could not be marked");
  }
}

/**
 * Of a group's results the agent reads in the turn it is woken for and nowhere else: dropped before it began, that turn leaves them as a
 * note, with the word that the person ended it (AN5, ST4). One that was begun stands in the transcript, and is marked there.
 */
export async function noteUnread(
  deps: RequestDeps,
  tx: Tx,
  sessionKey: string,
  dropped: readonly Pick<InboxRow, "id" | "raw">[],
): Promise<void> {
  const wakes = dropped.flatMap(({ id, raw }) => ({ id, text: readWake(raw)?.text }));
  const session = wakes.every(({ text }) => text === undefined) ? null : await deps.sessions.find(sessionKey);
  if (session === null) return;
  for (const { id, text } of wakes) {
    if (text !== undefined && !(await isOnRecord(deps, sessionKey, id)))
      await deps.mail.addNote(tx, session.id, `wake:${id}`, `${text}\n\n${STOPPED.request}`);
  }
}
