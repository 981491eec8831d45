// The message box: Enter sends, Shift+Enter makes a new line, it grows with the text, and unsent words wait for
// their chat in this browser.
import { byId, memory } from "./dom.js";

/** `onSend(text)`. Returns what the page needs to fill and focus it. */
export function createComposer(onSend) {
  const box = byId("text");
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
  const send = () => {
    const text = box.value.trim();
    if (text === "") return;
    put("");
    onSend(text);
    box.focus();
  };

  box.addEventListener("input", () => {
    memory.set(`text.${chat}`, box.value === "" ? null : box.value);
    grow();
  });
  box.addEventListener("keydown", (event) => {
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
      box.value = memory.get(`text.${chat}`, "");
      grow();
    },
    fill(text) {
      put(text);
      box.focus();
    },
    focus: () => box.focus(),
  };
}
