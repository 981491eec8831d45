// The briefs of the open run: what it may know and from whom, changing and taking back while somebody reads them, and what became of them.
// Drawn anew only when they changed, so that a question asked here ("Take it back?") stays.
import { createBriefEditor } from "./brief-editor.js";
import { colourDiffs } from "./diff.js";
import { byId, el, setText, toast } from "./dom.js";
import { getJson, postJson, SignedOut } from "./wire.js";
import { clockTime, dayName, fullTime } from "./words.js";

/** `onChanged()` when the run should be loaded again, `onSignedOut()`. */
export function createBriefs(hooks) {
  const view = { runId: null, briefing: null, drawn: "", historyOf: "", hooks, editor: createBriefEditor(hooks) };
  byId("brief-write").addEventListener("click", () => edit(view, null));
  byId("brief-history").addEventListener("toggle", () => void drawHistory(view));
  return {
    show({ id: runId, requesterKey }, briefing) {
      const { briefs, version, isOpen } = briefing;
      Object.assign(view, { runId, requesterKey, briefing });
      byId("fold-brief").hidden = briefs.length === 0 && version === 0 && !isOpen;
      setText(byId("brief-count"), briefs.length === 0 ? "none" : briefs.length === 1 ? "" : String(briefs.length));
      byId("brief-write").hidden = !isOpen || briefs.length > 0;
      byId("brief-history").hidden = version === 0;
      const text = JSON.stringify([runId, briefing]);
      if (view.drawn === text) return;
      view.drawn = text;
      byId("panel-brief").replaceChildren(...briefs.map((brief) => briefNode(view, brief)));
      void drawHistory(view);
    },
  };
}

/** Most come from whoever sent it out, whose key stands among the facts. */
const named = (text, { requesterKey }) => text.replaceAll(requesterKey, "its requester");
const whenOf = (at) => el("time", { datetime: new Date(at).toISOString(), title: fullTime(at) }, `${dayName(at)} ${clockTime(at)}`);

function briefNode(view, brief) {
  const { mission, sharedMemory, constraints, at } = brief;
  const list = (name, items) => (items.length === 0 ? [] : [el("h4", {}, name), el("ul", {}, ...items.map((item) => el("li", {}, item)))]);
  const references = sharedMemory.map(({ tier, key, reason }) => `${key === undefined ? tier : `${tier}/${key}`}: ${reason}`);
  return el(
    "article",
    { class: "brief" },
    el("p", { class: "faint" }, "From ", el("bdi", {}, brief.isOurs ? "you, on the page" : named(brief.from, view)), " · ", whenOf(at)),
    el("p", { class: "words" }, mission),
    ...list("Memory it may read", references),
    ...list("Constraints", constraints),
    view.briefing.isOpen ? actionsOf(view, brief) : null,
  );
}

/** Taken back only after a second word. */
function actionsOf(view, brief) {
  const button = (text, act, kind = "") => el("button", { class: `small ${kind}`, type: "button", onclick: act }, text);
  const node = el("div", { class: "brief-actions" });
  const ask = () => {
    const keep = button("Keep it", () => rest(true));
    const label = el(
      "span",
      { class: "brief-ask", role: "status" },
      "Take it back? From its next step on the sub-agent sees nothing of it.",
    );
    node.replaceChildren(
      label,
      button("Take it back", () => void revoke(view, brief), "danger"),
      keep,
    );
    keep.focus();
  };
  // Of several only one's own: a second one of ours would take the place of the first.
  const isEditable = brief.isOurs || view.briefing.briefs.every(({ isOurs }) => !isOurs);
  const rest = (isLeft) => {
    const take = button("Revoke…", ask);
    node.replaceChildren(...(isEditable ? [button("Edit…", () => edit(view, brief))] : []), take);
    if (isLeft) take.focus();
  };
  rest(false);
  return node;
}

const edit = ({ editor, runId, briefing }, brief) =>
  editor.open({ runId, version: briefing.version, brief, replaces: brief === null || brief.isOurs ? null : brief.from });

async function revoke({ runId, briefing, hooks }, { from }) {
  try {
    toast((await postJson(`/api/runs/${runId}/brief/revoke`, { version: briefing.version, from })).text);
  } catch (error) {
    if (error instanceof SignedOut) return hooks.onSignedOut();
    toast(`That did not work: ${error.message}`);
  }
  // What was pressed is about to go.
  byId("fold-brief").querySelector("summary").focus();
  hooks.onChanged();
}

/** Asked for when somebody looks at it, and again when it changed. */
async function drawHistory(view) {
  const { runId, briefing } = view;
  const list = byId("brief-history-list");
  const wanted = `${runId} ${briefing?.version}`;
  if (view.historyOf !== wanted) list.replaceChildren();
  if (!byId("brief-history").open || runId === null || briefing.version === 0 || view.historyOf === wanted) return;
  view.historyOf = wanted;
  try {
    const { history } = await getJson(`/api/runs/${runId}/brief`);
    if (view.historyOf !== wanted) return;
    list.replaceChildren(...history.map((event) => eventNode(event, view)));
    colourDiffs(list);
  } catch (error) {
    view.historyOf = "";
    if (error instanceof SignedOut) view.hooks.onSignedOut();
    else list.replaceChildren(el("li", { role: "alert" }, `It can't be loaded: ${error.message}`));
  }
}

function eventNode({ at, by, what, patch }, view) {
  const line = el("p", {}, el("bdi", {}, named(by, view)), ` ${named(what, view)} `, el("span", { class: "faint" }, whenOf(at)));
  return el("li", {}, line, patch === null ? null : el("pre", {}, el("code", { class: "language-diff" }, patch)));
}
