// What else belongs to the open run: those it sent out, what it was told and has not read, what its steps cost, its documents.
import { html, nothing, render } from "/lib/lit-html/lit-html.js";
import { byId, copyText, toast } from "./dom.js";
import { getJson, SignedOut } from "./wire.js";
import { clockSeconds, cost, tokens } from "./words.js";

export function createRunParts({ onSignedOut }) {
  const view = { id: null, spentOf: "", documents: null, open: null };
  const load = async (path, show) => {
    const { id } = view;
    try {
      const found = await getJson(`/api/runs/${id}${path}`);
      if (view.id === id) show(found);
    } catch (error) {
      if (view.id !== id) return;
      if (error instanceof SignedOut) onSignedOut();
      else toast(`That can't be loaded: ${error.message}`);
    }
  };
  const drawDocuments = () => render(documentsView(view, { onOpen, onClose }), byId("panel-documents"));
  const onOpen = (name) =>
    load(`/documents/${name}`, (found) => {
      view.open = found;
      drawDocuments();
    });
  const onClose = () => {
    view.open = null;
    drawDocuments();
  };
  const loadDocuments = () =>
    load("/documents", ({ documents }) => {
      view.documents = documents;
      drawDocuments();
    });
  byId("fold-documents").addEventListener("toggle", ({ target }) => target.open && view.id !== null && void loadDocuments());
  return {
    show(id) {
      Object.assign(view, { id, spentOf: "", documents: null, open: null });
      byId("fold-documents").open = false;
      drawDocuments();
      byId("fold-spend").hidden = true;
      render(nothing, byId("panel-unread"));
    },
    draw({ run, unread }) {
      render(unreadView(unread), byId("panel-unread"));
      const spentOf = `${run.tokens} ${run.costUsd}`;
      if (run.tokens === null || view.spentOf === spentOf) return;
      view.spentOf = spentOf;
      void load("/spend", (spend) => {
        byId("fold-spend").hidden = spend.points.length === 0;
        render(spendView(spend), byId("panel-spend"));
      });
    },
  };
}

const unreadView = (unread) =>
  unread.map(
    ({ text }) => html`<li class="entry sent not-read">
      <div class="meta"><span class="who">Sent</span><span class="faint">not read yet: it is, at its next step</span></div>
      <div class="body words">${text}</div>
    </li>`,
  );

const WIDTH = 300;
const HEIGHT = 56;

/** All it had spent after each step, over time: money where a price is known, else tokens. */
function spendView({ points, steps, isCut }) {
  const last = points.at(-1);
  if (last === undefined) return nothing;
  const isPriced = last.costUsd !== null;
  const figureOf = (point) => (isPriced ? point.costUsd : point.tokens);
  const text = `${tokens(last.tokens)}${isPriced ? `, est ${cost(last.costUsd)}` : ""} in ${steps} ${steps === 1 ? "step" : "steps"}`;
  return html`<figure class="spend">
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${isPriced ? "Cost" : "Tokens"} over time: ${text}">
      <path class="spend-area" d="${pathOf(points, figureOf)}V${HEIGHT}H0Z"></path>
      <path class="spend-line" d=${pathOf(points, figureOf)}></path>
    </svg>
    <figcaption class="faint">${text}${isCut ? "; of the last steps only" : ""}</figcaption>
    <details>
      <summary>Step by step</summary>
      <div class="table-frame" tabindex="0" role="region" aria-label="Cost step by step">
        <table class="figures">
          <thead><tr><th scope="col">Time</th><th scope="col">Tokens so far</th><th scope="col">Cost so far</th></tr></thead>
          <tbody>
            ${points.map(
              (point) => html`<tr>
                <td>${clockSeconds(Date.parse(point.at))}</td>
                <td>${point.tokens.toLocaleString()}</td>
                <td>${point.costUsd === null ? "–" : cost(point.costUsd)}</td>
              </tr>`,
            )}
          </tbody>
        </table>
      </div>
    </details>
  </figure>`;
}

/** Steps of a stair: between two calls nothing is spent. */
function pathOf(points, figureOf) {
  const times = points.map(({ at }) => Date.parse(at));
  const [begin, end] = [times[0], times.at(-1)];
  const most = Math.max(...points.map(figureOf)) || 1;
  // A little is left at the right, so that the last step is seen as one.
  const x = (n) => (end === begin ? 0 : ((times[n] - begin) / (end - begin)) * WIDTH * 0.96).toFixed(1);
  const y = (point) => (HEIGHT - 2 - (figureOf(point) / most) * (HEIGHT - 6)).toFixed(1);
  return `M0 ${HEIGHT - 2}${points.map((point, n) => `H${x(n)}V${y(point)}`).join("")}H${WIDTH}`;
}

function documentsView({ documents, open }, { onOpen, onClose }) {
  if (documents === null) return nothing;
  if (documents.length === 0) return html`<p class="faint">None yet: they are written when it begins, and again when it ends.</p>`;
  return html`<ul class="plain-list">
    ${documents.map(
      ({ name, about }) => html`<li>
        <button class="link" type="button" aria-expanded=${String(open?.name === name)} @click=${() => (open?.name === name ? onClose() : onOpen(name))}>
          ${name}
        </button>
        <span class="faint">${about}</span>
        ${open?.name === name ? openView(open) : nothing}
      </li>`,
    )}
  </ul>`;
}

const openView = ({ name, text, isCut }) => html`
  <div class="document-actions">
    <button class="small" type="button" @click=${() => download(name, text)}>Download</button>
    <button class="small" type="button" @click=${({ currentTarget }) => copyText(text, currentTarget)}>Copy</button>
  </div>
  ${isCut ? html`<p class="faint">Its end; the beginning is too long to be shown.</p>` : nothing}
  <pre class="document" tabindex="0" aria-label=${name}>${text}</pre>
`;

function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser has taken it by then.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
