// The page's entry: sign in, then the view, the chat and the run the address names. Puts the parts together; each keeps to its own
// corner.
import { createBrowsers } from "./browsers.js";
import { showBudgets } from "./budgets.js";
import { openChat } from "./chat.js";
import { createComposer } from "./composer.js";
import { byId, el, newId, setText, toast } from "./dom.js";
import { showMachines } from "./machines.js";
import { editLastMessage, scrollToEnd } from "./message-list.js";
import { createNeedsYou } from "./needs-you.js";
import { createNotify, notify } from "./notify.js";
import { createPairing } from "./pairing.js";
import { addressOf, readPlace } from "./place.js";
import { createRunAgain } from "./run-again.js";
import { createRunCompare } from "./run-compare.js";
import { createRunList } from "./run-list.js";
import { createRunPanel } from "./run-panel.js";
import { createSteering } from "./run-steer.js";
import { createSessionList } from "./session-list.js";
import { createShortcuts } from "./shortcuts.js";
import { createSidebar } from "./sidebar.js";
import { showSignIn, signIn, takeTokenFromUrl } from "./sign-in.js";
import { showUnseen } from "./title.js";
import { createViews } from "./views.js";
import { onSignedInElsewhere, postJson, SignedOut } from "./wire.js";

const EXAMPLES = [
  "Read README.md and tell me what it is about",
  "In the background, summarise the files here and count their lines",
  "In the background, ask me: red or blue?",
  "/help",
];

/** The chat on screen; null while nobody is signed in. */
const now = { chat: null, chatId: null, place: readPlace("") };

const onSignedOut = () => signOut("");
const onNewChat = () => go({ view: "chat", chat: newId() });
const composer = createComposer({ onSend: (text, files) => now.chat?.send(text, files), onEditLast: editLastMessage });
const sidebar = createSidebar({ onNewChat, onDeleted: (chat) => chat === now.chatId && leave(), onSignedOut });
createNotify();
createShortcuts({ onNewChat, onSearch: sidebar.search, onWrite: () => toChat() });
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
const onOpen = (run) => go({ ...beside(), run, other: null });
const onClose = () => go({ ...beside(), run: null, other: null });
const steer = createSteering({ onSignedOut });
const again = createRunAgain({ steer, onSignedOut });
const compare = createRunCompare({
  onCompare: (run, other) => go({ ...readPlace(), run, other }),
  onOpen,
  onLeave: () => readPlace().other !== null && go({ ...readPlace(), other: null }),
  onSignedOut,
});
const panel = createRunPanel({
  onRetry,
  onSignedOut,
  onOpen,
  onClose,
  onAgain: again.open,
  onChooseOther: compare.choose,
  steer,
});
const { nameOfChat } = sidebar;
const needsYou = createNeedsYou({ nameOfChat, onOpen, onSignedOut });
const onAnswer = (run) => needsYou.focusRun(run) || onOpen(run);
const runList = createRunList({ steer, onAnswer, nameOfChat, onOpen });
const sessionList = createSessionList({ onSignedOut });

const views = createViews({
  onRetry,
  onAnswer,
  onOpen,
  onSignedOut,
  nameOfChat,
  onAgain: again.open,
  onChooseOther: compare.choose,
  onMenu: sidebar.open,
  /** Words to try, for whoever has not sent anything out yet. */
  onExample(text) {
    go({ view: "chat" });
    composer.fill(text);
  },
  /** Other filters, another section: the same view at another address. `isNew` makes a step that "back" undoes. */
  onPlace: (change, isNew = false) => go({ ...readPlace(), ...change }, isNew),
});

/** What lies below a run that is open: a run on a page of its own lies over what was there. */
function beside() {
  const place = readPlace();
  return place.view === "run" ? now.place : place;
}

function go(place, isNew = true) {
  const address = addressOf({ ...place, chat: place.chat ?? now.chatId });
  if (isNew) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  follow();
}

/** The chat is gone: the main one stands in its place, also of itself. */
function leave() {
  now.chatId = null;
  go({ ...now.place, view: "chat", chat: "main", run: null });
}

function toChat() {
  go({ ...now.place, view: "chat", run: null });
  composer.focus();
}

/** A message the search has found. Said once: the address goes on without it, or every step beside would come back here. */
function showFound(place) {
  const seq = Number(place.query.get("at"));
  if (place.view !== "chat" || !(seq > 0)) return;
  const { chat } = now;
  void chat?.ready.then(
    () => now.chat === chat && chat.showAt(seq),
    () => {},
  );
  place.query.delete("at");
  go(place, false);
}

/** Shows what the address names; a chat that is open already stays as it is. */
function follow() {
  const place = readPlace();
  if (place.view !== "run") now.place = place;
  const chat = place.chat ?? now.chatId ?? "main";
  if (now.chat === null || now.chatId !== chat) void open(chat);
  else sidebar.close();
  document.body.classList.toggle("run-alone", place.view === "run");
  void views.show(place);
  sessionList.select(place.session);
  showRun(place.run);
  compare.show(place.run, place.other);
  showFound(place);
}

function showRun(id) {
  const row = readPlace().view === "runs" ? "#view-runs .runs-row[aria-current]" : "#runs [aria-current]";
  const opener = panel.isOpen() ? document.querySelector(row) : null;
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
    onTab: panel.hearTab,
    onRunDraft: panel.hearDraft,
    onQuestions(open) {
      const more = needsYou.show(open);
      if (more > 0) notify("Herald asks you", open.questions.at(-1)?.text ?? "", "question");
    },
    onHeard: views.hear,
    onPairing: showPairing,
    onStatus: showStatus,
    onNodes: showMachines,
    onBudgets: showBudgets,
    onAgentMessage(message) {
      showUnseen();
      notify(message.card === undefined ? nameOfChat(id) : `${message.card.label}: ${message.card.status}`, message.text, `chat-${id}`);
    },
    onGone() {
      toast("This chat was deleted.");
      leave();
    },
    onConnected() {
      panel.refresh();
      views.hear("connected", null);
    },
  });
  now.chat = chat;
  now.chatId = id;
  document.body.dataset.chat = id;
  sidebar.select(id);
  composer.open(id);
  try {
    await chat.ready;
    if (now.chat !== chat) return;
    const isFirst = byId("app").hidden;
    byId("app").hidden = false;
    if (isFirst) showFirst(id);
    if (matchMedia("(pointer: fine)").matches && !panel.isOpen() && readPlace().view === "chat") composer.focus();
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
  compare.show(null, null);
  // What lies above everything would keep the form for signing in out of reach.
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  needsYou.show({ questions: [], total: 0 });
  showSignIn(reason, follow);
}

function showStatus({ version, model, problem }) {
  setText(byId("about"), `${model} · Herald ${version}`);
  byId("no-model").hidden = !model.startsWith("offline/");
  setText(byId("problem"), problem ?? "");
  byId("problem").hidden = problem === null;
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
  toChat();
});
window.addEventListener("hashchange", () => void (location.hash.startsWith("#token=") ? start() : follow()));
window.addEventListener("unhandledrejection", (event) => toast(`Something went wrong: ${event.reason?.message ?? event.reason}`));
onSignedInElsewhere(() => byId("sign-in").hidden || void start());
void start();
