// The runs beside the chat, a line or two each: those that need a person, those at work, and the last few that ended. All of them are in
// the view "Runs". Elements are kept by run id, so an update never takes the focus out of somebody's hands.
import { byId, el, setText } from "./dom.js";
import { createRoving } from "./roving.js";
import { ageText, isUnfinished, numbersText, originText, stateText } from "./run-words.js";

const MAX_OPEN = 20;
const MAX_ENDED = 3;

/** `steer`, `onAnswer(runId)`, `onOpen(runId)`, `nameOfChat(chat)`. */
export function createRunList(hooks) {
  const list = byId("runs");
  const view = { runs: [], shown: [], open: null };
  const items = new Map();
  const heads = new Map();
  const placeTab = createRoving(list, ".run-label");

  const drawAges = () => {
    for (const run of view.shown) items.get(run.id)?.drawAge(run);
  };
  const draw = () => {
    const nodes = [];
    view.shown = shortList(view.runs);
    const isGrouped = new Set(view.shown.map(groupOf)).size > 1 || view.shown.some((run) => run.chat === null || run.needsPerson);
    const labels = Map.groupBy(view.shown, (run) => run.label);
    let group = null;
    for (const run of view.shown) {
      if (isGrouped && groupOf(run) !== group) nodes.push(headOf(heads, run, hooks.nameOfChat));
      group = groupOf(run);
      const item = items.get(run.id) ?? createItem(run, hooks);
      items.set(run.id, item);
      item.draw(run, { isOpen: run.id === view.open, isAlone: labels.get(run.label).length === 1 });
      nodes.push(item.node);
    }
    place(list, nodes);
    placeTab();
    const ids = new Set(view.shown.map((run) => run.id));
    for (const id of items.keys()) if (!ids.has(id)) items.delete(id);
    drawAges();
    drawCount(view.runs, view.shown);
  };
  setInterval(drawAges, 1000);

  return {
    show(runs) {
      view.runs = runs;
      draw();
    },
    /** The run in the panel, or null. */
    select(id) {
      view.open = id;
      draw();
    },
    /** A chat has another name. */
    redraw: draw,
  };
}

/** In the order they came in. */
function shortList(runs) {
  const open = runs.filter((run) => isUnfinished(run) || run.needsPerson).slice(0, MAX_OPEN);
  const ended = runs.filter((run) => !isUnfinished(run) && !run.needsPerson).toSorted((one, other) => other.endedAt - one.endedAt);
  const shown = new Set([...open, ...ended.slice(0, MAX_ENDED)]);
  return runs.filter((run) => shown.has(run));
}

const groupOf = (run) => (run.needsPerson ? "" : run.origin);

function headOf(heads, run, nameOfChat) {
  const group = groupOf(run);
  const node = heads.get(group) ?? el("li", { class: "run-group faint" });
  heads.set(group, node);
  setText(node, run.needsPerson ? "Needs you" : run.chat === null ? originText(run) : nameOfChat(run.chat));
  return node;
}

/** Moving a node takes the focus away, so only those that changed their place move. */
function place(list, nodes) {
  const wanted = new Set(nodes);
  for (const node of [...list.children]) if (!wanted.has(node)) node.remove();
  nodes.forEach((node, at) => {
    if (list.children[at] !== node) list.insertBefore(node, list.children[at] ?? null);
  });
}

function drawCount(runs, shown) {
  const active = runs.filter(isUnfinished).length;
  setText(byId("runs-count"), runs.length === 0 ? "" : `${active} active`);
  byId("runs-empty").hidden = runs.length > 0;
  byId("all-runs").hidden = runs.length === 0;
  const left =
    runs.filter((run) => isUnfinished(run) || run.needsPerson).length - shown.filter((run) => isUnfinished(run) || run.needsPerson).length;
  setText(byId("all-runs"), left > 0 ? `All runs, ${left} more at work` : "All runs");
  setText(byId("to-runs-count"), active === 0 ? "" : String(active));
  const badge = byId("runs-badge");
  badge.hidden = active === 0;
  setText(badge, active === 1 ? "1 sub-agent" : `${active} sub-agents`);
}

/** The buttons of a line: what a person is needed for. All else is in the run itself and on the board. */
const ACTIONS = [
  { text: () => "Answer", isShown: (run) => run.isAsking, act: ({ id }, { onAnswer }) => onAnswer(id) },
  { text: () => "Retry", isShown: (run) => run.delivery === "blocked", act: ({ id }, { steer }) => void steer.retry(id) },
  {
    text: (run) => run.goOn.label,
    isShown: (run) => run.goOn !== null,
    act: ({ id, generation }, { steer }) => void steer.raise(id, { amount: "x2", generation }),
  },
];

/** Made once and kept, so that the focus stays on them. */
function createActions(hooks) {
  let now = null;
  const buttons = ACTIONS.map(({ act }) => el("button", { class: "small", type: "button", onclick: () => act(now, hooks) }));
  const node = el("div", { class: "run-actions" }, ...buttons);
  return {
    node,
    draw(run) {
      now = run;
      ACTIONS.forEach(({ text, isShown }, n) => {
        buttons[n].hidden = !isShown(run);
        if (!buttons[n].hidden) setText(buttons[n], text(run));
      });
      node.hidden = buttons.every((button) => button.hidden);
    },
  };
}

function createItem({ id }, hooks) {
  const open = (event) => {
    event.preventDefault();
    hooks.onOpen(id);
  };
  const label = el("a", { class: "run-label", href: `#/run/${id}`, onclick: open });
  const age = el("span", { class: "run-age faint" });
  const doing = el("span", {});
  const numbers = el("span", { class: "faint" });
  const name = el("code", { class: "run-id faint" });
  const actions = createActions(hooks);
  const head = el("div", { class: "run-head" }, el("span", { class: "dot", "aria-hidden": "true" }), label, name, age);
  const node = el("li", { class: "run" }, head, el("p", { class: "run-line" }, doing, numbers), actions.node);
  return {
    node,
    draw(run, { isOpen, isAlone }) {
      node.dataset.state = run.state;
      node.dataset.delivery = run.delivery;
      node.dataset.asking = String(run.isAsking);
      node.dataset.level = String(Math.min(run.level, 4));
      setText(label, run.label || run.shortId);
      // What tells those of one request apart.
      setText(name, isAlone ? "" : run.shortId);
      node.title = `${run.label} · ${run.shortId}`;
      if (isOpen) label.setAttribute("aria-current", "true");
      else label.removeAttribute("aria-current");
      setText(doing, stateText(run));
      setText(numbers, numbersText(run));
      actions.draw(run);
    },
    drawAge: (run) => setText(age, ageText(run)),
  };
}
