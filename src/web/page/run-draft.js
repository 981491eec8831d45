// What the open run writes and thinks at this moment, below what is on record. The entry takes its place: a draft that is over stays until
// the transcript has been read once more, and then goes.
import { setServerHtml, setText } from "./dom.js";

export function createRunDraft(root) {
  const [thinking, body] = root.children;
  const words = thinking.querySelector(".words");
  const view = { isOver: false, ended: 0 };
  const clear = () => {
    view.isOver = false;
    root.hidden = true;
    setText(words, "");
    body.replaceChildren();
  };
  clear();
  return {
    clear,
    /** Empty: it is over, and true that somebody should look what became of it. */
    show({ html, thoughts }) {
      view.isOver = html === "" && thoughts === "";
      if (view.isOver) {
        view.ended++;
        return !root.hidden;
      }
      root.hidden = false;
      thinking.hidden = thoughts === "";
      setText(words, thoughts);
      setServerHtml(body, html);
      for (const pre of body.querySelectorAll("pre")) pre.tabIndex = 0;
      return false;
    },
    /** How many were over so far. */
    ended: () => view.ended,
    /** The transcript was read: what was over when that began stands there. */
    wasRead: (ended) => view.isOver && view.ended === ended && clear(),
  };
}
