// A word on the screen while nobody looks at the page: only after somebody asked for it here, and the browser agreed. Text only.
import { byId, memory, setText, toast } from "./dom.js";

const MAX_BODY = 160;
const isSupported = () => "Notification" in globalThis;
const isOn = () => memory.get("notify", false) === true && isSupported() && Notification.permission === "granted";

const plain = (text) => {
  const line = text
    .replace(/^[ \t]*>|[*_`#]+/gm, "")
    .replace(/\s+/g, " ")
    .trim();
  return line.length <= MAX_BODY ? line : `${line.slice(0, MAX_BODY - 1).replace(/[\ud800-\udbff]$/, "")}…`;
};

/** `tag`: a later word of the same kind takes the place of this one. */
export function notify(title, text, tag) {
  if (document.visibilityState !== "hidden" || !isOn()) return;
  try {
    const shown = new Notification(title, { body: plain(text), tag: `herald-${tag}`, icon: "/favicon.svg" });
    shown.onclick = () => {
      window.focus();
      shown.close();
    };
  } catch {
    // Some phones allow them to service workers alone: the title of the window says it, too.
  }
}

/** The button that turns it on and off. */
export function createNotify() {
  const button = byId("notify");
  const draw = () => {
    setText(button, isOn() ? "Notifications: on" : "Notifications: off");
    button.setAttribute("aria-pressed", String(isOn()));
  };
  button.addEventListener("click", async () => {
    if (isOn()) memory.set("notify", false);
    else if (!isSupported()) toast("This browser has no notifications. The window's title shows when something is new.");
    else {
      const answer = await Notification.requestPermission();
      memory.set("notify", answer === "granted");
      if (answer !== "granted")
        toast("The browser does not allow notifications for this page. Its settings for this site can change that.");
    }
    draw();
  });
  draw();
}
