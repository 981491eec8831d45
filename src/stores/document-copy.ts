// The documents of sessions as they lie beside the transcripts, for moving all of them (document-files.ts is for one at a time).
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { AppError } from "../core/errors.ts";
import { isAgentId, isUuid } from "../core/ids.ts";
import { sessionFolder } from "./transcript-copy.ts";

export interface WholeDocument {
  readonly agentId: string;
  readonly sessionId: string;
  readonly name: string;
  readonly text: string;
  readonly changedAt: number;
}

/** Not hidden: those are drafts of documents whose writer was killed. */
const NAME = /^[^./\0][^/\0]{0,200}$/;

/** `onStray` is told of what is no document of ours: a link, a folder. */
export function* readDocuments(stateDir: string, agentId: string, onStray: (path: string) => void): Generator<WholeDocument> {
  const sessions = sessionFolder(stateDir, agentId);
  for (const sessionId of readdirSync(sessions).filter(isUuid).sort()) {
    const folder = join(sessions, sessionId);
    if (!lstatSync(folder).isDirectory()) continue;
    for (const name of readdirSync(folder).sort()) {
      if (name.startsWith(".")) continue;
      const found = readOne(join(folder, name));
      if (found === null || !NAME.test(name)) onStray(join(folder, name));
      else if (found.text !== "") yield { agentId, sessionId, name, ...found };
    }
  }
}

function readOne(path: string): { text: string; changedAt: number } | null {
  const stat = lstatSync(path);
  if (!stat.isFile() || stat.nlink > 1) return null;
  const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    return { text: readFileSync(fd, "utf8"), changedAt: Math.round(fstatSync(fd).mtimeMs) };
  } finally {
    closeSync(fd);
  }
}

/** Not synced, as all documents: what stands there can be made again. */
export function writeDocument(stateDir: string, { agentId, sessionId, name, text, changedAt }: WholeDocument): void {
  // They come from a database that others can write to, and become a path.
  if (!isAgentId(agentId) || !isUuid(sessionId) || !NAME.test(name))
    throw new AppError("state", `The document ${JSON.stringify(name.slice(0, 80))} has a name that no file may have`);
  const folder = join(sessionFolder(stateDir, agentId), sessionId);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, name);
  writeFileSync(path, text, { mode: 0o600, flag: "wx" });
  utimesSync(path, changedAt / 1000, changedAt / 1000);
}
