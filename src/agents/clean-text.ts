// Model and tool text before it is stored or sent: no NUL, no lone surrogates, no control characters that terminals
// or platforms act on. Tabs and line breaks stay.

// biome-ignore lint/suspicious/noControlCharactersInRegex: removing them is the point
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

export const cleanText = (text: string): string => text.toWellFormed().replaceAll("\r\n", "\n").replace(CONTROL, "");

/** Cuts at `max` characters without splitting a surrogate pair and says so. */
export function capText(text: string, max: number, rest: string): string {
  if (text.length <= max) return text;
  const head = text.slice(0, max).replace(/[\ud800-\udbff]$/, "");
  return `${head}\n… [cut: ${text.length - head.length} of ${text.length} characters; ${rest}]`;
}
