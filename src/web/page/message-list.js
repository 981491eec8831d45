// The list of messages: one element per message (message-node.js), days between them, the view kept at the end while the person reads
// there and left alone while they read above.
import { byId, copyText, el } from "./dom.js";
import { editLast, foldVersions, placeRedo } from "./last-exchange.js";
import { filesNode } from "./message-files.js";
import { fill, messageNode, messageOf, refill, WHO } from "./message-node.js";
import { clockTime, dayKey, dayName } from "./words.js";

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

/** What the messages of the chat on screen do: `onPress(command)`, `onResend(replaces, text, id)`. */
const now = { hooks: null, isBusy: false };
const hooks = {
  onPress: (command) => now.hooks.onPress(command),
  onCopy: (node, button) => copyText(wholeText(node), button),
};

/** All parts of a message, as it was written. */
const wholeText = ({ dataset: { of } }) =>
  [...list.children]
    .filter((node) => node.dataset.of === of)
    .map((node) => messageOf(node).text)
    .join("\n\n");

/** For another chat, whose `hooks` its messages have. */
export function clearMessages(own) {
  Object.assign(now, { hooks: own, isBusy: false });
  list.replaceChildren();
  pendingList.replaceChildren();
  scrollToEnd();
}

/** `isBusy`: an answer is being written, and nothing can be put anew. */
export function showRedo(isBusy) {
  now.isBusy = isBusy;
  placeRedo(list, { isBusy, onResend: now.hooks.onResend });
}

function arrange() {
  foldVersions(list);
  showRedo(now.isBusy);
}

/** Opens the person's last message for editing. False: it can't be edited now. */
export const editLastMessage = () => editLast(list);

/** Shows one message and marks it. False: it is not in the list. */
export function showMessage(seq) {
  const node = list.querySelector(`[data-seq="${seq}"]`);
  if (node === null) return false;
  for (const found of list.querySelectorAll(".found")) found.classList.remove("found");
  node.parentElement.querySelector(`[data-version="${messageOf(node).replacedBy}"] > .version[aria-expanded="false"]`)?.click();
  node.classList.add("found");
  end.isFollowed = false;
  node.tabIndex = -1;
  node.focus({ preventScroll: true });
  node.scrollIntoView({ block: "center" });
  measure();
  return true;
}

export function appendMessage(message) {
  const node = messageNode(message, hooks);
  const wasAtEnd = keepingEnd(() => {
    list.append(node);
    settle(node);
    arrange();
  });
  if (!wasAtEnd && message.author === "agent") toEnd.hidden = false;
}

/** Other words for a message that stands there, in its place; one that is not shown (yet) needs none. */
export function replaceMessage(message) {
  const node = list.querySelector(`[data-seq="${message.seq}"]`);
  if (node === null) return;
  const hadFocus = node.contains(document.activeElement);
  // Inside a log, where it would be read out once more as a whole.
  node.setAttribute("aria-live", "off");
  keepingEnd(() => {
    refill(node, message, hooks);
    settle(node);
    arrange();
  });
  if (!hadFocus) return;
  // The button that was pressed is gone: whoever pressed it goes on from here.
  node.tabIndex = -1;
  node.focus();
}

/** Earlier messages, above; what is on screen stays where it is. */
export function prependMessages(messages) {
  const before = scroll.scrollHeight - scroll.scrollTop;
  const nodes = messages.map((message) => messageNode(message, hooks));
  const next = list.firstElementChild;
  list.prepend(...nodes);
  for (const node of nodes) settle(node);
  if (next !== null) settle(next);
  arrange();
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

/** A message of this tab that is not confirmed yet. `state`: "sending" or "failed". */
export function showPending({ id, text, files, state, reason }, { onRetry, onDrop }) {
  const old = pendingList.querySelector(`[data-id="${id}"]`);
  const node = el("li", { class: `message user plain pending ${state}`, "data-id": id }, el("div", { class: "body" }, text));
  const attached = filesNode(files);
  if (attached !== null) node.append(attached);
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
