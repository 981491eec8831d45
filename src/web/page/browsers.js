// Signed-in browsers: which they are, where and when each was last seen, and the way out for each, for all others and for
// this one.
import { byId, el, toast } from "./dom.js";
import { getJson, keepKey, postJson, SignedOut } from "./wire.js";
import { duration, fullTime } from "./words.js";

/** `onSignedOut()` when this one is signed out. */
export function createBrowsers(onSignedOut) {
  const dialog = byId("browsers");
  const attempt = async (work) => {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof SignedOut)) return toast(`That did not work: ${error.message}`);
      dialog.close();
      onSignedOut();
    }
  };
  const draw = () =>
    attempt(async () => {
      const { browsers } = await getJson("/api/browsers");
      const end = (id) => attempt(() => postJson("/api/browsers/end", { id })).then(draw);
      byId("browsers-list").replaceChildren(...browsers.map((browser) => browserNode(browser, end)));
      byId("browsers-others").hidden = browsers.every(({ isThis }) => isThis);
    });
  const signOut = () =>
    attempt(async () => {
      await postJson("/api/logout", {});
      keepKey(null);
      dialog.close();
      onSignedOut();
    });
  byId("open-browsers").addEventListener("click", () => {
    dialog.showModal();
    void draw();
  });
  byId("browsers-close").addEventListener("click", () => dialog.close());
  byId("browsers-others").addEventListener("click", () => void attempt(() => postJson("/api/browsers/end", { others: true })).then(draw));
  byId("sign-out").addEventListener("click", () => void signOut());
}

function browserNode({ id, agent, signedInAt, seenAt, seenFrom, isThis }, onEnd) {
  const button = el("button", { class: "small", type: "button", onclick: () => void onEnd(id) }, "Sign out");
  const seen = isThis ? "this browser" : `last seen ${duration(Date.now() - seenAt)} ago`;
  return el(
    "li",
    { class: "browser" },
    el(
      "div",
      {},
      el("b", { title: agent }, nameOf(agent)),
      el("div", { class: "faint", title: `Signed in ${fullTime(signedInAt)}` }, `${seen} · from ${seenFrom}`),
    ),
    isThis ? null : button,
  );
}

const BROWSERS = [
  ["Edg/", "Edge"],
  ["OPR/", "Opera"],
  ["Firefox/", "Firefox"],
  ["Chrome/", "Chrome"],
  ["Safari/", "Safari"],
];
const SYSTEMS = ["Android", "iPhone", "iPad", "Windows", "Mac OS X", "Linux"];

/** `Firefox on Linux`; what it says of itself when that is neither. */
function nameOf(agent) {
  const browser = BROWSERS.find(([mark]) => agent.includes(mark))?.[1];
  const system = SYSTEMS.find((name) => agent.includes(name));
  if (browser === undefined) return agent.slice(0, 60) || "A browser without a name";
  return system === undefined ? browser : `${browser} on ${system.replace("Mac OS X", "macOS")}`;
}
