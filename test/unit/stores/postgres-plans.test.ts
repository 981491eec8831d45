// Every statement on the path of a message or a run finds its rows by an index in PostgreSQL, too. On small tables its planner reads
// them whole whatever there is; told not to, it does so only where there is no other way, and that is what must not happen.
import { describe, expect, it } from "vitest";
import { newId } from "../../../src/core/ids.ts";
import type { Params } from "../../../src/stores/database.ts";
import { askEverything, recording } from "../../support/all-statements.ts";
import { createSharedFolder, hasPostgres } from "../../support/shared-folder.ts";

/** Asked once in a while by people or metrics, never by the path of a message; the second follows the order of its key. */
const MAY_SCAN = [/^SELECT DISTINCT address_key/];
const LARGE = /Seq Scan on (inbox|outbox|sessions|runs|spend|run_messages|notes|transcripts|transcript_entries|web_messages|lane_jobs)\b/;

describe.runIf(hasPostgres())("plans in PostgreSQL", () => {
  it("[RU1][SO2] no statement on the path of a message, a run, a transcript or a lane walks a whole table", async () => {
    await using folder = await createSharedFolder();
    const { db, installation, transcripts, webMessages } = folder.stores;
    const asked = new Map<string, Params>();
    await askEverything(recording(db, asked));
    expect(asked.size).toBeGreaterThan(50);
    const ref = { agentId: "main", sessionId: newId() };
    await transcripts.create(ref, { key: "k", parent: null, entries: [{ type: "note", text: "x" }] });
    await transcripts.tail(ref, 5);
    const more: [string, Params][] = [
      ["SELECT n, body FROM transcript_entries WHERE session_id = ? AND n < ? ORDER BY n DESC LIMIT ?", [ref.sessionId, 100, 5]],
      ["SELECT * FROM web_messages WHERE chat = ? AND seq > ? ORDER BY seq LIMIT ?", ["main", 0, 5]],
      ["SELECT id FROM lane_jobs WHERE lane = ? AND owner IS NULL ORDER BY front DESC, tag, seq LIMIT 1", ["main"]],
      ["SELECT count(*) FROM lane_jobs WHERE lane = ? AND owner IS NOT NULL", ["main"]],
    ];
    await webMessages.chats();
    await installation?.jobs("main").claim(["main"]);
    const walks: string[] = [];
    await db.transaction([], async (tx) => {
      await tx.run("SET LOCAL enable_seqscan = off");
      for (const [sql, params] of [...asked, ...more]) {
        const plan = (await tx.all<Record<string, string>>(`EXPLAIN ${sql}`, ...params)).map((row) => row["QUERY PLAN"] ?? "");
        const scan = plan.find((step) => LARGE.test(step));
        if (scan !== undefined && !MAY_SCAN.some((allowed) => allowed.test(sql.trim())))
          walks.push(`${sql.trim().slice(0, 120)} → ${scan.trim()}`);
      }
    });
    expect(walks).toEqual([]);
  });
});
