// The view "Usage": what was used in the last days, told apart by model, agent, person or channel, as plots and as tables of the same
// numbers; and what is left of limits. Its range and what is told apart stand in the address.
// address → GET /api/usage → drawn; again while something is going on
import { ref } from "/lib/lit-html/directives/ref.js";
import { html, nothing, render } from "/lib/lit-html/lit-html.js";
import { drawSpent } from "./budgets.js";
import { toast } from "./dom.js";
import { spentText } from "./run-words.js";
import { createPlots, MEASURES } from "./usage-plot.js";
import { createTables } from "./usage-table.js";
import { costText, countText } from "./usage-words.js";
import { viewHead } from "./view-head.js";
import { getJson, SignedOut } from "./wire.js";

const RANGES = { 7: "7 days", 30: "30 days", 90: "90 days" };
const BY = { all: "Everything", model: "By model", agent: "By agent", person: "By person", channel: "By channel" };
/** How soon what is going on is asked for again. */
const AGAIN_MS = 5_000;

export function createUsageView(root, hooks) {
  const view = { range: "30", by: "all", usage: null, problem: null, isShown: false, isBusy: false, timer: null };
  const plots = createPlots();
  const tables = createTables(() => draw());
  const draw = () => {
    render(pageView(view, { hooks, plots, tables }), root);
    plots.draw(view.usage);
  };
  const load = async () => {
    const { range, by } = view;
    view.isBusy = true;
    try {
      const usage = await getJson(`/api/usage?days=${range}&by=${by}`);
      if (view.range !== range || view.by !== by) return void load();
      Object.assign(view, { usage, problem: null });
    } catch (error) {
      if (error instanceof SignedOut) return hooks.onSignedOut();
      if (view.usage !== null) toast(`Usage can't be brought up to date: ${error.message}`);
      view.problem = error.message;
    } finally {
      view.isBusy = false;
    }
    if (view.isShown) draw();
  };
  return {
    show({ query }) {
      view.isShown = true;
      view.range = Object.hasOwn(RANGES, query.get("range") ?? "") ? query.get("range") : "30";
      view.by = Object.hasOwn(BY, query.get("by") ?? "") ? query.get("by") : "all";
      draw();
      void load();
    },
    hide() {
      view.isShown = false;
    },
    hear(name) {
      if (name !== "runs" || !view.isShown || view.timer !== null) return;
      view.timer = setTimeout(() => {
        view.timer = null;
        if (view.isShown && !view.isBusy) void load();
      }, AGAIN_MS);
    },
  };
}

function pageView(view, { hooks, plots, tables }) {
  const choose = (name) => (event) => {
    const query = new Map([
      ["range", view.range],
      ["by", view.by],
    ]);
    query.set(name, event.target.value);
    hooks.onPlace({ query }, true);
  };
  return html`${viewHead({ id: "usage-view-title", title: "Usage", onMenu: hooks.onMenu }, [
    chooser({ id: "usage-by", label: "Told apart", options: BY, value: view.by, onChange: choose("by") }),
    chooser({ id: "usage-range", label: "Time", options: RANGES, value: view.range, onChange: choose("range") }),
  ])}
    <div class="view-scroll usage" aria-busy=${String(view.usage === null && view.problem === null)}>
      ${view.problem !== null && view.usage === null ? html`<p class="usage-problem" role="alert">${view.problem}</p>` : nothing}
      ${view.usage === null ? nothing : contentView(view.usage, { plots, tables })}
    </div>`;
}

const chooser = ({ id, label, options, value, onChange }) =>
  html`<label class="off-screen" for=${id}>${label}</label>
    <select class="chooser" id=${id} @change=${onChange}>
      ${Object.entries(options).map(([name, text]) => html`<option value=${name} .selected=${name === value}>${text}</option>`)}
    </select>`;

function contentView(usage, { plots, tables }) {
  const isEmpty = usage.total.calls === 0 && usage.total.runs === 0;
  return html`${budgetsView(usage.budgets)}
  ${
    isEmpty
      ? emptyView(usage)
      : html`<dl class="totals">${totalsView(usage.total)}</dl>
        ${usage.series.length > 1 ? legendView(usage.series) : nothing}
        ${usage.by === "all" ? nothing : html`<section><h2>Together</h2>${tables.sums(usage)}</section>`}
        ${Object.entries(MEASURES).map(([name, measure]) => measureView(name, measure, { usage, plots, tables }))}
        <p class="faint">Days are UTC's, as budgets count them.${unpricedText(usage.total)}${usage.budgets.length === 0 ? "" : HELD}</p>`
  }`;
}

/** Why the two may differ. */
const HELD = " A call whose use was not reported is in no number here; of a budget it has taken all that it could have.";

const unpricedText = ({ unpriced }) =>
  unpriced === 0 ? "" : ` ${unpriced.toLocaleString()} calls are of models without a known price: they are in no cost.`;

const totalsView = (total) =>
  Object.entries({
    Tokens: `${countText(total.input + total.output)} (in ${countText(total.input)}, out ${countText(total.output)})`,
    Cost: costText(total),
    Runs: total.runs.toLocaleString(),
    Calls: total.calls.toLocaleString(),
  }).map(([name, text]) => html`<div><dt>${name}</dt><dd>${text}</dd></div>`);

const legendView = (series) => html`<ul class="plain-list legend" aria-label="Colours">
  ${series.map(({ label }, n) => html`<li><span class="swatch plot-${n + 1}" aria-hidden="true"></span><bdi>${label}</bdi></li>`)}
</ul>`;

const measureView = (name, measure, { usage, plots, tables }) => html`<section aria-labelledby="usage-${name}">
  <h2 id="usage-${name}">${measure.title}</h2>
  <div class="plot" role="img" aria-label="${measure.title}, as a plot; the table below has the same numbers" ${ref((node) => plots.place(name, node))}></div>
  <p class="plot-said faint" aria-hidden="true"></p>
  ${tables.days(name, measure, usage)}
</section>`;

function budgetsView(budgets) {
  if (budgets.length === 0)
    return html`<p class="faint">
      No limits are set. <code>budgets.perDay</code>, <code>perMonth</code>, <code>agentPerDay</code> or <code>personPerDay</code> in the
      settings would stand here, with what is left of them.
    </p>`;
  return html`<section aria-labelledby="usage-budgets">
    <h2 id="usage-budgets">Budgets</h2>
    <ul class="plain-list usage-budgets">
      ${budgets.map(
        (line) => html`<li>
          <p><b>${line.name.charAt(0).toUpperCase()}${line.name.slice(1)}</b> <span>${spentText(line)}; ${line.left} left</span></p>
          <div class="spent" aria-hidden="true" ${ref((bar) => bar !== undefined && drawSpent(bar, line))}></div>
        </li>`,
      )}
    </ul>
  </section>`;
}

const emptyView = ({ days }) => html`<div class="usage-empty">
  <h2>Nothing was used in these ${days.length} days</h2>
  <p>
    Each call of a model is counted here from the moment it is answered: its tokens, and its cost where a price is known (the built-in
    list, or <code>models.providers.&lt;name&gt;.models[].cost</code>). Runs are counted on the day they are sent out.
  </p>
  <p><a href="#/">Ask for something</a></p>
</div>`;
