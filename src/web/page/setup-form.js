// One form of set-up: fields, trying them, saving them. What was typed is kept in `drafts` by the form's key until it is saved or
// discarded, whatever is looked at meanwhile; it is never kept beyond the tab, since secrets are among it.
import { html, nothing } from "/lib/lit-html/lit-html.js";
import { fieldTemplate, linkTemplate, visibleFields } from "./setup-fields.js";

/** Its answers may take as long as a slow model. */
export const TEST_MS = 45_000;

export const formKey = (section, item) => `${section}/${item ?? "+"}`;

/** `form`: {key, section, item, fields, canRemove, isTested, submit}. `state`: {draft, busy, result, asks}. `act`: what the buttons do. */
export function formTemplate(form, state, act) {
  const id = `setup-${form.section}-${form.item ?? "new"}`;
  const problems = problemsOf(form.fields, state.result);
  const visible = visibleFields(form.fields, state.draft);
  const field = (one) => fieldTemplate(one, { id, draft: state.draft, problem: problems.get(one.name), onInput: act.onInput });
  const rare = visible.filter(({ isRare }) => isRare);
  const isTouched = Object.keys(state.draft).length > 0;
  const isBusy = state.busy !== null;
  return html`<form
    class="setup-form"
    data-key=${form.key}
    autocomplete="off"
    @submit=${(event) => {
      event.preventDefault();
      act.onSave(false);
    }}
  >
    ${visible.filter(({ isRare }) => !isRare).map(field)}
    ${
      rare.length === 0
        ? nothing
        : html`<details class="setup-rare" ?open=${rare.some(({ name }) => Object.hasOwn(state.draft, name))}>
          <summary>Advanced</summary>
          ${rare.map(field)}
        </details>`
    }
    ${resultTemplate(state, problems)} ${asksTemplate(form, state, act)}
    <div class="setup-buttons">
      <button class="primary" type="submit" aria-disabled=${isBusy || !isTouched}>${state.busy === "save" ? "Saving…" : form.submit}</button>
      ${
        form.isTested
          ? html`<button type="button" aria-disabled=${isBusy} @click=${act.onTest}>${state.busy === "test" ? "Trying…" : "Test"}</button>`
          : nothing
      }
      ${isTouched ? html`<button type="button" ?disabled=${isBusy} @click=${act.onDiscard}>Discard</button>` : nothing}
      ${form.canRemove ? html`<button class="danger" type="button" ?disabled=${isBusy} @click=${act.onRemove}>Remove…</button>` : nothing}
    </div>
  </form>`;
}

/** What is to blame is said beside it: by the field a test names, or by the label a refusal begins with. */
function problemsOf(fields, result) {
  const found = new Map();
  if (result === null || result.isOk) return found;
  const named = fields.find(({ name, label }) => name === result.field || result.lines[0]?.startsWith(`${label}: `));
  if (named !== undefined) found.set(named.name, result.lines[0].replace(`${named.label}: `, ""));
  return found;
}

function resultTemplate({ result, busy }, problems) {
  // There from the start: what appears together with its words is not read out.
  const shown = busy === null && result !== null;
  const lines = !shown ? [] : problems.size > 0 && !result.isOk ? result.lines.slice(1) : result.lines;
  const isEmpty = lines.length === 0 && (!shown || result.link === undefined);
  return html`<div class="setup-result ${result?.isOk ? "good" : "bad"}" role="status" ?data-empty=${isEmpty}>
    ${shown && problems.size > 0 ? html`<span class="off-screen">${[...problems.values()].join(" ")}</span>` : nothing}
    ${lines.map((line) => html`<p>${line}</p>`)} ${shown ? linkTemplate(result.link) : nothing}
  </div>`;
}

/** The second press: saving although the test failed, removing what is stored. */
function asksTemplate(form, { asks, busy }, act) {
  if (asks === null || busy !== null) return nothing;
  const [words, label, go] = {
    insist: ["The test failed, so nothing was saved.", "Save all the same", () => act.onSave(true)],
    empty: ["A stored secret was emptied: saving removes it from .env.", "Remove it and save", () => act.onSave(asks.isInsisted, true)],
    remove: [`This removes ${form.item} from the settings.`, "Remove it", act.onRemoveSurely],
  }[asks.what];
  return html`<div class="setup-asks" role="group" aria-label="One more press">
    <p>${words}</p>
    <button class="small danger" type="button" @click=${go}>${label}</button>
    <button class="small" type="button" @click=${act.onKeep}>${asks.what === "empty" ? "Keep it" : "Leave it"}</button>
  </div>`;
}
