// What is on record about the open run, under headings that fold: drawn anew when it changed, opened and closed by the
// person alone.
import { byId, el, setServerHtml, setText } from "./dom.js";
import { runLink } from "./run-links.js";
import { isUnfinished, spentText } from "./run-words.js";
import { clockSeconds, cost, duration, fullTime, tokens } from "./words.js";

/** `onOpen(runId)` of a link to another run. */
export function drawDetail(detail, onOpen) {
  const { task, reason, incomplete, plan = [], checks = [], dataHtml, sections = [], trace = [], children } = detail;
  setText(byId("panel-task"), task);
  const why = [incomplete ? "Stopped early." : "", reason ?? "", deliveryProblem(detail)].filter((part) => part !== "").join(" ");
  byId("panel-why").hidden = why === "";
  setText(byId("panel-why"), why);
  const repetitions = repetitionsOf(detail);
  fold("repetitions", repetitions, () =>
    repetitions.map(([what, run]) => el("li", {}, el("span", { class: "faint" }, `${what} `), runLink(run, onOpen))),
  );
  fold("children", children, () => children.map((run) => el("li", {}, runLink(run, onOpen))));
  drawNote(detail);
  // Nobody is at a step of a run that has ended.
  const steps = plan.map(({ title, status }) => ({ title, status: status === "doing" && !isUnfinished(detail.run) ? "left" : status }));
  fold("plan", steps, () => steps.map(({ title, status }) => el("li", { "data-status": status }, title)));
  fold("checks", checks, () => checks.map(checkNode));
  fold("data", dataHtml === undefined ? [] : [dataHtml], () => [htmlNode(dataHtml)]);
  fold("sections", sections, () => sections.flatMap(({ name, html }) => [el("h4", {}, name), htmlNode(html)]));
  fold("trace", trace, () => trace.map(traceNode));
  fold("facts", factsOf(detail), (rows) => rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** Hidden without content; unchanged content is left alone, with the person's selection in it. */
function fold(name, content, draw) {
  byId(`fold-${name}`).hidden = content.length === 0;
  const target = byId(`panel-${name}`);
  const text = JSON.stringify(content);
  if (target.drawn === text) return;
  target.drawn = text;
  target.replaceChildren(...draw(content));
}

function htmlNode(html) {
  const node = el("div", { class: "body" });
  setServerHtml(node, html);
  return node;
}

/** What became of it that nobody sees from its state. */
function drawNote({ facts: { archivedAt }, run }) {
  const note = archivedAt === null ? "" : `Archived ${fullTime(archivedAt)}: its record stays, its transcript until it is purged.`;
  const how = note === "" || run.chat === null ? "" : " “Run again…” makes a new one of it.";
  byId("panel-note").hidden = note === "";
  setText(byId("panel-note"), note + how);
}

const repetitionsOf = ({ repeats, repeatedBy }) => [
  ...(repeats === null ? [] : [["It repeats", repeats]]),
  ...repeatedBy.map((run) => ["Repeated as", run]),
];

const deliveryProblem = ({ run, facts }) =>
  run.delivery === "blocked"
    ? `Its announcement was not delivered${facts.deliveryReason === null ? "." : `: ${facts.deliveryReason}`}`
    : "";

function traceNode({ agent, action, timestamp }) {
  const at = Date.parse(timestamp);
  const time = el("time", { datetime: timestamp, title: fullTime(at) }, clockSeconds(at));
  return el("li", {}, action, el("span", { class: "faint" }, time, ` · ${agent}`));
}

function checkNode({ name, passed, why, output }) {
  const lines = [el("span", {}, `${passed ? "Passed" : "Failed"}: ${name}`), el("span", { class: "faint" }, why)];
  return el("li", { "data-passed": String(passed) }, ...lines, ...(output === "" ? [] : [el("pre", { tabindex: "0" }, output)]));
}

/** As `/subagents info` tells them; what is not known or not so is left out. */
function factsOf({ facts, run }) {
  const { usage } = facts;
  const archive =
    facts.archivedAt !== null
      ? `archived ${fullTime(facts.archivedAt)}`
      : facts.archiveDueAt === null
        ? "not due"
        : fullTime(facts.archiveDueAt);
  const rows = [
    ["Run", run.id],
    ["Requester", run.requesterKey],
    ["Session key", facts.childKey],
    ["Session id", facts.sessionId],
    ["Transcript", facts.transcript],
    ["Agent", facts.role === null ? facts.agentId : `${facts.agentId}, role ${facts.role}`],
    ["Model", `${facts.model} (thinking ${facts.thinking})`],
    ["Created", fullTime(run.createdAt)],
    ["Started", run.startedAt === null ? null : fullTime(run.startedAt)],
    ["Ended", run.endedAt === null ? null : fullTime(run.endedAt)],
    ["Runtime", run.startedAt === null || run.endedAt === null ? null : duration(run.endedAt - run.startedAt)],
    ["Usage", usage === null ? "tokens n/a" : `${tokens(usage.input + usage.output)} (in ${usage.input}, out ${usage.output})`],
    ["Cost", run.costUsd === null ? null : `est ${cost(run.costUsd)}`],
    ["Group", run.group],
    ["Budget", run.limit === null ? null : spentText(run.limit)],
    ["Delivery", facts.deliveryReason === null ? run.delivery : `${run.delivery}: ${facts.deliveryReason}`],
    ["Cleanup", facts.cleanup],
    ["Archive", archive],
    ["Generation", facts.generation > 1 ? String(facts.generation) : null],
    ["Resumed", facts.resumes > 0 ? `${facts.resumes}×` : null],
  ];
  return rows.filter(([, value]) => value !== null);
}
