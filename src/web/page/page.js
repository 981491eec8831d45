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

/** The chat on screen; null while nobody is signed in. */
const now = { chat: null };

const composer = createComposer((text) => now.chat?.send(text));
const sidebar = createSidebar(() => {
  location.hash = `chat=${newId()}`;
});
const showRuns = createRunList((inChat, command) => now.chat?.pressIn(inChat, command));

const currentChat = () => CHAT.exec(location.hash)?.[1] ?? "main";

async function open(id = currentChat()) {
  now.chat?.close();
  const chat = openChat(id, {
    onSignedOut: () => signOut(""),
    onChats: sidebar.showChats,
    onRuns: showRuns,
    onStatus: showStatus,
    onAgentMessage,
  });
  now.chat = chat;
  sidebar.select(id);
  composer.open(id);
  try {
    await chat.ready;
    if (now.chat !== chat) return;
    const isFirst = byId("app").hidden;
    byId("app").hidden = false;
    if (isFirst) showFirst(id);
    if (matchMedia("(pointer: fine)").matches) composer.focus();
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
