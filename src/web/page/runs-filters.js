// The board's controls: search, the states with how many there are in each, the other filters, and how it is shown. All of it stands in
// the address.

import { live } from "/lib/lit-html/directives/live.js";
import { html, nothing } from "/lib/lit-html/lit-html.js";
import { originText } from "./run-words.js";
import { FILTERS, isFiltered, STATES, statesOf, toggleState, VIEWS, viewOf, ZOOMS, zoomOf } from "./runs-query.js";

const COSTS = ["0.01", "0.1", "1", "10"];
const TIMES = [
  ["1h", "Last hour"],
  ["24h", "Last 24 hours"],
  ["7d", "Last 7 days"],
  ["30d", "Last 30 days"],
];

/** `set(changes, isNew)`: the address with these changed. */
export const viewSwitch = (query, set) =>
  html`<div class="runs-views" role="group" aria-label="Shown as">${VIEWS.map(
    ({ word, text }) =>
      html`<button class="small" type="button" aria-pressed=${viewOf(query) === word} @click=${() => set({ view: word }, true)}>${text}</button>`,
  )}</div>`;

/** `totals`: null as long as they are not there. */
export function filterBar(query, { totals, nameOfChat, set }) {
  const count = ["agent", "chat", "channel", "model", "cost", "time"].filter((name) => (query.get(name) ?? "") !== "").length;
  return html`<div class="runs-filters" role="search" aria-label="Search and filter runs">
    <input id="runs-search" type="search" aria-label="Search label, task or id" placeholder="Search" maxlength="200" autocomplete="off" spellcheck="false"
      .value=${live(query.get("q") ?? "")} @input=${(event) => set({ q: event.target.value }, false)}>
    ${stateChips(query, totals, set)}
    <details class="runs-more" ?open=${count > 0}><summary>Filters${count === 0 ? "" : ` (${count})`}</summary>
      <div class="runs-selects">${selects(query, totals, { nameOfChat, set })}</div></details>
    ${isFiltered(query) ? html`<button class="link" type="button" @click=${() => set(Object.fromEntries(FILTERS.map((name) => [name, ""])), true)}>Clear all</button>` : nothing}
    ${viewOf(query) === "timeline" ? zoomChips(query, set) : nothing}
  </div>`;
}

function stateChips(query, totals, set) {
  const on = statesOf(query);
  const countOf = (word) => (totals === null ? null : word === "needs" ? totals.needy : (totals.states[word] ?? 0));
  const chips = STATES.filter(({ word }) => on.includes(word) || countOf(word) !== 0);
  return html`<div class="runs-chips" role="group" aria-label="State">${chips.map(({ word, text }) => {
    const count = countOf(word);
    const isCut = count !== null && totals.isWhole === false && !["needs", "running", "queued", "waiting"].includes(word);
    return html`<button class="chip" type="button" data-word=${word} aria-pressed=${on.includes(word)} @click=${() => set({ state: toggleState(query, word) }, true)}>
      ${text}${count === null ? nothing : html` <span class="faint">${count}${isCut ? "+" : ""}</span>`}</button>`;
  })}</div>`;
}

const zoomChips = (query, set) =>
  html`<div class="runs-views" role="group" aria-label="Time shown">${ZOOMS.map(
    ({ word, text }) =>
      html`<button class="small" type="button" aria-pressed=${zoomOf(query).word === word} @click=${() => set({ zoom: word }, true)}>${text}</button>`,
  )}</div>`;

function selects(query, totals, { nameOfChat, set }) {
  const chatText = ({ chat, origin }) => (chat === null ? originText({ origin }) : nameOfChat(chat));
  const fields = [
    ["agent", "Agent", (totals?.agents ?? []).map((name) => [name, name])],
    ["chat", "Chat", (totals?.chats ?? []).map((chat) => [chat.key, chatText(chat)])],
    ["channel", "Channel", (totals?.channels ?? []).map((name) => [name, originText({ origin: name })])],
    ["model", "Model", (totals?.models ?? []).map((name) => [name, name])],
    ["cost", "Cost", COSTS.map((usd) => [usd, `$${usd} or more`])],
    ["time", "Time", TIMES],
  ];
  return fields.map(([name, label, options]) => {
    const value = query.get(name) ?? "";
    const isListed = value === "" || options.some(([one]) => one === value);
    return html`<select aria-label=${label} data-on=${value !== ""} .value=${live(value)} @change=${(event) => set({ [name]: event.target.value }, true)}>
      <option value="" ?selected=${value === ""}>${label}: any</option>
      ${isListed ? nothing : html`<option value=${value} selected>${value.slice(0, 60)}</option>`}
      ${options.map(([one, text]) => html`<option value=${one} ?selected=${one === value}>${text}</option>`)}
    </select>`;
  });
}
