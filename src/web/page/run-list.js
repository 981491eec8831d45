// The board beside the chat: runs as trees by requester, those that need a person first. Each line says what the run
// does, since when, what it cost, whether its announcement arrived; it opens the run, and Stop and Retry are at hand.
// Elements are kept by run id, so an update never takes the focus out of somebody's hands.
import { byId, el, setText } from "./dom.js";
import { createRoving } from "./roving.js";
import { ageText, isUnfinished, numbersText, originText, stateText } from "./run-words.js";

/** `onCommand(chat, command)`, `onRetry(runId)`, `onOpen(runId)`, `nameOfChat(chat)`. */
export function createRunList(hooks) {
  const list = byId("runs");
  const view = { runs: [], open: null };
  const items = new Map();
  const heads = new Map();
  const placeTab = createRoving(list, ".run-label");

  const drawAges = () => {
    for (const run of view.runs) items.get(run.id)?.drawAge(run);
  };
  const draw = () => {
    const nodes = [];
    const isGrouped = new Set(view.runs.map(groupOf)).size > 1 || view.runs.some((run) => run.chat === null || run.needsPerson);
    const labels = Map.groupBy(view.runs, (run) => run.label);
    let group = null;
    for (const run of view.runs) {
      if (isGrouped && groupOf(run) !== group) nodes.push(headOf(heads, run, hooks.nameOfChat));
      group = groupOf(run);
      const item = items.get(run.id) ?? createItem(run, hooks);
      items.set(run.id, item);
      item.draw(run, { isOpen: run.id === view.open, isAlone: labels.get(run.label).length === 1 });
      nodes.push(item.node);
    }
    place(list, nodes);
    placeTab();
    const ids = new Set(view.runs.map((run) => run.id));
    for (const id of items.keys()) if (!ids.has(id)) items.delete(id);
    drawAges();
    drawCount(view.runs);
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

function drawCount(runs) {
  const active = runs.filter(isUnfinished).length;
  setText(byId("runs-count"), runs.length === 0 ? "" : `${active} active`);
  byId("runs-empty").hidden = runs.length > 0;
  const badge = byId("runs-badge");
  badge.hidden = active === 0;
  setText(badge, active === 1 ? "1 sub-agent" : `${active} sub-agents`);
}

function createItem({ id, chat }, { onCommand, onRetry, onOpen }) {
  const open = (event) => {
    event.preventDefault();
    onOpen(id);
  };
  const button = (text, act) => el("button", { class: "small", type: "button", onclick: act }, text);
  const label = el("a", { class: "run-label", href: `#run=${id}`, onclick: open });
  const age = el("span", { class: "run-age faint" });
  const doing = el("p", { class: "run-line" });
  const numbers = el("p", { class: "run-line faint" });
  const stop = button("Stop", () => onCommand(chat, `/subagents stop ${id}`));
  const retry = button("Retry", () => onRetry(id));
  const name = el("code", { class: "run-id faint" });
  const actions = el("div", { class: "run-actions" }, stop, retry);
  const head = el("div", { class: "run-head" }, el("span", { class: "dot", "aria-hidden": "true" }), label, name, age);
  const node = el("li", { class: "run" }, head, doing, numbers, actions);
  return {
    node,
    draw(run, { isOpen, isAlone }) {
      node.dataset.state = run.state;
      node.dataset.delivery = run.delivery;
      node.dataset.level = String(Math.min(run.level, 4));
      setText(label, run.label || run.shortId);
      // What tells those of one request apart.
      setText(name, isAlone ? "" : run.shortId);
      node.title = `${run.label} · ${run.shortId}`;
      if (isOpen) label.setAttribute("aria-current", "true");
      else label.removeAttribute("aria-current");
      setText(doing, stateText(run));
      setText(numbers, numbersText(run));
      stop.hidden = chat === null || !isUnfinished(run);
      retry.hidden = run.delivery !== "blocked";
      actions.hidden = stop.hidden && retry.hidden;
    },
    drawAge: (run) => setText(age, ageText(run)),
  };
}
