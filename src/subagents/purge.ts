// AR5: what was archived more than `purgeAfterDays` ago is removed, by the time in the archived transcript's name, and with it
// what else holds the child's words: its documents, its briefs and mail, its announcements on the page. The run's record,
// usage and cost stay. The transcript goes last: as long as it is there, a purge that was interrupted is done again.
import { fileStamp } from "../core/clock.ts";
import { isUuid } from "../core/ids.ts";
import type { Briefs } from "../stores/briefs.ts";
import type { SessionDocuments, SessionRef } from "../stores/session-documents.ts";
import type { WebMessages } from "../stores/web-messages.ts";
import type { SubagentDeps } from "./deps.ts";
import { announceDeliveries } from "./posting.ts";

export interface PurgeDeps
  extends Pick<SubagentDeps, "db" | "runs" | "mail" | "digests" | "groups" | "transcripts" | "agents" | "clock" | "log" | "settings"> {
  readonly briefs: Pick<Briefs, "forget">;
  readonly webMessages: Pick<WebMessages, "removeOf">;
  readonly sessionDocuments: Pick<SessionDocuments, "removeAll">;
}

const DAY_MS = 24 * 3_600_000;

export async function purgeOld(deps: PurgeDeps): Promise<void> {
  const { purgeAfterDays } = deps.settings();
  if (purgeAfterDays === null) return;
  const oldest = fileStamp(deps.clock.now() - purgeAfterDays * DAY_MS);
  for (const { id: agentId } of deps.agents.list()) {
    for (const { sessionId, name } of await deps.transcripts.listArchived(agentId, oldest)) {
      // Somebody else's file of such a name: there is nothing more to it.
      if (isUuid(sessionId)) await purgeSession(deps, { agentId, sessionId });
      await deps.transcripts.remove(agentId, name);
      deps.log.info({ agentId, name }, "removed an archived transcript and what belongs to it (archive.purgeAfterDays)");
    }
  }
}

async function purgeSession(deps: PurgeDeps, ref: SessionRef): Promise<void> {
  const run = await deps.runs.findBySession(ref.sessionId);
  // Another file of a session that went on under its own name: all else is still its own.
  if (run !== null && run.archivedAt === null) return;
  await deps.sessionDocuments.removeAll(ref);
  await deps.db.transaction([], async (tx) => {
    await deps.briefs.forget(tx, ref.sessionId);
    if (run === null) return;
    await deps.mail.removeOf(tx, run.id);
    await deps.digests.removeOf(tx, run.id);
    await deps.groups.drop(tx, run.id);
    await deps.webMessages.removeOf(tx, announceDeliveries(run));
  });
}
