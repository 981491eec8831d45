// Transcript files as they lie in their folders, whoever they belong to, and line by line as they are: for moving all of them. What an
// entry means is nobody's business here, so a damaged line is moved like any other.
import { closeSync, existsSync, fdatasyncSync, fstatSync, mkdirSync, openSync, readdirSync, writeSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../core/errors.ts";
import { isAgentId, isUuid } from "../core/ids.ts";
import { endOfLastLine, linesForward } from "./lines.ts";
import { isHeader, parseEntry } from "./transcript-entry.ts";

export interface WholeTranscript {
  readonly sessionId: string;
  readonly agentId: string;
  /** Null: it has its own name. */
  readonly archiveName: string | null;
  /** Empty: its first line was damaged and stands among the others. */
  readonly header: string;
  /** All behind the header, some at a time: a conversation may be larger than the memory. */
  lines(): AsyncIterable<readonly string[]> | Iterable<readonly string[]>;
}

/** The files of one session, its own name first: one that was archived, or copied by somebody, may have several. */
export interface TranscriptNames {
  readonly sessionId: string;
  readonly names: readonly string[];
}

const NAME = /^([0-9a-f-]{36})\.jsonl(?:\.deleted\.[^/]+)?$/;
const ARCHIVED = /^[0-9a-f-]{36}\.jsonl\.deleted\.[^/]+$/;
/** Of lines that are read or written at once; a longer one comes alone. */
const CHUNK_LENGTH = 512 * 1024;
const CHUNK_LINES = 500;

export const ownName = (sessionId: string): string => `${sessionId}.jsonl`;

export const sessionFolder = (stateDir: string, agentId: string): string => join(stateDir, "agents", agentId, "sessions");

/** Ids of the agents that have sessions in this folder. */
export function listAgentFolders(stateDir: string): string[] {
  const agents = join(stateDir, "agents");
  if (!existsSync(agents)) return [];
  return readdirSync(agents)
    .filter((id) => isAgentId(id) && existsSync(sessionFolder(stateDir, id)))
    .sort();
}

export function listTranscripts(stateDir: string, agentId: string): TranscriptNames[] {
  const found: { sessionId: string; names: string[] }[] = [];
  // Sorted, those of one session stand together, and its own name is the shortest.
  for (const name of readdirSync(sessionFolder(stateDir, agentId)).sort()) {
    const [, sessionId = ""] = NAME.exec(name) ?? [];
    if (!isUuid(sessionId)) continue;
    const last = found.at(-1);
    if (last?.sessionId === sessionId) last.names.push(name);
    else found.push({ sessionId, names: [name] });
  }
  return found;
}

/** Null: there is no whole line in it, because whoever made it was killed before that. */
export function readWhole(stateDir: string, agentId: string, sessionId: string, name: string): WholeTranscript | null {
  const path = join(sessionFolder(stateDir, agentId), name);
  const [first] = chunksOf(path, 1);
  const [line] = first ?? [];
  if (line === undefined) return null;
  const hasHeader = isHeader(line);
  return {
    ...{ sessionId, agentId, archiveName: name === ownName(sessionId) ? null : name, header: hasHeader ? line : "" },
    *lines() {
      let isFirst = hasHeader;
      for (const chunk of chunksOf(path)) {
        const lines = isFirst ? chunk.slice(1) : chunk;
        isFirst = false;
        if (lines.length > 0) yield lines;
      }
    },
  };
}

/** Is there anything in it that a conversation could go on from? */
export function hasEntry(transcript: WholeTranscript): boolean {
  for (const lines of transcript.lines() as Iterable<readonly string[]>) if (lines.some((line) => parseEntry(line) !== null)) return true;
  return false;
}

/** A torn last line is none: whoever appends next cuts it off. */
function* chunksOf(path: string, atMost = CHUNK_LINES): Generator<string[]> {
  const fd = openSync(path, "r");
  try {
    const end = endOfLastLine(fd, fstatSync(fd).size);
    let chunk: string[] = [];
    let length = 0;
    for (const line of linesForward(fd, 0, end)) {
      chunk.push(line);
      length += line.length;
      if (chunk.length < atMost && length < CHUNK_LENGTH) continue;
      yield chunk;
      chunk = [];
      length = 0;
    }
    if (chunk.length > 0) yield chunk;
  } finally {
    closeSync(fd);
  }
}

/** On disk on return, but for its name. Throws when there is one of that name. */
export async function writeWhole(stateDir: string, { agentId, sessionId, archiveName, header, lines }: WholeTranscript): Promise<void> {
  // They come from a database that others can write to, and become a path.
  if (!isAgentId(agentId) || !isUuid(sessionId) || (archiveName !== null && !ARCHIVED.test(archiveName)))
    throw new AppError("state", `The transcript ${sessionId.slice(0, 80)} has a name that no file may have`);
  const folder = sessionFolder(stateDir, agentId);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const fd = openSync(join(folder, archiveName ?? ownName(sessionId)), "ax", 0o600);
  try {
    if (header !== "") write(fd, [header]);
    for await (const chunk of lines()) write(fd, chunk);
    fdatasyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function write(fd: number, lines: readonly string[]): void {
  const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(""));
  for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done);
}
