// From a bearer token to the program that holds it (PR1), asked of the row at every request: a token that was taken back, or whose time
// is over, opens nothing from then on. The page's own token is no row here, and none of these opens the page.
import type { Clock } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { Program } from "../core/program.ts";
import type { ProgramToken, ProgramTokens } from "../stores/program-tokens.ts";

export interface Programs {
  /** Who holds this, seen now; null: nobody. */
  find(secret: string): Promise<Program | null>;
  /** Still, at this moment. */
  isValid(id: string): Promise<boolean>;
}

/** How exactly "last used" is known; each step is a write. */
const USED_EVERY_MS = 60_000;

export function createPrograms({ tokens, clock, log }: { tokens: ProgramTokens; clock: Clock; log: Logger }): Programs {
  const isOver = ({ expiresAt }: ProgramToken): boolean => expiresAt !== null && expiresAt <= clock.now();
  const noteUsed = async ({ id, usedAt }: ProgramToken): Promise<void> => {
    if (usedAt !== null && clock.now() - usedAt < USED_EVERY_MS) return;
    try {
      await tokens.used(id);
    } catch (error) {
      // A full disk must not lock anybody out.
      log.warn({ reason: errorText(error) }, "when a token was last used could not be kept");
    }
  };
  return {
    async find(secret) {
      const token = await tokens.find(secret);
      if (token === null || isOver(token)) return null;
      await noteUsed(token);
      return token;
    },
    async isValid(id) {
      const token = await tokens.get(id);
      return token !== null && !isOver(token);
    },
  };
}
