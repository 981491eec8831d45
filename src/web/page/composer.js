// The message box: Enter sends, Shift+Enter makes a new line, it grows with the text, and unsent words wait for
// their chat in this browser. An arrow up in the empty box takes up the last message.
import { createComposerFiles } from "./composer-files.js";
import { byId, memory } from "./dom.js";
import { createSlash } from "./slash.js";

/** `onSend(text, files)`, `onEditLast()`. Returns what the page needs to fill and focus it. */
export function createComposer({ onSend, onEditLast }) {
  const box = byId("text");
  const attached = createComposerFiles();
  let chat = "main";

  const grow = () => {
    box.style.height = "auto";
    box.style.height = `${box.scrollHeight}px`;
  };
  const put = (text) => {
    box.value = text;
    memory.set(`text.${chat}`, text === "" ? null : text);
    grow();
  };
  const slash = createSlash(box, put);
  const send = () => {
    const text = box.value.trim();
    const files = attached.take();
    if (files === null || (text === "" && files.length === 0)) return;
    put("");
    slash.close();
    onSend(text, files);
    box.focus();
  };

  box.addEventListener("input", () => {
    memory.set(`text.${chat}`, box.value === "" ? null : box.value);
    grow();
  });
  box.addEventListener("keydown", (event) => {
    if (slash.onKey(event)) return;
    if (event.key === "ArrowUp" && box.value === "" && onEditLast()) return event.preventDefault();
    // While an input method composes, Enter picks a word; Safari says so only by this code.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    send();
  });
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  window.addEventListener("resize", grow);

  return {
    open(next) {
      chat = next;
      attached.open(chat);
      box.value = memory.get(`text.${chat}`, "");
      slash.close();
      grow();
    },
    fill(text) {
      put(text);
      box.focus();
    },
    focus: () => box.focus(),
  };
}
