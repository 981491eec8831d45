// Every statement on the path of a message or a run, asked once of the real stores: for tests of their plans.
import { noFailpoints } from "../../src/core/failpoints.ts";
import type { Database, Params, Query, Tx } from "../../src/stores/database.ts";
import { createInbox } from "../../src/stores/inbox.ts";
import { createLedger } from "../../src/stores/ledger.ts";
import { createMail } from "../../src/stores/mail.ts";
import { createOutbox } from "../../src/stores/outbox.ts";
import { createPairing } from "../../src/stores/pairing.ts";
import { createRunSearch } from "../../src/stores/run-search.ts";
import { createRuns } from "../../src/stores/runs.ts";
import { createSessions } from "../../src/stores/sessions.ts";
import { createManualClock } from "./manual-clock.ts";
import { ADDRESS, CHAT_KEY, newRun } from "./runs.ts";

/** The same database, noting each statement it is asked. */
export function recording(db: Database, asked: Map<string, Params>): Database {
  const noting = (query: Query): Query => ({
    async get(sql, ...params) {
      asked.set(sql, params);
      return query.get(sql, ...params);
    },
    async all(sql, ...params) {
      asked.set(sql, params);
      return query.all(sql, ...params);
    },
  });
  const notingTx = (tx: Tx): Tx => ({
    ...tx,
    ...noting(tx),
    async run(sql, ...params) {
      asked.set(sql, params);
      return tx.run(sql, ...params);
    },
  });
  return { ...db, ...noting(db), transaction: (keys, work, options) => db.transaction(keys, (tx) => work(notingTx(tx)), options) };
}

export async function askEverything(db: Database): Promise<void> {
  const write = <T>(work: (tx: Tx) => Promise<T>): Promise<T> => db.transaction([], work);
  const clock = createManualClock();
  const inbox = createInbox({ db, clock, bootId: "boot", failpoint: noFailpoints });
  await inbox.sink("web", "local").put([{ externalId: "1", raw: {} }], "c");
  await inbox.sink("web", "local").cursor();
  await inbox.listNew(0, 10);
  await inbox.route(1, "k");
  await inbox.claim("k");
  await inbox.release(1);
  await inbox.putBack(2);
  await inbox.countWaiting("k");
  await inbox.waitingSessions();
  await inbox.orphanedSessions();
  await write((tx) => inbox.drop(tx, "k"));
  await write((tx) => inbox.finish(tx, 1));
  await inbox.purge(0);
  const outbox = createOutbox({ db, clock, bootId: "boot" });
  await write((tx) => outbox.add(tx, { delivery: "d", address: ADDRESS, parts: [{}], runId: "r" }));
  const id = (await outbox.head("web/local/main/-"))?.id ?? 0;
  await outbox.openAddresses();
  await outbox.get(id);
  await write((tx) => outbox.markSending(tx, id));
  await outbox.recover();
  await write((tx) => outbox.retryAt(tx, id, { notBefore: 0, firstAt: 0, reason: "x", as: "queued", stepsAside: true }));
  await outbox.listAside("web/local/main/-", 1);
  await write((tx) => outbox.stepAside(tx, "d"));
  await write((tx) => outbox.add(tx, { delivery: "e", address: ADDRESS, parts: [{}], runId: "s" }));
  const [lead, other] = [(await outbox.get(id))!, (await outbox.get(id + 1))!];
  await outbox.listBehind(lead, 5);
  await outbox.listJoined(await write((tx) => outbox.join(tx, lead, [other], {})));
  await write((tx) => outbox.dissolve(tx, lead, "queued"));
  await outbox.listSentSince(0);
  await write((tx) => outbox.setPart(tx, id, {}, "queued"));
  await write((tx) => outbox.retarget(tx, id, ADDRESS, ADDRESS, "queued"));
  await write((tx) => outbox.markBlocked(tx, "d", "x", "queued"));
  await write((tx) => outbox.requeue(tx, "r"));
  await write((tx) => outbox.markSent(tx, id, "ref"));
  await outbox.countAllOpen();
  await write((tx) => outbox.withdraw(tx, "d"));
  await write((tx) => outbox.reopen(tx, "d"));
  await outbox.purge(0);
  const sessions = createSessions({ db, clock });
  await write((tx) => sessions.insert(tx, { id: "s", key: "k", agentId: "main", address: null, parentKey: null }));
  await sessions.find("k");
  await sessions.get("s");
  await write((tx) => sessions.setModel(tx, "s", null));
  await write((tx) =>
    sessions.addSpend(
      tx,
      { id: "s", agentId: "main", address: null },
      "m",
      { usage: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 }, costUsd: null },
      null,
    ),
  );
  const ledger = createLedger({ db });
  const range = { from: "2026-01-01", to: "2026-01-31" };
  await ledger.days(range.from, range.to);
  for (const by of ["model", "agent", "channel", "person"] as const) {
    await ledger.names(by, range, 5);
    await ledger.daysOf(by, range, ["x"]);
  }
  await ledger.purge("2025-01-01");
  await sessions.spendOf(["s"]);
  await sessions.spendOfDay(0);
  await write((tx) => sessions.end(tx, "s"));
  const runs = createRuns({ db, clock, bootId: "boot" });
  await write((tx) => runs.insert(tx, newRun("r")));
  await write((tx) => runs.insert(tx, newRun("below", { requesterKey: "child-r", requesterRunId: "r", rootKey: CHAT_KEY })));
  await runs.findBySpawnKey("x");
  await runs.findByChildKey("x");
  await runs.start("r");
  await runs.glance("r");
  await runs.setDoing("r", "x");
  await write((tx) => runs.putAside(tx, "r", true));
  await write((tx) => runs.countResume(tx, "r"));
  await write((tx) => runs.addSpend(tx, "r", { usage: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 }, costUsd: null }));
  await write((tx) => runs.end(tx, "r", { as: "done", reason: null, incomplete: false, delivery: "none" }));
  await write((tx) => runs.setDelivery(tx, "r", "delivered"));
  await write((tx) => runs.settle(tx, { id: "r", generation: 1 }, "delivered"));
  await write((tx) => runs.markSettled(tx, "r"));
  await runs.listUnfinished();
  await runs.listOrphaned();
  await runs.countUnfinished("k");
  await runs.listOf("k", 5);
  await runs.listRecent(5);
  await runs.unfinishedBelow(CHAT_KEY);
  await runs.unfinishedBelow("child-r");
  await runs.rootsAtWork("k:", 5);
  await runs.isBelow("a", "b");
  await runs.childrenOf("r");
  await runs.listRerunsOf("r", 5);
  await runs.listArchiveDue(0, 5);
  await write((tx) => runs.setArchiveName(tx, "r", "x"));
  await write((tx) => runs.setArchived(tx, "r"));
  await write((tx) => runs.reopen(tx, { id: "r", requesterKey: "k" }));
  await runs.countUnfinishedByState();
  await runs.listWakeDue(0);
  await runs.wake("r");
  const search = createRunSearch({ db });
  const filter = { agentId: "a", model: "m", channel: "web", rootKey: "k", minCostUsd: 1, since: 1, text: "t" };
  for (const wanted of [{}, filter, { ...filter, isNeedy: true }]) await search.page(wanted, null, 5);
  await search.among(filter, ["r"]);
  await search.totals(filter);
  await search.facets();
  await createSessions({ db, clock }).listChats(null, 5);
  const mail = createMail({ db, clock });
  await write((tx) => mail.sendToRun(tx, "r", "a", "b"));
  await write((tx) => mail.addNote(tx, "s", "a", "b"));
  await mail.listForRun("r");
  await mail.listNotes("s");
  await write((tx) => mail.takeForRun(tx, [1]));
  await write((tx) => mail.takeNotes(tx, [1]));
  await mail.purge(0);
  await createPairing({ db, clock }).isPaired("a", "b", "c");
}
