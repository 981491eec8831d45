// The small windows of the board: stopping, which says what it would end and wants a second press; words for a run; more to spend; and
// the menu of a row. One of each, drawn when it is needed.
import { html, nothing, render } from "/lib/lit-html/lit-html.js";
import { ACTIONS } from "./runs-actions.js";

const nameOf = (run) => run.label || run.shortId;

/** `onClosed()`: back to where one was. */
export function createRunsSheet(onClosed) {
  const dialog = document.createElement("dialog");
  dialog.className = "sheet runs-sheet";
  dialog.setAttribute("aria-labelledby", "runs-sheet-title");
  document.body.append(dialog);
  dialog.addEventListener("close", onClosed);
  const close = () => dialog.close();
  const open = (title, body) => {
    render(
      html`<header class="sheet-head"><h2 id="runs-sheet-title">${title}</h2>
        <button class="icon" type="button" aria-label="Close" title="Close (Esc)" @click=${close}>✕</button></header>${body}`,
      dialog,
    );
    if (!dialog.open) dialog.showModal();
    dialog.querySelector("[data-first]")?.focus();
  };
  return {
    close,
    /** `onYes()`. `below`: how many more it would end. */
    confirmStop(runs, below, onYes) {
      const yes = () => {
        close();
        onYes();
      };
      const again = (event) => event.key === "s" && !event.repeat && yes();
      open(
        runs.length === 1 ? `Stop “${nameOf(runs[0])}”?` : `Stop ${runs.length} runs?`,
        html`<div class="sheet-body" @keydown=${again}>
          <p>${stopText(runs, below)}</p>
          <div class="sheet-foot"><button class="danger" type="button" @click=${yes}>${runs.length === 1 ? "Stop it" : "Stop them"}</button>
            <button type="button" data-first @click=${close}>${runs.length === 1 ? "Keep it" : "Keep them"}</button></div>
        </div>`,
      );
    },
    /** `onWords(text)`. */
    askWords({ title, label, hint, button, value = "" }, onWords) {
      const submit = (event) => {
        event.preventDefault();
        const text = dialog.querySelector("textarea, input").value.trim();
        if (text === "") return;
        close();
        onWords(text);
      };
      const enter = (event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && submit(event);
      open(
        title,
        html`<form class="sheet-body" @submit=${submit}><label for="runs-words">${label}</label>
          <textarea id="runs-words" rows="3" maxlength="16000" data-first .value=${value} @keydown=${enter}></textarea>
          ${hint === undefined ? nothing : html`<p class="faint hint">${hint}</p>`}
          <div class="sheet-foot"><button class="primary" type="submit">${button}</button><button type="button" @click=${close}>Cancel</button></div></form>`,
      );
    },
  };
}

function stopText(runs, below) {
  const own = runs.length === 1 ? "It ends where it is" : `${runs.length} of them end where they are`;
  const more = below === 0 ? "" : below === 1 ? " Stops 1 sub-agent below, too." : ` Stops ${below} sub-agents below, too.`;
  return `${own}; what they wrote so far stays.${more}`.replace("they wrote", runs.length === 1 ? "it wrote" : "they wrote");
}

/** `onAct(name, run)`, `onClosed()`. */
export function createRunsMenu({ onAct, onClosed }) {
  const menu = document.createElement("div");
  menu.className = "runs-menu";
  menu.popover = "auto";
  document.body.append(menu);
  let isPicked = false;
  menu.addEventListener("toggle", ({ newState }) => {
    if (newState !== "closed") return;
    // What was picked may have taken the focus somewhere: there it stays.
    if (!isPicked || document.activeElement === document.body) onClosed();
    isPicked = false;
  });
  menu.addEventListener("keydown", (event) => {
    const items = [...menu.querySelectorAll("button")];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Tab") menu.hidePopover();
    if (to === undefined) return;
    event.preventDefault();
    items[(to + items.length) % items.length].focus();
  });
  return {
    open(run, anchor) {
      const pick = (name) => {
        isPicked = true;
        menu.hidePopover();
        onAct(name, run);
      };
      const items = ACTIONS.filter((action) => action.isFor(run));
      render(
        html`<div role="menu" aria-label="What can be done with ${nameOf(run)}">${items.map(
          ({
            name,
            key,
            text,
            isDanger,
          }) => html`<button type="button" role="menuitem" class=${isDanger ? "danger" : ""} @click=${() => pick(name)}>
            <span>${text(run)}</span><kbd aria-hidden="true">${key}</kbd></button>`,
        )}</div>`,
        menu,
      );
      menu.showPopover();
      const { right, bottom, top } = anchor.getBoundingClientRect();
      const { width, height } = menu.getBoundingClientRect();
      menu.style.setProperty("left", `${Math.max(8, Math.min(right - width, innerWidth - width - 8))}px`);
      menu.style.setProperty("top", `${bottom + height > innerHeight - 8 ? Math.max(8, top - height) : bottom}px`);
      menu.querySelector("button")?.focus();
    },
  };
}
