// The fold "Other chats" beside the page's own: the conversations of all other channels, asked for when it is opened.
import { html, nothing, render } from "/lib/lit-html/lit-html.js";
import { byId } from "./dom.js";
import { addressOf } from "./place.js";
import { originText } from "./run-words.js";
import { getJson, SignedOut } from "./wire.js";
import { clockTime, dayKey, dayName } from "./words.js";

const when = (at) => (dayKey(at) === dayKey(Date.now()) ? clockTime(at) : dayName(at));

/** `onSignedOut()`. */
export function createSessionList({ onSignedOut }) {
  const fold = byId("other-chats");
  const view = { sessions: [], next: null, current: null, problem: "", loading: null };
  const draw = () =>
    render(
      listOf(view, () => load(view.next)),
      byId("other-chats-list"),
    );
  const load = async (after) => {
    // Pressed twice it would list them twice; opened anew, only the newest answer counts.
    if (after !== null && view.loading !== null) return;
    const own = {};
    view.loading = own;
    try {
      const { sessions, next } = await getJson(`/api/sessions${after === null ? "" : `?after=${after}`}`);
      if (view.loading !== own) return;
      Object.assign(view, { sessions: after === null ? sessions : [...view.sessions, ...sessions], next, problem: "" });
    } catch (error) {
      if (view.loading !== own) return;
      if (!(error instanceof SignedOut)) view.problem = `They can't be listed: ${error.message}`;
      else onSignedOut();
    }
    view.loading = null;
    draw();
  };
  fold.addEventListener("toggle", () => fold.open && void load(null));
  return {
    /** The one on screen, or null. */
    select(id) {
      if (view.current === id) return;
      view.current = id;
      if (fold.open) draw();
    },
  };
}

const listOf = ({ sessions, next, current, problem }, onMore) => html`
  ${problem === "" ? nothing : html`<p class="faint hint" role="alert">${problem}</p>`}
  ${sessions.length === 0 && problem === "" ? html`<p class="faint hint">None yet. What is said on Telegram, Slack, Matrix, Discord and other channels stands here.</p>` : nothing}
  <ul class="plain-list">${sessions.map(
    ({
      id,
      name,
      origin,
      lastAt,
      lastWords,
      atWork,
    }) => html`<li><a class="session-link" href=${addressOf({ view: "session", session: id })} aria-current=${id === current ? "page" : nothing}>
      <span class="session-top"><bdi class="chat-name">${name ?? originText({ origin })}</bdi><span class="faint when">${when(lastAt)}</span></span>
      <span class="faint session-words">${name === null ? "" : `${originText({ origin })} · `}${atWork > 0 ? `${atWork} at work · ` : ""}${lastWords ?? ""}</span></a></li>`,
  )}</ul>
  ${next === null ? nothing : html`<button class="small" type="button" @click=${onMore}>More</button>`}`;
