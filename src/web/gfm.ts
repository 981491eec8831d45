// micromark with GitHub's extensions: Markdown → HTML that markdown.ts then makes safe for the page. A file of its own,
// so that it can be loaded with the first text.
import { micromark, type Options } from "micromark";
import { gfm, gfmHtml } from "micromark-extension-gfm";

const OPTIONS: Options = {
  // Footnotes make ids, which would clash between the messages of one page.
  extensions: [gfm(), { disable: { null: ["gfmFootnoteCall", "gfmPotentialFootnoteCall", "gfmFootnoteDefinition"] } }],
  htmlExtensions: [gfmHtml()],
};

export const gfmToHtml = (markdown: string): string => micromark(markdown, OPTIONS);
