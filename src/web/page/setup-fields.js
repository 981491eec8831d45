// One field of set-up: its label, its control, its help, and beside it what is wrong. A secret that is set is shown as dots, which are
// never sent: only what was touched is, and an emptied one is asked about first.

import { live } from "/lib/lit-html/directives/live.js";
import { html, nothing } from "/lib/lit-html/lit-html.js";

const DOTS = "••••••••••••";

/** What stands in the field: what was typed, else what counts. */
const shownValue = (field, draft) => (Object.hasOwn(draft, field.name) ? draft[field.name] : field.value);

/** Those that belong to what is chosen in the others. */
export function visibleFields(fields, draft) {
  const chosen = (name) => {
    const field = fields.find((one) => one.name === name);
    return field === undefined ? undefined : shownValue(field, draft);
  };
  return fields.filter(({ shownFor }) => shownFor === undefined || shownFor.values.includes(chosen(shownFor.field)));
}

/** `id` is the form's; `onInput(name, value)` with undefined for "as it was". */
export function fieldTemplate(field, { id, draft, problem, onInput }) {
  const own = `${id}-${field.name.replaceAll(":", "-")}`;
  const about = `${own}-help${problem === undefined ? "" : ` ${own}-problem`}`;
  const control = { own, about, problem, value: shownValue(field, draft), onInput: (value) => onInput(field.name, value) };
  const isSwitch = field.kind === "switch";
  return html`<div class="field ${isSwitch ? "field-switch" : ""}">
    <label for=${own}>${field.label}</label>
    ${CONTROLS[field.kind](field, control)}
    <p class="faint hint" id="${own}-help">${field.fixed ?? field.help} ${linkTemplate(field.link)}</p>
    ${problem === undefined ? nothing : html`<p class="field-problem" id="${own}-problem">${problem}</p>`}
  </div>`;
}

export const linkTemplate = (link) =>
  link === undefined ? nothing : html`<a href=${link.url} target="_blank" rel="noopener noreferrer">${link.text}</a>`;

const CONTROLS = {
  text: (field, control) => html`<input
      id=${control.own}
      type="text"
      autocomplete="off"
      spellcheck="false"
      autocapitalize="off"
      aria-describedby=${control.about}
      aria-invalid=${control.problem === undefined ? nothing : "true"}
      list=${field.suggestions?.length ? `${control.own}-list` : nothing}
      placeholder=${field.placeholder ?? nothing}
      .value=${live(control.value)}
      @input=${(event) => control.onInput(event.target.value === field.value ? undefined : event.target.value)}
    />${
      field.suggestions?.length
        ? html`<datalist id="${control.own}-list">${field.suggestions.map((one) => html`<option value=${one}></option>`)}</datalist>`
        : nothing
    }`,
  number: (field, control) => html`<input
    id=${control.own}
    type="text"
    inputmode="decimal"
    autocomplete="off"
    aria-describedby=${control.about}
    aria-invalid=${control.problem === undefined ? nothing : "true"}
    placeholder=${field.placeholder ?? nothing}
    .value=${live(control.value)}
    @input=${(event) => control.onInput(event.target.value === field.value ? undefined : event.target.value)}
  />`,
  list: (field, control) => html`<textarea
    id=${control.own}
    rows=${Math.min(8, Math.max(2, control.value.length + 1))}
    autocomplete="off"
    spellcheck="false"
    aria-describedby=${control.about}
    aria-invalid=${control.problem === undefined ? nothing : "true"}
    .value=${live(control.value.join("\n"))}
    @input=${(event) => {
      const text = event.target.value;
      control.onInput(text === field.value.join("\n") ? undefined : text.split("\n"));
    }}
  ></textarea>`,
  choice: (field, control) => html`<select
    id=${control.own}
    aria-describedby=${control.about}
    @change=${(event) => control.onInput(event.target.value === field.value ? undefined : event.target.value)}
  >
    ${field.options.map(({ value, label }) => html`<option value=${value} .selected=${live(value === control.value)}>${label}</option>`)}
  </select>`,
  switch: (field, control) => html`<input
    id=${control.own}
    type="checkbox"
    role="switch"
    aria-describedby=${control.about}
    .checked=${live(control.value)}
    @change=${(event) => control.onInput(event.target.checked === field.value ? undefined : event.target.checked)}
  />`,
  secret: secretControl,
};

/** `value` is true: there is one; false: none; a text: typed; null: emptied. */
function secretControl(field, control) {
  const shown = control.value === true ? DOTS : typeof control.value === "string" ? control.value : "";
  const typed = (event) => {
    // Typed behind the dots or in their midst: they were never part of it.
    const text = event.target.value.replaceAll("•", "");
    if (text !== "") return control.onInput(text);
    control.onInput(field.value && event.target.value === "" ? null : undefined);
  };
  return html`<input
    id=${control.own}
    type="password"
    autocomplete="new-password"
    spellcheck="false"
    aria-describedby=${control.about}
    aria-invalid=${control.problem === undefined ? nothing : "true"}
    placeholder=${field.value ? nothing : "not set"}
    ?disabled=${field.fixed !== undefined}
    .value=${live(shown)}
    @focus=${(event) => control.value === true && event.target.select()}
    @input=${typed}
  />`;
}
