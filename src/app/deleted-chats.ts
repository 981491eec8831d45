// What stays to be done of chats that were deleted on the page: at once, and by the chores of whoever comes after a kill.
import { transcriptOf } from "../agents/open-session.ts";
import { errorText } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { Stores } from "./store-parts.ts";

/** Gives the transcripts of deleted chats their archived names, and forgets those sessions' notes. What fails is done at the next look. */
export async function archiveDeleted(stores: Stores, log: Logger): Promise<void> {
  try {
    for (const { id, name } of await stores.sessions.listToArchive()) {
      const session = await stores.sessions.get(id);
      if (session === null) continue;
      await stores.transcripts.archive(transcriptOf(session), name);
      // Unless another conversation was begun there since: they are its own then.
      if ((await stores.sessions.find(session.key)) === null) await stores.scratchpad.clear(session.key);
      await stores.db.transaction([], (tx) => stores.sessions.setToArchive(tx, id, null));
    }
  } catch (error) {
    log.warn({ reason: errorText(error) }, "the transcript of a deleted chat is archived later");
  }
}
