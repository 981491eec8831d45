// The page's entry: sign in, then the chat the URL names. Puts the parts together; each part keeps to its own corner.
import { openChat } from "./chat.js";
import { createComposer } from "./composer.js";
import { byId, el, newId, setText, toast } from "./dom.js";
import { scrollToEnd } from "./message-list.js";
import { createRunList } from "./run-list.js";
import { createSidebar } from "./sidebar.js";
import { showSignIn, signIn, takeTokenFromUrl } from "./sign-in.js";
import { SignedOut } from "./wire.js";

const CHAT = /^#chat=(main|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;
const EXAMPLES = ["Read README.md and tell me what it is about", "In the background, summarise src and count its lines", "/help"];

/** The chat on screen; `opening` counts, so that a slow answer for a chat left behind is dropped. */
const now = { chat: null, opening: 0 };

const composer = createComposer((text) => now.chat?.send(text));
const sidebar = createSidebar(() => {
  location.hash = `chat=${newId()}`;
});
const showRuns = createRunList((inChat, command) => now.chat?.pressIn(inChat, command));

const currentChat = () => CHAT.exec(location.hash)?.[1] ?? "main";

async function open(id = currentChat()) {
  const turn = ++now.opening;
  now.chat?.close();
  now.chat = null;
  sidebar.select(id);
  composer.open(id);
  try {
    const opened = await openChat(id, {
      onSignedOut: () => signOut(""),
      onChats: sidebar.showChats,
      onRuns: showRuns,
      onStatus: showStatus,
      onAgentMessage,
    });
    // Somebody clicked on: this chat is not wanted any more.
    if (turn !== now.opening) return opened.close();
    now.chat = opened;
    byId("app").hidden = false;
    // What was drawn while hidden had no height to scroll in.
    scrollToEnd();
    composer.open(id);
    if (matchMedia("(pointer: fine)").matches) composer.focus();
  } catch (error) {
    if (turn !== now.opening) return;
    if (error instanceof SignedOut) return signOut("");
    byId("app").hidden = false;
    byId("banner").textContent = "Herald can't be reached. Trying again…";
    byId("banner").hidden = false;
    setTimeout(() => turn === now.opening && open(id), 2000);
  }
}

function signOut(reason) {
  now.opening++;
  now.chat?.close();
  now.chat = null;
  showSignIn(reason, () => void open());
}

function showStatus({ version, model }) {
  setText(byId("about"), `${model} · Herald ${version}`);
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
  await open();
}

for (const example of EXAMPLES) {
  byId("examples").append(el("button", { type: "button", onclick: () => composer.fill(example) }, example));
}
byId("stop").addEventListener("click", () => now.chat?.press("/stop"));
byId("earlier").addEventListener("click", () => now.chat?.showEarlier());
byId("scroll").addEventListener("scroll", () => byId("scroll").scrollTop < 120 && now.chat?.showEarlier());
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  composer.focus();
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") document.title = "Herald";
});
window.addEventListener("hashchange", () => void (location.hash.startsWith("#token=") ? start() : open()));
window.addEventListener("unhandledrejection", (event) => toast(`Something went wrong: ${event.reason?.message ?? event.reason}`));
void start();
