// A long answer with everything that breaks when it is cut or formatted carelessly. Each piece carries a number of its
// own, so a test can tell that all of them arrived, whole and in order, whatever became of the markup around them.

export interface LongText {
  readonly markdown: string;
  /** As people read them, in order. */
  readonly pieces: readonly string[];
}

const FAMILY = "\u{1F468}\u200d\u{1F469}\u200d\u{1F467}\u200d\u{1F466}";
const numbered = (n: number): string => String(n).padStart(5, "0");

export function longText(minLength = 30_000): LongText {
  const blocks: string[] = [];
  const pieces: string[] = [];
  const next = (piece: string): string => {
    pieces.push(`${piece}${numbered(pieces.length)}`);
    return pieces.at(-1) as string;
  };
  const several = (piece: string, count: number): string => Array.from({ length: count }, () => next(piece)).join(" ");
  for (let length = 0; length < minLength; length = blocks.join("\n\n").length) {
    blocks.push(
      `## ${next("Heading")}`,
      `Words ${several("w", 30)} **${next("bold")}** _${next("slanted")}_ \`${next("code")}\` [${next("link")}](https://example.com/a_b?c=d&e=f).`,
      `${several(FAMILY, 12)} ${several("🇩🇪", 6)} ${several("👍🏽", 6)}`,
      `${several("שלום", 10)} ${several("مرحبا", 10)}`,
      `1 < 2 && 3 > 2 ${next("a<b>c")} ${next("Q&A")}`,
      `- ${next("item")}\n- ${next("item")}\n  1. ${next("nested")}`,
      `> ${next("quote")}\n> ${next("quote")}`,
      `| ${next("head")} | ${next("head")} |\n|---|---|\n| ${next("cell")} | ${next("cell")} |`,
      `\`\`\`ts\n${Array.from({ length: 40 }, () => `const ${next("x")} = "<div>&</div>"; // _*[]()~`).join("\n")}\n\`\`\``,
    );
  }
  return { markdown: blocks.join("\n\n"), pieces };
}
