// A long list of lines of which only those in sight are in the document: thousands scroll like twenty. One stop of the Tab key; the
// arrows move in it, and the line one is at stays in the document wherever it is scrolled to, or the focus would be lost.

import { ref } from "/lib/lit-html/directives/ref.js";
import { repeat } from "/lib/lit-html/directives/repeat.js";
import { html } from "/lib/lit-html/lit-html.js";

const BEYOND = 8;

/**
 * `hooks`: onDraw(), onKey(event, line) true when it was taken, onNearEnd(). A line has a `key`. The grid is drawn by `template`, and
 * follows its scroller by itself.
 */
export function createRunsGrid(hooks) {
  const grid = { hooks, lines: [], at: null, top: 0, height: 600, width: 1000, rowHeight: 44, scroller: null, wantsFocus: false };
  grid.resized = new ResizeObserver(([entry]) => {
    grid.height = entry.contentRect.height;
    grid.width = entry.contentRect.width;
    hooks.onDraw();
  });
  grid.follow = follow(grid);
  return {
    now: grid,
    show(lines, rowHeight) {
      keepPlace(grid, lines, rowHeight);
      if (!lines.some(({ key }) => key === grid.at)) grid.at = lines[0]?.key ?? null;
    },
    template: (label, rowOf, count) => template(grid, label, rowOf, count),
    /** After each drawing. */
    drawn() {
      if (grid.scroller !== null && grid.scroller.scrollTop !== grid.top && grid.isMoved) grid.scroller.scrollTop = grid.top;
      grid.isMoved = false;
      if (grid.wantsFocus && !isTypedElsewhere(grid))
        grid.scroller?.querySelector('[role="row"][tabindex="0"]')?.focus({ preventScroll: true });
      grid.wantsFocus = false;
      const { lines, top, height, rowHeight } = grid;
      if (lines.length * rowHeight - top - height < 2 * height) hooks.onNearEnd();
    },
    /** To this line, in sight and in focus. */
    goTo: (key) => goTo(grid, key),
    focus() {
      grid.wantsFocus = true;
      hooks.onDraw();
    },
  };
}

/** The focus is wanted now and taken with the next drawing: whoever pressed "/" in between would type into the list. */
function isTypedElsewhere({ scroller }) {
  const at = document.activeElement;
  return at?.matches("input, textarea, select") && at.checkVisibility() && scroller?.contains(at) !== true;
}

/** What comes in above must not push away what somebody reads. */
function keepPlace(grid, lines, rowHeight) {
  const first = Math.floor(grid.top / grid.rowHeight);
  const anchor = grid.top > 0 ? grid.lines[first]?.key : undefined;
  const now = anchor === undefined ? -1 : lines.findIndex(({ key }) => key === anchor);
  if (now >= 0 && (now !== first || rowHeight !== grid.rowHeight)) {
    grid.top = now * rowHeight + (grid.top - first * grid.rowHeight);
    grid.isMoved = true;
  }
  Object.assign(grid, { lines, rowHeight });
}

function template(grid, label, rowOf, count) {
  const { lines, top, height, rowHeight } = grid;
  const from = Math.max(0, Math.floor(top / rowHeight) - BEYOND);
  const to = Math.min(lines.length, Math.ceil((top + height) / rowHeight) + BEYOND);
  const shown = lines.slice(from, to).map((line, n) => ({ line, n: from + n }));
  const at = lines.findIndex(({ key }) => key === grid.at);
  if (at >= 0 && at < from) shown.unshift({ line: lines[at], n: at });
  if (at >= to) shown.push({ line: lines[at], n: at });
  const place = (n) => `transform: translateY(${n * rowHeight}px); height: ${rowHeight}px`;
  return html`<div class="runs-scroll" @scroll=${(event) => scrolled(grid, event)} ${ref(grid.follow)}>
    <div class="runs-grid" role="treegrid" aria-label=${label} aria-multiselectable="true" aria-rowcount=${count}
      .style=${`height: ${lines.length * rowHeight}px`} @keydown=${(event) => key(grid, event)} @focusin=${(event) => focused(grid, event)}>
      ${repeat(
        shown,
        ({ line }) => line.key,
        ({ line, n }) => rowOf(line, { index: n + 1, isAt: line.key === grid.at, place: place(n) }),
      )}
    </div>
  </div>`;
}

/** One function for all drawings: another one each time would be told of the element each time. */
const follow = (grid) => (node) => {
  grid.resized.disconnect();
  grid.scroller = node ?? null;
  if (node !== undefined) grid.resized.observe(node);
};

function scrolled(grid, { target }) {
  if (grid.scroller !== target || grid.top === target.scrollTop) return;
  grid.top = target.scrollTop;
  grid.hooks.onDraw();
}

/** A click or a Tab came to a line: from here the arrows go on. */
function focused(grid, { target }) {
  const line = target.closest('[role="row"]')?.dataset.key;
  if (line === undefined || line === grid.at) return;
  grid.at = line;
  grid.hooks.onDraw();
}

const STEPS = {
  ArrowDown: (at) => at + 1,
  ArrowUp: (at) => at - 1,
  PageDown: (at, page) => at + page,
  PageUp: (at, page) => at - page,
  Home: () => 0,
  End: (_at, _page, count) => count - 1,
};

function key(grid, event) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.isComposing) return;
  const at = grid.lines.findIndex((line) => line.key === grid.at);
  if (at < 0) return;
  const step = STEPS[event.key];
  // Inside a line, on its buttons, the letters are the same, but Enter and Space press what one is on.
  const isOnButton = event.target.closest("button, input, a") !== null && !event.target.matches('[role="row"]');
  if (step === undefined) {
    if (isOnButton && ["Enter", " "].includes(event.key)) return;
    if (grid.hooks.onKey(event, grid.lines[at])) event.preventDefault();
    return;
  }
  event.preventDefault();
  const page = Math.max(1, Math.floor(grid.height / grid.rowHeight) - 1);
  goTo(grid, grid.lines[Math.max(0, Math.min(step(at, page, grid.lines.length), grid.lines.length - 1))].key);
}

function goTo(grid, wanted) {
  const at = grid.lines.findIndex((line) => line.key === wanted);
  if (at < 0) return;
  grid.at = wanted;
  grid.wantsFocus = true;
  const [top, bottom] = [at * grid.rowHeight, (at + 1) * grid.rowHeight];
  if (top < grid.top) grid.top = top;
  else if (bottom > grid.top + grid.height) grid.top = bottom - grid.height;
  grid.isMoved = true;
  grid.hooks.onDraw();
}
