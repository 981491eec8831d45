// A tool call and its result as one line: which tool, about what, how long it took, whether it worked. Opened it shows all of both: a
// command as it was given, differences in colour, arguments as JSON.
import { ref } from "/lib/lit-html/directives/ref.js";
import { html, nothing } from "/lib/lit-html/lit-html.js";
import { colourDiffs } from "./diff.js";
import { el, toast } from "./dom.js";
import { clockSeconds, fullTime, took } from "./words.js";

const NAMES = { command: "Command", diff: "Change", json: "Arguments" };
const STATES = { waiting: ["…", "under way"], done: ["✓", "done"], failed: ["✕", "failed"] };

/** `entry` is the call, or a result whose call is not shown. */
export function toolView(entry, result, tools) {
  const isCall = entry.kind === "call";
  const outcome = isCall ? result : entry;
  const state = outcome === null ? "waiting" : outcome.isError ? "failed" : "done";
  const [mark, word] = STATES[state];
  const at = Date.parse(entry.at);
  const isTimed = isCall && result !== null;
  return html`<li class="entry tool-entry ${state}">
    <details class="tool">
      <summary>
        <span class="tool-mark" aria-hidden="true">${mark}</span>
        <b>${entry.who}</b>
        <span class="tool-line">${isCall ? entry.line : firstLine(entry.text)}</span>
        <span class="off-screen">${word}</span>
        ${isTimed ? html`<span class="faint tool-took">${took(Date.parse(result.at) - at)}</span>` : nothing}
        <time class="faint" datetime=${entry.at} title=${fullTime(at)}>${clockSeconds(at)}</time>
      </summary>
      ${isCall ? partView(NAMES[entry.form] ?? "Arguments", entry, tools) : nothing}
      ${outcome === null ? html`<p class="faint">No result yet.</p>` : partView(outcome.isError ? "Failed with" : "Result", outcome, tools)}
    </details>
  </li>`;
}

const firstLine = (text) => text.trim().split("\n", 1)[0].slice(0, 200);

function partView(name, entry, tools) {
  const { text, next, length } = tools.textOf(entry);
  const block =
    text === ""
      ? html`<p class="faint">Nothing.</p>`
      : html`<pre tabindex="0" aria-label=${name} ${ref((node) => fillText(node, entry.form, text))}></pre>`;
  return html`<h4>${name}</h4>
    ${block} ${moreButton({ next, length, onMore: () => tools.onMore(entry) })}`;
}

function fillText(node, form, text) {
  if (node === undefined) return;
  if (form !== "diff") return void node.replaceChildren(text);
  node.replaceChildren(el("code", { class: "language-diff" }, text));
  colourDiffs(node);
}

/** Nothing, or the way to the rest of a text; it says how long that is. */
export function moreButton({ next, length, onMore }) {
  if (next === null) return nothing;
  const press = async ({ currentTarget }) => {
    currentTarget.disabled = true;
    try {
      await onMore();
    } catch (error) {
      toast(`The rest can't be loaded: ${error.message}`);
    } finally {
      currentTarget.disabled = false;
    }
  };
  return html`<button class="small more" type="button" @click=${press}>
    ${next === 0 ? `Show all ${length.toLocaleString()} characters` : "Show more"}
  </button>`;
}
