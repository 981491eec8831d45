// The page's token: 256 bits, made at first start, kept in the state folder. The browser gets it once, in a URL
// fragment that never reaches a server or a log, and trades it for secrets of its own (sign-ins.ts).
// Removing the file and starting again makes a new token and ends every signed-in browser.
import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";
import { chmodSync, linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AppError, errorText } from "../core/errors.ts";

/** Its name in the state folder. */
export const TOKEN_FILE = "web-token";
export const LINK_FILE = "sign-in-link";
const TOKEN = /^[A-Za-z0-9_-]{43}$/;

/** Reads the token, making it at first start. Throws AppError("state") when the file can't be used; never replaces a damaged one. */
export function loadToken(stateDir: string): string {
  const path = join(stateDir, TOKEN_FILE);
  try {
    const token = readToken(stateDir) ?? makeToken(path);
    if (!TOKEN.test(token)) {
      throw new AppError("state", `${path} does not hold a token. Remove it; Herald makes a new one at the next start.`);
    }
    chmodSync(path, 0o600);
    return token;
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError("state", `The page's token can't be kept in ${path}: ${errorText(error)}.`, { cause: error });
  }
}

/** Null: there is none yet. */
export function readToken(stateDir: string): string | null {
  try {
    return readFileSync(join(stateDir, TOKEN_FILE), "utf8").trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

function makeToken(path: string): string {
  const token = randomBytes(32).toString("base64url");
  // Written aside and linked into place: a crash in between leaves no half token behind.
  const draft = `${path}.${process.pid}.new`;
  try {
    writeFileSync(draft, `${token}\n`, { mode: 0o600, flush: true });
    linkSync(draft, path);
  } finally {
    rmSync(draft, { force: true });
  }
  return token;
}

/** In the place of the one that is there. On disk on return. */
export function keepToken(stateDir: string, token: string): void {
  const path = join(stateDir, TOKEN_FILE);
  const draft = `${path}.${process.pid}.new`;
  try {
    writeFileSync(draft, `${token}\n`, { mode: 0o600, flush: true });
    renameSync(draft, path);
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Tells whether two sign-ins knew the same token, and nothing about it. */
export const tokenMark = (token: string): string => createHmac("sha256", token).update("herald signed-in browser").digest("base64url");

/** Compares in constant time, whatever the lengths. */
export function isSame(a: string, b: string): boolean {
  const digest = (text: string) => hash("sha256", text, "buffer");
  return timingSafeEqual(digest(a), digest(b));
}

/** What the operator opens: the token stands behind the #, which browsers keep to themselves. */
export const signInUrl = (origin: string, token: string): string => `${origin}/#token=${token}`;

/**
 * The link for whoever can't see a terminal (a service, a container): in a file of the state folder that only its owner can
 * read, because what is printed there ends up in a log. Returns its path.
 */
export function keepLink(stateDir: string, link: string): string {
  const path = join(stateDir, LINK_FILE);
  const draft = `${path}.${process.pid}.new`;
  try {
    writeFileSync(draft, `${link}\n`, { mode: 0o600 });
    renameSync(draft, path);
  } finally {
    rmSync(draft, { force: true });
  }
  return path;
}

/** A gateway that is off has no link. */
export const dropLink = (stateDir: string): void => rmSync(join(stateDir, LINK_FILE), { force: true });
