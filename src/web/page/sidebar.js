// Chats on the left, a drawer on a phone. Marks chats that got words since they were last looked at.
import { createChatMenu } from "./chat-menu.js";
import { createChatSearch } from "./chat-search.js";
import { byId, el, memory, setText } from "./dom.js";
import { addressOf } from "./place.js";
import { renameInPlace } from "./rename.js";
import { createRoving } from "./roving.js";
import { clockTime, dayKey, dayName } from "./words.js";

const narrow = matchMedia("(max-width: 820px)");

/** `onNewChat()`, `onDeleted(chat)`, `onSignedOut()`. Chats are plain links, so back, forward and bookmarks work. */
export function createSidebar({ onNewChat, onDeleted, onSignedOut }) {
  const drawer = createDrawer();
  const view = { current: "main", chats: [], isRenaming: false, placeTab: createRoving(byId("chats"), ".chat-link") };
  const nameOfChat = (id) => titleOf(id, view.chats.find((chat) => chat.id === id)?.title);
  view.menu = createChatMenu({ onRename: (chat, opener) => rename(view, chat, opener), onDeleted, onSignedOut, nameOfChat });
  const search = createChatSearch({ onSignedOut, titleOf });
  byId("new-chat").addEventListener("click", () => {
    onNewChat();
    drawer.close();
  });
  byId("chat-more").addEventListener("click", () => view.menu.open(view.current, byId("chat-more")));
  byId("chats").addEventListener("keydown", (event) => onKey(view, event));
  return {
    close: drawer.close,
    open: drawer.open,
    search() {
      if (narrow.matches) drawer.open();
      search.focus();
    },
    /** The chat on screen changed. */
    select(chat) {
      view.current = chat;
      drawChats(view);
      drawer.close();
    },
    showChats(chats) {
      view.chats = chats;
      drawChats(view);
    },
    nameOfChat,
  };
}

const titleOf = (chat, title) => title?.split("\n")[0].trim() || (chat === "main" ? "Main chat" : "New chat");

/** In the head of the chat when it was asked for there, else in its line. */
function rename(view, chat, opener) {
  const isInHead = opener === byId("chat-more");
  const line = () => byId("chats").querySelector(`[href="${addressOf({ chat })}"]`);
  const node = isInHead ? byId("chat-title") : line();
  if (node === null || view.isRenaming) return;
  view.isRenaming = true;
  const known = view.chats.find((one) => one.id === chat)?.title ?? "";
  renameInPlace(node, {
    chat,
    title: known.split("\n")[0].trim(),
    onEnd() {
      view.isRenaming = false;
      drawChats(view);
      (isInHead ? opener : line())?.focus();
    },
  });
}

function onKey(view, event) {
  const line = event.target.closest(".chat-link");
  if (line === null) return;
  const more = line.parentElement.querySelector(".chat-more");
  if (event.key === "F2") rename(view, line.dataset.chat, more);
  else if (event.key === "Delete" || event.key === "ContextMenu") more.click();
  else return;
  event.preventDefault();
}

function drawChats(view) {
  // Drawn anew when the name is written: it would be taken out of somebody's hands.
  if (view.isRenaming) return;
  const seen = memory.get("seen", {});
  const shown = [...view.chats];
  for (const id of ["main", view.current]) {
    if (!shown.some((chat) => chat.id === id)) shown.unshift({ id, title: null, lastAt: null, lastSeq: 0 });
  }
  const here = shown.find((chat) => chat.id === view.current);
  seen[here.id] = Math.max(seen[here.id] ?? 0, here.lastSeq);
  memory.set("seen", seen);
  setText(byId("chat-title"), titleOf(here.id, here.title));
  const focused = document.activeElement?.getAttribute("href");
  const links = shown.map((chat) => chatLink(view, chat, chat.lastSeq > (seen[chat.id] ?? 0)));
  byId("chats").replaceChildren(...links);
  if (focused?.startsWith("#/")) byId("chats").querySelector(`[href="${focused}"]`)?.focus();
  view.placeTab();
}

function chatLink(view, chat, isUnread) {
  const when = chat.lastAt === null ? "" : dayKey(chat.lastAt) === dayKey(Date.now()) ? clockTime(chat.lastAt) : dayName(chat.lastAt);
  const title = titleOf(chat.id, chat.title);
  const more = el(
    "button",
    { class: "icon chat-more", type: "button", "aria-label": `More for ${title}`, "aria-haspopup": "menu", "aria-expanded": "false" },
    "⋯",
  );
  more.addEventListener("click", () => view.menu.open(chat.id, more));
  const isCurrent = chat.id === view.current;
  return el(
    "li",
    { class: "chat-line" },
    el(
      "a",
      { class: "chat-link", href: addressOf({ chat: chat.id }), "data-chat": chat.id, "aria-current": isCurrent ? "page" : null },
      isUnread ? el("span", { class: "unread", role: "img", "aria-label": "New messages" }) : null,
      el("span", { class: "chat-name" }, title),
      el("span", { class: "faint when" }, when),
    ),
    more,
  );
}

function createDrawer() {
  const sidebar = byId("sidebar");
  const backdrop = byId("backdrop");
  const opener = byId("open-sidebar");
  const set = (isOpen) => {
    document.body.classList.toggle("drawer-open", isOpen);
    backdrop.hidden = !isOpen;
    opener.setAttribute("aria-expanded", String(isOpen));
    // Off screen must also be out of reach of the Tab key.
    sidebar.inert = narrow.matches && !isOpen;
    for (const node of [document.querySelector(".stage"), byId("panel")]) node.inert = narrow.matches && isOpen;
  };
  const close = () => {
    const wasOpen = document.body.classList.contains("drawer-open");
    set(false);
    if (wasOpen) opener.focus();
    return wasOpen;
  };
  const open = () => {
    set(true);
    byId("close-sidebar").focus();
  };
  opener.addEventListener("click", open);
  for (const badge of ["needs-badge", "runs-badge", "pairing-badge"]) byId(badge).addEventListener("click", open);
  byId("close-sidebar").addEventListener("click", close);
  backdrop.addEventListener("click", close);
  document.addEventListener("keydown", (event) => {
    // Whatever lies below the drawer keeps out of it.
    if (event.key === "Escape" && close()) event.preventDefault();
  });
  narrow.addEventListener("change", () => set(false));
  set(false);
  return { close, open };
}
