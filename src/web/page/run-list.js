// The runs beside the chat: what each does, since when, what it cost, whether its announcement arrived; Stop, Retry and Send.
// Elements are kept by run id, so an update never takes the words out of somebody's hands.
import { byId, el, setText } from "./dom.js";
import { cost, duration, tokens } from "./words.js";

const isUnfinished = (run) => run.state === "queued" || run.state === "running";
const DELIVERY = {
  none: null,
  pending: "announcement pending",
  sending: "announcing",
  delivered: "delivered",
  skipped: "no announcement",
  blocked: "not delivered",
};

/** `onCommand(chat, command)`. */
export function createRunList(onCommand) {
  const list = byId("runs");
  const items = new Map();
  let runs = [];

  const drawAges = () => {
    for (const run of runs) items.get(run.id)?.drawAge(run);
  };
  setInterval(drawAges, 1000);

  return (next) => {
    runs = next;
    const ids = new Set(runs.map((run) => run.id));
    for (const [id, item] of items) {
      if (ids.has(id)) continue;
      item.node.remove();
      items.delete(id);
    }
    runs.forEach((run, place) => {
      const item = items.get(run.id) ?? createItem(run, onCommand);
      items.set(run.id, item);
      item.draw(run);
      // Moving a node takes the focus away, so only those that changed their place move.
      if (list.children[place] !== item.node) list.insertBefore(item.node, list.children[place] ?? null);
    });
    drawAges();
    drawCount(runs);
  };
}

function drawCount(runs) {
  const active = runs.filter(isUnfinished).length;
  setText(byId("runs-count"), runs.length === 0 ? "" : `${active} active`);
  byId("runs-empty").hidden = runs.length > 0;
  const badge = byId("runs-badge");
  badge.hidden = active === 0;
  setText(badge, active === 1 ? "1 sub-agent" : `${active} sub-agents`);
}

function createItem(first, onCommand) {
  const label = el("span", { class: "run-label" });
  const age = el("span", { class: "run-age faint" });
  const doing = el("p", { class: "run-line" });
  const numbers = el("p", { class: "run-line faint" });
  const stop = el(
    "button",
    { class: "small", type: "button", onclick: () => onCommand(first.chat, `/subagents stop ${first.id}`) },
    "Stop",
  );
  const retry = el(
    "button",
    { class: "small", type: "button", onclick: () => onCommand(first.chat, `/subagents retry ${first.id}`) },
    "Retry",
  );
  const { form, toggle } = createSendForm(first, onCommand);
  const actions = el("div", { class: "run-actions", hidden: first.chat === null }, stop, retry, toggle);
  const head = el("div", { class: "run-head" }, el("span", { class: "dot", "aria-hidden": "true" }), label, age);
  const node = el("li", { class: "run" }, head, doing, numbers, actions, form);
  return {
    node,
    draw(run) {
      node.dataset.state = run.state;
      node.dataset.delivery = run.delivery;
      node.dataset.depth = String(Math.min(run.depth, 4));
      setText(label, run.label || run.shortId);
      node.title = `${run.label} · ${run.shortId}`;
      setText(doing, describe(run));
      const parts = [
        run.tokens === null ? null : tokens(run.tokens),
        run.costUsd === null ? null : cost(run.costUsd),
        DELIVERY[run.delivery],
      ];
      setText(numbers, parts.filter((part) => part !== null).join(" · "));
      stop.hidden = !isUnfinished(run);
      retry.hidden = run.delivery !== "blocked";
    },
    drawAge(run) {
      const since = run.startedAt ?? run.createdAt;
      setText(age, run.endedAt === null ? duration(Date.now() - since) : `${duration(Date.now() - run.endedAt)} ago`);
    },
  };
}

function describe(run) {
  if (run.state === "queued") return run.position === null ? "queued" : `queued, number ${run.position}`;
  if (run.state === "running") return run.doing ? `running · ${run.doing}` : "running";
  const tookMs = run.endedAt === null ? null : run.endedAt - (run.startedAt ?? run.createdAt);
  return tookMs === null || run.startedAt === null ? run.state : `${run.state} in ${duration(tookMs)}`;
}

function createSendForm(run, onCommand) {
  const input = el("input", {
    type: "text",
    "aria-label": `Message to ${run.label}`,
    placeholder: "Message to this sub-agent",
    maxlength: "4000",
  });
  const form = el("form", { class: "run-send", hidden: true }, input, el("button", { class: "small", type: "submit" }, "Send"));
  const toggle = el("button", { class: "small", type: "button", "aria-expanded": "false" }, "Send…");
  const show = (isShown) => {
    form.hidden = !isShown;
    toggle.setAttribute("aria-expanded", String(isShown));
    if (isShown) input.focus();
    else toggle.focus();
  };
  toggle.addEventListener("click", () => show(form.hidden));
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    show(false);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (text === "") return;
    onCommand(run.chat, `/subagents send ${run.id} ${text}`);
    input.value = "";
    show(false);
  });
  return { form, toggle };
}
