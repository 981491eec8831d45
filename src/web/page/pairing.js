// People: who waits to be let in, with the code they were shown and the operator's yes or no; and below it who was let in or
// refused, where that can be taken back. There is nothing to see while there is nobody.
import { byId, el, setText, toast } from "./dom.js";
import { postJson, SignedOut } from "./wire.js";

/** `onSignedOut()`. Returns what takes `{waiting, people}`. */
export function createPairing(onSignedOut) {
  let now = { waiting: [], people: [] };
  const draw = () => {
    const waiting = now.waiting.filter(({ expiresAt }) => expiresAt > Date.now());
    byId("pairing").hidden = waiting.length === 0;
    const badge = byId("pairing-badge");
    badge.hidden = waiting.length === 0;
    setText(badge, `${waiting.length} waiting`);
    fill(
      byId("pairing-list"),
      waiting,
      ({ code }) => code,
      (person) => waitingNode(person, decide),
    );
    byId("people").hidden = now.people.length === 0;
    setText(byId("people-count"), String(now.people.length));
    fill(byId("people-list"), now.people, keyOf, (person) => personNode(person, revoke));
  };
  const act = async (button, path, body, said) => {
    const buttons = [...button.parentElement.querySelectorAll("button")];
    for (const one of buttons) one.disabled = true;
    try {
      await postJson(path, body);
      toast(said);
    } catch (error) {
      for (const one of buttons) one.disabled = false;
      if (error instanceof SignedOut) onSignedOut();
      else toast(`That did not work: ${error.message}`);
    }
  };
  const decide = (person, decision, button) => {
    const outcome = decision === "approve" ? "may talk to Herald now and is told so." : "is not let in and is told so once.";
    return act(button, "/api/pairing", { code: person.code, decision }, `${nameOf(person)} ${outcome}`);
  };
  const revoke = ({ channel, account, senderId, senderName, state }, button) => {
    const outcome = state === "paired" ? "may no longer talk to Herald." : "may ask again.";
    return act(button, "/api/pairing/revoke", { channel, account, senderId }, `${nameOf({ senderName })} ${outcome}`);
  };
  setInterval(draw, 10_000);
  return (next) => {
    now = next;
    draw();
  };
}

/** Nodes that stay keep their place and their focus. */
function fill(list, items, keyFor, make) {
  const known = new Map([...list.children].map((node) => [node.dataset.key, node]));
  const nodes = items.map((item) => {
    const key = keyFor(item);
    const node = known.get(key) ?? make(item);
    node.dataset.key = key;
    return node;
  });
  for (const node of known.values()) if (!nodes.includes(node)) node.remove();
  for (const [n, node] of nodes.entries()) if (list.children[n] !== node) list.insertBefore(node, list.children[n] ?? null);
}

const keyOf = ({ channel, account, senderId, state }) => JSON.stringify([channel, account, senderId, state]);
const nameOf = ({ senderName }) => senderName || "Somebody without a name";

function waitingNode(person, decide) {
  const button = (label, decision, kind) =>
    el("button", { class: `small ${kind}`, type: "button", onclick: ({ target }) => void decide(person, decision, target) }, label);
  return el(
    "li",
    { class: "person waiting" },
    el("bdi", { class: "person-name" }, nameOf(person)),
    el("span", { class: "faint" }, `${person.channel} ${person.senderId}`),
    el("code", { title: "The code they were shown" }, person.code),
    el("div", { class: "person-row" }, button("Refuse", "refuse", ""), button("Approve", "approve", "primary")),
  );
}

function personNode(person, revoke) {
  const label = person.state === "paired" ? "Revoke" : "Let them ask again";
  const since = `${person.state === "paired" ? "let in" : "refused"} ${new Date(person.at).toLocaleDateString()}`;
  return el(
    "li",
    { class: "person" },
    el("bdi", { class: "person-name" }, nameOf(person)),
    el("span", { class: "faint" }, `${person.channel} ${person.senderId}, ${since}`),
    el(
      "div",
      { class: "person-row" },
      el("button", { class: "small", type: "button", onclick: ({ target }) => void revoke(person, target) }, label),
    ),
  );
}
