// One section of set-up: the item that most people have unfolded, the others and a new one folded below it.
import { repeat } from "/lib/lit-html/directives/repeat.js";
import { html, nothing } from "/lib/lit-html/lit-html.js";
import { copyText } from "./dom.js";
import { formKey, formTemplate } from "./setup-form.js";

/** `section`: as Herald says it. `formOf(key)`: what was typed there. `actsOf(form)`: what its buttons do. */
export function sectionTemplate(section, { formOf, actsOf }) {
  const { id, items, blank, isTested } = section;
  const formFor = (item, fields, more) => ({
    key: formKey(id, item),
    section: id,
    item,
    fields,
    isTested,
    canRemove: false,
    submit: "Save",
    ...more,
  });
  const shown = (form) => formTemplate(form, formOf(form.key), actsOf(form));
  const isPlain = (item) => blank === null || item.isFirst === true;
  // Beside one that is always open the others have the same fields: they are made when they are unfolded.
  const isLate = blank !== null && items.some(isPlain);
  const folded = (
    form,
    summary,
    isOpen = false,
  ) => html`<details class="setup-item" ?open=${isOpen} @toggle=${({ target }) => actsOf(form).onFold(target.open)}>
    <summary>${summary}</summary>
    ${isLate && formOf(form.key).isUnfolded !== true ? nothing : shown(form)}
  </details>`;
  return html`<p class="setup-about">${section.about}</p>
    ${items
      .filter(isPlain)
      .map(
        (item) =>
          html`${item.state === "" ? nothing : html`<p class="setup-state">Now: ${item.state}</p>`} ${shown(formFor(item.id, item.fields))}`,
      )}
    ${repeat(
      items.filter((item) => !isPlain(item)),
      (item) => item.id,
      (item) =>
        folded(
          formFor(item.id, item.fields, { canRemove: item.canRemove }),
          html`<b>${item.title}</b> <span class="faint">${item.state}</span>`,
        ),
    )}
    ${blank === null ? nothing : folded(formFor(null, blank.fields, { submit: "Add" }), blank.title, items.length === 0)}
    ${section.notes.map((note) => html`<p class="faint setup-note">${note}</p>`)} ${copyTemplate(section.copy)}`;
}

const copyTemplate = (copy) =>
  copy === undefined
    ? nothing
    : html`<details class="setup-item">
        <summary>${copy.label}</summary>
        <button class="small" type="button" @click=${(event) => void copyText(copy.text, event.target)}>Copy</button>
        <pre class="setup-copy" tabindex="0">${copy.text}</pre>
      </details>`;
