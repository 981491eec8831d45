// Which of our messages was sent with which nonce, as Discord answers it or, where the answer got lost, as its gateway tells us of our own
// messages. So one in doubt is known by its very name, and one that only reads the same is not taken for it. Later, and of a process
// before this one, nobody tells it any more: then the channel is read for its words (history.ts).
import type { DiscordMessage } from "./payload.ts";

export interface Echoes {
  heard(message: DiscordMessage, me: string): void;
  sent(nonce: string, id: string): void;
  /** The message that was sent with it; null: not heard of. */
  find(nonce: string): string | null;
  /** It was sent with another one. */
  isOthers(id: string, nonce: string): boolean;
}

/** More than are ever in doubt. */
const MAX_HEARD = 1_000;

export function createEchoes(): Echoes {
  const ids = new Map<string, string>();
  const nonces = new Map<string, string>();
  const sent = (nonce: string, id: string): void => {
    ids.set(nonce, id);
    nonces.set(id, nonce);
    for (const [oldest, its] of ids) {
      if (ids.size <= MAX_HEARD) break;
      ids.delete(oldest);
      nonces.delete(its);
    }
  };
  return {
    sent,
    heard({ id, author, nonce }, me) {
      if (author.id === me && typeof nonce === "string") sent(nonce, id);
    },
    find: (nonce) => ids.get(nonce) ?? null,
    isOthers: (id, nonce) => (nonces.get(id) ?? nonce) !== nonce,
  };
}
