// The plots of what was used: a bar for each day, those told apart on top of each other. Drawn by uPlot, in the page's own colours, and
// again when the window, or light and dark, change.
import uPlot from "/lib/uplot.js";
import { setText } from "./dom.js";
import { countText, moneyText } from "./usage-words.js";

/** `of(sum)`: the figure of a day; null: not known. */
export const MEASURES = {
  tokens: { title: "Tokens", of: (sum) => sum.input + sum.output, text: countText },
  cost: { title: "Cost", of: (sum) => sum.costUsd, text: moneyText },
  runs: { title: "Runs", of: (sum) => sum.runs, text: (count) => count.toLocaleString() },
};

const HEIGHT = 200;
const DAY_S = 24 * 3600;

export function createPlots() {
  const places = new Map();
  const drawn = new Map();
  let usage = null;
  const drop = (name) => {
    drawn.get(name)?.plot.destroy();
    drawn.delete(name);
  };
  const drawOne = (name, node) => {
    const last = drawn.get(name);
    const isSame = last?.node === node && last.usage === usage && last.width === node.clientWidth;
    if (isSame || node.clientWidth === 0) return;
    drop(name);
    const plot = new uPlot(optionsOf(name, usage, node), dataOf(MEASURES[name], usage), node);
    drawn.set(name, { plot, node, usage, width: node.clientWidth });
  };
  const drawAll = () => {
    if (usage !== null) for (const [name, node] of places) drawOne(name, node);
  };
  const redraw = () => {
    for (const name of [...drawn.keys()]) drop(name);
    drawAll();
  };
  const sizes = new ResizeObserver(drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  return {
    /** Where this one is drawn; undefined: nowhere any more. */
    place(name, node) {
      if (places.get(name) === node) return;
      if (node === undefined) {
        sizes.unobserve(places.get(name));
        places.delete(name);
        return drop(name);
      }
      places.set(name, node);
      sizes.observe(node);
    },
    draw(next) {
      usage = next;
      drawAll();
    },
  };
}

/** Sums from the first on: each is drawn down to the ground, the tallest first. */
function dataOf(measure, { days, series }) {
  const stacked = [];
  const sums = days.map(() => 0);
  for (const { days: own } of series) {
    own.forEach((sum, n) => {
      sums[n] += (sum === null ? 0 : measure.of(sum)) ?? 0;
    });
    stacked.unshift([...sums]);
  }
  return [days.map((day) => Date.parse(day) / 1000), ...stacked];
}

function optionsOf(name, usage, node) {
  const measure = MEASURES[name];
  const style = getComputedStyle(node);
  const colour = (token) => style.getPropertyValue(token).trim();
  const axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  const bars = uPlot.paths.bars({ size: [0.7, 40], radius: 0.1 });
  const said = node.nextElementSibling;
  return {
    width: node.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: {
      x: { range: (_, from, to) => [from - DAY_S / 2, to + DAY_S / 2] },
      y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        values: (_, times) => times.map((time) => new Date(time * 1000).toISOString().slice(5, 10)),
        incrs: [1, 7, 14, 30].map((count) => count * DAY_S),
      },
      { ...axis, size: 56, values: (_, figures) => figures.map((figure) => (isWhole(name, figure) ? measure.text(figure) : "")) },
    ],
    series: [{}, ...usage.series.map((_, n) => seriesOf(colour(`--plot-${usage.series.length - n}`), bars))],
    hooks: { setCursor: [({ cursor }) => setText(said, saidOf(measure, usage, cursor.idx))] },
  };
}

/** There is no half run, and no half token. */
const isWhole = (name, figure) => name === "cost" || Number.isInteger(figure);

const seriesOf = (colour, paths) => ({ fill: colour, stroke: colour, width: 0, paths, points: { show: false } });

/** The day under the pointer, in words. */
function saidOf(measure, { days, series }, index) {
  if (index === null || index === undefined) return "";
  const figures = series.flatMap(({ label, days: own }) => {
    const figure = own[index] === null ? null : measure.of(own[index]);
    return figure === null || figure === 0 ? [] : [`${series.length > 1 ? `${label}: ` : ""}${measure.text(figure)}`];
  });
  return `${days[index]} · ${figures.join(" · ") || "nothing"}`;
}
