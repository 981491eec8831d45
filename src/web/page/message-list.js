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

/** Whether the person reads at the end, as of the last sizes. */
const end = { isFollowed: true, height: 0, room: 0 };

function measure() {
  end.height = scroll.scrollHeight;
  end.room = scroll.clientHeight;
}

export function scrollToEnd() {
  scroll.scrollTop = scroll.scrollHeight;
  end.isFollowed = true;
  toEnd.hidden = true;
  measure();
}

/** Runs a change of the page and stays at the end when the person was there. */
export function keepingEnd(change) {
  const wasAtEnd = end.isFollowed;
  change();
  if (wasAtEnd) scrollToEnd();
  else measure();
  return wasAtEnd;
}

scroll.addEventListener("scroll", () => {
  // Another size moves the text too, and nobody scrolled: the observer answers that.
  if (scroll.scrollHeight !== end.height || scroll.clientHeight !== end.room) return;
  end.isFollowed = isAtEnd();
  if (end.isFollowed) toEnd.hidden = true;
});
// A narrower window, an opened run, a keyboard on the screen: lines break elsewhere, and the end stays in sight.
const observer = new ResizeObserver(() => keepingEnd(() => {}));
for (const node of [scroll, byId("column")]) observer.observe(node);
toEnd.addEventListener("click", scrollToEnd);

export function clearMessages() {
  list.replaceChildren();
  pendingList.replaceChildren();
  scrollToEnd();
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
  measure();
}

/** The answer as it is being written, drawn as the message it becomes, so that nothing moves when it does. Null hides it. */
export function showDraft(draft) {
  const node = byId("draft");
  keepingEnd(() => {
    if (node.hidden && draft !== null) {
      const at = Date.now();
      node.querySelector("time").textContent = clockTime(at);
      node.classList.toggle("follows", isOneBreath(list.lastElementChild, { at, who: WHO.plain }));
    }
    node.hidden = draft === null;
    fill(node.querySelector(".body"), draft === null ? "" : draft.html);
  });
}

const WHO = { user: "You", announcement: "Sub-agent result", plain: "Herald" };

function messageNode(message, onPress) {
  const isUser = message.author === "user";
  const body = el("div", { class: "body" });
  if (isUser) body.textContent = message.text;
  else fill(body, message.html);
  const who = isUser ? WHO.user : WHO[message.kind];
  const time = el("time", { datetime: new Date(message.at).toISOString(), title: fullTime(message.at) }, clockTime(message.at));
  const buttons = message.buttons.map(({ label, command, danger }) =>
    el("button", { class: danger ? "small danger" : "small", type: "button", onclick: () => onPress(command) }, label),
  );
  // Parts of one message differ in what stands behind the #.
  const facts = { "data-seq": message.seq, "data-at": message.at, "data-author": who, "data-of": message.id.replace(/#\d+$/, "") };
  const node = el(
    "li",
    { class: `message ${message.author} ${message.kind}`, ...facts },
    el("div", { class: "day", hidden: true }),
    el("div", { class: "meta" }, el("span", { class: "who" }, who), time),
    body,
  );
  if (message.stats !== undefined) node.append(statsNode(message.stats));
  if (buttons.length > 0) node.append(el("div", { class: "buttons" }, ...buttons));
  return node;
}

/** What a person wants to know first; keys, ids and paths on request. */
function statsNode({ figures, names }) {
  const items = names.map((name) => el("li", {}, name));
  return el("details", { class: "stats" }, el("summary", {}, figures.join(" • ")), el("ul", { class: "plain-list" }, ...items));
}

function fill(body, html) {
  setServerHtml(body, html);
  for (const pre of body.querySelectorAll("pre")) addCopyButton(pre);
}

const isSameDay = (before, at) => before !== null && dayKey(Number(before.dataset.at)) === dayKey(at);
const isOneBreath = (before, { at, who }) =>
  isSameDay(before, at) && before.dataset.author === who && at - Number(before.dataset.at) < SAME_BREATH_MS;

/** The day above it when it is the first of one; no repeated name within one breath; parts of one message as one. */
function settle(node) {
  const before = node.previousElementSibling;
  const at = Number(node.dataset.at);
  const sameDay = isSameDay(before, at);
  const day = node.querySelector(".day");
  day.hidden = sameDay;
  day.textContent = sameDay ? "" : dayName(at);
  node.classList.toggle("follows", isOneBreath(before, { at, who: node.dataset.author }));
  const continues = sameDay && before.dataset.of === node.dataset.of;
  node.classList.toggle("continues", continues);
  before?.classList.toggle("goes-on", continues);
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
