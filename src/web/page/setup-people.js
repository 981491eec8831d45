// The parts of set-up that change no settings: people, signed-in browsers, machines.
import { html, nothing } from "/lib/lit-html/lit-html.js";
import { byId, toast } from "./dom.js";
import { postJson, SignedOut } from "./wire.js";
import { fullTime } from "./words.js";

const nameOf = ({ senderName }) => senderName || "Somebody without a name";

/** `people`: {waiting, people}. */
export function peopleTemplate({ waiting, people }, onSignedOut) {
  const act = async (path, body, said) => {
    try {
      await postJson(path, body);
      toast(said);
    } catch (error) {
      if (error instanceof SignedOut) onSignedOut();
      else toast(`That did not work: ${error.message}`);
    }
  };
  const decide = (person, decision) =>
    act(
      "/api/pairing",
      { code: person.code, decision },
      `${nameOf(person)} ${decision === "approve" ? "may talk to Herald now and is told so." : "is not let in and is told so once."}`,
    );
  const revoke = (person) => {
    const { channel, account, senderId } = person;
    const outcome = person.state === "paired" ? "may no longer talk to Herald." : "may ask again.";
    return act("/api/pairing/revoke", { channel, account, senderId }, `${nameOf(person)} ${outcome}`);
  };
  const open = waiting.filter(({ expiresAt }) => expiresAt > Date.now());
  return html`<p class="setup-about">Who may talk to Herald. Whoever writes for the first time is shown a code; it appears here for an hour.</p>
    ${group("Waiting", open, "Nobody waits. Write to the bot to be shown a code.", (person) =>
      personTemplate(person, html`code <code>${person.code}</code>`, [
        ["Let in", "primary", () => decide(person, "approve")],
        ["Refuse", "", () => decide(person, "refuse")],
      ]),
    )}
    ${group("Let in", of(people, "paired"), "Nobody yet.", (person) =>
      personTemplate(person, `since ${fullTime(person.at)}`, [["Revoke", "danger", () => revoke(person)]]),
    )}
    ${group("Refused", of(people, "refused"), "", (person) =>
      personTemplate(person, fullTime(person.at), [["Let them ask again", "", () => revoke(person)]]),
    )}`;
}

const of = (people, state) => people.filter((person) => person.state === state);

const group = (title, list, empty, item) =>
  list.length === 0 && empty === ""
    ? nothing
    : html`<section class="setup-group">
        <h3>${title}</h3>
        ${list.length === 0 ? html`<p class="faint">${empty}</p>` : html`<ul class="plain-list">${list.map(item)}</ul>`}
      </section>`;

const personTemplate = (person, about, buttons) => html`<li class="setup-line">
  <div><bdi class="setup-name">${nameOf(person)}</bdi> <span class="faint">${person.channel} ${person.senderId}, ${about}</span></div>
  <div class="setup-buttons">
    ${buttons.map(
      ([label, kind, onClick]) =>
        html`<button class="small ${kind}" type="button" aria-label="${label}: ${nameOf(person)}" @click=${onClick}>${label}</button>`,
    )}
  </div>
</li>`;

export const browsersTemplate =
  () => html`<p class="setup-about">Every browser that is signed in to this page, and the way out for each.</p>
  <div class="setup-buttons"><button type="button" @click=${() => byId("open-browsers").click()}>Show signed-in browsers</button></div>`;

const ROLE = { all: "page, channels and work", gateway: "page and channels", worker: "work" };

export const machinesTemplate = (nodes) => html`<p class="setup-about">The processes that work together on one database.</p>
  <ul class="plain-list">
    ${nodes.map(
      ({ name, role, version, isFront }) =>
        html`<li class="setup-line"><div><b>${name}</b> <span class="faint">${ROLE[role] ?? role}, Herald ${version}${isFront ? ", in front" : ""}</span></div></li>`,
    )}
  </ul>`;
