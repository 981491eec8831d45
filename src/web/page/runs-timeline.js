// Runs as bars over time: hollow while queued, filled while at work, to the present where they still are. One line each, labels beside.
import { html, nothing } from "/lib/lit-html/lit-html.js";
import { stateWord } from "./run-words.js";
import { clockTime, dayName, duration, fullTime } from "./words.js";

const TICKS = 5;

/** Those that any part of this time belongs to. */
export const within = (rows, { from, to }) => rows.filter(({ createdAt, endedAt }) => createdAt <= to && (endedAt ?? to) >= from);

export const rangeOf = ({ ms }, now) => ({ from: now - ms, to: now });

const share = (at, { from, to }) => Math.max(0, Math.min(1, (at - from) / (to - from))) * 100;

/** The scale above the bars. */
export function scale(range) {
  const ticks = Array.from({ length: TICKS }, (_, n) => range.from + ((range.to - range.from) * n) / (TICKS - 1));
  const text = (at) => (range.to - range.from > 36 * 3600_000 ? dayName(at).split(",")[0].split(" ").slice(0, 2).join(" ") : clockTime(at));
  return html`<div class="runs-scale" aria-hidden="true"><span></span><div class="runs-ticks">${ticks.map(
    (at, n) =>
      html`<span .style=${`left: ${(n * 100) / (TICKS - 1)}%`} data-edge=${n === 0 ? "start" : n === TICKS - 1 ? "end" : ""}>${n === TICKS - 1 ? "now" : text(at)}</span>`,
  )}</div><span></span></div>`;
}

export function barRow({ run }, { index, isAt, place, isOpenRun, range, on }) {
  const begun = run.startedAt ?? run.endedAt ?? range.to;
  const since = run.startedAt ?? run.createdAt;
  const ended = run.endedAt ?? range.to;
  const [made, start, end] = [run.createdAt, begun, ended].map((at) => share(at, range));
  const tab = isAt ? 0 : -1;
  const name = run.label || run.shortId;
  const words = `${stateWord(run)}, ${duration(ended - since)}, from ${clockTime(since)}${run.endedAt === null ? "" : ` to ${clockTime(ended)}`}`;
  const open = (event) => event.target.closest("button") === null && on.act("open", run);
  return html`<div class="runs-bar-row runs-row" role="row" data-key=${run.id} data-state=${run.state} data-delivery=${run.delivery} data-asking=${run.isAsking}
    aria-rowindex=${index} aria-level="1" aria-current=${isOpenRun ? "true" : nothing} tabindex=${tab} .style=${place} @click=${open}>
    <span role="gridcell" class="cell-name"><span class="dot" aria-hidden="true"></span><bdi class="runs-label" title="${run.label} · ${run.shortId}">${name}</bdi></span>
    <span role="gridcell" class="bar-track" title="${words} (${fullTime(since)})"><span class="off-screen">${words}</span>
      ${start - made < 0.1 ? nothing : html`<span class="bar-wait" .style=${`left: ${made}%; width: ${Math.max(0, start - made)}%`}></span>`}
      <span class="bar" .style=${`left: ${start}%; width: ${Math.max(0, end - start)}%`}></span>
      <span class="bar-text" aria-hidden="true" .style=${end > 70 ? `right: ${100 - (run.startedAt === null ? made : start)}%` : `left: ${end}%`}>${stateWord(run)} · ${duration(ended - since)}</span></span>
    <span role="gridcell" class="cell-menu"><button class="icon" type="button" tabindex=${tab} aria-haspopup="menu" aria-label="What can be done with ${name}"
      @click=${(event) => on.menu(run, event.currentTarget)}>⋯</button></span>
  </div>`;
}
