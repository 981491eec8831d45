// Commands completed in the message box: a list above it while what is written begins with a slash. Arrows choose, Enter and Tab take one,
// Esc closes the list; a command that is written out whole is sent by Enter as ever.
import { byId, el, setText } from "./dom.js";
import { getJson } from "./wire.js";

const MAX_SHOWN = 50;

/** `box` is the message box, `put(text)` fills it. What it returns is asked first of each key: true, and the key was meant for the list. */
export function createSlash(box, put) {
  const list = byId("slash");
  const view = { commands: null, shown: [], at: 0, isDismissed: false };

  const close = () => {
    view.shown = [];
    draw();
  };
  const draw = () => {
    const { shown, at } = view;
    list.hidden = shown.length === 0;
    list.replaceChildren(...shown.map((command, n) => optionNode(command, n, n === at, () => take(n))));
    list.children[at]?.scrollIntoView({ block: "nearest" });
    if (shown.length === 0) box.removeAttribute("aria-activedescendant");
    else box.setAttribute("aria-activedescendant", `slash-${at}`);
    setText(byId("slash-said"), shown.length === 0 ? "" : `${shown.length} ${shown.length === 1 ? "command" : "commands"}, arrows choose`);
  };
  const take = (n) => {
    put(`${view.shown[n].text} `);
    void update();
  };
  const update = async () => {
    view.isDismissed = false;
    if (!box.value.startsWith("/") || box.value.includes("\n")) return close();
    view.commands ??= await getJson("/api/commands").then(
      ({ commands }) => commands,
      // Typed in full, it works all the same; asked again with the next letter.
      () => null,
    );
    const written = box.value.toLowerCase();
    const fits = (view.commands ?? []).filter(({ text }) => text.startsWith(written) || text === written.trimEnd());
    // What can follow a command, once it is written; before that only the commands themselves.
    view.shown = view.isDismissed ? [] : fits.filter(({ text }) => written.includes(" ") || !text.includes(" ")).slice(0, MAX_SHOWN);
    view.at = 0;
    draw();
  };
  const move = (by) => {
    view.at = (view.at + by + view.shown.length) % view.shown.length;
    draw();
  };
  box.addEventListener("input", () => void update());
  box.addEventListener("blur", close);
  return {
    close,
    onKey(event) {
      const { shown, at } = view;
      if (shown.length === 0 || event.isComposing || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) return false;
      const act = {
        ArrowDown: () => move(1),
        ArrowUp: () => move(-1),
        Tab: () => take(at),
        Enter: () => take(at),
        Escape() {
          view.isDismissed = true;
          close();
        },
      }[event.key];
      // Written out whole: Enter sends it, and Tab leaves the box as always.
      if (act === undefined || ((event.key === "Enter" || event.key === "Tab") && shown[at].text === box.value.trim())) return false;
      event.preventDefault();
      act();
      return true;
    },
  };
}

function optionNode({ usage, summary }, n, isActive, onTake) {
  const node = el(
    "div",
    { id: `slash-${n}`, role: "option", "aria-selected": String(isActive), class: "slash-option" },
    el("code", {}, usage),
    el("span", { class: "faint" }, summary),
  );
  // Before the box loses the focus.
  node.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    onTake();
  });
  return node;
}
