// Who waits to be let in: the name and id they came with, the code they were shown, and the operator's yes. There is
// nothing to see while nobody waits.
import { byId, el, setText, toast } from "./dom.js";
import { postJson, SignedOut } from "./wire.js";

/** `onSignedOut()`. Returns what takes the list of those that wait. */
export function createPairing(onSignedOut) {
  let waiting = [];
  const draw = () => {
    const valid = waiting.filter(({ expiresAt }) => expiresAt > Date.now());
    byId("pairing").hidden = valid.length === 0;
    const badge = byId("pairing-badge");
    badge.hidden = valid.length === 0;
    setText(badge, `${valid.length} waiting`);
    const list = byId("pairing-list");
    const known = new Set(valid.map(({ code }) => code));
    for (const node of [...list.children]) if (!known.has(node.dataset.code)) node.remove();
    const shown = new Set([...list.children].map((node) => node.dataset.code));
    list.append(...valid.filter(({ code }) => !shown.has(code)).map((person) => personNode(person, approve)));
  };
  const approve = async (person, button) => {
    button.disabled = true;
    try {
      await postJson("/api/pairing", { code: person.code });
      waiting = waiting.filter(({ code }) => code !== person.code);
      draw();
      toast(`${nameOf(person)} may talk to Herald now.`);
    } catch (error) {
      button.disabled = false;
      if (error instanceof SignedOut) onSignedOut();
      else toast(`That did not work: ${error.message}`);
    }
  };
  setInterval(draw, 10_000);
  return (next) => {
    waiting = next;
    draw();
  };
}

const nameOf = ({ senderName }) => senderName || "Somebody without a name";

function personNode(person, approve) {
  const button = el("button", { class: "small primary", type: "button", onclick: () => void approve(person, button) }, "Approve");
  return el(
    "li",
    { class: "person", "data-code": person.code },
    el("bdi", { class: "person-name" }, nameOf(person)),
    el("span", { class: "faint" }, `${person.channel} ${person.senderId}`),
    el("div", { class: "person-row" }, el("code", { title: "The code they were shown" }, person.code), button),
  );
}
