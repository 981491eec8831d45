// What a file is, by its content alone: a name is somebody's words. Text is what reads as UTF-8 and holds nothing a text doesn't.
// Nothing is unpacked: of an archive the first bytes say what it is.

/** Enough for every signature, and for a photo whose header stands behind a preview of it. */
export const HEAD_BYTES = 256 * 1024;
const UNKNOWN = "application/octet-stream";
/** Read by a browser they can hold scripts; here they are texts like others. */
const MARKUP = /^(?:application\/xml|image\/svg\+xml|text\/.*)$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is looked for
const NO_TEXT = /[\u0000-\u0008\u000e-\u001a\u001c-\u001f\u007f]/;

/** `head`: the file, or its first HEAD_BYTES. */
export async function typeOf(head: Buffer): Promise<string> {
  // A megabyte of parsers that most processes never need.
  const { fileTypeFromBuffer } = await import("file-type");
  const known = (await fileTypeFromBuffer(head).catch(() => undefined))?.mime;
  if (known !== undefined && !MARKUP.test(known)) return known;
  return reads(head) ? "text/plain" : UNKNOWN;
}

/** A beginning may end in the middle of a character. */
function reads(head: Buffer): boolean {
  try {
    return !NO_TEXT.test(new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: true }));
  } catch {
    return false;
  }
}
