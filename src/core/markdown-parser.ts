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

type Extension = ReturnType<typeof import("mdast-util-gfm").gfmFromMarkdown>[number];
type Exit = NonNullable<NonNullable<Extension["exit"]>[string]>;

/** Behind an empty list item the parser takes "[x]" of an ordinary paragraph for that item's box, and drops it. */
const exitCheck: Exit = function (token) {
  const sign = this.sliceSerialize(token);
  const item = this.stack.at(-2);
  if (item?.type === "listItem") {
    item.checked = sign.trim() !== "";
    return;
  }
  this.enter({ type: "text", value: `[${sign}]` }, token);
  this.exit(token);
};
const CHECKS: Extension = { exit: { taskListCheckValueChecked: exitCheck, taskListCheckValueUnchecked: exitCheck } };

export function markdownParser(): MarkdownParser {
  const { fromMarkdown }: Mdast = require("mdast-util-from-markdown");
  const { gfmFromMarkdown }: typeof import("mdast-util-gfm") = require("mdast-util-gfm");
  const { gfm }: typeof import("micromark-extension-gfm") = require("micromark-extension-gfm");
  return { fromMarkdown, gfm, gfmFromMarkdown: () => [...gfmFromMarkdown(), CHECKS] };
}
