// One line of the board: a heading that folds, or a run with what it does, where it was asked for, with which model, since when, at
// what cost. All of it text.
import { html, nothing } from "/lib/lit-html/lit-html.js";
import { ageText, isUnfinished, originText, STATE_WORDS, stateWord } from "./run-words.js";
import { cost, fullTime, tokens } from "./words.js";

/** `look`: `{index, isAt, place}` of the grid, and `{isSelected, isCompared, isOpenRun, nameOfChat, on}`; `on.fold(line)`, `on.act(name, run)`, `on.menu(run, button)`. */
export const rowOf = (line, look) => (line.kind === "head" ? headRow(line, look) : runRow(line, look));

const headRow = (line, { index, isAt, place, on }) => html`<div class="runs-head" role="row" data-key=${line.key} aria-rowindex=${index}
  aria-level="1" aria-expanded=${line.isOpen} tabindex=${isAt ? 0 : -1} .style=${place} @click=${() => on.fold(line)}>
  <span role="gridcell" class="runs-head-cell"><span class="fold-mark" aria-hidden="true">${line.isOpen ? "▾" : "▸"}</span>
    <bdi>${line.title}</bdi> <span class="faint">${line.count}${line.live > 0 ? ` · ${line.live} at work` : ""}</span></span>
</div>`;

export const whereOf = (run, nameOfChat) => (run.chat === null ? originText(run) : nameOfChat(run.chat));

/** What it does now; of one that has ended what came of it. */
function nowText(run) {
  if (run.state === "queued") return run.position === null ? "waits for its turn" : `number ${run.position} in the queue`;
  if (isUnfinished(run)) return [run.step, run.doing].filter(Boolean).join(" · ");
  const undelivered = run.delivery === "blocked" ? "not delivered" : null;
  return [undelivered, run.outcome].filter(Boolean).join(": ");
}

/** `14m ago`: of what is over nobody counts the seconds. */
const shortAge = (run) => (isUnfinished(run) ? ageText(run) : ageText(run).replace(/^(\d+[mh])\d+[sm]/, "$1"));

const spentText = (run) =>
  [
    run.limit?.tokens ?? (run.tokens === null ? null : tokens(run.tokens)),
    run.limit?.usd ?? (run.costUsd === null ? null : cost(run.costUsd)),
  ]
    .filter((part) => part !== null)
    .join(" · ");

function runRow(line, look) {
  const { run, level, isParent, isOpen, isContext } = line;
  const { index, isAt, place, isSelected, isCompared, isOpenRun, nameOfChat, on } = look;
  const tab = isAt ? 0 : -1;
  const open = (event) => {
    if (event.target.closest("button, input") === null) on.act("open", run);
  };
  const name = run.label || run.shortId;
  return html`<div class="runs-row" role="row" data-key=${run.id} data-state=${run.state} data-delivery=${run.delivery} data-asking=${run.isAsking}
    ?data-context=${isContext} ?data-compared=${isCompared} aria-rowindex=${index} aria-level=${level} aria-selected=${isSelected}
    aria-expanded=${isParent ? String(isOpen) : nothing} aria-current=${isOpenRun ? "true" : nothing} tabindex=${tab} .style=${place} @click=${open}>
    <span role="gridcell" class="cell-check"><input type="checkbox" tabindex="-1" aria-label="Select ${name}" .checked=${isSelected}
      @change=${() => on.act("select", run)}></span>
    <span role="gridcell" class="cell-state" title=${STATE_WORDS[run.state] ?? ""}><span class="dot" aria-hidden="true"></span><span class="state-word">${stateWord(run)}</span></span>
    <span role="gridcell" class="cell-name" .style=${`padding-left: ${Math.min(level - (level > 1 ? 2 : 1), 6) * 16}px`}>
      ${isParent ? html`<button class="fold" type="button" tabindex="-1" aria-label=${isOpen ? "Fold" : "Unfold"} @click=${() => on.fold(line)}>${isOpen ? "▾" : "▸"}</button>` : nothing}
      <bdi class="runs-label" title="${run.label} · ${run.shortId}">${name}</bdi></span>
    <span role="gridcell" class="cell-now" title=${nowText(run)}>${nowText(run)}</span>
    <span role="gridcell" class="cell-where" title=${whereOf(run, nameOfChat)}>${whereOf(run, nameOfChat)}</span>
    <span role="gridcell" class="cell-model" title=${run.model}>${run.model}</span>
    <span role="gridcell" class="cell-spent" title=${spentText(run)}>${spentText(run)}</span>
    <span role="gridcell" class="cell-age" title=${fullTime(run.createdAt)}>${shortAge(run)}</span>
    <span role="gridcell" class="cell-menu"><button class="icon" type="button" tabindex=${tab} aria-haspopup="menu" aria-label="What can be done with ${name}"
      @click=${(event) => on.menu(run, event.currentTarget)}>⋯</button></span>
  </div>`;
}
