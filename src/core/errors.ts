// Errors people may read. Expected outcomes are return values; an AppError is for what an operator must fix
// or a caller must hear, and carries a code from a closed set.

export type ErrorCode =
  | "config" // a setting is wrong; the message names it
  | "state" // the state folder can't be used
  | "locked" // another gateway holds it
  | "port" // the page's port is taken
  | "storage" // a write failed: disk full, read-only, damaged
  | "invalid"; // an argument was refused

export class AppError extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "AppError";
    this.code = code;
  }
}

const STORAGE_CODES = new Set(["ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EIO", "EMFILE", "ENFILE"]);
/** SQLITE_BUSY, READONLY, IOERR, FULL, CANTOPEN: extended codes carry these in their low byte. */
const SQLITE_STORAGE = new Set([5, 8, 10, 13, 14]);

/** Is this the disk's fault (full, read-only, out of handles), so that the work can be taken up again when it is over? */
export function isStorageError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, errcode } = error as Error & { code?: string; errcode?: number };
  if (error instanceof AppError) return error.cause === undefined ? error.code === "storage" : isStorageError(error.cause);
  if (code === "ERR_SQLITE_ERROR") return errcode !== undefined && SQLITE_STORAGE.has(errcode & 0xff);
  return code !== undefined && STORAGE_CODES.has(code);
}

/** From the root, with at least one folder: not "/new", not the path of an address. */
const HOST_PATH = /(?:file:\/\/|(?<![\w.:/]))\/(?:[^\s/'"`:;,()]+\/)+([^\s/'"`:;,()]*)/g;

/** The same for a chat or a model: where things lie on this machine is the operator's business and stands in the log. */
export const publicErrorText = (error: unknown): string => errorText(error).replace(HOST_PATH, "…/$1");

/** One line for a person: the message without stack, never empty. */
export const errorText = (error: unknown): string => (error instanceof Error ? error.message : String(error)) || "unknown error";
