// Two runs side by side (RP2): which other one, then what each was given, what each took, and the difference of their results. It lies
// over everything else and has an address of its own; on a phone the two stand one below the other.
import { colourDiffs } from "./diff.js";
import { byId, el, setText } from "./dom.js";
import { runLink } from "./run-links.js";
import { getJson, SignedOut } from "./wire.js";

/** `onCompare(id, otherId)` shows these two under their address, `onOpen(id)`, `onLeave()`, `onSignedOut()`. */
export function createRunCompare(hooks) {
  const dialog = byId("compare");
  /** Which two, or which one when the other is still to be chosen; null: closed. */
  const view = { shown: null, hooks };
  byId("compare-close").addEventListener("click", () => dialog.close());
  // By the button, Esc, or because the address names no two any more: then nobody is told.
  dialog.addEventListener("close", () => {
    // The word comes later than the closing: it was opened again meanwhile.
    if (dialog.open) return;
    if (view.shown !== null) hooks.onLeave();
    view.shown = null;
  });
  const open = (shown, title) => {
    view.shown = shown;
    setText(byId("compare-title"), title);
    byId("compare-body").replaceChildren(el("p", { class: "faint" }, "Looking…"));
    if (!dialog.open) dialog.showModal();
    byId("compare-title").focus();
  };
  return {
    choose(id) {
      open(`${id} `, "Compare with…");
      void load(view, `/api/runs/${id}/related`, (related) => choices(related, (other) => hooks.onCompare(id, other)));
    },
    /** What the address names; null: nothing. */
    show(id, otherId) {
      const wanted = id === null || otherId === null ? null : `${id} ${otherId}`;
      if (wanted === view.shown) return;
      if (wanted !== null) {
        open(wanted, "Side by side");
        return void load(view, `/api/runs/${id}/compare/${otherId}`, (compared) => comparison(compared, hooks.onOpen));
      }
      view.shown = null;
      dialog.close();
    },
  };
}

async function load(view, path, draw) {
  const { shown, hooks } = view;
  const body = byId("compare-body");
  try {
    const found = await getJson(path);
    if (view.shown === shown) body.replaceChildren(...draw(found));
  } catch (error) {
    if (view.shown !== shown) return;
    if (error instanceof SignedOut) {
      view.shown = null;
      byId("compare").close();
      return hooks.onSignedOut();
    }
    body.replaceChildren(el("p", { class: "sheet-problem", role: "alert" }, `That did not work: ${error.message}`));
  }
}

function choices({ repeats, repeatedBy, others }, onChoose) {
  const groups = [
    ["The run it repeats", repeats === null ? [] : [repeats]],
    ["Runs that repeat it", repeatedBy],
    ["Other runs of this chat", others],
  ].filter(([, runs]) => runs.length > 0);
  if (groups.length === 0) return [el("p", { class: "faint" }, "There is no other run to compare it with yet.")];
  return groups.flatMap(([name, runs]) => [
    el("h3", {}, name),
    el("ul", { class: "plain-list" }, ...runs.map((run) => el("li", {}, runLink(run, onChoose)))),
  ]);
}

function comparison({ one, other, fields, link, patch, note }, onOpen) {
  // Roles by name: stacked on a phone, the browser takes it for a table no more.
  const cell = (role, text, attributes = {}) => el("div", { role, ...attributes }, text);
  const head = el(
    "div",
    { role: "row", class: "compare-row compare-head" },
    cell("columnheader", el("span", { class: "off-screen" }, "What")),
    cell("columnheader", runLink(one, onOpen)),
    cell("columnheader", runLink(other, onOpen)),
  );
  const rows = fields.map((field) =>
    el(
      "div",
      { role: "row", class: "compare-row", "data-differs": String(field.one !== field.other) },
      cell("rowheader", field.name),
      cell("cell", field.one, { "data-of": one.shortId }),
      cell("cell", field.other, { "data-of": other.shortId }),
    ),
  );
  const results = [
    el("h3", {}, "Their results"),
    patch === null ? null : el("pre", {}, el("code", { class: "language-diff" }, patch)),
    note === "" ? null : el("p", { class: "faint" }, note),
  ].filter((node) => node !== null);
  const body = el("div", {}, ...results);
  colourDiffs(body);
  return [
    link === null ? "" : el("p", { class: "faint" }, link),
    el("div", { role: "table", class: "compare-table", "aria-label": "The two runs" }, head, ...rows),
    body,
  ];
}
