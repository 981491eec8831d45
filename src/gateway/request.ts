// A person's request in the transcript of its session: appended once however often its turn is tried, and marked when the
// person ended it. conversation.ts → here → stores
import { stopMark } from "../agents/context.ts";
import { transcriptOf } from "../agents/open-session.ts";
import { errorText } from "../core/errors.ts";
import { fence, newFenceToken, quotedLine } from "../core/fence.ts";
import type { Logger } from "../core/logger.ts";
import type { Inbound } from "../core/message.ts";
import { visibleText } from "../core/visible-text.ts";
import type { Tx } from "../stores/database.ts";
import type { MailStore } from "../stores/mail.ts";
import type { Session, Sessions } from "../stores/sessions.ts";
import type { Transcripts } from "../stores/transcripts.ts";

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
}

const entryId = (inboxId: number): string => `in:${inboxId}`;

/** The person's words are on disk before the model is called (SE2); a second attempt finds them there. */
export async function appendRequest(deps: Pick<RequestDeps, "transcripts">, { row, inbound, session }: Request): Promise<void> {
  const ref = transcriptOf(session);
  const id = entryId(row.id);
  // Again, because the first try may have come to an end right here.
  if ((await lastRequest(deps, session)) === id) return void (await deps.transcripts.sync(ref));
  const from = inbound.sender.name ?? inbound.sender.id;
  // Theirs, but perhaps pasted from a page that hid something in it: nobody can type what nobody can see.
  const words = visibleText(inbound.text);
  // In a group several people speak; the name is theirs to choose, so it stands as data in the text.
  const said = inbound.address.kind === "dm" ? words : `[from ${quotedLine(from)}]\n${words}`;
  // Before their own words, which are the last thing the model reads (SE8); stored with its token, so that it stays the same bytes.
  const text = inbound.quoted === undefined ? said : `${fence(inbound.quoted, newFenceToken())}\n${said}`;
  await deps.transcripts.append(ref, [{ type: "message", role: "user", text, from, id }]);
  await deps.transcripts.sync(ref);
}

/** Id of the last request on record. One turn at a time, in order: what an earlier try of this message appended is the last one. */
async function lastRequest({ transcripts }: Pick<RequestDeps, "transcripts">, session: Session): Promise<string | undefined> {
  // As a rule just before the answer that came last, with a call or two in between; before a long turn seldom.
  for (const count of [10, 100, 1_000]) {
    const entries = await transcripts.tail(transcriptOf(session), count);
    const last = entries.findLast((entry) => entry.id.startsWith("in:"));
    if (last !== undefined || entries.length < count) return last?.id;
  }
  return undefined;
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
    const last = await lastRequest(deps, session);
    if (last !== undefined && inboxIds.some((id) => entryId(id) === last))
      await deps.mail.addNote(tx, session.id, stopMark(last), STOPPED[what]);
  } catch (error) {
    // A transcript that can't be read must not keep anybody from stopping; nobody will read it to a model either.
    deps.log.warn({ sessionKey, reason: errorText(error) }, "a stopped request could not be marked");
  }
}
