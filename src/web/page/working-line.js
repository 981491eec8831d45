// The line "Working…" below the messages.
import { byId, setText } from "./dom.js";
import { keepingEnd } from "./message-list.js";
import { duration } from "./words.js";

/** Null hides the line. Returns the ticker to clear before the next call. */
export function showWorking(working, isAsking) {
  const node = byId("working");
  keepingEnd(() => {
    node.hidden = working === null;
  });
  if (working === null) return null;
  const draw = () => {
    const passedMs = Date.now() - working.startedAt;
    // However long that takes: a screen reader is not told every few seconds that nobody has answered.
    if (isAsking()) return setText(byId("working-text"), "Waiting for your answer…");
    const what = working.doing === null ? "Working…" : `Working… (${working.doing})`;
    setText(byId("working-text"), passedMs < 10_000 ? what : `${what} ${duration(Math.floor(passedMs / 5000) * 5000)}`);
  };
  draw();
  return setInterval(draw, 1000);
}
