// From the token to a signed-in browser. A cookie alone would not do: it is sent to every other port of this host too, so
// whatever program serves a page there could use it from then on. So the token is traded once for two secrets: the cookie,
// which no script can read, and a key, which the page keeps in its origin's storage (an origin has a port) and sends in a
// header. One without the other opens nothing, and neither is kept here, only their hashes.
import { hash, randomBytes } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { Browser, Browsers } from "../stores/browsers.ts";
import { isSame, tokenMark } from "./token.ts";

export interface SignIns {
  /** For whoever knew the token. */
  add(from: string, agent: string): Promise<{ readonly cookie: string; readonly key: string }>;
  /** The browser these two belong to, seen now; null when they don't fit. */
  find(cookie: string, key: string, from: string): Promise<Browser | null>;
  /** Still, at this moment. */
  isSignedIn(id: string): Promise<boolean>;
  list(): Promise<Browser[]>;
  end(id: string): Promise<boolean>;
  endOthers(id: string | null): Promise<number>;
  /** Ends whatever was let in with a token that is not the present one. */
  followToken(): Promise<number>;
}

export interface SignInOptions {
  readonly browsers: Browsers;
  readonly clock: Clock;
  readonly log: Logger;
  token(): string;
}

export const SIGN_IN_SECONDS = 30 * 24 * 3600;
const MAX_AGENT_LENGTH = 300;
/** How exactly "last seen" is known; each step is a write. */
const SEEN_EVERY_MS = 60_000;

const hashOf = (secret: string): string => hash("sha256", secret, "base64url");
const newSecret = (): string => randomBytes(32).toString("base64url");

export function createSignIns({ browsers, clock, log, token }: SignInOptions): SignIns {
  const isOver = ({ signedInAt }: Browser): boolean => signedInAt + SIGN_IN_SECONDS * 1000 <= clock.now();
  const endOld = (): Promise<number> => browsers.endOld(tokenMark(token()), clock.now() - SIGN_IN_SECONDS * 1000);
  const noteSeen = async ({ id, seenAt }: Browser, from: string): Promise<void> => {
    if (clock.now() - seenAt < SEEN_EVERY_MS) return;
    try {
      await browsers.seen(id, from);
    } catch (error) {
      // A full disk must not lock anybody out.
      log.warn({ reason: errorText(error) }, "when a browser was last seen could not be kept");
    }
  };
  return {
    async add(from, agent) {
      await endOld();
      const [cookie, key] = [newSecret(), newSecret()];
      const proof = { cookieHash: hashOf(cookie), keyHash: hashOf(key), tokenMark: tokenMark(token()) };
      await browsers.add({ ...proof, seenFrom: from, agent: agent.slice(0, MAX_AGENT_LENGTH).toWellFormed() });
      return { cookie, key };
    },
    async find(cookie, key, from) {
      const found = await browsers.find(hashOf(cookie));
      if (found === null || !isSame(found.keyHash, hashOf(key)) || isOver(found)) return null;
      await noteSeen(found, from);
      const { keyHash: _, ...browser } = found;
      return browser;
    },
    async isSignedIn(id) {
      const browser = await browsers.get(id);
      return browser !== null && !isOver(browser);
    },
    list: async () => (await browsers.list()).filter((browser) => !isOver(browser)),
    end: browsers.end,
    endOthers: browsers.endOthers,
    // Removed, not only refused: with the old token set again they must not come back.
    followToken: endOld,
  };
}
