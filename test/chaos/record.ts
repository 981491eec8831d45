// Reads what the gateway has on record after (or between) its lives: tables and transcripts → the facts of a history.
import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { nonceOf } from "../../src/channels/discord/send.ts";
import { transactionOf, transactionOfRow } from "../../src/channels/matrix/post.ts";
import {
  type EndFact,
  type GroupFact,
  type History,
  type InboxFact,
  type MemberFact,
  type OutboxFact,
  placeOf,
  type QuestionFact,
  type RunFact,
  type Seen,
  type TranscriptFact,
} from "./history.ts";

/** What a question says about who asks (script.ts). */
export const ASKED = /\bq (m\d+(?:\.\d+)*)/;

/** One process has its rows at hand, several have them on a server. */
export type Rows = <T>(sql: string) => T[] | Promise<T[]>;

interface StoredAddress {
  readonly channel: string;
  readonly chat: string;
  readonly thread?: string;
}

const placeOfAddress = (json: string): string => {
  const { channel, chat, thread } = JSON.parse(json) as StoredAddress;
  return placeOf(channel, chat, thread);
};

export async function readTables(
  rows: Rows,
): Promise<Pick<History, "inbox" | "outbox" | "runs" | "below" | "groups" | "ends" | "sessions" | "questions">> {
  type Stored = Omit<OutboxFact, "place" | "text" | "isAnswer" | "isAside"> & {
    address: string;
    part: string;
    joinedPart: string | null;
    rank: number;
    aside: number;
  };
  const stored = await rows<Stored>(
    `SELECT id, delivery, n, state, rank, aside, joined_as AS "joinedAs", ref, created_at AS "createdAt", address, part, joined_part AS "joinedPart" FROM outbox ORDER BY id`,
  );
  // Those that share a message step aside with it.
  const asideTogether = new Set(stored.flatMap(({ aside, joinedAs }) => (aside === 1 && joinedAs !== null ? [joinedAs] : [])));
  const outbox = stored.map(
    ({ address, part, joinedPart, rank, aside, ...row }): OutboxFact => ({
      ...row,
      isAnswer: rank === 0,
      isAside: aside === 1 || (row.joinedAs !== null && asideTogether.has(row.joinedAs)),
      place: placeOfAddress(address),
      text: textOf(part),
      marks: marksOf(row, part, joinedPart),
    }),
  );
  const found = await rows<Omit<RunFact, "place"> & { address: string }>(
    `SELECT ${RUN_COLUMNS} FROM runs WHERE requester_run_id IS NULL AND group_id IS NULL ORDER BY created_at`,
  );
  const runs = found.map(({ address, ...run }): RunFact => ({ ...run, place: placeOfAddress(address) }));
  const inbox = await rows<InboxFact>(`SELECT id, channel, external_id AS "externalId", state FROM inbox ORDER BY id`);
  return {
    inbox,
    outbox,
    runs,
    groups: await readGroups(rows, inbox),
    below: await rows<{ label: string; state: string }>(
      "SELECT label, state FROM runs WHERE requester_run_id IS NOT NULL ORDER BY created_at",
    ),
    questions: await readQuestions(rows),
    sessions: (await rows<{ id: string }>("SELECT id FROM sessions")).map((row) => row.id),
    ends: (await rows<{ about: string; text: string }>("SELECT about, text FROM notes ORDER BY id")).flatMap(toEnd),
  };
}

/** What a part says, whatever its platform calls that. */
function textOf(part: string): string {
  const { text, body, content } = JSON.parse(part) as { text?: string; body?: string; content?: string };
  return text ?? body ?? content ?? "";
}

const RUN_COLUMNS = `id, label, child_key AS "childKey", session_id AS "sessionId", state, delivery, generation, resumes, cleanup,
  created_at AS "createdAt", settled_at AS "settledAt", archived_at AS "archivedAt", archive_name AS "archiveName", address`;

async function readGroups(rows: Rows, inbox: readonly InboxFact[]): Promise<GroupFact[]> {
  type Stored = Omit<GroupFact, "place" | "members" | "wakes"> & { id: string; address: string };
  const groups = await rows<Stored>(
    `SELECT id, name, state, enough, created_at AS "createdAt", completed_at AS "completedAt", address FROM run_groups ORDER BY created_at`,
  );
  const found = await rows<Omit<MemberFact, "place"> & { address: string; groupId: string }>(
    `SELECT ${RUN_COLUMNS}, reason, started_at AS "startedAt", ended_at AS "endedAt", group_id AS "groupId" FROM runs
     WHERE group_id IS NOT NULL ORDER BY created_at, label`,
  );
  const members = Map.groupBy(found, ({ groupId }) => groupId);
  return groups.map(({ id, address, ...group }) => ({
    ...group,
    place: placeOfAddress(address),
    members: (members.get(id) ?? []).map(({ address: own, groupId: _, ...run }) => ({ ...run, place: placeOfAddress(own) })),
    wakes: inbox.filter(({ externalId }) => externalId === `wake:${id}`).map(({ id: row, state }) => ({ id: row, state })),
  }));
}

async function readQuestions(rows: Rows): Promise<QuestionFact[]> {
  const found = await rows<Omit<QuestionFact, "place" | "about" | "call"> & { address: string; text: string; callKey: string }>(
    `SELECT q.id, q.kind, q.verdict, q.text, q.call_key AS "callKey", q.session_id AS "sessionId", q.run_id AS "runId", q.generation, q.address, q.state, q.answer,
       q.answered_by AS "answeredBy", q.created_at AS "createdAt", q.settled_at AS "settledAt", r.state AS "runState",
       r.generation AS "runGeneration", l.state AS "liveState"
     FROM questions q LEFT JOIN runs r ON r.id = q.run_id LEFT JOIN live_messages l ON l.id = 'question:' || q.id ORDER BY q.created_at`,
  );
  return found.map(({ address, text, callKey, ...question }) => ({
    ...question,
    call: callKey.split(":").at(-1) ?? "?",
    about: ASKED.exec(text)?.[1] ?? "?",
    place: placeOfAddress(address),
  }));
}

function toEnd({ about, text }: { about: string; text: string }): EndFact[] {
  const [, runId, generation] = /^([0-9a-f-]{36}):(\d+)$/.exec(about) ?? [];
  const status = /runtime status: (success|error|timeout|unknown)\]/.exec(text)?.[1];
  if (runId === undefined || status === undefined) return [];
  // The second line is the runtime's own sentence; everything behind it quotes the child.
  const isStopped = / was stopped\b/.test(text.split("\n")[1] ?? "");
  return [{ runId, generation: Number(generation), status: isStopped ? "stopped" : (status as EndFact["status"]) }];
}

/** What a message carries of its key where it does not carry the key itself; the one it has alone, and the one it shares. */
function marksOf(
  { delivery, n, createdAt, joinedAs }: Pick<OutboxFact, "delivery" | "n" | "createdAt" | "joinedAs">,
  part: string,
  joinedPart: string | null,
): [string, string][] {
  const key = `${delivery}#${n}`;
  const alone = [transactionOfRow({ key, madeAt: createdAt }), nonceOf(key, JSON.parse(part))].map((mark): [string, string] => [mark, key]);
  if (joinedAs === null) return alone;
  const shared = [transactionOf(joinedAs), nonceOf(joinedAs, JSON.parse(joinedPart ?? part))];
  return [...alone, ...shared.map((mark): [string, string] => [mark, joinedAs])];
}

/** Who carries a digest of its key has it read from the outbox. */
export function withKeys(seen: readonly Seen[], outbox: readonly OutboxFact[]): Seen[] {
  const byMark = new Map(outbox.flatMap(({ marks }) => marks ?? []));
  return seen.map((one) => (one.mark === undefined ? one : { ...one, key: byMark.get(one.mark) ?? "" }));
}

/** Where no digest is read, the program makes them in another way by now: nothing would be told by its key, and no order be looked at. */
export function unread(seen: readonly Seen[]): string[] {
  const marked = seen.filter(({ mark = "" }) => mark !== "");
  return [...Map.groupBy(marked, ({ place }) => place.split("/")[0])]
    .filter(([, all]) => all.every(({ key }) => key === ""))
    .map(([channel, { length }]) => `none of ${length} messages of ${channel} could be told by its mark`);
}

export async function seenOnPage(rows: Rows): Promise<Seen[]> {
  const messages = await rows<{ seq: number; chat: string; key: string; text: string; at: number }>(
    "SELECT seq, chat, key, text, at FROM web_messages WHERE author = 'agent' ORDER BY seq",
  );
  return messages.map(({ seq, chat, key, text, at }) => ({
    place: placeOf("web", chat, null),
    order: seq,
    at,
    text,
    ref: String(seq),
    key,
    replyTo: null,
  }));
}

/** Every transcript of the agent, archived ones included, each line looked at. */
export const readTranscripts = (folder: string): TranscriptFact[] =>
  listTranscripts(folder).map((name) => readTranscript(name, readFileSync(join(folder, name), "utf8")));

/** The same of transcripts that are rows: a row is a line, and none is missing in between. */
export async function readTranscriptRows(rows: Rows): Promise<TranscriptFact[]> {
  const heads = await rows<{ id: string; name: string | null; header: string; last: number }>(
    "SELECT session_id AS id, archive_name AS name, header, last_n AS last FROM transcripts ORDER BY session_id",
  );
  const lines = await rows<{ id: string; n: number; body: string }>(
    "SELECT session_id AS id, n, body FROM transcript_entries ORDER BY session_id, n",
  );
  const bySession = Map.groupBy(lines, ({ id }) => id);
  return heads.map(({ id, name, header, last }) => {
    const own = bySession.get(id) ?? [];
    const fact = readTranscript(name ?? `${id}.jsonl`, [header, ...own.map(({ body }) => body), ""].join("\n"));
    const isWhole = own.length === last && own.every(({ n }, at) => n === at + 1);
    return isWhole ? fact : { ...fact, problems: [...fact.problems, `its rows are ${own.map(({ n }) => n).join()} of ${last}`] };
  });
}

const listTranscripts = (folder: string): string[] => readdirSync(folder).filter((name) => /\.jsonl(?:\.deleted\..+)?$/.test(name));

export function readTranscript(name: string, text: string): TranscriptFact {
  const sessionId = name.slice(0, 36);
  const problems: string[] = [];
  const entries: { id: string; text: string }[] = [];
  const answers: { call: string; text: string }[] = [];
  const deeds: { call: string; text: string }[] = [];
  /** Entries by the ids their model gave them. */
  const calls = new Map<unknown, string>();
  const known = new Set<string>();
  const lines = text.split("\n");
  if (lines.pop() !== "") problems.push("its last line is torn");
  let parent: string | null = null;
  for (const [n, line] of lines.entries()) {
    const value = parseLine(line);
    if (value === null) {
      problems.push(`line ${n + 1} is no JSON`);
      continue;
    }
    if ((n === 0) !== (value.type === "session")) problems.push(`line ${n + 1} is ${n === 0 ? "no header" : "a second header"}`);
    if (n === 0) continue;
    const { id, parentId } = value as { id: string; parentId: string | null };
    if (known.has(id)) problems.push(`line ${n + 1} repeats the id ${id}`);
    if (parentId !== parent) problems.push(`line ${n + 1} follows ${parentId}, but ${parent} stands before it`);
    known.add(id);
    parent = id;
    entries.push({ id, text: typeof value.text === "string" && value.role === "user" ? value.text : "" });
    if (value.type === "tool_call") calls.set(value.callId, id);
    const results = value.type !== "tool_result" ? null : value.name === "ask" ? answers : value.name === "write" ? deeds : null;
    results?.push({ call: calls.get(value.callId) ?? "?", text: String(value.text) });
  }
  if (lines.length === 0) problems.push("it is empty");
  return { name, sessionId, problems, entries, answers, deeds };
}

function parseLine(line: string): Record<string, unknown> | null {
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return null;
  }
}

export interface TranscriptWatch {
  /** Called while nobody writes: what stood in a file at the last look must still stand there. Returns what changed. */
  look(): string[];
}

const TAIL = 4_096;

/** A line once written is never lost or changed: files only grow. */
export function createTranscriptWatch(folder: string): TranscriptWatch {
  const known = new Map<string, { size: number; changedAt: number; tail: Buffer }>();
  return {
    look() {
      const problems: string[] = [];
      const names = listed(folder);
      const present = new Set(names.map((name) => name.slice(0, 36)));
      for (const id of known.keys()) if (!present.has(id)) problems.push(`the transcript ${id} is gone`);
      for (const name of names) {
        const id = name.slice(0, 36);
        const path = join(folder, name);
        const { size, mtimeMs: changedAt } = statSync(path);
        const before = known.get(id);
        if (before !== undefined && before.size === size && before.changedAt === changedAt) continue;
        if (before !== undefined && !readAt(path, before.size - before.tail.length, before.tail.length).equals(before.tail))
          problems.push(`the transcript ${name} lost or changed lines it had at ${before.size} bytes`);
        const whole = endOfLines(readAt(path, Math.max(0, size - TAIL), Math.min(size, TAIL)));
        known.set(id, { size: size - whole.cut, changedAt, tail: whole.bytes });
      }
      return problems;
    },
  };
}

function listed(folder: string): string[] {
  try {
    return listTranscripts(folder);
  } catch (error) {
    // Killed before its first session.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/** A torn last line may be cut off; whole ones may not. */
function endOfLines(bytes: Buffer): { bytes: Buffer; cut: number } {
  const end = bytes.lastIndexOf(0x0a) + 1;
  return { bytes: bytes.subarray(0, end), cut: bytes.length - end };
}

function readAt(path: string, position: number, length: number): Buffer {
  const fd = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(length);
    return bytes.subarray(0, readSync(fd, bytes, 0, length, position));
  } finally {
    closeSync(fd);
  }
}
