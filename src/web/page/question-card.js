// One open question with its answers in place: options as buttons and a box for other words, an approval with its four answers and
// room for a reason. What is asked never changes, so a card is made once and keeps the words and the focus of whoever is writing.

import { colourDiffs } from "./diff.js";
import { el, memory, setServerHtml, setText, toast } from "./dom.js";
import { getJson, postJson, Refused, SignedOut } from "./wire.js";
import { duration } from "./words.js";

const MAX_LENGTH = 16000;

/** `whereOf(question)`, `onOpen(runId)` or null where the run is open already, `onSignedOut()`. */
export function createQuestionCard(question, hooks) {
  const card = { question, hooks, isBusy: false, isAnswered: false, controls: [], yes: [] };
  const where = el("bdi", { class: "question-origin" });
  const age = el("span", { class: "question-age" });
  const group = el("div", { role: "group" });
  const body = el("div", { class: "body" });
  const form = question.kind === "ask" ? answerForm(card) : approvalForm(card);
  card.node = el("li", { class: `question ${question.kind}`, "data-key": question.id }, group);
  group.append(headNode(question, hooks.onOpen), el("p", { class: "question-where faint" }, where, age), body);
  if (question.html === null) group.append(wholeButton(card, body));
  group.append(form);
  if (question.html !== null) fill(body, question.html);
  // Seen first, allowed then: what stands behind the button is part of what would happen.
  else for (const button of card.yes) button.disabled = true;
  return {
    node: card.node,
    /** Its age, and where it was asked: a chat gets its name later. */
    draw() {
      const origin = hooks.whereOf(question);
      setText(where, origin);
      setText(age, ageText(question));
      const name = [titleOf(question), origin].filter((part) => part !== "").join(", ");
      if (group.getAttribute("aria-label") !== name) group.setAttribute("aria-label", name);
    },
    /** Somebody is at it: what became of it must not pass them by. */
    isInUse: () => !card.isAnswered && (card.node.contains(document.activeElement) || card.text.value.trim() !== ""),
    focus: () => (card.controls.find((control) => !control.disabled) ?? card.text).focus(),
    drop() {
      memory.set(draftKey(question), null);
      card.node.remove();
    },
  };
}

const titleOf = ({ kind, asker, tool }) => (kind === "ask" ? `${asker} asks` : `${asker} wants to use ${tool ?? "a tool"}`);
const draftKey = ({ id }) => `text.question.${id}`;

function ageText({ createdAt, expiresAt }) {
  const leftMs = expiresAt - Date.now();
  return `${duration(Date.now() - createdAt)} ago${leftMs < 3_600_000 ? `, closes in ${duration(leftMs)}` : ""}`;
}

function headNode({ kind, asker, tool, runId }, onOpen) {
  const open = (event) => {
    event.preventDefault();
    onOpen(runId);
  };
  const name =
    runId === null || onOpen === null
      ? el("bdi", { class: "question-asker" }, asker)
      : el("a", { class: "question-asker", href: `#/run/${runId}`, onclick: open }, el("bdi", {}, asker));
  const does = kind === "ask" ? [" asks:"] : [" wants to use ", el("code", {}, tool ?? "a tool"), ":"];
  return el("p", { class: "question-head" }, name, ...does);
}

function fill(body, html) {
  setServerHtml(body, html);
  colourDiffs(body);
  // Wide code scrolls inside its frame, by keyboard too.
  for (const pre of body.querySelectorAll("pre")) pre.tabIndex = 0;
}

/** A long one is no part of the list. */
function wholeButton(card, body) {
  const { question, hooks } = card;
  const button = el(
    "button",
    { class: "small", type: "button", onclick: () => void showWhole() },
    `Show all of it (${question.length.toLocaleString()} characters)`,
  );
  const showWhole = async () => {
    try {
      fill(body, (await getJson(`/api/questions/${question.id}`)).html);
      for (const one of card.yes) one.disabled = false;
      button.remove();
      body.tabIndex = -1;
      body.focus();
    } catch (error) {
      if (error instanceof SignedOut) hooks.onSignedOut();
      else toast(`It can't be shown: ${error.message}`);
    }
  };
  return button;
}

function button(card, text, given, kind = "") {
  const node = el("button", { class: `small ${kind}`.trim(), type: "button", onclick: () => void send(card, given()) }, text);
  card.controls.push(node);
  return node;
}

/** One line that grows to a few; Enter sends, Shift+Enter makes a new line. Unsent words stay over a reload. */
function textBox(card, label, placeholder, onEnter) {
  const text = el("textarea", { rows: "1", maxlength: String(MAX_LENGTH), "aria-label": label, placeholder, autocomplete: "off" });
  text.value = memory.get(draftKey(card.question), "");
  text.addEventListener("input", () => memory.set(draftKey(card.question), text.value === "" ? null : text.value));
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    onEnter();
  });
  card.text = text;
  return text;
}

function answerForm(card) {
  const { options } = card.question;
  const choices = options.map((option, n) => button(card, option, () => ({ option: n + 1 })));
  const answer = () => card.text.value.trim() !== "" && void send(card, { answer: card.text.value });
  const box = textBox(card, "Your answer", options.length > 0 ? "Or in other words" : "Your answer", answer);
  const submit = el("button", { class: "small", type: "button", onclick: answer }, "Send");
  card.controls.push(box, submit);
  return el(
    "div",
    { class: "question-answers" },
    choices.length === 0 ? null : el("div", { class: "question-buttons" }, ...choices),
    el("div", { class: "question-words" }, box, submit),
  );
}

/** Enter in the reason is the No it is the reason of, never a Yes. */
function approvalForm(card) {
  const { runId } = card.question;
  const refuse = () => {
    const reason = card.text.value.trim();
    return { verdict: "no", ...(reason === "" ? {} : { reason }) };
  };
  card.yes = [
    button(card, "Yes", () => ({ verdict: "yes" }), "primary"),
    button(card, runId === null ? "Yes for this turn" : "Yes for this run", () => ({ verdict: "run" })),
    button(card, "Always in this chat", () => ({ verdict: "always" })),
  ];
  const no = button(card, "No", refuse, "danger");
  const box = textBox(card, "Reason for a No, optional", "Reason for a No (optional)", () => void send(card, refuse()));
  card.controls.push(box);
  return el(
    "div",
    { class: "question-answers" },
    el("div", { class: "question-buttons" }, ...card.yes, no),
    el("div", { class: "question-words" }, box),
  );
}

/** Once at a time. Nothing is disabled meanwhile: that would take the focus away from whoever pressed it. */
async function send(card, given) {
  if (card.isBusy) return;
  setBusy(card, true);
  try {
    const { text } = await postJson(`/api/questions/${card.question.id}/answer`, given);
    card.isAnswered = true;
    toast(text);
  } catch (error) {
    if (error instanceof SignedOut) return card.hooks.onSignedOut();
    // Somebody was first: it goes with the next word from Herald, and there is nothing left to press.
    card.isAnswered = error instanceof Refused && (error.status === 409 || error.status === 404);
    toast(card.isAnswered ? error.message : `That did not work: ${error.message}`);
    if (!card.isAnswered) setBusy(card, false);
  }
}

function setBusy(card, isBusy) {
  card.isBusy = isBusy;
  card.node.classList.toggle("sent", isBusy);
}
