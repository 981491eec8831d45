// The view "Runs" (WB4): all runs of all channels, searched and filtered by what the address says, as trees, groups, chats or bars over
// time; steered from their rows and by keyboard.
// address → serverQuery → runs-data.js → layOut → runs-grid.js → the document
import { html, nothing, render } from "/lib/lit-html/lit-html.js";
import { byId, toast } from "./dom.js";
import { createSteering } from "./run-steer.js";
import { isUnfinished } from "./run-words.js";
import { actionOf, SHORTCUTS, whyNot } from "./runs-actions.js";
import { createRunsData } from "./runs-data.js";
import { act, compare, select, showTwo, stop } from "./runs-doing.js";
import { emptyState } from "./runs-empty.js";
import { filterBar, viewSwitch } from "./runs-filters.js";
import { createRunsGrid } from "./runs-grid.js";
import { layOut } from "./runs-layout.js";
import { changeQuery, droppedHere, FILTERS, isFiltered, serverQuery, viewOf, zoomOf } from "./runs-query.js";
import { rowOf, whereOf } from "./runs-row.js";
import { createRunsMenu, createRunsSheet } from "./runs-sheet.js";
import { barRow, rangeOf, scale, within } from "./runs-timeline.js";
import { viewHead } from "./view-head.js";

const NARROW = 640;
const TYPING_MS = 200;
/** How much of a run a line has room for (runs.css). */
const sizeOf = (width) => (width < NARROW ? "narrow" : width < 900 ? "medium" : width < 1080 ? "broad" : "wide");

export function createRunsView(root, hooks) {
  const view = {
    root,
    hooks,
    query: new Map(),
    open: null,
    isShown: false,
    folded: new Set(),
    selected: new Set(),
    compared: null,
    typing: null,
  };
  view.draw = createDrawing(view);
  view.steer = createSteering(hooks);
  view.data = createRunsData({ onChange: () => relay(view), onSignedOut: hooks.onSignedOut });
  view.grid = createRunsGrid({ onDraw: view.draw, onKey: (event, line) => pressed(view, event, line), onNearEnd: () => wantsMore(view) });
  const back = () => view.isShown && view.grid.focus();
  view.sheet = createRunsSheet(back);
  view.menu = createRunsMenu({ onAct: (name, run) => act(view, name, run), onClosed: back });
  view.set = (changes, isNew) => set(view, changes, isNew);
  // Ages and bars grow.
  setInterval(() => view.isShown && view.draw(), 1000);
  return {
    show(place) {
      view.isShown = true;
      const wasOpen = view.open !== null;
      view.open = place.run;
      // What is being typed is ahead of the address.
      if (view.typing === null) view.query = place.query;
      view.data.open(serverQuery(view.query));
      relay(view);
      // Without the run beside it the list is wider and drawn anew: the line that was in focus may be another element by then.
      if (wasOpen && place.run === null) view.grid.focus();
    },
    hide() {
      view.isShown = false;
      clearTimeout(view.typing);
      view.typing = null;
      view.data.close();
    },
    hear(name, data) {
      if (name === "run") view.data.changed(data.id);
      if (name === "connected") view.data.reload();
    },
  };
}

/** Many changes of one moment are one drawing. */
function createDrawing(view) {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      if (!view.isShown) return;
      drawView(view);
      view.grid.drawn();
    });
  };
}

/** The list itself is another one. */
function relay(view) {
  if (!view.isShown) return;
  view.isStale = true;
  view.draw();
}

function linesOf(view) {
  const { data, query, folded, hooks } = view;
  const kind = viewOf(query);
  const rows = data.sorted();
  for (const id of view.selected) if (data.find(id) === null) view.selected.delete(id);
  if (kind !== "timeline") return layOut(kind, rows, { above: data.now.above, folded, nameOf: (run) => whereOf(run, hooks.nameOfChat) });
  const shown = within(rows, view.range).sort((one, other) => other.createdAt - one.createdAt);
  return layOut(kind, shown, { above: new Map(), folded });
}

function wantsMore(view) {
  const { data, query } = view;
  if (data.now.isLoading || !data.canLoad() || data.now.problem !== "") return;
  // Looked through a stretch and found nothing: whoever searches says whether to look further.
  if (data.now.lastSize === data.now.rows.size && isFiltered(query)) return;
  // Older ones than the bars reach to.
  if (viewOf(query) === "timeline" && data.sorted().at(-1)?.createdAt < view.range.from) return;
  data.now.lastSize = data.now.rows.size;
  data.more();
}

function drawView(view) {
  const { query, data, grid, hooks, set: change } = view;
  const kind = viewOf(query);
  view.range = rangeOf(zoomOf(query), Date.now());
  const rowHeight = grid.now.width < NARROW && kind !== "timeline" ? 64 : 44;
  if (view.isStale || kind === "timeline" || rowHeight !== grid.now.rowHeight) grid.show(linesOf(view), rowHeight);
  view.isStale = false;
  const { totals, isLoading, problem } = data.now;
  const left = leftOut(view);
  const isEmpty = grid.now.lines.length === 0;
  render(
    html`${viewHead({ id: "runs-view-title", title: "Runs", onMenu: hooks.onMenu }, viewSwitch(query, change))}
      ${filterBar(changeQuery(query, {}, left), { totals, nameOfChat: hooks.nameOfChat, set: change })}
      ${
        left.length === 0
          ? nothing
          : html`<p class="runs-note" role="status">Left out of the address, as it makes no sense there: <bdi>${left.join(", ")}</bdi>.
        <button class="link" type="button" @click=${() => change({}, true)}>Take it out</button></p>`
      }
      ${problem === "" ? nothing : html`<p class="runs-note" role="alert">${problem} <button class="link" type="button" @click=${data.reload}>Try again</button></p>`}
      ${view.compared === null ? nothing : comparing(view)}
      ${kind === "timeline" && !isEmpty ? scale(view.range) : nothing}
      ${isEmpty && isLoading ? html`<p class="runs-none faint" role="status">Looking…</p>` : nothing}
      ${isEmpty && !isLoading && problem === "" ? emptyOf(view) : nothing}
      ${isEmpty ? nothing : gridOf(view, kind)}
      ${footOf(view)}`,
    view.root,
  );
}

/** What the address says that makes no sense. */
const leftOut = ({ query, data }) => [...droppedHere(query), ...data.now.dropped];

const clear = (view) => view.set(Object.fromEntries(FILTERS.map((name) => [name, ""])), true);

const emptyOf = (view) =>
  emptyState({
    isFiltered: isFiltered(view.query) || view.data.now.rows.size > 0,
    isTimeline: viewOf(view.query) === "timeline" && view.data.now.rows.size > 0,
    onMore: view.data.canLoad() ? () => further(view) : null,
    onClear: () => clear(view),
    onExample: view.hooks.onExample,
  });

function further(view) {
  view.data.now.lastSize = null;
  view.data.more();
}

function gridOf(view, kind) {
  const { grid, data, hooks } = view;
  const on = {
    fold: (line) => fold(view, line),
    act: (name, run) => act(view, name, run),
    menu: (run, button) => view.menu.open(run, button),
  };
  const common = (run) => ({
    isOpenRun: run?.id === view.open,
    isSelected: view.selected.has(run?.id),
    isCompared: view.compared === run?.id,
  });
  const draw = (line, at) =>
    kind === "timeline"
      ? barRow(line, { ...at, ...common(line.run), range: view.range, on })
      : rowOf(line, { ...at, ...common(line.run), nameOfChat: hooks.nameOfChat, on });
  const count = data.canLoad() ? -1 : grid.now.lines.length;
  const { width } = grid.now;
  return html`<div class="runs-body" data-size=${sizeOf(width)}>${grid.template("Runs", draw, count)}</div>`;
}

const comparing = (
  view,
) => html`<p class="runs-note" role="status">Comparing <bdi>${view.data.find(view.compared)?.label ?? "a run"}</bdi>: choose the other one with c or its menu.
  <button class="link" type="button" @click=${() => compare(view, null)}>Cancel</button></p>`;

function footOf(view) {
  const { selected, data } = view;
  const runs = [...selected].map((id) => data.find(id)).filter((run) => run !== null);
  const open = runs.filter(isUnfinished);
  const older = data.canLoad() && data.now.lastSize === data.now.rows.size && isFiltered(view.query) && data.now.rows.size > 0;
  return html`<footer class="runs-foot">
    ${
      runs.length === 0
        ? nothing
        : html`<div class="runs-selected"><b>${runs.length} selected</b>
      <button class="small danger" type="button" ?disabled=${open.length === 0} @click=${() => stop(view, open)}>Stop ${open.length} of them…</button>
      <button class="small" type="button" ?disabled=${runs.length !== 2} @click=${() => showTwo(view, runs[0].id, runs[1].id)}>Compare</button>
      <button class="link" type="button" @click=${() => select(view, null)}>Clear the selection</button></div>`
    }
    ${older ? html`<button class="small" type="button" @click=${() => further(view)}>Search older runs</button>` : nothing}
    ${data.isFull() ? html`<p class="faint">More than are listed at once: narrow the search to see older ones.</p>` : nothing}
    <p class="faint runs-keys">${SHORTCUTS.map(([key, text]) => html`<kbd>${key}</kbd> ${text} `)}</p>
  </footer>`;
}

function set(view, changes, isNew) {
  view.query = changeQuery(view.query, changes, leftOut(view));
  clearTimeout(view.typing);
  view.typing = null;
  const tell = () => {
    view.typing = null;
    view.hooks.onPlace({ query: view.query }, isNew);
  };
  // While somebody types, the address and Herald hear of it when they pause.
  if (!isNew && changes.q !== undefined) view.typing = setTimeout(tell, TYPING_MS);
  else tell();
}

function fold(view, { key, isOpen }) {
  if (isOpen) view.folded.add(key);
  else view.folded.delete(key);
  relay(view);
}

/** True: the key was taken. */
function pressed(view, event, line) {
  const { key } = event;
  if (key === "/") byId("runs-search").focus();
  else if (key === "Escape" && (view.compared !== null || view.selected.size > 0)) {
    view.selected.clear();
    compare(view, null);
  } else if (key === "ArrowLeft" || key === "ArrowRight") turn(view, line, key === "ArrowRight");
  else if (line.kind === "head") {
    if (key !== "Enter" && key !== " ") return false;
    fold(view, line);
  } else return pressedOn(view, key, line.run, event.target);
  return true;
}

function pressedOn(view, key, run, target) {
  if (key === "." || key === "ContextMenu") view.menu.open(run, target.closest('[role="row"]').querySelector(".cell-menu button"));
  else if (key === " ") act(view, "select", run);
  else {
    const action = actionOf(key, run);
    const why = action === null ? whyNot(key) : null;
    if (action !== null) act(view, action.name, run);
    else if (why !== null) toast(why);
    else return false;
  }
  return true;
}

/** Shut, or to the line above it; open, or to the first below it. */
function turn(view, line, isRight) {
  const canFold = line.kind === "head" || line.isParent;
  if (canFold && line.isOpen !== isRight) fold(view, line);
  else if (!isRight && line.kind === "run" && line.top !== null) view.grid.goTo(line.top);
}
