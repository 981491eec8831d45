// The one gate for text that no person of ours wrote (models, children, tools, MCP servers, web pages, files, names):
// what a person can't see, no model and no chat reads either. Pure, idempotent, the result is well-formed Unicode.
//
// Who calls what:
// - `visibleText`: prose on its way to a chat or a model. Unseen characters are dropped, every line end becomes `\n`.
//   agents/turn.ts and agents/tool-calls.ts (replies, mail, results), subagents/spawn.ts (tasks) and gateway/main-turn.ts
//   (pasted text) do it for what models read, app/channels.ts for what chats read; the redactor comes after it.
// - `visibleLine`: a name, a label, a reason inside our own sentence: one line, capped.
// - `spellUnseen` / `readSpelled`: where the exact characters matter (files, commands' output, names one may want back):
//   each unseen one is spelled `⟦U+200B⟧`, and what is written back so spelled is the same text again.
// Fencing (core/fence.ts) and disarming of mentions and commands (channels/) come after it, never instead of it.
//
// Unseen are: control and default-ignorable characters (zero width, bidi, tags, fillers, selectors), private use and
// noncharacters. Whether a joiner or a selector is seen depends on where it stands: inside an emoji, in a script that joins
// its letters, it decides what is drawn and stays; anywhere else it only hides something.

const UNSEEN = String.raw`[[\p{Cc}\p{Cs}\p{Co}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u2028\u2029\uFFF9-\uFFFB]--[\n\t]]`;

/** Scripts in which U+200C and U+200D choose between forms of the letters around them. */
const JOINED = String.raw`[[\p{scx=Arab}\p{scx=Syrc}\p{scx=Mand}\p{scx=Nkoo}\p{scx=Deva}\p{scx=Beng}\p{scx=Guru}\p{scx=Gujr}\p{scx=Orya}\p{scx=Taml}\p{scx=Telu}\p{scx=Knda}\p{scx=Mlym}\p{scx=Sinh}\p{scx=Khmr}\p{scx=Mymr}\p{scx=Mong}]&&[[\p{L}\p{M}\p{Nd}]--\p{Default_Ignorable_Code_Point}]]`;
const VIRAMA = String.raw`[\u094D\u09CD\u0A4D\u0ACD\u0B4D\u0BCD\u0C4D\u0CCD\u0D4D\u0DCA\u1039\u17D2]`;

const PICTURE = String.raw`\p{Extended_Pictographic}(?:[\uFE0E\uFE0F]|\p{Emoji_Modifier})?`;
/** England, Scotland, Wales: the only flags that are spelled in tags and drawn by anybody. */
const FLAG = String.raw`\u{1F3F4}\u{E0067}\u{E0062}(?:\u{E0065}\u{E006E}\u{E0067}|\u{E0073}\u{E0063}\u{E0074}|\u{E0077}\u{E006C}\u{E0073})\u{E007F}`;

/** Whole sequences, and single characters by what stands around them, that hold an unseen character people do see. */
const SEEN = [
  FLAG,
  String.raw`${PICTURE}(?:\u200D${PICTURE})*`,
  String.raw`[0-9#*]\uFE0F\u20E3`,
  // Few selectors on purpose: all 256 of them would carry a hidden byte behind every ideograph.
  String.raw`\p{Unified_Ideograph}[\uFE00-\uFE02\u{E0100}-\u{E010F}]`,
  String.raw`[\p{Sm}\p{sc=Mymr}]\uFE00`,
  String.raw`(?<=[\p{sc=Mong}&&\p{L}])[\u180B-\u180F]`,
  String.raw`(?<=${JOINED})[\u200C\u200D](?=${JOINED})`,
  // At a word's end: Malayalam's old chillu letters, and the Persian letter he that stands for a word.
  String.raw`(?<=${VIRAMA})[\u200C\u200D]`,
  String.raw`(?<=[\p{scx=Arab}&&\p{L}])\u200D`,
].join("|");

const ANY_UNSEEN = new RegExp(UNSEEN, "v");
const UNSEEN_OR_SEEN = new RegExp(`(${SEEN})|${UNSEEN}`, "gv");

/** Replaces each character that can't be seen where it stands, and nothing else. */
export const replaceUnseen = (text: string, by: (char: string) => string): string =>
  ANY_UNSEEN.test(text) ? text.replace(UNSEEN_OR_SEEN, (match, seen?: string) => seen ?? by(match)) : text;

/** Zero-width, joiners, bidi controls, soft hyphen, BOM: what may stand in or before a command word without a trace. */
const SLIPS = String.raw`\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff`;
const SLIP = new RegExp(`[${SLIPS}]`, "g");
const LEADING = new RegExp(`^[\\s${SLIPS}]+`);

/** A command word as its reader sees it; in other text joiners hold emoji together. */
export const plainWord = (word: string): string => word.replace(SLIP, "");

/** Where the first word begins, behind blanks and what nobody sees. */
export const firstWordAt = (text: string): number => LEADING.exec(text)?.[0].length ?? 0;

/** What is left is what a person would see; tabs and line breaks stay. */
export function visibleText(text: string): string {
  const lines = text.toWellFormed().replace(/\r\n?|[\v\f\u0085\u2028\u2029]/g, "\n");
  // A joiner typed twice by mistake: without the first one the letters would run together.
  return replaceUnseen(lines.replace(/([\u200c\u200d])[\u200c\u200d]+/g, "$1"), () => "");
}

/** One visible line of at most `max` characters. */
export function visibleLine(text: string, max: number): string {
  const line = visibleText(cutText(text, 4 * max))
    .replace(/\s+/g, " ")
    .trim();
  return line.length <= max ? line : cutText(line, max);
}

/** At most `max` characters from the start, never half of a surrogate pair. */
export const cutText = (text: string, max: number): string =>
  text.length <= max ? text : text.slice(0, /[\ud800-\udbff]/.test(text.charAt(max - 1)) ? max - 1 : max);

/** At most `max` characters, with a sign that something is missing. */
export const shortText = (text: string, max: number): string => (text.length <= max ? text : `${cutText(text, max - 1)}…`);

/** Cuts at `max` characters and says so; `rest` names the way to what is left out. */
export function capText(text: string, max: number, rest: string): string {
  if (text.length <= max) return text;
  const head = cutText(text, max);
  return `${head}\n… [cut: ${text.length - head.length} of ${text.length} characters; ${rest}]`;
}

/** Signs that a text itself could forge a spelling with. */
const SPELLED = /\u27e6U\+([0-9A-F]{4,6})\u27e7/g;
const LOOKS_SPELLED = /\u27e6(?=U\+[0-9A-F]{4,6}\u27e7)/g;

const spell = (char: string): string => {
  const code = char.codePointAt(0) ?? 0;
  // Half a pair can be written nowhere; every decoder shows this sign for it.
  return code >= 0xd800 && code <= 0xdfff ? "\ufffd" : `\u27e6U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e7`;
};

/** Each unseen character as `⟦U+200B⟧`; line ends `\r\n` stay. `readSpelled` gives the text back. */
export const spellUnseen = (text: string): string =>
  replaceUnseen(text.replace(LOOKS_SPELLED, spell), spell).replace(/\u27e6U\+000D\u27e7\n/g, "\r\n");

/** The text that `spellUnseen` spelled. */
export const readSpelled = (text: string): string =>
  text.replace(SPELLED, (whole, hex: string) => {
    const code = Number.parseInt(hex, 16);
    return code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? whole : String.fromCodePoint(code);
  });
