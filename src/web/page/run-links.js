// Links from one run to others: the one it repeats, those that repeat it, those it can be held against.
import { el } from "./dom.js";
import { clockTime, dayName } from "./words.js";

/** `Count lines · 3f2a91bc · done`; `onChoose(id)` instead of what a link does. */
export function runLink({ id, shortId, label, state, createdAt }, onChoose) {
  const choose = (event) => {
    event.preventDefault();
    onChoose(id);
  };
  const when = `${dayName(createdAt)} ${clockTime(createdAt)}`;
  return el(
    "a",
    { class: "run-link", href: `#/run/${id}`, onclick: choose },
    el("bdi", {}, label || shortId),
    el("span", { class: "faint" }, ` ${shortId} · ${state} · ${when}`),
  );
}
