// Text that nobody of ours wrote as a block of code in our own Markdown: whatever it holds, it can't end the block, and what can't be
// seen is spelled out, so that a person reads all that is there. Pure.
import { spellUnseen } from "./visible-text.ts";

export function codeBlock(text: string, language = ""): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([marks]) => marks.length));
  const fence = "`".repeat(longest + 1);
  // A carriage return moves what follows over what stood before it.
  return `${fence}${language}\n${spellUnseen(text).replaceAll("\r\n", "⟦U+000D⟧\n")}\n${fence}`;
}
