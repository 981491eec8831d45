// A few keys for the whole page, and the window that lists them. Single letters count only where nobody is writing, and can be turned off.
import { html, render } from "/lib/lit-html/lit-html.js";
import { byId, el, memory } from "./dom.js";

const LIST = html`
  <header class="sheet-head">
    <h2 id="shortcuts-title" tabindex="-1">Keys</h2>
    <button class="icon" id="shortcuts-close" type="button" aria-label="Close" title="Close (Esc)">✕</button>
  </header>
  <div class="sheet-body">
    <dl class="keys-list">
      <div><dt><kbd>?</kbd></dt><dd>This list</dd></div>
      <div><dt><kbd>n</kbd></dt><dd>New chat</dd></div>
      <div><dt><kbd>/</kbd></dt><dd>Search all chats</dd></div>
      <div><dt><kbd>m</kbd></dt><dd>To the message box</dd></div>
      <div><dt><kbd>Enter</kbd></dt><dd>Send; <kbd>Shift</kbd> <kbd>Enter</kbd> makes a new line</dd></div>
      <div><dt><kbd>↑</kbd></dt><dd>In the empty message box: edit your last message</dd></div>
      <div><dt><kbd>/</kbd></dt><dd>In the message box: commands; <kbd>↑</kbd> <kbd>↓</kbd> choose, <kbd>Tab</kbd> takes one</dd></div>
      <div><dt><kbd>F2</kbd></dt><dd>On a chat of the list: rename it; <kbd>Delete</kbd> opens its menu</dd></div>
      <div><dt><kbd>Esc</kbd></dt><dd>Close what lies on top</dd></div>
    </dl>
    <label class="check"><input id="shortcuts-on" type="checkbox" /> Single letters work as keys where nobody is writing</label>
  </div>
`;

const isWriting = (node) => node instanceof Element && node.closest("input, textarea, select, [contenteditable], [role=menu]") !== null;
const isAllowed = () => memory.get("keys", true) === true;

/** `onNewChat()`, `onSearch()`, `onWrite()`. */
export function createShortcuts({ onNewChat, onSearch, onWrite }) {
  const dialog = el("dialog", { class: "sheet small-sheet", id: "shortcuts", "aria-labelledby": "shortcuts-title" });
  document.body.append(dialog);
  render(LIST, dialog);
  const open = () => {
    byId("shortcuts-on").checked = isAllowed();
    dialog.showModal();
  };
  const keys = { "?": open, n: onNewChat, "/": onSearch, m: onWrite };
  byId("open-shortcuts").addEventListener("click", open);
  byId("shortcuts-close").addEventListener("click", () => dialog.close());
  byId("shortcuts-on").addEventListener("change", (event) => memory.set("keys", event.target.checked));
  document.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    const isBare = !(event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented);
    if (act === undefined || !isBare || !isAllowed() || isWriting(event.target) || byId("app").hidden) return;
    if (document.querySelector("dialog[open]") !== null) return;
    event.preventDefault();
    act();
  });
}
