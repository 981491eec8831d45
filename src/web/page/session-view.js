// The view of a conversation on another channel (WB4): what was said there, its runs, stopping it, and saying something there. The answer
// goes to that channel and stands here.

import { guard } from "/lib/lit-html/directives/guard.js";
import { ref } from "/lib/lit-html/directives/ref.js";
import { repeat } from "/lib/lit-html/directives/repeat.js";
import { html, nothing, render } from "/lib/lit-html/lit-html.js";
import { setServerHtml, toast } from "./dom.js";
import { addressOf } from "./place.js";
import { originText } from "./run-words.js";
import { viewHead } from "./view-head.js";
import { getJson, postJson, postOnce, Refused, SignedOut } from "./wire.js";
import { clockTime, dayName, fullTime } from "./words.js";

const EVERY_MS = 3_000;

export function createSessionView(root, hooks) {
  const view = { root, hooks, id: null, ...nobody() };
  setInterval(() => view.id !== null && document.visibilityState === "visible" && void refresh(view), EVERY_MS);
  return {
    show({ session }) {
      if (session === view.id) return;
      Object.assign(view, { id: session, ...nobody() });
      draw(view);
      void refresh(view);
    },
    hide() {
      view.id = null;
    },
    hear(name) {
      if (name === "connected" && view.id !== null) void refresh(view);
    },
  };
}

/** `asked`: what earlier ones are being loaded for. */
const nobody = () => ({ session: null, entries: [], before: null, asked: null, problem: "", isBusy: false, isSure: false });

/** `onProblem(text)`: instead of a line above the messages, which the next reading takes away. */
async function attempt(view, work, onProblem = (text) => Object.assign(view, { problem: text })) {
  const { id } = view;
  try {
    const answer = await work();
    return view.id === id ? answer : null;
  } catch (error) {
    if (view.id !== id) return null;
    if (error instanceof SignedOut) {
      // Not asked for again every few seconds; whoever signs in is shown it anew.
      view.id = null;
      view.hooks.onSignedOut();
      return null;
    }
    if (error instanceof Refused && error.status === 409) toast(error.message);
    else onProblem(error.message);
    draw(view);
    return null;
  }
}

const sayFailed = (text) => toast(`That did not work: ${text}`);

async function refresh(view) {
  if (view.isBusy) return;
  view.isBusy = true;
  const read = () => Promise.all([getJson(`/api/sessions/${view.id}`), getJson(`/api/sessions/${view.id}/transcript`)]);
  const answer = await attempt(view, read);
  view.isBusy = false;
  if (answer === null) return;
  const [session, page] = answer;
  const first = page.entries[0]?.position ?? 0;
  const isFirst = view.entries.length === 0;
  const older = view.entries.filter(({ position }) => position < first);
  // After a gap only the newest page is whole.
  const isWhole = view.entries.some(({ position }) => position >= first);
  Object.assign(view, { session, problem: "", entries: isWhole ? [...older, ...page.entries] : page.entries });
  if (isFirst || !isWhole) view.before = page.before;
  const scroll = view.root.querySelector(".view-scroll");
  const isAtEnd = isFirst || (scroll !== null && scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80);
  draw(view);
  if (isAtEnd) view.root.querySelector(".view-scroll").scrollTop = Number.MAX_SAFE_INTEGER;
}

async function earlier(view) {
  const { id, before } = view;
  if (view.asked === before) return;
  view.asked = before;
  const page = await attempt(view, () => getJson(`/api/sessions/${id}/transcript?before=${before}`));
  if (view.id === id && view.asked === before) view.asked = null;
  // Meanwhile the list may have begun anew.
  if (page === null || view.before !== before) return;
  Object.assign(view, { entries: [...page.entries, ...view.entries], before: page.before });
  draw(view);
}

function draw(view) {
  const { session, problem, entries, before } = view;
  const title = session === null ? "Chat" : (session.name ?? originText(session));
  render(
    html`${viewHead({ id: "session-view-title", title, onMenu: view.hooks.onMenu }, session === null ? nothing : atEnd(view))}
      <div class="view-scroll"><div class="column">
        ${problem === "" ? nothing : html`<p class="runs-note" role="alert">${problem}</p>`}
        ${before === null ? nothing : html`<button class="small earlier" type="button" @click=${() => void earlier(view)}>Show earlier messages</button>`}
        <ol class="plain-list session-log" aria-label="Messages">${repeat(
          entries,
          ({ position }) => position,
          (entry) => guard([entry.position], () => entryOf(entry)),
        )}</ol>
        ${entries.length === 0 && session !== null ? html`<p class="faint">Nothing was said here yet.</p>` : nothing}
      </div></div>
      ${session === null ? nothing : composer(view)}`,
    view.root,
  );
}

const atEnd = (view) => html`${view.session.name === null ? nothing : html`<span class="faint">${originText(view.session)}</span>`}
  <a class="session-runs" href=${addressOf({ view: "runs", query: new Map([["chat", view.session.key]]) })}>Its runs${view.session.atWork > 0 ? ` (${view.session.atWork} at work)` : ""}</a>
  <button class="small danger" type="button" @click=${() => void stop(view)}>${view.isSure ? `Stop the answer and ${plural(view.session.atWork)}?` : "Stop…"}</button>`;

const plural = (count) => (count === 1 ? "1 sub-agent" : `${count} sub-agents`);

/** The second press does it; what it would end stands on the button. */
async function stop(view) {
  if (!view.isSure) {
    view.isSure = true;
    draw(view);
    setTimeout(() => {
      view.isSure = false;
      if (view.id !== null) draw(view);
    }, 5_000);
    return;
  }
  view.isSure = false;
  const answer = await attempt(view, () => postJson(`/api/sessions/${view.id}/stop`, {}), sayFailed);
  if (answer !== null) toast(answer.text);
  draw(view);
}

function composer(view) {
  const send = async (event) => {
    event.preventDefault();
    const input = event.currentTarget.querySelector("textarea");
    const text = input.value.trim();
    if (text === "") return;
    input.value = "";
    const answer = await attempt(view, () => postOnce(`/api/sessions/${view.id}/send`, { text }), sayFailed);
    if (answer === null) input.value ||= text;
    else toast(answer.text);
    void refresh(view);
  };
  const enter = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    event.currentTarget.form.requestSubmit();
  };
  return html`<form class="session-send" @submit=${send}><label class="off-screen" for="session-text">Say something there</label>
    <textarea id="session-text" rows="2" maxlength="16000" placeholder="Say something in ${originText(view.session)}" @keydown=${enter}></textarea>
    <button class="primary" type="submit">Send</button>
    <p class="faint">It is posted there as said on the page; the answer goes there, too.</p></form>`;
}

/** Tool calls in between are for the run's own page; here they are a line. */
function entryOf({ kind, who, at, html: words, text }) {
  const time = Date.parse(at);
  const name = kind === "said" ? "Herald" : kind === "call" ? `→ ${who}` : kind === "result" ? `← ${who}` : who;
  const body = (node) => node !== undefined && setServerHtml(node, words);
  const isTool = kind === "call" || kind === "result";
  return html`<li class="entry ${kind}">
    <div class="meta"><bdi class="who">${name}</bdi><time class="faint" datetime=${at} title=${fullTime(time)}>${dayName(time)} ${clockTime(time)}</time></div>
    ${words === undefined ? (isTool ? html`<div class="tool">${text.split("\n", 1)[0].slice(0, 160)}</div>` : html`<div class="body words">${text}</div>`) : html`<div class="body" ${ref(body)}></div>`}
  </li>`;
}
