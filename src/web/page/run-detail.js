// What is on record about the open run, under headings that fold: drawn anew when it changed, opened and closed by the
// person alone.
import { byId, el, setServerHtml, setText } from "./dom.js";
import { isUnfinished } from "./run-words.js";
import { clockTime, cost, duration, fullTime, tokens } from "./words.js";

export function drawDetail(detail) {
  const { task, reason, incomplete, plan = [], sections = [], briefHtml, trace = [] } = detail;
  setText(byId("panel-task"), task);
  const why = [incomplete ? "Stopped early." : "", reason ?? "", deliveryProblem(detail)].filter((part) => part !== "").join(" ");
  byId("panel-why").hidden = why === "";
  setText(byId("panel-why"), why);
  // Nobody is at a step of a run that has ended.
  const steps = plan.map(({ title, status }) => ({ title, status: status === "doing" && !isUnfinished(detail.run) ? "left" : status }));
  fold("plan", steps, () => steps.map(({ title, status }) => el("li", { "data-status": status }, title)));
  fold("sections", sections, () => sections.flatMap(({ name, html }) => [el("h4", {}, name), htmlNode(html)]));
  fold("brief", briefHtml === undefined ? [] : [briefHtml], () => [htmlNode(briefHtml)]);
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

const deliveryProblem = ({ run, facts }) =>
  run.delivery === "blocked"
    ? `Its announcement was not delivered${facts.deliveryReason === null ? "." : `: ${facts.deliveryReason}`}`
    : "";

function traceNode({ agent, action, timestamp }) {
  const at = Date.parse(timestamp);
  const time = el("time", { datetime: timestamp, title: fullTime(at) }, clockTime(at));
  return el("li", {}, action, el("span", { class: "faint" }, time, ` · ${agent}`));
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
    ["Delivery", facts.deliveryReason === null ? run.delivery : `${run.delivery}: ${facts.deliveryReason}`],
    ["Cleanup", facts.cleanup],
    ["Archive", archive],
    ["Generation", facts.generation > 1 ? String(facts.generation) : null],
    ["Resumed", facts.resumes > 0 ? `${facts.resumes}×` : null],
  ];
  return rows.filter(([, value]) => value !== null);
}
