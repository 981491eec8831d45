// Errors people may read. Expected outcomes are return values; an AppError is for what an operator must fix
// or a caller must hear, and carries a code from a closed set.

export type ErrorCode =
  | "config" // a setting is wrong; the message names it
  | "state" // the state folder can't be used
  | "locked" // another gateway holds it
  | "port" // the page's port is taken
  | "storage" // a write failed: disk full, read-only, damaged
  | "invalid" // an argument was refused
  | "model"; // no model can be reached as configured

export class AppError extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "AppError";
    this.code = code;
  }
}

const STORAGE_CODES = new Set(["ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "EIO", "EMFILE", "ENFILE"]);

/** Is this the disk's fault (full, read-only, unreadable), so that the work can be taken up again later? */
export function isStorageError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AppError) return error.code === "storage" || isStorageError(error.cause);
  const code = (error as NodeJS.ErrnoException).code;
  if (code === "ERR_SQLITE_ERROR") return true;
  return code !== undefined && STORAGE_CODES.has(code);
}

/** One line for a person: the message without stack, never empty. */
export const errorText = (error: unknown): string => (error instanceof Error ? error.message : String(error)) || "unknown error";
