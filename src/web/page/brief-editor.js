// Writing a brief: mission, memory it may read, constraints. What is refused is said beside the form, in Herald's own words, and what was
// written stays.
import { byId, el, setText, toast } from "./dom.js";
import { getJson, postJson, Refused, SignedOut } from "./wire.js";

const EMPTY = { mission: "", sharedMemory: [], constraints: [] };
const encoder = new TextEncoder();

/** `onChanged()` when it was saved, or somebody else was first; `onSignedOut()`. */
export function createBriefEditor(hooks) {
  const dialog = byId("brief-sheet");
  const view = { job: null, form: null, isBusy: false, hooks };
  byId("brief-mission").addEventListener("input", () => drawCount(view));
  byId("brief-add").addEventListener("click", () => addReference(view, { tier: view.form.tiers[0], reason: "" }).focus());
  byId("brief-form").addEventListener("submit", (event) => {
    event.preventDefault();
    void save(view);
  });
  for (const id of ["brief-close", "brief-cancel"]) byId(id).addEventListener("click", () => dialog.close());
  return {
    /** `job`: {runId, version, brief: null for a new one, replaces}. */
    async open(job) {
      dialog.showModal();
      byId("brief-title").focus();
      // Closed by mistake: what was written is still there.
      if (view.job !== null && keyOf(view.job) === keyOf(job)) return;
      view.job = job;
      say("");
      byId("brief-fields").hidden = true;
      try {
        const { form } = await getJson(`/api/runs/${job.runId}/brief`);
        if (view.job === job) fill(view, form);
      } catch (error) {
        if (error instanceof SignedOut) return leave(view);
        view.job = null;
        say(`That did not work: ${error.message}`);
      }
    },
  };
}

const keyOf = ({ runId, version, replaces }) => `${runId} ${version} ${replaces}`;

function fill(view, form) {
  const { mission, sharedMemory, constraints } = view.job.brief ?? EMPTY;
  view.form = form;
  const { replaces } = view.job;
  setText(byId("brief-about"), replaces === null ? "" : `Yours takes the place of the one from ${replaces}.`);
  byId("brief-mission").value = mission;
  byId("brief-constraints").value = constraints.map((text) => text.replaceAll(/\s+/g, " ")).join("\n");
  const { constraints: most, constraintCharacters, references } = form.caps;
  setText(byId("brief-constraints-hint"), `One a line, at most ${most} of at most ${constraintCharacters} characters.`);
  setText(byId("brief-references-hint"), `At most ${references}. daily and peers need an entry: a date, a name.`);
  byId("brief-references").replaceChildren();
  for (const reference of sharedMemory) addReference(view, reference);
  drawCount(view);
  byId("brief-fields").hidden = false;
}

function drawCount({ form }) {
  const bytes = encoder.encode(byId("brief-mission").value).length;
  setText(byId("brief-mission-hint"), `${bytes} of ${form.caps.missionBytes} bytes.`);
  byId("brief-mission-hint").classList.toggle("over", bytes > form.caps.missionBytes);
}

/** One row of the list; returns what is to be filled in first. */
function addReference({ form }, { tier, key = "", reason }) {
  const choice = el("select", { "aria-label": "Memory" }, ...form.tiers.map((name) => el("option", { value: name }, name)));
  choice.value = tier;
  const entry = el("input", { type: "text", "aria-label": "Entry", placeholder: "entry", maxlength: "120", autocomplete: "off" });
  entry.value = key;
  const why = el("input", { type: "text", "aria-label": "Why it needs it", placeholder: "why it needs it", autocomplete: "off" });
  why.value = reason;
  const drop = () => {
    row.remove();
    byId("brief-add").focus();
  };
  const remove = el("button", { class: "icon", type: "button", "aria-label": "Remove this reference", onclick: drop }, "✕");
  const row = el("li", { class: "brief-reference" }, choice, entry, why, remove);
  byId("brief-references").append(row);
  return choice;
}

function say(problem) {
  byId("brief-problem").hidden = problem === "";
  setText(byId("brief-problem"), problem);
}

function leave(view) {
  view.job = null;
  byId("brief-sheet").close();
  view.hooks.onSignedOut();
}

const written = () => ({
  mission: byId("brief-mission").value,
  sharedMemory: [...byId("brief-references").children].map(({ children: [tier, key, reason] }) => ({
    tier: tier.value,
    ...(key.value.trim() === "" ? {} : { key: key.value.trim() }),
    reason: reason.value,
  })),
  constraints: byId("brief-constraints")
    .value.split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== ""),
});

/** Somebody was first: what stands there now is said, and after that it may be replaced. */
async function lookAgain({ hooks }, job, problem) {
  hooks.onChanged();
  const { briefing } = await getJson(`/api/runs/${job.runId}`).catch(() => ({ briefing: null }));
  if (briefing?.isOpen !== true) return;
  const now = briefing.briefs.map(({ from, mission }) => `“${mission}” (from ${from})`).join(" and ") || "there is none";
  job.version = briefing.version;
  say(`${problem} Now: ${now}. Save once more to go ahead with yours.`);
}

async function save(view) {
  const { job } = view;
  if (view.isBusy || job === null || byId("brief-fields").hidden) return;
  view.isBusy = true;
  say("");
  try {
    const { runId, version, replaces } = job;
    toast((await postJson(`/api/runs/${runId}/brief`, { version, replaces, brief: written() })).text);
    view.job = null;
    byId("brief-sheet").close();
    view.hooks.onChanged();
  } catch (error) {
    if (error instanceof SignedOut) return leave(view);
    say(error.message);
    if (error instanceof Refused && error.status === 409) await lookAgain(view, job, error.message);
  } finally {
    view.isBusy = false;
  }
}
