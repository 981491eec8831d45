// The head every view beside the chat has: the menu on a phone, its name, what stands at its end.
import { html } from "/lib/lit-html/lit-html.js";

export const viewHead = ({ id, title, onMenu }, atEnd) => html`<header class="view-head">
  <button class="icon only-narrow" type="button" aria-label="Menu" aria-controls="sidebar" @click=${onMenu}>☰</button>
  <h1 id=${id} tabindex="-1">${title}</h1>
  ${atEnd}
</header>`;
