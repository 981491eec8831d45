// The last exchange of a chat: the person's last words and what answered them. Those can be put anew: edited in their place, or sent once
// more for another answer. What stood there before is folded, an earlier version. Whether it can be is decided by the server.
import { byId, el, newId, toast } from "./dom.js";
import { messageOf } from "./message-node.js";

const numberOf = (node) => /^reply:(\d+)$/.exec(node.dataset.of)?.[1];

/** `{asked, answers}` as elements; null: something else stands at the end. */
function lastExchange(list) {
  const answers = [];
  for (let node = list.lastElementChild; node !== null; node = node.previousElementSibling) {
    const message = messageOf(node);
    if (message.replacedBy !== undefined) continue;
    if (message.author === "agent") {
      answers.unshift(node);
      continue;
    }
    const isAnswered = answers.every((answer) => numberOf(answer) !== undefined && numberOf(answer) === numberOf(answers[0]));
    return isAnswered && !message.text.startsWith("/") && message.id.startsWith("in:") ? { asked: node, answers } : null;
  }
  return null;
}

/** Buttons at the last exchange and nowhere else. `isBusy`: none now. `onResend(replaces, text, id)` resolves with why not, or null. */
export function placeRedo(list, { isBusy, onResend }) {
  const hadFocus = document.activeElement?.classList.contains("redo") === true;
  const wanted = isBusy ? [] : redoOf(lastExchange(list), onResend);
  const standing = [...list.querySelectorAll(".redo")];
  const isAt = (button, { node, text }) => node.contains(button) && button.textContent === text;
  // Those that are right stay: somebody may be on one.
  for (const button of standing) if (!wanted.some((one) => isAt(button, one))) button.remove();
  for (const one of wanted) if (!standing.some((button) => isAt(button, one))) one.node.querySelector(".actions").append(redo(one));
  // What was pressed is gone: whoever pressed it goes on from the message box.
  if (hadFocus && document.activeElement === document.body) byId("text").focus();
}

function redoOf(last, onResend) {
  if (last === null) return [];
  const { asked, answers } = last;
  return [
    { node: asked, text: "Edit", label: "Edit this message and send it again", act: () => openEditor(asked, onResend) },
    {
      node: answers.at(-1) ?? asked,
      text: "Regenerate",
      label: "Answer this message once more",
      act: (button) => void sendAgain(messageOf(asked), button, onResend),
    },
  ];
}

/** Opens the last message for editing. False: there is none that can be. */
export function editLast(list) {
  const button = list.querySelector(".user .redo");
  button?.click();
  return button !== null;
}

function redo({ text, label, act }) {
  const button = el("button", { class: "action redo", type: "button", "aria-label": label, onclick: () => act(button) }, text);
  return button;
}

const idOf = ({ id }) => id.slice("in:".length);

async function sendAgain(message, button, onResend) {
  button.disabled = true;
  const why = await onResend(idOf(message), message.text, newId());
  button.disabled = false;
  if (why !== null) toast(why);
}

function openEditor(node, onResend) {
  const message = messageOf(node);
  if (node.querySelector(".editor") !== null) return node.querySelector(".editor textarea").focus();
  const box = el("textarea", { rows: "3", maxlength: "60000", "aria-label": "Your message" });
  box.value = message.text;
  const problem = el("p", { class: "editor-problem", role: "alert", hidden: true });
  const send = el("button", { class: "small primary", type: "submit" }, "Send");
  const cancel = el("button", { class: "small", type: "button" }, "Cancel");
  const form = el("form", { class: "editor" }, box, problem, el("div", { class: "editor-foot" }, cancel, send));
  const close = () => {
    form.remove();
    node.classList.remove("is-edited");
    (node.querySelector(".redo") ?? byId("text")).focus();
  };
  // The same over every try: taken once, however often it is sent.
  const id = newId();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = box.value.trim();
    // Files can stand alone.
    if (text === "" && message.files === undefined) return;
    send.disabled = true;
    const why = await onResend(idOf(message), text, id);
    send.disabled = false;
    if (why === null) return close();
    problem.hidden = false;
    problem.textContent = why;
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      close();
    }
    if (event.key === "Enter" && event.target === box && !event.shiftKey && !event.isComposing && event.keyCode !== 229) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  cancel.addEventListener("click", close);
  node.classList.add("is-edited");
  node.querySelector(".actions").before(form);
  box.focus();
  box.setSelectionRange(box.value.length, box.value.length);
}

/** Messages of an earlier version lie behind one line, until somebody unfolds them. */
export function foldVersions(list) {
  for (const node of list.querySelectorAll(".set-aside")) {
    const before = node.previousElementSibling;
    const { replacedBy } = messageOf(node);
    const isFirst = before === null || messageOf(before).replacedBy !== replacedBy;
    const line = node.querySelector(".version");
    if (!isFirst) line?.remove();
    else if (line === null) node.prepend(versionLine(list, replacedBy));
    node.dataset.version = replacedBy;
    // One of it may be unfolded already, and this one came behind it.
    if (!isFirst) node.classList.toggle("is-open", before.classList.contains("is-open"));
  }
}

function versionLine(list, version) {
  const button = el("button", { class: "version", type: "button", "aria-expanded": "false" }, "Earlier version");
  button.addEventListener("click", () => {
    const isOpen = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(isOpen));
    for (const node of list.querySelectorAll(`[data-version="${version}"]`)) node.classList.toggle("is-open", isOpen);
  });
  return button;
}
