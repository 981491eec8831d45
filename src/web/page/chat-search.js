// Finding words in all chats: the hits take the place of the list of chats, each with what stands around it, and open the chat there.
import { byId, el, setText } from "./dom.js";
import { addressOf } from "./place.js";
import { createRoving } from "./roving.js";
import { getJson, SignedOut } from "./wire.js";
import { clockTime, dayKey, dayName } from "./words.js";

const WAIT_MS = 200;

/** `onSignedOut()`. Returns what brings the focus here. */
export function createChatSearch({ onSignedOut, titleOf }) {
  const box = byId("search");
  const results = byId("search-results");
  const placeTab = createRoving(results, ".hit");
  let timer = null;
  let asked = 0;

  const show = (nodes, said) => {
    results.replaceChildren(...nodes);
    placeTab();
    setText(byId("search-said"), said);
    byId("search-clear").hidden = box.value === "";
  };
  const clear = () => {
    box.value = "";
    void look();
    box.focus();
  };
  const look = async () => {
    const words = box.value.trim();
    const mine = ++asked;
    const isOn = words !== "";
    for (const id of ["search-results", "search-said"]) byId(id).hidden = !isOn;
    byId("chats").hidden = isOn;
    if (words.length < 2) return show([], isOn ? "Write one more letter." : "");
    try {
      const found = await getJson(`/api/search?q=${encodeURIComponent(words)}`);
      if (mine !== asked) return;
      const nodes = [...found.chats.map((chat) => nameNode(chat, titleOf)), ...found.hits.map((hit) => hitNode(hit, titleOf))];
      const count = `${nodes.length}${found.isWhole ? "" : " or more"} found`;
      show(nodes, nodes.length === 0 ? `Nothing found for “${words}”. Try fewer or other words.` : count);
    } catch (error) {
      if (error instanceof SignedOut) return onSignedOut();
      if (mine === asked) show([], `The search failed: ${error.message}`);
    }
  };
  box.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, WAIT_MS);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && box.value !== "") {
      event.preventDefault();
      event.stopPropagation();
      clear();
    }
    if (event.key === "ArrowDown") {
      event.preventDefault();
      results.querySelector(".hit")?.focus();
    }
    if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(timer);
      void look().then(() => results.querySelector(".hit")?.focus());
    }
  });
  byId("search-clear").addEventListener("click", clear);
  return { focus: () => box.focus() };
}

const timeOf = (at) => (dayKey(at) === dayKey(Date.now()) ? clockTime(at) : dayName(at));

const nameNode = ({ id, title }, titleOf) =>
  el(
    "li",
    {},
    el(
      "a",
      { class: "hit", href: addressOf({ chat: id }) },
      el("b", { class: "hit-title" }, titleOf(id, title)),
      el("span", { class: "faint" }, "Chat"),
    ),
  );

function hitNode({ chat, title, seq, author, at, before, hit, after }, titleOf) {
  const address = addressOf({ chat, query: new Map([["at", String(seq)]]) });
  const head = el("span", { class: "faint hit-head" }, `${titleOf(chat, title)} · ${author === "user" ? "You" : "Herald"} · ${timeOf(at)}`);
  return el(
    "li",
    {},
    el("a", { class: "hit", href: address }, head, el("span", { class: "hit-words" }, before, el("mark", {}, hit), after)),
  );
}
