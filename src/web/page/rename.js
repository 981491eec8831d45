// A chat's name, written in its place: Enter keeps it, Esc and going away leave it as it was; an empty one takes the name away.
import { el, toast } from "./dom.js";
import { postJson } from "./wire.js";

/** In the place of `node`, which is there again when `onEnd(isKept)` is called. */
export function renameInPlace(node, { chat, title, onEnd }) {
  const box = el("input", { class: "rename", type: "text", maxlength: "80", "aria-label": "Name of this chat" });
  box.value = title;
  let isOver = false;
  const end = (isKept) => {
    if (isOver) return;
    isOver = true;
    box.replaceWith(node);
    onEnd(isKept);
  };
  const keep = async () => {
    try {
      await postJson(`/api/chats/${chat}/title`, { title: box.value });
      end(true);
    } catch (error) {
      toast(`The name was not kept: ${error.message}`);
    }
  };
  box.addEventListener("keydown", (event) => {
    // Neither the list nor the page takes what is meant for the name.
    event.stopPropagation();
    if (event.key === "Enter" && !event.isComposing) void keep();
    if (event.key === "Escape") {
      event.preventDefault();
      end(false);
    }
  });
  box.addEventListener("blur", () => end(false));
  node.replaceWith(box);
  box.focus();
  box.select();
}
