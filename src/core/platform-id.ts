// A platform's own id (a room, a person, a thread) as one word among ours. Ids come as they like: `!AbC:server.org` has a sign that
// divides our keys, another one differs in its case only, a third is `../..`. Put into a key as they are, two rooms could share a
// session, a lock or a place in the outbox. So every byte that is no letter, digit or one of `. _ -` is written as `%` and two
// hex digits, the sign `%` too, and nothing else is: one id, one word, and back.

/** What Matrix allows for any id of its own; others are shorter. */
const MAX_BYTES = 255;
/** Not at its beginning: `..` is a folder, and a lone `-` stands for "no thread" in the key of an address. */
const PLAIN = /^(?:[A-Za-z0-9]|-(?=[0-9]{1,20}$))[A-Za-z0-9._-]*$/;

const escapeByte = (byte: number): string => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
const escapeText = (text: string): string => Array.from(Buffer.from(text, "utf8"), escapeByte).join("");

/** The word for any text at all. */
export function escapeId(id: string): string {
  if (PLAIN.test(id)) return id;
  const [, first = "", rest = ""] = /^([^A-Za-z0-9]?)(.*)$/su.exec(id) ?? [];
  return escapeText(first) + rest.replace(/[^A-Za-z0-9._-]+/gu, escapeText);
}

/** The id behind a word; null for what `escapeId` never writes. */
export function unescapeId(word: string): string | null {
  try {
    const id = decodeURIComponent(word);
    return escapeId(id) === word ? id : null;
  } catch {
    return null;
  }
}

/** Whether it is an id that a session can be named after: there, of a length that platforms use, and text. */
export const isPlatformId = (id: string): boolean => id !== "" && id.isWellFormed() && Buffer.byteLength(id) <= MAX_BYTES;
