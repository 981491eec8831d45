// micromark with GitHub's extensions: Markdown → HTML that markdown.ts then makes safe for the page. A file of its own,
// so that it can be loaded with the first text.
import { micromark, type Options } from "micromark";
import { gfm, gfmHtml } from "micromark-extension-gfm";

const EXTENSIONS = [
  gfm(),
  // Footnotes make ids, which would clash between the messages of one page.
  { disable: { null: ["gfmFootnoteCall", "gfmPotentialFootnoteCall", "gfmFootnoteDefinition"] } },
];
const HTML_EXTENSIONS = [gfmHtml()];

/** What else is read and written (math.ts). */
export interface MoreMarkdown {
  readonly mathSyntax: NonNullable<Options["extensions"]>[number];
  readonly mathToHtml: NonNullable<Options["htmlExtensions"]>[number];
}

export const gfmToHtml = (markdown: string, more: MoreMarkdown | null): string =>
  micromark(markdown, {
    extensions: more === null ? EXTENSIONS : [...EXTENSIONS, more.mathSyntax],
    htmlExtensions: more === null ? HTML_EXTENSIONS : [...HTML_EXTENSIONS, more.mathToHtml],
  });
