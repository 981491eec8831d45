// Notes a session keeps for itself, in named sections (NV2). The scratchpad tool writes them; at a spawn the
// requester's section `context_transfer` is read and shown to the child.
import type { Clock } from "../core/clock.ts";
import type { Database } from "./database.ts";
import { lock } from "./lock-keys.ts";

const MAX_SECTION_BYTES = 16 * 1024;
const MAX_SECTIONS = 20;
const SECTION = /^[a-z0-9][a-z0-9_-]{0,63}$/;

type ScratchpadOutcome = { readonly ok: true; readonly bytes: number } | { readonly ok: false; readonly error: string };

export interface Scratchpad {
  /** Null when there is no such section. */
  read(sessionKey: string, section: string): Promise<string | null>;
  /** Replaces the section. Durable on return; a refused write changes nothing. */
  write(sessionKey: string, section: string, text: string): Promise<ScratchpadOutcome>;
  /** Adds to the end, on a line of its own. */
  append(sessionKey: string, section: string, text: string): Promise<ScratchpadOutcome>;
  /** Removes one section, or all of the session's. Returns how many there were. */
  clear(sessionKey: string, section?: string): Promise<number>;
  sections(sessionKey: string): Promise<{ readonly section: string; readonly bytes: number; readonly updatedAt: number }[]>;
}

export function createScratchpad({ db, clock }: { db: Database; clock: Clock }): Scratchpad {
  const read = async (key: string, section: string): Promise<string | null> =>
    (await db.get<{ text: string }>("SELECT text FROM scratchpad WHERE session_key = ? AND section = ?", key, section))?.text ?? null;

  const sections: Scratchpad["sections"] = (key) =>
    db.all(
      'SELECT section, octet_length(text) AS bytes, updated_at AS "updatedAt" FROM scratchpad WHERE session_key = ? ORDER BY section',
      key,
    );

  async function put(key: string, section: string, change: (before: string | null) => string): Promise<ScratchpadOutcome> {
    if (!SECTION.test(section)) {
      return { ok: false, error: "A section name is 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit." };
    }
    return db.transaction([lock.scratchpad(key)], async (tx) => {
      const before = await read(key, section);
      const text = change(before);
      const bytes = Buffer.byteLength(text);
      if (bytes > MAX_SECTION_BYTES) {
        return {
          ok: false,
          error: `A section holds at most ${MAX_SECTION_BYTES} bytes; "${section}" would have ${bytes}. Nothing was changed.`,
        };
      }
      if (before === null && (await sections(key)).length >= MAX_SECTIONS) {
        return { ok: false, error: `There are ${MAX_SECTIONS} sections already, which is the most; clear one first.` };
      }
      await tx.run(
        `INSERT INTO scratchpad (session_key, section, text, updated_at) VALUES (?, ?, ?, ?)
         ON CONFLICT (session_key, section) DO UPDATE SET text = excluded.text, updated_at = excluded.updated_at`,
        key,
        section,
        text,
        clock.now(),
      );
      return { ok: true, bytes };
    });
  }

  return {
    read,
    sections,
    write: (key, section, text) => put(key, section, () => text),
    append: (key, section, text) => put(key, section, (before) => (before ? `${before}\n${text}` : text)),
    clear: async (key, section) =>
      section === undefined
        ? await db.transaction([], (tx) => tx.run("DELETE FROM scratchpad WHERE session_key = ?", key))
        : await db.transaction([], (tx) => tx.run("DELETE FROM scratchpad WHERE session_key = ? AND section = ?", key, section)),
  };
}
