// What stands in the board's place when there is nothing on it: what a sub-agent is and how to send one out, or the way back to all runs.
import { html, nothing } from "/lib/lit-html/lit-html.js";

/** Work without a key, too. */
const EXAMPLES = ["In the background, summarise the files here and count their lines", "In the background, ask me: red or blue?"];

/** `onMore()`: older ones were not looked at yet; null: all were. */
export function emptyState({ isFiltered, isTimeline, onMore, onClear, onExample }) {
  if (!isFiltered)
    return html`<div class="runs-none">
      <h2>No runs yet</h2>
      <p>Ask for something “in the background” in any chat: a sub-agent does it and announces the result there. It can be watched, told more and stopped here. Try:</p>
      <div class="examples">${EXAMPLES.map((text) => html`<button type="button" @click=${() => onExample(text)}>${text}</button>`)}</div>
    </div>`;
  return html`<div class="runs-none">
    <h2>Nothing found</h2>
    <p>${isTimeline ? "No run in the time that is shown. Choose a longer one above." : onMore === null ? "No run fits what is searched for." : "No run fits among those looked at so far."}</p>
    <div class="examples">
      ${onMore === null || isTimeline ? nothing : html`<button type="button" @click=${onMore}>Search older runs</button>`}
      ${isTimeline ? nothing : html`<button type="button" @click=${onClear}>Clear search and filters</button>`}
    </div>
  </div>`;
}
