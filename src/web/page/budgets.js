// What is spent of limits: the installation's day and month, where they have one, and the bar of a run that has one of its own.
import { byId, el, setText } from "./dom.js";
import { spentText } from "./run-words.js";

/** From here on the bar says that it gets near; a chat is told then, too. */
const NEAR = 0.8;

export function showBudgets(lines) {
  byId("budgets").hidden = lines.length === 0;
  const list = byId("budgets-list");
  while (list.children.length > lines.length) list.lastChild.remove();
  lines.forEach((line, n) => {
    const node =
      list.children[n] ?? list.appendChild(el("li", { class: "budget" }, el("p"), el("div", { class: "spent", "aria-hidden": "true" })));
    const [words, bar] = node.children;
    setText(words, `${line.name.charAt(0).toUpperCase()}${line.name.slice(1)}: ${spentText(line)}`);
    drawSpent(bar, line);
  });
}

/** Null: there is no limit. The words beside it say the same. */
export function drawSpent(bar, spent) {
  bar.hidden = spent === null;
  if (spent === null) return;
  const share = Math.min(1, Math.max(0, spent.share));
  bar.style.setProperty("--spent", String(share));
  bar.dataset.near = String(share >= NEAR);
}
