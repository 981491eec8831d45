// Differences in colour: lines that go and lines that come, in every block the server marked as `diff`. The text stays what it was.
import { el } from "./dom.js";

const KINDS = [
  [/^(?:@@|\\)/, "diff-place"],
  [/^\+/, "diff-added"],
  [/^-/, "diff-removed"],
];
/** The names of the two sides stand above the first place. Further down such a line is one that goes: `--- x` was `-- x`. */
const FILE = /^(?:\+\+\+|---)(?: |$)/;

export function colourDiffs(root) {
  for (const code of root.querySelectorAll("pre > code.language-diff")) {
    const lines = code.textContent.split(/(?<=\n)/);
    const firstPlace = lines.findIndex((line) => line.startsWith("@@"));
    const kindOf = (line, n) => (n < firstPlace && FILE.test(line) ? "diff-file" : KINDS.find(([begins]) => begins.test(line))?.[1]);
    code.replaceChildren(...lines.map((line, n) => el("span", { class: kindOf(line, n) }, line)));
  }
}
