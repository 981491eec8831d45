// All of one side into the other, and then both compared: how much of each kind there is, and a digest of all of it. The source's is taken
// from what was read to be copied, the target's from what stands there afterwards.
import { createHash, hash } from "node:crypto";
import type { HitMovePoint } from "../../core/failpoints.ts";
import { type Row, withoutNul } from "../../stores/database.ts";
import { SHARED_TABLES } from "../../stores/postgres/schema.ts";
import type { WholeTranscript } from "../../stores/transcript-copy.ts";
import type { Side, Target } from "./side.ts";

/** Of rows, transcripts or documents. In which order they come is not part of it: files and rows have their own. */
export interface Amount {
  readonly what: string;
  count: number;
  readonly digest: Uint8Array;
}

export interface Watch {
  readonly failpoint: HitMovePoint;
  /** How far it came with what it does now; called often. */
  onProgress(doing: string, count: number): void;
  /** A kind is done. */
  onDone(amount: Amount): void;
  /** Left where it is, and why. */
  onStray(what: string): void;
}

export async function copyAll(source: Side, target: Target, watch: Watch): Promise<Amount[]> {
  const amounts: Amount[] = [];
  const done = (...some: Amount[]): void => {
    for (const amount of some) watch.onDone(amount);
    amounts.push(...some);
  };
  for (const table of SHARED_TABLES) done(await copyTable(source, target, table, watch));
  // 0: none was given yet.
  for (const [table, last] of await source.counters()) if (last > 0) await target.setCounter(table, last);
  done(...(await copyTranscripts(source, target, watch)));
  done(await copyDocuments(source, target, watch));
  done(await copyFiles(source, target, watch));
  const token = await source.token();
  if (token !== null) await target.putToken(token);
  await target.flush();
  return amounts;
}

/** What stands in a side, as `copyAll` counts it. */
export async function countAll(side: Side, watch: Pick<Watch, "onProgress">): Promise<Amount[]> {
  const amounts: Amount[] = [];
  for (const table of SHARED_TABLES) {
    const amount = nothingOf(table);
    const columns = await side.columns(table);
    for await (const rows of side.rows(table)) {
      side.check();
      for (const row of rows) addRow(amount, columns, row);
      watch.onProgress(table, amount.count);
    }
    amounts.push(amount);
  }
  const [transcripts, entries] = [nothingOf("transcripts"), nothingOf("entries")];
  for await (const transcript of side.transcripts(() => {})) {
    const counted = counting(transcript, transcripts, entries, () => watch.onProgress("entries", entries.count));
    for await (const _ of counted.lines()) side.check();
  }
  const documents = nothingOf("documents");
  for await (const { sessionId, agentId, name, text, changedAt } of side.documents(() => {})) {
    side.check();
    add(documents, [sessionId, agentId, name, text, changedAt]);
    watch.onProgress("documents", documents.count);
  }
  const files = nothingOf("files");
  for await (const { id, bytes } of side.files()) {
    side.check();
    add(files, [id, hash("sha256", bytes)]);
    watch.onProgress("files", files.count);
  }
  return [...amounts, transcripts, entries, documents, files];
}

/** Kinds that are not the same on both sides, in words. */
export function differences(source: readonly Amount[], target: readonly Amount[]): string[] {
  return source.flatMap(({ what, count, digest }) => {
    const other = target.find((one) => one.what === what);
    if (other === undefined || other.count !== count) return [`${what}: ${count} in the source, ${other?.count ?? 0} in the copy`];
    return Buffer.compare(digest, other.digest) === 0 ? [] : [`${what}: as many, but not the same`];
  });
}

async function copyTable(source: Side, target: Target, table: string, { failpoint, onProgress }: Watch): Promise<Amount> {
  const columns = await source.columns(table);
  const others = await target.columns(table);
  if (columns.join() !== others.join()) throw new Error(`the table ${table} has other columns in PostgreSQL than in a state folder`);
  const amount = nothingOf(table);
  for await (const rows of source.rows(table)) {
    source.check();
    target.check();
    const clean = rows.map(cleanRow);
    for (const row of clean) addRow(amount, columns, row);
    await target.putRows(table, columns, clean);
    onProgress(table, amount.count);
    failpoint("move.rows");
  }
  return amount;
}

async function copyTranscripts(source: Side, target: Target, watch: Watch): Promise<Amount[]> {
  const [transcripts, entries] = [nothingOf("transcripts"), nothingOf("entries")];
  for await (const found of source.transcripts(watch.onStray)) {
    source.check();
    target.check();
    await target.putTranscript(counting(cleanTranscript(found), transcripts, entries, () => watch.onProgress("entries", entries.count)));
    watch.failpoint("move.transcript");
  }
  return [transcripts, entries];
}

async function copyDocuments(source: Side, target: Target, { failpoint, onProgress, onStray }: Watch): Promise<Amount> {
  const documents = nothingOf("documents");
  for await (const found of source.documents(onStray)) {
    source.check();
    target.check();
    const document = { ...found, text: withoutNul(found.text) };
    await target.putDocument(document);
    add(documents, [document.sessionId, document.agentId, document.name, document.text, document.changedAt]);
    onProgress("documents", documents.count);
    failpoint("move.document");
  }
  return documents;
}

async function copyFiles(source: Side, target: Target, { failpoint, onProgress }: Watch): Promise<Amount> {
  const files = nothingOf("files");
  for await (const file of source.files()) {
    source.check();
    target.check();
    await target.putFile(file);
    add(files, [file.id, hash("sha256", file.bytes)]);
    onProgress("files", files.count);
    failpoint("move.file");
  }
  return files;
}

/** Rows of earlier versions may hold what PostgreSQL refuses. */
const cleanRow = (row: Row): Row =>
  Object.fromEntries(Object.entries(row).map(([name, value]) => [name, typeof value === "string" ? withoutNul(value) : value]));

const cleanTranscript = (transcript: WholeTranscript): WholeTranscript => ({
  ...transcript,
  header: withoutNul(transcript.header),
  async *lines() {
    for await (const lines of transcript.lines()) yield lines.map(withoutNul);
  },
});

/** The same transcript, counted while it is read. */
function counting(transcript: WholeTranscript, transcripts: Amount, entries: Amount, onLines: () => void): WholeTranscript {
  const { sessionId, agentId, archiveName, header } = transcript;
  return {
    ...transcript,
    async *lines() {
      const whole = createHash("sha256").update(JSON.stringify([sessionId, agentId, archiveName, header]));
      for await (const lines of transcript.lines()) {
        for (const line of lines) whole.update(`${line}\n`);
        entries.count += lines.length;
        onLines();
        yield lines;
      }
      mix(transcripts, whole.digest());
    },
  };
}

const nothingOf = (what: string): Amount => ({ what, count: 0, digest: new Uint8Array(32) });

const addRow = (amount: Amount, columns: readonly string[], row: Row): void =>
  add(
    amount,
    columns.map((name) => row[name] ?? null),
  );

const add = (amount: Amount, values: readonly unknown[]): void => mix(amount, hash("sha256", JSON.stringify(values), "buffer"));

/** Each differs from all others by its key, so that none takes another back. */
function mix(amount: Amount, digest: Uint8Array): void {
  amount.count++;
  for (let n = 0; n < amount.digest.length; n++) amount.digest[n] = (amount.digest[n] ?? 0) ^ (digest[n] ?? 0);
}
