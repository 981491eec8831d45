// Chats on the left, a drawer on a phone. Marks chats that got words since they were last looked at.
import { byId, el, memory, setText } from "./dom.js";
import { createRoving } from "./roving.js";
import { clockTime, dayKey, dayName } from "./words.js";

const narrow = matchMedia("(max-width: 820px)");

/** `onNewChat()`. Chats are plain links (`#chat=<id>`), so back, forward and bookmarks work. */
export function createSidebar(onNewChat) {
  const drawer = createDrawer();
  const view = { current: "main", chats: [], placeTab: createRoving(byId("chats"), ".chat-link") };
  byId("new-chat").addEventListener("click", () => {
    onNewChat();
    drawer.close();
  });
  return {
    close: drawer.close,
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
    nameOfChat: (id) => titleOf(id, view.chats.find((chat) => chat.id === id)?.title),
  };
}

const titleOf = (chat, title) => title?.split("\n")[0].trim() || (chat === "main" ? "Main chat" : "New chat");

function drawChats(view) {
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
  const links = shown.map((chat) => chatLink(chat, chat.id === view.current, chat.lastSeq > (seen[chat.id] ?? 0)));
  byId("chats").replaceChildren(...links);
  if (focused?.startsWith("#chat=")) byId("chats").querySelector(`[href="${focused}"]`)?.focus();
  view.placeTab();
}

function chatLink(chat, isCurrent, isUnread) {
  const when = chat.lastAt === null ? "" : dayKey(chat.lastAt) === dayKey(Date.now()) ? clockTime(chat.lastAt) : dayName(chat.lastAt);
  return el(
    "li",
    {},
    el(
      "a",
      { class: "chat-link", href: `#chat=${chat.id}`, "aria-current": isCurrent ? "page" : null },
      isUnread ? el("span", { class: "unread", role: "img", "aria-label": "New messages" }) : null,
      el("span", { class: "chat-name" }, titleOf(chat.id, chat.title)),
      el("span", { class: "faint when" }, when),
    ),
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
    for (const node of [document.querySelector("main.chat"), byId("panel")]) node.inert = narrow.matches && isOpen;
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
  for (const badge of ["runs-badge", "pairing-badge"]) byId(badge).addEventListener("click", open);
  byId("close-sidebar").addEventListener("click", close);
  backdrop.addEventListener("click", close);
  document.addEventListener("keydown", (event) => {
    // Whatever lies below the drawer keeps out of it.
    if (event.key === "Escape" && close()) event.preventDefault();
  });
  narrow.addEventListener("change", () => set(false));
  set(false);
  return { close };
}
