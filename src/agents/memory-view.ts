// Memory as a session's model reads it. `remember` appends while conversations go on, in this session and in others; put
// into the system prompt at once, one line would void a provider's cache of the whole conversation. So a session goes on
// with the files as it first read them, and what was appended since stands behind the history (SE8). Anything but an append
// is a person's edit (TL9), and what they took away must be gone: then the session begins anew with the files as they are.
import type { MemorySection } from "./memory.ts";

export interface MemoryView {
  /** For the system prompt. */
  readonly settled: readonly MemorySection[];
  /** What was appended since. */
  readonly added: readonly MemorySection[];
}

export interface MemoryViews {
  of(sessionId: string, sections: readonly MemorySection[]): MemoryView;
}

/** Beyond this it costs more to send it again with every call than to have the cache filled anew once. */
const MAX_ADDED = 4_000;
/** Sessions remembered; one that is forgotten reads its files anew, which costs one call without a cache. */
const MAX_SESSIONS = 500;

export function createMemoryViews(): MemoryViews {
  // A Map keeps insertion order: the least recently read comes first.
  const settledOf = new Map<string, readonly MemorySection[]>();
  return {
    of(sessionId, sections) {
      const before = settledOf.get(sessionId) ?? sections;
      const added = addedSince(before, sections);
      const settled = added === null ? sections : before;
      settledOf.delete(sessionId);
      settledOf.set(sessionId, settled);
      for (const oldest of settledOf.keys()) if (settledOf.size > MAX_SESSIONS) settledOf.delete(oldest);
      return { settled, added: added ?? [] };
    },
  };
}

/** Null when something else than appending happened, or too much of it. */
function addedSince(before: readonly MemorySection[], now: readonly MemorySection[]): MemorySection[] | null {
  const old = new Map(before.map((section) => [section.name, section.text]));
  const added: MemorySection[] = [];
  for (const { name, text, cut } of now) {
    const known = old.get(name) ?? "";
    old.delete(name);
    if (!text.startsWith(known)) return null;
    if (text.length > known.length) added.push({ name, text: text.slice(known.length), cut });
  }
  const chars = added.reduce((sum, section) => sum + section.text.length, 0);
  return old.size > 0 || chars > MAX_ADDED ? null : added;
}
