// The page's entry: sign in, then the chat and the run the URL names. Puts the parts together; each keeps to its own
// corner.
import { createBrowsers } from "./browsers.js";
import { openChat } from "./chat.js";
import { createComposer } from "./composer.js";
import { byId, el, newId, setText, toast } from "./dom.js";
import { showMachines } from "./machines.js";
import { scrollToEnd } from "./message-list.js";
import { createPairing } from "./pairing.js";
import { createRunList } from "./run-list.js";
import { createRunPanel } from "./run-panel.js";
import { createSidebar } from "./sidebar.js";
import { showSignIn, signIn, takeTokenFromUrl } from "./sign-in.js";
import { onSignedInElsewhere, postJson, SignedOut } from "./wire.js";

const UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";
const CHAT = new RegExp(`^(?:main|${UUID})$`);
const RUN = new RegExp(`^${UUID}$`);
const EXAMPLES = [
  "Read README.md and tell me what it is about",
  "In the background, summarise the files here and count their lines",
  "/help",
];

/** The chat on screen; null while nobody is signed in. */
const now = { chat: null, chatId: null };

const composer = createComposer((text) => now.chat?.send(text));
const sidebar = createSidebar(() => go({ chat: newId(), run: null }));
const onSignedOut = () => signOut("");
const onCommand = (inChat, command) => now.chat?.pressIn(inChat, command);
const onRetry = async (id) => {
  try {
    toast((await postJson(`/api/runs/${id}/retry`, {})).text);
  } catch (error) {
    if (error instanceof SignedOut) onSignedOut();
    else toast(`That did not work: ${error.message}`);
  }
};
const showPairing = createPairing(onSignedOut);
createBrowsers(onSignedOut);
const panel = createRunPanel({ onCommand, onRetry, onSignedOut, onClose: () => go({ ...placeOf(), run: null }) });
const runList = createRunList({ onCommand, onRetry, nameOfChat: sidebar.nameOfChat, onOpen: (run) => go({ ...placeOf(), run }) });

/** What the URL names. Both parts are optional: `#chat=<id>&run=<id>`. */
function placeOf() {
  const named = new URLSearchParams(location.hash.slice(1));
  const [chat, run] = [named.get("chat") ?? "", named.get("run") ?? ""];
  return { chat: CHAT.test(chat) ? chat : "main", run: RUN.test(run) ? run : null };
}

function go({ chat, run }) {
  const parts = [chat === "main" ? null : `chat=${chat}`, run === null ? null : `run=${run}`].filter((part) => part !== null);
  history.pushState(null, "", parts.length === 0 ? location.pathname : `#${parts.join("&")}`);
  follow();
}

/** Shows what the URL names; a chat that is open already stays as it is. */
function follow() {
  const { chat, run } = placeOf();
  if (now.chat === null || now.chatId !== chat) void open(chat);
  showRun(run);
}

function showRun(id) {
  const opener = panel.isOpen() ? document.querySelector("#runs [aria-current]") : null;
  runList.select(id);
  if (id !== null) sidebar.close();
  panel.show(id);
  // Back to where it was opened from.
  if (id === null && opener !== null) (opener.closest("[inert]") === null ? opener : byId("open-sidebar")).focus();
}

async function open(id) {
  now.chat?.close();
  const chat = openChat(id, {
    onSignedOut,
    onChats(chats) {
      sidebar.showChats(chats);
      runList.redraw();
    },
    onRuns(runs) {
      runList.show(runs);
      panel.showRuns(runs);
    },
    onRun: panel.changed,
    onPairing: showPairing,
    onStatus: showStatus,
    onNodes: showMachines,
    onAgentMessage,
    onConnected: panel.refresh,
  });
  now.chat = chat;
  now.chatId = id;
  sidebar.select(id);
  composer.open(id);
  try {
    await chat.ready;
    if (now.chat !== chat) return;
    const isFirst = byId("app").hidden;
    byId("app").hidden = false;
    if (isFirst) showFirst(id);
    if (matchMedia("(pointer: fine)").matches && !panel.isOpen()) composer.focus();
  } catch (error) {
    if (now.chat !== chat) return;
    if (error instanceof SignedOut) return signOut("");
    byId("app").hidden = false;
    byId("banner").textContent = "Herald can't be reached. Trying again…";
    byId("banner").hidden = false;
    setTimeout(() => now.chat === chat && open(id), 2000);
  }
}

/** What was drawn while hidden had no height. */
function showFirst(id) {
  scrollToEnd();
  composer.open(id);
}

function signOut(reason) {
  now.chat?.close();
  now.chat = null;
  panel.show(null);
  showSignIn(reason, follow);
}

function showStatus({ version, model, problem }) {
  setText(byId("about"), `${model} · Herald ${version}`);
  setText(byId("problem"), problem ?? "");
  byId("problem").hidden = problem === null;
}

function onAgentMessage() {
  if (document.visibilityState === "hidden") document.title = "● Herald";
}

async function start() {
  const token = takeTokenFromUrl();
  if (token !== null) {
    try {
      await signIn(token);
    } catch (error) {
      return signOut(error.message);
    }
  }
  byId("sign-in").hidden = true;
  follow();
}

for (const example of EXAMPLES) {
  byId("examples").append(el("button", { type: "button", onclick: () => composer.fill(example) }, example));
}
byId("stop").addEventListener("click", () => now.chat?.stopAnswer());
byId("earlier").addEventListener("click", () => now.chat?.showEarlier());
byId("scroll").addEventListener("scroll", () => byId("scroll").scrollTop < 120 && now.chat?.showEarlier());
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  composer.focus();
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") document.title = "Herald";
});
window.addEventListener("hashchange", () => void (location.hash.startsWith("#token=") ? start() : follow()));
window.addEventListener("unhandledrejection", (event) => toast(`Something went wrong: ${event.reason?.message ?? event.reason}`));
onSignedInElsewhere(() => byId("sign-in").hidden || void start());
void start();
