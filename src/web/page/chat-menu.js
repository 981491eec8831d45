// What can be done with a chat as a whole: name, export, deletion. One menu for all chats, opened from the head of the chat and from its
// line in the list. Deleting wants a second press, which says first what will be gone.
import { html, render } from "/lib/lit-html/lit-html.js";
import { byId, el, toast } from "./dom.js";
import { download, getJson, postJson, SignedOut } from "./wire.js";

const ITEMS = html`
  <button role="menuitem" id="menu-rename" type="button">Rename</button>
  <button role="menuitem" id="menu-markdown" type="button">Export as Markdown</button>
  <button role="menuitem" id="menu-json" type="button">Export as JSON</button>
  <button role="menuitem" class="danger" id="menu-delete" type="button">Delete…</button>
`;
const SURE = html`
  <form class="sheet-body" method="dialog">
    <h2 id="delete-title">Delete “<span id="delete-name"></span>”?</h2>
    <p id="delete-text"></p>
    <div class="sheet-foot">
      <button class="danger" id="delete-yes" type="submit" value="yes">Delete it</button>
      <button type="submit" value="no">Keep it</button>
    </div>
  </form>
`;

/** Both lie at the end of the page, where nothing lies over them. */
function makeNodes() {
  const menu = el("div", { class: "menu", id: "chat-menu", role: "menu", "aria-label": "This chat", popover: "auto" });
  const about = { "aria-labelledby": "delete-title", "aria-describedby": "delete-text" };
  const dialog = el("dialog", { class: "sheet small-sheet", id: "delete-chat", ...about });
  document.body.append(menu, dialog);
  render(ITEMS, menu);
  render(SURE, dialog);
  return { menu, dialog };
}

/** `onRename(chat)`, `onDeleted(chat)`, `onSignedOut()`, `nameOfChat(chat)`. Returns `open(chat, opener)`. */
export function createChatMenu({ onRename, onDeleted, onSignedOut, nameOfChat }) {
  const { menu, dialog } = makeNodes();
  const now = { chat: "main", opener: null };
  const close = () => menu.hidePopover();
  const attempt = async (work) => {
    try {
      return await work();
    } catch (error) {
      if (error instanceof SignedOut) onSignedOut();
      else toast(error.message);
      return null;
    }
  };
  const items = {
    "menu-rename": () => onRename(now.chat, now.opener),
    "menu-markdown": () => void attempt(() => save(now.chat, "markdown")),
    "menu-json": () => void attempt(() => save(now.chat, "json")),
  };
  for (const [id, act] of Object.entries(items)) {
    byId(id).addEventListener("click", () => {
      close();
      act();
    });
  }
  byId("menu-delete").addEventListener("click", () => {
    const { chat, opener } = now;
    close();
    void attempt(() => askToDelete(chat, opener));
  });

  const askToDelete = async (chat, opener) => {
    const about = await getJson(`/api/chats/${chat}/about`);
    const why = whyNot(about);
    byId("delete-name").textContent = nameOfChat(chat);
    byId("delete-text").textContent = why ?? goneText(about);
    byId("delete-yes").hidden = why !== null;
    dialog.onclose = () => {
      if (dialog.returnValue === "yes") void attempt(() => remove(chat));
      else if (opener?.isConnected) opener.focus();
    };
    dialog.returnValue = "";
    dialog.showModal();
  };
  const remove = async (chat) => {
    await postJson(`/api/chats/${chat}/delete`, {});
    onDeleted(chat);
  };

  menu.addEventListener("keydown", (event) => moveIn(menu, event));
  menu.addEventListener("toggle", (event) => {
    const isOpen = event.newState === "open";
    now.opener?.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) menu.querySelector("[role=menuitem]").focus();
    else if (menu.contains(document.activeElement) || document.activeElement === document.body) now.opener?.focus();
  });
  return {
    open(chat, opener) {
      Object.assign(now, { chat, opener });
      menu.showPopover();
      place(menu, opener);
    },
  };
}

const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

const whyNot = ({ isAtWork, running }) => {
  if (isAtWork) return "An answer is being written in this chat. Stop it first.";
  if (running > 0)
    return `${count(running, "sub-agent")} of this chat ${running === 1 ? "is" : "are"} still at work. Stop them first: /stop in this chat ends all of it.`;
  return null;
};

const goneText = ({ messages }) =>
  `${count(messages, "message")} will be gone for good, and the conversation's transcript is archived. What its sub-agents did stays on the board.`;

async function save(chat, as) {
  const { blob, name } = await download(`/api/chats/${chat}/export?as=${as}`);
  const url = URL.createObjectURL(blob);
  el("a", { href: url, download: name }).click();
  // The download has begun by then.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Below what opened it, inside the window. */
function place(menu, opener) {
  const at = opener.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const top = at.bottom + height > innerHeight ? Math.max(8, at.top - height) : at.bottom;
  menu.style.setProperty("top", `${top}px`);
  menu.style.setProperty("left", `${Math.max(8, Math.min(at.right - width, innerWidth - width - 8))}px`);
}

const STEPS = { ArrowDown: (at) => at + 1, ArrowUp: (at) => at - 1, Home: () => 0, End: () => -1 };

function moveIn(menu, event) {
  const all = [...menu.querySelectorAll("[role=menuitem]")];
  const step = STEPS[event.key];
  if (event.key === "Tab") return menu.hidePopover();
  if (step === undefined) return;
  event.preventDefault();
  all.at(step(all.indexOf(document.activeElement)) % all.length).focus();
}
