// The transcript of the open run: entries in order, new ones at the end, earlier ones on demand. Entries never change,
// so each is drawn once. The sub-agent's words are HTML from the server; all else is text.
import { el, setServerHtml } from "./dom.js";
import { clockTime, fullTime } from "./words.js";

const ONE_LINE = 110;

/** `list` is the element to fill. `position` tells entries apart and orders them. */
export function createRunLog(list) {
  const view = { last: -1, before: null };
  return {
    clear() {
      list.replaceChildren();
      view.last = -1;
      view.before = null;
    },
    isEmpty: () => list.childElementCount === 0,
    /** The cursor of what came before; null when all of it is shown. */
    before: () => view.before,
    /** The newest page. After a gap it takes the place of what was there. */
    showEnd({ entries, before }) {
      const isGap = view.last >= 0 && entries.length > 0 && entries[0].position > view.last;
      if (isGap) list.replaceChildren();
      if (isGap || view.last < 0) view.before = before;
      const fresh = isGap ? entries : entries.filter((entry) => entry.position > view.last);
      list.append(...fresh.map(entryNode));
      view.last = entries.at(-1)?.position ?? view.last;
    },
    showEarlier({ entries, before }) {
      list.prepend(...entries.map(entryNode));
      view.before = before;
    },
  };
}

const WHO = { task: "Task", note: "Note" };

function entryNode(entry) {
  const isTool = entry.kind === "call" || entry.kind === "result";
  const at = Date.parse(entry.at);
  const time = el("time", { class: "faint", datetime: entry.at, title: fullTime(at) }, clockTime(at));
  const node = el("li", { class: `entry ${entry.kind}${entry.isError ? " failed" : ""}` });
  if (isTool) node.append(toolNode(entry), time);
  else node.append(el("div", { class: "meta" }, el("bdi", { class: "who" }, WHO[entry.kind] ?? entry.who), time), bodyOf(entry));
  return node;
}

function bodyOf(entry) {
  const body = el("div", { class: entry.html === undefined ? "body words" : "body" });
  if (entry.html === undefined) body.textContent = entry.text;
  else setServerHtml(body, entry.html);
  // Wide code scrolls inside its frame, by keyboard too.
  for (const pre of body.querySelectorAll("pre")) pre.tabIndex = 0;
  return body;
}

function toolNode({ kind, who, text, isError }) {
  const mark = kind === "call" ? "→" : isError ? "✕" : "←";
  const line = text.trim().split("\n", 1)[0];
  const head = [
    el("span", { class: "tool-mark", "aria-hidden": "true" }, mark),
    " ",
    el("b", {}, who),
    " ",
    el("span", {}, line.slice(0, ONE_LINE)),
  ];
  if (line === text.trim() && line.length <= ONE_LINE) return el("div", { class: "tool" }, ...head);
  return el("details", { class: "tool" }, el("summary", {}, ...head), el("pre", { tabindex: "0" }, text));
}
