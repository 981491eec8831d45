// The list of messages: one element per message, days between them, code with a copy button, the view kept at the
// end while the person reads there and left alone while they read above.
import { byId, copyText, el, setServerHtml } from "./dom.js";
import { clockTime, dayKey, dayName, fullTime } from "./words.js";

const NEAR_END_PX = 90;
const SAME_BREATH_MS = 5 * 60 * 1000;

const scroll = byId("scroll");
const list = byId("messages");
const pendingList = byId("pending");
const toEnd = byId("to-end");

const isAtEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR_END_PX;

export function scrollToEnd() {
  scroll.scrollTop = scroll.scrollHeight;
  toEnd.hidden = true;
}

/** Runs a change of the page and stays at the end when the person was there. */
export function keepingEnd(change) {
  const wasAtEnd = isAtEnd();
  change();
  if (wasAtEnd) scrollToEnd();
  return wasAtEnd;
}

scroll.addEventListener("scroll", () => {
  if (isAtEnd()) toEnd.hidden = true;
});
toEnd.addEventListener("click", scrollToEnd);

export function clearMessages() {
  list.replaceChildren();
  pendingList.replaceChildren();
  toEnd.hidden = true;
}

/** `onPress(command)` is called for buttons under a message. */
export function appendMessage(message, onPress) {
  const node = messageNode(message, onPress);
  const wasAtEnd = keepingEnd(() => {
    list.append(node);
    settle(node);
  });
  if (!wasAtEnd && message.author === "agent") toEnd.hidden = false;
}

/** Earlier messages, above; what is on screen stays where it is. */
export function prependMessages(messages, onPress) {
  const before = scroll.scrollHeight - scroll.scrollTop;
  const nodes = messages.map((message) => messageNode(message, onPress));
  const next = list.firstElementChild;
  list.prepend(...nodes);
  for (const node of nodes) settle(node);
  if (next !== null) settle(next);
  scroll.scrollTop = scroll.scrollHeight - before;
}

function messageNode(message, onPress) {
  const isUser = message.author === "user";
  const body = el("div", { class: "body" });
  if (isUser) body.textContent = message.text;
  else {
    setServerHtml(body, message.html);
    for (const pre of body.querySelectorAll("pre")) addCopyButton(pre);
    if (body.lastElementChild?.textContent.startsWith("Stats: ")) body.lastElementChild.classList.add("stats");
  }
  const who = isUser ? "You" : message.kind === "announcement" ? "Sub-agent result" : "Herald";
  const time = el("time", { datetime: new Date(message.at).toISOString(), title: fullTime(message.at) }, clockTime(message.at));
  const buttons = message.buttons.map(({ label, command, danger }) =>
    el("button", { class: danger ? "small danger" : "small", type: "button", onclick: () => onPress(command) }, label),
  );
  const node = el(
    "li",
    { class: `message ${message.author} ${message.kind}`, "data-seq": message.seq, "data-at": message.at, "data-author": who },
    el("div", { class: "day", hidden: true }),
    el("div", { class: "meta" }, el("span", { class: "who" }, who), time),
    body,
  );
  if (buttons.length > 0) node.append(el("div", { class: "buttons" }, ...buttons));
  return node;
}

/** The day above it when it is the first of one; no repeated name within one breath. */
function settle(node) {
  const before = node.previousElementSibling;
  const at = Number(node.dataset.at);
  const sameDay = before !== null && dayKey(Number(before.dataset.at)) === dayKey(at);
  const day = node.querySelector(".day");
  day.hidden = sameDay;
  day.textContent = sameDay ? "" : dayName(at);
  const follows = sameDay && before.dataset.author === node.dataset.author && at - Number(before.dataset.at) < SAME_BREATH_MS;
  node.classList.toggle("follows", follows);
}

function addCopyButton(pre) {
  const language = /language-([\w+#.-]+)/.exec(pre.firstElementChild?.className ?? "")?.[1] ?? "";
  const button = el("button", { class: "copy", type: "button", onclick: () => copyText(pre.textContent, button) }, "Copy");
  const frame = el("div", { class: "code" }, el("div", { class: "code-head" }, el("span", {}, language), button));
  pre.replaceWith(frame);
  // Wide code scrolls inside its frame, by keyboard too.
  pre.tabIndex = 0;
  frame.append(pre);
}

/** A message of this tab that is not confirmed yet. `state`: "sending" or "failed". */
export function showPending({ id, text, state, reason }, { onRetry, onDrop }) {
  const old = pendingList.querySelector(`[data-id="${id}"]`);
  const node = el("li", { class: `message user plain pending ${state}`, "data-id": id }, el("div", { class: "body" }, text));
  if (state === "failed") {
    node.append(
      el(
        "div",
        { class: "failure", role: "alert" },
        el("span", {}, `Not sent: ${reason}`),
        el("button", { class: "small", type: "button", onclick: onRetry }, "Try again"),
        el("button", { class: "small", type: "button", onclick: onDrop }, "Remove"),
      ),
    );
  } else node.append(el("div", { class: "failure" }, "Sending…"));
  if (old !== null) return keepingEnd(() => old.replaceWith(node));
  pendingList.append(node);
  scrollToEnd();
}

export function removePending(id) {
  pendingList.querySelector(`[data-id="${id}"]`)?.remove();
}
