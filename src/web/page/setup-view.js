// The view "Set-up": its sections by their address, the files they are written to, what waits for a restart. The forms come as data from
// Herald; what was typed in them is kept while other sections are looked at.
import { repeat } from "/lib/lit-html/directives/repeat.js";
import { html, nothing, render } from "/lib/lit-html/lit-html.js";
import { toast } from "./dom.js";
import { addressOf } from "./place.js";
import { TEST_MS } from "./setup-form.js";
import { browsersTemplate, machinesTemplate, peopleTemplate } from "./setup-people.js";
import { sectionTemplate } from "./setup-section.js";
import { viewHead } from "./view-head.js";
import { getJson, postJson, SignedOut } from "./wire.js";

const RESTART_TRIES = 120;
const RESTART_WAIT_MS = 500;

export function createSetupView(root, hooks) {
  const state = {
    view: null,
    problem: null,
    section: null,
    isShown: false,
    isRestarting: false,
    pairing: { waiting: [], people: [] },
    nodes: [],
    /** By the form's key. */
    forms: new Map(),
  };
  const formOf = (key) => {
    if (!state.forms.has(key)) state.forms.set(key, { draft: {}, busy: null, result: null, asks: null });
    return state.forms.get(key);
  };
  const draw = () => state.isShown && render(viewTemplate(state, { formOf, actsOf, hooks, restart }), root);
  const attempt = async (work) => {
    try {
      return await work();
    } catch (error) {
      if (error instanceof SignedOut) hooks.onSignedOut();
      else throw error;
    }
  };
  const load = async () => {
    try {
      state.view = (await attempt(() => getJson("/api/setup"))) ?? state.view;
      state.problem = null;
    } catch (error) {
      state.problem = `Set-up can't be shown: ${error.message}`;
    }
    draw();
  };
  const restart = async () => {
    state.isRestarting = true;
    draw();
    try {
      await attempt(() => postJson("/api/setup/restart", {}));
      await backAgain();
      toast("Herald has started anew.");
    } catch (error) {
      toast(`That did not work: ${error.message}`);
    }
    state.isRestarting = false;
    await load();
  };
  /** Until it is gone and there again; the port may be dead for as long as turns are let finish. */
  const backAgain = async () => {
    for (let n = 0; n < RESTART_TRIES; n++) {
      await new Promise((resolve) => setTimeout(resolve, RESTART_WAIT_MS));
      const view = await getJson("/api/setup").catch(() => null);
      if (view !== null && view.waiting.length === 0) return;
    }
    throw new Error("Herald is not back yet. Look at its log.");
  };
  const actsOf = (form) => createActs(form, formOf(form.key), { state, draw, load, attempt });

  window.addEventListener("beforeunload", (event) => isUnsaved(state) && event.preventDefault());
  return {
    show(place) {
      state.isShown = true;
      state.section = place.section;
      draw();
      void load();
    },
    hide() {
      state.isShown = false;
      if (isUnsaved(state)) toast("Set-up has changes that are not saved yet. They stay there while this tab is open.");
    },
    hear(name, data) {
      if (name === "pairing") state.pairing = data;
      else if (name === "nodes") state.nodes = data;
      else return;
      draw();
    },
  };
}

const isUnsaved = ({ forms }) => [...forms.values()].some(({ draft }) => Object.keys(draft).length > 0);

/** What the buttons of one form do. */
function createActs({ key, section, item, fields }, own, { state, draw, load, attempt }) {
  const body = () => ({ section, item, values: own.draft });
  const work = async (busy, act) => {
    if (own.busy !== null) return;
    Object.assign(own, { busy, result: null, asks: null });
    draw();
    try {
      await attempt(act);
    } catch (error) {
      own.result = { isOk: false, lines: error.message.split("\n") };
    }
    own.busy = null;
    await load();
    keepFocus(key);
  };
  const take = (answer) => {
    if (answer.outcome === "stale") {
      own.result = {
        isOk: false,
        lines: ["The settings were changed elsewhere meanwhile. What you typed is still here: look at it and save again."],
      };
    } else if (answer.outcome === "failed") {
      own.result = answer.tested;
      own.asks = { what: "insist" };
    } else {
      Object.assign(own, { draft: {}, isSure: false });
      const waits = answer.waiting.length === 0 ? "It counts from now on." : `Waits for a restart: ${answer.waiting.join(", ")}.`;
      own.result = { ...own.passed, isOk: true, lines: [`Saved. ${waits}`] };
      if (item === null) state.forms.delete(key);
      if (item === null) toast(`Saved. ${waits}`);
    }
  };
  const isEmptied = () => fields.some(({ name, kind, value }) => kind === "secret" && value && own.draft[name] === null);
  return {
    onInput(name, value) {
      if (value === undefined) delete own.draft[name];
      else own.draft[name] = value;
      Object.assign(own, { result: null, asks: null, passed: undefined, isSure: false });
      draw();
    },
    onFold(isUnfolded) {
      if (own.isUnfolded === isUnfolded) return;
      own.isUnfolded = isUnfolded;
      draw();
    },
    onTest: () =>
      work("test", async () => {
        own.result = await postJson("/api/setup/test", body(), TEST_MS);
        own.passed = own.result.isOk ? { link: own.result.link } : undefined;
      }),
    onSave(isInsisted, isSure = false) {
      if (Object.keys(own.draft).length === 0) return;
      // Asked once, whatever else has to be pressed after it.
      own.isSure ||= isSure;
      if (isEmptied() && !own.isSure) {
        own.asks = { what: "empty", isInsisted };
        return draw();
      }
      return work("save", async () =>
        take(await postJson("/api/setup/save", { ...body(), version: state.view.version, isInsisted }, TEST_MS)),
      );
    },
    onDiscard() {
      Object.assign(own, { draft: {}, result: null, asks: null });
      draw();
    },
    onRemove() {
      own.asks = { what: "remove" };
      draw();
    },
    onRemoveSurely: () =>
      work("save", async () => take(await postJson("/api/setup/remove", { section, item, version: state.view.version }))),
    onKeep() {
      // What was emptied is as it was.
      for (const [name, value] of Object.entries(own.draft)) if (value === null) delete own.draft[name];
      own.asks = null;
      draw();
    },
  };
}

/** On what is wrong, or on the form whose button is gone: without it the keyboard would begin anew at the top. */
function keepFocus(key) {
  const form = document.querySelector(`form[data-key="${CSS.escape(key)}"]`);
  const wrong = form?.querySelector('[aria-invalid="true"]');
  const isLost = document.activeElement === document.body;
  if (wrong !== null && wrong !== undefined && (isLost || form.contains(document.activeElement))) wrong.focus();
  else if (isLost) form?.querySelector('[type="submit"]')?.focus();
}

function viewTemplate(state, { formOf, actsOf, hooks, restart }) {
  const head = viewHead({ id: "setup-view-title", title: "Set-up", onMenu: hooks.onMenu }, nothing);
  if (state.view === null) return html`${head}<div class="view-scroll"><p class="faint">${state.problem ?? "Loading…"}</p></div>`;
  const places = placesOf(state, { formOf, actsOf, hooks });
  const current = places.find(({ id }) => id === state.section) ?? places[0];
  return html`${head}
    <div class="view-scroll">
      <div class="setup">
        <nav class="setup-nav" aria-label="Sections of set-up">
          ${places.map(
            ({ id, title, isTouched, badge }) => html`<a
              class="place"
              href=${addressOf({ view: "setup", section: id })}
              aria-current=${id === current.id ? "page" : nothing}
              >${title}${isTouched ? html`<span class="setup-dot" title="Not saved yet"><span class="off-screen">, not saved yet</span></span>` : nothing}
              ${badge ? html`<span class="faint">${badge}</span>` : nothing}</a
            >`,
          )}
        </nav>
        <section class="setup-body" aria-labelledby="setup-section-title">
          ${noticesTemplate(state, restart)}
          <h2 id="setup-section-title">${current.title}</h2>
          ${repeat(
            // By its name: what was unfolded in one section is not what the next one has in its place.
            [current],
            ({ id }) => id,
            ({ body }) => body(),
          )}
          ${current.isWritten ? filesTemplate(state.view) : nothing}
        </section>
      </div>
    </div>`;
}

function placesOf(state, { formOf, actsOf, hooks }) {
  const isTouched = (section) =>
    [...state.forms].some(([key, { draft }]) => key.startsWith(`${section}/`) && Object.keys(draft).length > 0);
  const written = state.view.sections.map((section) => ({
    ...section,
    isTouched: isTouched(section.id),
    isWritten: true,
    body: () => sectionTemplate(section, { formOf, actsOf }),
  }));
  const waiting = state.pairing.waiting.filter(({ expiresAt }) => expiresAt > Date.now()).length;
  return [
    ...written,
    {
      id: "people",
      title: "People",
      badge: waiting > 0 ? `${waiting} waiting` : "",
      body: () => peopleTemplate(state.pairing, hooks.onSignedOut),
    },
    { id: "browsers", title: "Browsers", body: browsersTemplate },
    ...(state.nodes.length === 0 ? [] : [{ id: "machines", title: "Machines", body: () => machinesTemplate(state.nodes) }]),
  ];
}

function noticesTemplate({ view, problem, isRestarting }, restart) {
  const { waiting, canRestart } = view;
  const how = canRestart ? nothing : " Stop Herald and start it again.";
  return html`${problem === null ? nothing : html`<p class="setup-notice bad" role="alert">${problem}</p>`}
    ${
      view.problem === null
        ? nothing
        : html`<div class="setup-notice bad"><p>The settings file can't be taken as it is, and Herald runs on with the old ones:</p><pre>${view.problem}</pre></div>`
    }
    ${
      waiting.length === 0
        ? nothing
        : html`<div class="setup-notice" role="status">
          <p>Takes effect after a restart: ${waiting.join(", ")}.${how}</p>
          ${
            canRestart
              ? html`<button class="small" type="button" ?disabled=${isRestarting} @click=${restart}>${isRestarting ? "Starting anew…" : "Restart now"}</button>`
              : nothing
          }
        </div>`
    }`;
}

const filesTemplate = ({ files, machine }) => html`<p class="faint setup-files">
  Written${machine === null ? nothing : html` on <b>${machine}</b>, this machine alone,`} to <code>${files.settings}</code>, secrets to
  <code>${files.dotEnv}</code>. Comments there stay, and the file before the last change is kept beside it.
</p>`;
