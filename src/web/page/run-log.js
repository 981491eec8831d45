// The transcript of the open run: entries in order, new ones at the end, earlier ones on demand; a call and its result are one line that
// opens. Entries never change, so each is drawn once. The sub-agent's words are HTML from the server; all else is text.
import { guard } from "/lib/lit-html/directives/guard.js";
import { ref } from "/lib/lit-html/directives/ref.js";
import { repeat } from "/lib/lit-html/directives/repeat.js";
import { html, nothing, render } from "/lib/lit-html/lit-html.js";
import { setServerHtml } from "./dom.js";
import { moreButton, toolView } from "./run-tool.js";
import { clockSeconds, fullTime } from "./words.js";

/** `list` is the element to fill; `getPiece(position, from)` reads on in an entry that was cut. `position` tells entries apart and orders them. */
export function createRunLog(list, getPiece) {
  const view = { entries: [], before: null, pieces: new Map() };
  const draw = () => {
    const items = paired(view.entries);
    render(
      repeat(
        items,
        ({ entry }) => entry.position,
        ({ entry, result }) =>
          guard([entry.position, result?.position, ...[entry, result].map(pieceOf)], () => entryView(entry, result, tools)),
      ),
      list,
    );
  };
  const pieceOf = (entry) => view.pieces.get(entry?.position);
  const tools = {
    /** What is known of its text: the piece the page was given, or all that was read since. */
    textOf: (entry) => pieceOf(entry) ?? { text: entry.text, next: entry.length === undefined ? null : 0, length: entry.length },
    async onMore(entry) {
      const known = pieceOf(entry);
      const { text, next } = await getPiece(entry.position, known?.next ?? 0);
      if (!view.entries.includes(entry)) return;
      view.pieces.set(entry.position, { text: (known?.text ?? "") + text, next, length: entry.length });
      draw();
    },
  };
  return {
    clear() {
      Object.assign(view, { entries: [], before: null, pieces: new Map() });
      draw();
    },
    isEmpty: () => view.entries.length === 0,
    /** The cursor of what came before; null when all of it is shown. */
    before: () => view.before,
    /** The newest page. After a gap it takes the place of what was there. */
    showEnd({ entries, before }) {
      const last = view.entries.at(-1)?.position ?? -1;
      const isGap = last >= 0 && entries.length > 0 && entries[0].position > last;
      const isFirst = isGap || last < 0;
      const fresh = isFirst ? entries : entries.filter((entry) => entry.position > last);
      if (isFirst) view.before = before;
      view.entries = isFirst ? entries : [...view.entries, ...fresh];
      if (fresh.length > 0) draw();
    },
    showEarlier({ entries, before }) {
      view.entries = [...entries, ...view.entries];
      view.before = before;
      draw();
    },
  };
}

/** A result goes to the last call of its id that has none yet; one whose call is not shown stands by itself. */
function paired(entries) {
  const items = [];
  const open = new Map();
  for (const entry of entries) {
    const call = entry.kind === "result" ? open.get(entry.callId) : undefined;
    if (call !== undefined) {
      call.result = entry;
      open.delete(entry.callId);
      continue;
    }
    const item = { entry, result: null };
    if (entry.kind === "call") open.set(entry.callId, item);
    items.push(item);
  }
  return items;
}

const WHO = { note: "Note" };

function entryView(entry, result, tools) {
  if (entry.kind === "call" || entry.kind === "result") return toolView(entry, result, tools);
  // The head of the record says it, too.
  if (entry.kind === "task")
    return html`<li class="entry task"><details><summary>Task, as it was given ${timeView(entry)}</summary>${bodyView(entry, tools)}</details></li>`;
  const isSilent = entry.html === "" && entry.thoughts !== undefined;
  return html`<li class="entry ${entry.kind}">
    ${isSilent ? nothing : html`<div class="meta"><bdi class="who">${WHO[entry.kind] ?? entry.who}</bdi>${timeView(entry)}</div>`}
    ${entry.thoughts === undefined ? nothing : thinkingView(entry.thoughts)} ${isSilent ? nothing : bodyView(entry, tools)}
  </li>`;
}

const timeView = ({ at }) => {
  const time = Date.parse(at);
  return html`<time class="faint" datetime=${at} title=${fullTime(time)}>${clockSeconds(time)}</time>`;
};

const thinkingView = (thoughts) => html`<details class="thinking"><summary>Thinking</summary><p class="words">${thoughts}</p></details>`;

function bodyView(entry, tools) {
  const { text, next, length } = tools.textOf(entry);
  // Of words that were cut all is read as text: that they were formatted is the lesser loss.
  const isRendered = entry.html !== undefined && (text === undefined || text === "");
  const body = isRendered
    ? html`<div class="body" ${ref((node) => fill(node, entry.html))}></div>`
    : html`<div class="body words">${text}</div>`;
  return html`${body}${moreButton({ next, length, onMore: () => tools.onMore(entry) })}`;
}

/** Wide code scrolls inside its frame, by keyboard too. */
function fill(node, content) {
  if (node === undefined) return;
  setServerHtml(node, content);
  for (const pre of node.querySelectorAll("pre")) pre.tabIndex = 0;
}
