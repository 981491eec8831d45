// The library that reads Markdown, loaded with the first text that needs it: it is a tenth of the program's start and 5 MB.
// Synchronously, because a reply is rendered inside the transaction that records it.
import { createRequire } from "node:module";

type Mdast = typeof import("mdast-util-from-markdown");

export type MarkdownRoot = ReturnType<Mdast["fromMarkdown"]>;

export interface MarkdownParser {
  readonly fromMarkdown: Mdast["fromMarkdown"];
  readonly gfmFromMarkdown: typeof import("mdast-util-gfm").gfmFromMarkdown;
  readonly gfm: typeof import("micromark-extension-gfm").gfm;
}

const require = createRequire(import.meta.url);

export const markdownParser = (): MarkdownParser => ({
  ...(require("mdast-util-from-markdown") as Mdast),
  ...(require("mdast-util-gfm") as typeof import("mdast-util-gfm")),
  ...(require("micromark-extension-gfm") as typeof import("micromark-extension-gfm")),
});
