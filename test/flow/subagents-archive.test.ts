// Archiving with a clock the test drives, on real stores: due times, renames, restarts, purging. Of one process on its files, and of two on
// one PostgreSQL, both of which archive what is due.
import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Run } from "../../src/core/run.ts";
import type { ModelReply, ModelRequest } from "../../src/models/model.ts";
import { findTarget } from "../../src/subagents/targets.ts";
import { logText } from "../../src/subagents/transcript-view.ts";
import { createManualClock, type ManualClock } from "../support/manual-clock.ts";
import { createSchema, type Schema } from "../support/postgres.ts";
import { CHAT_KEY } from "../support/runs.ts";
import { hasPostgres, sharedOptions } from "../support/shared-folder.ts";
import { createStage, makeStateDir, okReply, type Stage } from "../support/stage.ts";
import { waitFor } from "../support/wait.ts";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

type Form = "alone" | "two on PostgreSQL";

let clock: ManualClock;
let stateDirs: string[];
let stage: Stage;
/** Works beside it, where there are two. */
let other: Stage | null;
let schema: Schema | null;
let reply: (request: ModelRequest) => ModelReply | Promise<ModelReply>;

const open = async (subagents: Record<string, unknown> = {}, config: Record<string, unknown> = {}): Promise<void> => {
  const call = async (request: ModelRequest): Promise<ModelReply> => reply(request);
  const [own = "", beside = ""] = stateDirs;
  const begin = (stateDir: string): Promise<Stage> =>
    createStage({ ...{ clock, stateDir, subagents, config, call }, ...(schema === null ? {} : { shared: sharedOptions(schema.url) }) });
  stage = await begin(own);
  other = schema === null ? null : await begin(beside);
};
const close = async (): Promise<void> => {
  await other?.[Symbol.asyncDispose]();
  await stage[Symbol.asyncDispose]();
};
const reconfigure: Stage["reconfigure"] = (...to) => {
  stage.reconfigure(...to);
  other?.reconfigure(...to);
};

function inForm(form: Form): void {
  beforeEach(async () => {
    clock = createManualClock();
    stateDirs = [makeStateDir(), makeStateDir()];
    schema = form === "alone" ? null : await createSchema();
    reply = () => okReply("the answer");
  });
  afterEach(async () => {
    await close();
    await schema?.[Symbol.asyncDispose]();
    for (const dir of stateDirs) rmSync(dir, { recursive: true, force: true });
  });
}

const folder = (): string => join(stateDirs[0] ?? "", "agents/main/sessions");
const files = ({ sessionId }: Run): string[] => readdirSync(folder()).filter((name) => name.startsWith(`${sessionId}.jsonl`));
/** As what its transcript lies there. */
const names = async (run: Run): Promise<(string | null)[]> => {
  if (schema === null) return files(run);
  const rows = await stage.stores.db.all<{ name: string | null }>(
    "SELECT archive_name AS name FROM transcripts WHERE session_id = ?",
    run.sessionId,
  );
  return rows.map(({ name }) => name ?? `${run.sessionId}.jsonl`);
};
/**
 * Whoever waits for a time asks the database first, which on PostgreSQL is not done when the clock has been moved: so it goes on, a second
 * at each look.
 */
const comes = <T>(what: string, look: () => Promise<T>): Promise<NonNullable<T>> =>
  waitFor(what, async () => {
    if (schema !== null) await clock.advance(1_000);
    return look();
  }) as Promise<NonNullable<T>>;

const settled = (id: string): Promise<Run> =>
  comes("the announcement to be settled", async () => ((await stage.get(id)).settledAt === null ? null : await stage.get(id)));

const FORMS: readonly Form[] = hasPostgres() ? ["alone", "two on PostgreSQL"] : ["alone"];

describe.each(FORMS)("the due time, %s", (form) => {
  inForm(form);
  it("[AR1] counts from the end and its settled announcement; a running run is never archived", async () => {
    const asked = Promise.withResolvers<(reply: ModelReply) => void>();
    reply = ({ messages }) =>
      messages.at(-1)?.text.startsWith("Your work is over.") ? okReply("done") : new Promise((resolve) => asked.resolve(resolve));
    await open({ archiveAfterMinutes: 60 });
    const { id } = await stage.spawn();
    // Not only running: its model has been asked, and waits.
    const finish = await asked.promise;
    await clock.leap(10 * 60 * MINUTE);
    expect(await stage.get(id)).toMatchObject({ state: "running", archivedAt: null });
    finish(okReply("after ten hours"));
    const run = await settled(id);
    expect(stage.parts.archiver.dueAt(run)).toBe((schema === null ? clock.now() : (run.settledAt ?? 0)) + 60 * MINUTE);
    await clock.advance(59 * MINUTE);
    expect((await stage.get(id)).archivedAt).toBeNull();
    await clock.advance(2 * MINUTE);
    await comes("it to be archived", async () => (await stage.get(id)).archivedAt !== null);
  });

  it("[AR1] survives a restart, and a changed setting applies to those that wait", async () => {
    await open({ archiveAfterMinutes: 60 });
    const first = await settled((await stage.spawn()).id);
    await clock.advance(50 * MINUTE);
    await close();
    await open({ archiveAfterMinutes: 60 });
    expect(stage.parts.archiver.dueAt(await stage.get(first.id))).toBe((first.settledAt ?? 0) + 60 * MINUTE);
    await clock.advance(9 * MINUTE);
    expect((await stage.get(first.id)).archivedAt).toBeNull();
    await clock.advance(2 * MINUTE);
    await comes("it to be archived", async () => (await stage.get(first.id)).archivedAt !== null);

    const second = await settled((await stage.spawn()).id);
    reconfigure({ archiveAfterMinutes: 5 });
    expect(stage.parts.archiver.dueAt(second)).toBe((second.settledAt ?? 0) + 5 * MINUTE);
    await clock.advance(6 * MINUTE);
    await comes("it to be archived sooner", async () => (await stage.get(second.id)).archivedAt !== null);
  });

  it("[AR1] 0 means never", async () => {
    await open({ archiveAfterMinutes: 0 });
    const run = await settled((await stage.spawn()).id);
    expect(stage.parts.archiver.dueAt(run)).toBeNull();
    await clock.leap(400 * DAY);
    expect((await stage.get(run.id)).archivedAt).toBeNull();
    expect(await names(run)).toEqual([`${run.sessionId}.jsonl`]);
  });

  it("[AR4] a timed-out run is not archived by the timeout", async () => {
    reply = ({ signal }) =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve({ ...okReply("half of it"), outcome: "aborted" })));
    await open({ archiveAfterMinutes: 60 });
    const { id } = await stage.spawn({ runTimeoutSeconds: 5, cleanup: "keep" });
    await waitFor("it to run", async () => (await stage.get(id)).state === "running");
    await clock.advance(6_000);
    const run = await settled(id);
    expect(run).toMatchObject({ state: "timeout", archivedAt: null });
    await clock.advance(59 * MINUTE);
    expect(await names(await stage.get(id))).toEqual([`${run.sessionId}.jsonl`]);
    await clock.advance(2 * MINUTE);
    await comes("it to be archived like any other", async () => (await stage.get(id)).archivedAt !== null);
  });
});

describe.each(FORMS)("archiving, %s", (form) => {
  inForm(form);
  it("[AR2] renames in the same folder to a name with the time, mode kept; record, log and info still work", async () => {
    await open({ archiveAfterMinutes: 60 });
    const before = await settled((await stage.spawn({ label: "kept on record" })).id);
    await clock.advance(61 * MINUTE);
    const run = await comes("it to be archived", async () =>
      (await stage.get(before.id)).archivedAt === null ? null : await stage.get(before.id),
    );
    expect(run.archiveName).toMatch(
      new RegExp(`^${run.sessionId}\\.jsonl\\.deleted\\.\\d{4}-\\d\\d-\\d\\dT\\d\\d-\\d\\d-\\d\\d\\.\\d{3}Z$`),
    );
    expect(await names(run)).toEqual([run.archiveName]);
    if (schema === null) expect(statSync(join(folder(), run.archiveName ?? "")).mode & 0o777).toBe(0o600);
    expect(run).toMatchObject({ state: "done", delivery: "delivered", spend: before.spend });
    expect(await findTarget(stage.stores, CHAT_KEY, "kept on record")).toMatchObject({ run: { id: run.id } });
    expect(await logText(stage.stores.transcripts, run, { limit: 20, tools: true })).toContain("the answer");
  });

  it("[CM5] a message to an archived run brings its transcript back, and it is archived anew later", async () => {
    await open({ archiveAfterMinutes: 60 });
    const { id } = await settled((await stage.spawn()).id);
    await clock.advance(61 * MINUTE);
    // Not only named, which comes before its file is moved.
    await comes("it to be archived", async () => (await stage.get(id)).archivedAt !== null);
    const archived = await stage.get(id);
    const locks = stage.parts.steering.locks([archived]);
    const sent = stage.stores.db.transaction(locks, (tx) => stage.parts.steering.send(tx, archived, "me", "one more"));
    expect(await sent).toBe("continued");
    expect(await names(await stage.get(id))).toEqual([`${(await stage.get(id)).sessionId}.jsonl`]);
    const again = await settled(id);
    expect(again).toMatchObject({ generation: 2, archivedAt: null });
    expect(await logText(stage.stores.transcripts, again, { limit: 20, tools: false })).toMatch(/the answer[\s\S]*one more/);
    await clock.advance(61 * MINUTE);
    await comes("the second archiving", async () => (await stage.get(id)).archivedAt !== null);
    expect((await stage.get(id)).archiveName).not.toBe(archived.archiveName);
    expect(await names(await stage.get(id))).toEqual([(await stage.get(id)).archiveName]);
  });

  it("[AR3] cleanup delete archives as soon as the announcement is delivered or skipped, by the same rename", async () => {
    await open({ archiveAfterMinutes: 0 });
    const delivered = await stage.spawn({ cleanup: "delete" });
    await comes("it to be archived", async () => (await stage.get(delivered.id)).archivedAt !== null);
    expect(await stage.get(delivered.id)).toMatchObject({ delivery: "delivered" });
    expect(await names(await stage.get(delivered.id))).toEqual([(await stage.get(delivered.id)).archiveName]);
    reply = ({ messages }) => okReply(messages.at(-1)?.text.startsWith("Your work is over.") ? "ANNOUNCE_SKIP" : "nothing much");
    const skipped = await stage.spawn({ cleanup: "delete" });
    await comes("it to be archived", async () => (await stage.get(skipped.id)).archivedAt !== null);
    expect(await stage.get(skipped.id)).toMatchObject({ delivery: "skipped" });
  });

  it("[AR3] cleanup delete archives also when the announcement is blocked for good", async () => {
    await open({ archiveAfterMinutes: 0 });
    const gone = { channel: "telegram", account: "nobody", chat: "1", kind: "dm" as const };
    const { id } = await stage.spawn({ cleanup: "delete" }, { address: gone });
    await comes("it to be archived", async () => (await stage.get(id)).archivedAt !== null);
    expect(await stage.get(id)).toMatchObject({ delivery: "blocked", deliveryReason: expect.stringContaining("telegram") });
  });
});

describe.runIf(hasPostgres())("purging, two on PostgreSQL", () => {
  inForm("two on PostgreSQL");

  it("[AR5][SO3] removes archived transcripts older than the setting with what belongs to them, and nothing else", async () => {
    await open({ archiveAfterMinutes: 60 });
    const { id } = await settled((await stage.spawn()).id);
    await clock.advance(61 * MINUTE);
    await comes("it to be archived", async () => (await stage.get(id)).archivedAt !== null);
    const live = await settled((await stage.spawn()).id);
    reconfigure({ archiveAfterMinutes: 0 }, { archive: { purgeAfterDays: 30 } });
    await clock.leap(29 * DAY);
    const run = await stage.get(id);
    expect(await names(run)).toEqual([run.archiveName]);
    await clock.leap(2 * DAY);
    await comes("the old one to be gone", async () => (await names(run)).length === 0);
    expect(await stage.stores.db.all("SELECT 1 FROM web_messages WHERE key LIKE ?", `announce:%${id}%`)).toEqual([]);
    expect(await names(live)).toEqual([`${live.sessionId}.jsonl`]);
    expect(await stage.get(id)).toMatchObject({ state: "done", archiveName: run.archiveName });
  });
});

describe("purging, alone", () => {
  inForm("alone");

  it("[AR5] purging removes archived transcripts older than the setting with what belongs to them, and nothing else", async () => {
    await open({ archiveAfterMinutes: 60 });
    await stage.parts.documents.start();
    const { id, sessionId } = await settled((await stage.spawn({ brief: { mission: "look", sharedMemory: [], constraints: [] } })).id);
    const documents = (): string[] => (existsSync(join(folder(), sessionId)) ? readdirSync(join(folder(), sessionId)) : []);
    await waitFor("its documents", () => documents().some((name) => name.endsWith(".response.md")));
    const kept = async (sql: string, ...params: string[]): Promise<number> =>
      (await stage.stores.db.get<{ n: number }>(sql, ...params))?.n ?? 0;
    const left = async (): Promise<number[]> => [
      await kept("SELECT count(*) AS n FROM web_messages WHERE key LIKE ?", `announce:%${id}%`),
      await kept("SELECT count(*) AS n FROM briefs WHERE session_id = ?", sessionId),
      documents().length,
    ];
    expect((await left()).every((count) => count > 0)).toBe(true);
    await clock.advance(61 * MINUTE);
    await waitFor("it to be archived", async () => (await stage.get(id)).archivedAt !== null);
    const live = await settled((await stage.spawn()).id);
    writeFileSync(join(folder(), "notes.deleted.txt"), "not ours");
    writeFileSync(join(folder(), "x.jsonl"), "not archived");
    stage.reconfigure({ archiveAfterMinutes: 0 });
    await clock.leap(40 * DAY);
    const archived = (await stage.get(id)).archiveName ?? "";
    expect(existsSync(join(folder(), archived))).toBe(true);

    stage.reconfigure({ archiveAfterMinutes: 0 }, { archive: { purgeAfterDays: 30 } });
    await clock.leap(2 * DAY);
    await waitFor("the old one to be gone", () => !existsSync(join(folder(), archived)));
    for (const name of ["notes.deleted.txt", "x.jsonl"]) expect(existsSync(join(folder(), name))).toBe(true);
    expect(files(live)).toHaveLength(1);
    expect(await left()).toEqual([0, 0, 0]);
    expect(await kept("SELECT count(*) AS n FROM web_messages WHERE key LIKE ?", `announce:%${live.id}%`)).toBe(1);
    // Its record stays, and says plainly that the file is not there.
    expect(await stage.get(id)).toMatchObject({ state: "done", archiveName: archived });
    const send = () => stage.stores.db.transaction([], async (tx) => stage.parts.steering.send(tx, await stage.get(id), "me", "go on"));
    expect(await send()).toEqual({ refused: expect.stringMatching(/can't go on: .* was removed/) });
    expect(await stage.get(id)).toMatchObject({ state: "done", generation: 1, archiveName: archived });
    expect(await stage.stores.mail.listForRun(id)).toEqual([]);
  });
});
