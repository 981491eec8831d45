// One message as an element: the person's words as text, the agent's as the server made them safe, an announcement as a card with its
// state, name, result and notes, its figures folded.
import { colourDiffs } from "./diff.js";
import { copyText, el, setServerHtml } from "./dom.js";
import { filesNode } from "./message-files.js";
import { addressOf } from "./place.js";
import { clockTime, fullTime } from "./words.js";

export const WHO = { user: "You", announcement: "Sub-agent result", plain: "Herald" };

/** What became of a run: a sign and a word, so that neither colour nor shape alone says it. */
const STATUS = {
  success: ["✓", "Done"],
  error: ["✕", "Failed"],
  timeout: ["⏱", "Timed out"],
  unknown: ["?", "Ended early"],
};

const messages = new WeakMap();

/** The message an element shows. */
export const messageOf = (node) => messages.get(node);

/** `onPress(command)` for its buttons; `onCopy(node, button)`. */
export function messageNode(message, { onPress, onCopy }) {
  const isUser = message.author === "user";
  const body = el("div", { class: "body" });
  if (isUser) body.textContent = message.text;
  else fill(body, message.html);
  const who = isUser ? WHO.user : WHO[message.kind];
  const time = el("time", { datetime: new Date(message.at).toISOString(), title: fullTime(message.at) }, clockTime(message.at));
  // Parts of one message differ in what stands behind the #.
  const facts = { "data-seq": message.seq, "data-at": message.at, "data-author": who, "data-of": message.id.replace(/#\d+$/, "") };
  const copy = el(
    "button",
    { class: "action", type: "button", "aria-label": "Copy this message", onclick: () => onCopy(node, copy) },
    "Copy",
  );
  const node = el(
    "li",
    { class: `message ${message.author} ${message.kind}`, ...facts },
    el("div", { class: "day", hidden: true }),
    el("div", { class: "meta" }, el("span", { class: "who" }, who), time),
    message.card === undefined ? null : cardHead(message),
    message.html?.trim() === "" && message.card !== undefined ? null : body,
    notesNode(message),
    filesNode(message.files),
    message.stats === undefined ? null : statsNode(message.stats),
    buttonsNode(message, onPress),
    el("div", { class: "actions" }, copy),
  );
  node.classList.toggle("set-aside", message.replacedBy !== undefined);
  messages.set(node, message);
  return node;
}

/** Other words in an element that stands there. */
export function refill(node, message, hooks) {
  const fresh = messageNode(message, { ...hooks, onCopy: (_fresh, button) => hooks.onCopy(node, button) });
  node.replaceChildren(...fresh.childNodes);
  // The editor went with the rest.
  node.classList.remove("is-edited");
  if (message.replacedBy === undefined) node.classList.remove("is-open");
  node.classList.toggle("set-aside", message.replacedBy !== undefined);
  messages.set(node, message);
}

/** HTML of the server, with what the page adds to it. */
export function fill(body, html) {
  setServerHtml(body, html);
  colourDiffs(body);
  for (const pre of body.querySelectorAll("pre")) addCopyButton(pre);
}

function cardHead({ card: { label, asked, status }, runId }) {
  const [sign, word] = STATUS[status] ?? STATUS.unknown;
  return el(
    "div",
    { class: `card-head ${status}` },
    el("span", { class: "card-state" }, el("span", { "aria-hidden": "true" }, `${sign} `), word),
    el("b", { class: "card-label" }, label),
    asked === null ? null : el("span", { class: "faint" }, asked),
    runId === undefined ? null : el("a", { class: "card-open", href: addressOf({ ...currentChat(), run: runId }) }, "Open run"),
  );
}

/** It opens beside the chat that is on screen. */
const currentChat = () => ({ chat: document.body.dataset.chat ?? "main" });

function notesNode({ notesHtml }) {
  if (notesHtml === undefined) return null;
  const notes = el("div", { class: "body" });
  fill(notes, notesHtml);
  return el("div", { class: "card-notes" }, el("span", { class: "card-name" }, "Notes"), notes);
}

/** What a person wants to know first; keys, ids and paths on request. */
function statsNode({ figures, names }) {
  const items = names.map((name) => el("li", {}, name));
  return el("details", { class: "stats" }, el("summary", {}, figures.join(" • ")), el("ul", { class: "plain-list" }, ...items));
}

function buttonsNode({ buttons }, onPress) {
  if (buttons.length === 0) return null;
  const nodes = buttons.map(({ label, command, danger }) =>
    el("button", { class: danger ? "small danger" : "small", type: "button", onclick: () => onPress(command) }, label),
  );
  return el("div", { class: "buttons" }, ...nodes);
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
