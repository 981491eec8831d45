// The machines that work together, where there are several: what each does, how much it has to do, when it was last seen.
import { byId, el, setText } from "./dom.js";

const ROLE = { all: "page, channels and work", gateway: "page and channels", worker: "work" };
/** Each says that it is alive every few seconds. */
const LATE_MS = 6_000;

export function showMachines(nodes) {
  byId("machines").hidden = nodes.length === 0;
  setText(byId("machines-count"), String(nodes.length));
  byId("machines-list").replaceChildren(...nodes.map(toItem));
}

function toItem({ name, role, version, isFront, turns, runs, seenAt }) {
  const ageMs = Math.max(0, Date.now() - seenAt);
  const seen = ageMs < LATE_MS ? "alive" : `seen ${Math.round(ageMs / 1000)} s ago`;
  const work = [
    turns > 0 && `${turns} ${turns === 1 ? "turn" : "turns"}`,
    runs > 0 && `${runs} ${runs === 1 ? "sub-agent" : "sub-agents"}`,
  ];
  const doing = work.filter(Boolean).join(", ") || "idle";
  const title = el("div", { class: "machine-head" }, el("strong", {}, name), el("span", { class: "faint" }, `${version} · ${seen}`));
  const line = el("p", { class: "run-line faint" }, `${ROLE[role] ?? role}${isFront ? ", in front" : ""} · ${doing}`);
  return el("li", { class: "machine" }, title, line);
}
