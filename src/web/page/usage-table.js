// The numbers of the plots as tables: a row for each day, a column for each that is told apart, sums at the edges; and all of them together.
// A press on a heading sorts by it.
import { html } from "/lib/lit-html/lit-html.js";
import { costText, countText } from "./usage-words.js";

/** `onChange()`: another order is wanted. */
export function createTables(onChange) {
  /** Per table: by which column, and whether the largest comes first. */
  const orders = new Map();
  const press = (table, column, last) => {
    orders.set(table, { column, isFalling: last.column === column ? !last.isFalling : true });
    onChange();
  };
  const tableView = ({ id, name, columns, rows, foot, first }) => {
    const order = orders.get(id) ?? first;
    const { sortBy } = columns[order.column] ?? columns[0];
    const sorted = rows.toSorted((a, b) => compare(sortBy(a), sortBy(b)) * (order.isFalling ? -1 : 1));
    return html`<div class="table-frame" tabindex="0" role="region" aria-label=${name}>
      <table class="figures">
        <caption class="off-screen">${name}</caption>
        <thead><tr>${columns.map(({ title }, n) => headingView(title, { order, n, onPress: () => press(id, n, order) }))}</tr></thead>
        <tbody>${sorted.map((row) => rowView(columns, row))}</tbody>
        <tfoot>${rowView(columns, foot)}</tfoot>
      </table>
    </div>`;
  };
  return {
    /** Each that is told apart, in the whole time. */
    sums: (usage) => tableView(sumsOf(usage)),
    days: (name, measure, usage) =>
      html`<details class="numbers"><summary>${measure.title} in numbers</summary>${tableView(daysOf(name, measure, usage))}</details>`,
  };
}

const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);

const headingView = (title, { order, n, onPress }) => {
  const sort = order.column !== n ? "none" : order.isFalling ? "descending" : "ascending";
  return html`<th scope="col" aria-sort=${sort}><button class="sort" type="button" @click=${onPress}><bdi>${title}</bdi></button></th>`;
};

const rowView = ([head, ...columns], row) =>
  html`<tr><th scope="row"><bdi>${head.text(row)}</bdi></th>${columns.map(({ text }) => html`<td>${text(row)}</td>`)}</tr>`;

const whole = (title, of) => ({ title, text: (row) => of(row).toLocaleString(), sortBy: of });

function sumsOf({ series, total, by, others }) {
  const name = ({ label, name: own }) => (own === null && others > 0 ? `${others} others` : label);
  return {
    id: "sums",
    name: "Together",
    first: { column: 1, isFalling: true },
    columns: [
      { title: by.charAt(0).toUpperCase() + by.slice(1), text: name, sortBy: name },
      whole("Tokens", (row) => row.total.input + row.total.output),
      whole("In", (row) => row.total.input),
      whole("Out", (row) => row.total.output),
      { title: "Cost", text: (row) => costText(row.total), sortBy: (row) => row.total.costUsd ?? -1 },
      whole("Runs", (row) => row.total.runs),
      whole("Calls", (row) => row.total.calls),
    ],
    rows: series,
    foot: { name: "", label: "All", total },
  };
}

const NOTHING = { input: 0, output: 0, calls: 0, runs: 0, costUsd: 0, unpriced: 0 };

function daysOf(name, measure, { days, series }) {
  const textOf = name === "cost" ? costText : (sum) => (name === "tokens" ? countText(measure.of(sum)) : measure.of(sum).toLocaleString());
  const column = (title, sumOf) => ({ title, text: (row) => textOf(sumOf(row)), sortBy: (row) => measure.of(sumOf(row)) ?? -1 });
  const own = series.map(({ label }, n) => column(label, ({ sums }) => sums[n]));
  const rows = days.map((day, at) => ({ day, sums: series.map((one) => one.days[at] ?? NOTHING) }));
  const all = ({ sums }) => sums.reduce(plus, NOTHING);
  return {
    id: `${name} by day`,
    name: `${measure.title} by day`,
    first: { column: 0, isFalling: true },
    columns: [
      { title: "Day", text: ({ day }) => day, sortBy: ({ day }) => day },
      ...own,
      ...(series.length > 1 ? [column("All", all)] : []),
    ],
    rows,
    foot: { day: "All", sums: series.map(({ total }) => total) },
  };
}

const plus = (a, b) => ({
  ...{ input: a.input + b.input, output: a.output + b.output, calls: a.calls + b.calls, runs: a.runs + b.runs },
  unpriced: a.unpriced + b.unpriced,
  costUsd: a.costUsd === null && b.costUsd === null ? null : (a.costUsd ?? 0) + (b.costUsd ?? 0),
});
