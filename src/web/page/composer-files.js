// Files beside the message box: chosen, pasted or dropped, uploaded at once and shown as chips until the message is sent. What is
// uploaded waits for its chat in this browser, like unsent words.
import { byId, el, memory, newId, toast } from "./dom.js";
import { getJson, postJson, uploadFile } from "./wire.js";
import { bytes, shownName } from "./words.js";

const PREVIEWED = new Set(["image/png", "image/jpeg", "image/webp", "image/gif"]);
/** One after the other per tab would be slow, all at once is refused. */
const AT_ONCE = 3;

/** `take()`: what goes with the message, off the strip; null: something is still on its way or failed. */
export function createComposerFiles() {
  const strip = el("ul", { class: "file-strip plain-list", "aria-label": "Files to send", hidden: true });
  const input = el("input", { type: "file", multiple: true, class: "off-screen", tabindex: "-1", "aria-hidden": "true" });
  const button = el("button", { class: "attach", type: "button", "aria-label": "Attach files", title: "Attach files" }, clip());
  const form = byId("composer");
  form.prepend(strip, input, button);
  const state = { chat: "main", items: [], limits: null, strip };

  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    void add(state, [...input.files]);
    input.value = "";
  });
  byId("text").addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    // A cell of a table is text and a picture of it: people mean the text.
    if (event.clipboardData.getData("text/plain") !== "") return;
    event.preventDefault();
    void add(state, files);
  });
  takeDrops(form.parentElement, (files) => void add(state, files));

  return {
    open(chat) {
      for (const item of state.items) forget(item);
      state.chat = chat;
      state.items = kept(chat).map((file) => ({ key: newId(), name: file.name, size: file.size, file, state: "done" }));
      draw(state);
    },
    take() {
      if (state.items.some((item) => item.state !== "done")) {
        toast("A file is not uploaded yet. Wait for it, or remove it.");
        return null;
      }
      const files = state.items.map(({ file }) => file);
      for (const item of state.items) forget(item);
      state.items = [];
      keep(state);
      draw(state);
      return files;
    },
  };
}

function takeDrops(area, onFiles) {
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files") === true;
  area.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    area.classList.add("dropping");
  });
  area.addEventListener("dragleave", (event) => {
    if (!area.contains(event.relatedTarget)) area.classList.remove("dropping");
  });
  area.addEventListener("drop", (event) => {
    area.classList.remove("dropping");
    if (!hasFiles(event)) return;
    event.preventDefault();
    onFiles([...event.dataTransfer.files]);
  });
}

async function add(state, files) {
  const { chat } = state;
  // Asked for once: of two questions the second may be answered first, and its files would stand before those that came before them.
  state.limits ??= getJson("/api/files").catch(() => {
    // Herald says the same when the file arrives; asked again with the next one.
    state.limits = null;
    return {};
  });
  const { perMessage = 10, fileBytes = Number.POSITIVE_INFINITY } = await state.limits;
  if (state.chat !== chat) return;
  const fitting = files.filter((file) => file.size > 0 && file.size <= fileBytes);
  const refused = files.find((file) => !fitting.includes(file));
  if (refused !== undefined)
    toast(
      refused.size === 0
        ? `“${shownName(refused.name)}” is empty, or a folder.`
        : `“${shownName(refused.name)}” has ${tooMany(refused.size, fileBytes)}.`,
    );
  const room = Math.max(0, perMessage - state.items.length);
  if (fitting.length > room) toast(`A message may have ${perMessage} files: ${fitting.length - room} were left out.`);
  for (const file of fitting.slice(0, room)) {
    const preview = PREVIEWED.has(file.type) ? URL.createObjectURL(file) : null;
    state.items.push({ key: newId(), name: shownName(file.name), size: file.size, source: file, preview, state: "waiting", share: 0 });
  }
  draw(state);
  next(state);
}

/** Just above the limit both sizes would read the same. */
const tooMany = (size, most) =>
  bytes(size) === bytes(most) ? `more than ${bytes(most)}` : `${bytes(size)}; files may have at most ${bytes(most)}`;

/** Begins what may begin. */
function next(state) {
  const running = state.items.filter((item) => item.state === "uploading").length;
  for (const item of state.items.filter((one) => one.state === "waiting").slice(0, Math.max(0, AT_ONCE - running)))
    void upload(state, item);
}

async function upload(state, item) {
  const { chat } = state;
  item.state = "uploading";
  const own = new AbortController();
  item.abort = () => own.abort();
  const path = `/api/chats/${chat}/files/${item.key}?name=${encodeURIComponent(item.name.slice(-200).toWellFormed())}`;
  try {
    const { file } = await uploadFile(path, item.source, {
      signal: own.signal,
      onProgress(share) {
        item.share = share;
        drawShare(state, item);
      },
    });
    Object.assign(item, { state: "done", file, name: file.name });
  } catch (error) {
    Object.assign(item, { state: "failed", reason: error.message, isFinal: error.isFinal === true });
  }
  if (item.isRemoved) return void (item.file !== undefined && discard(chat, item.file.id));
  // Another chat is open by now: it waits there.
  if (!state.items.includes(item)) return void (item.file !== undefined && keepIn(chat, [...kept(chat), item.file]));
  keep(state);
  draw(state);
  next(state);
}

/** Nobody waits for it: what stays is swept after a day. */
const discard = (chat, id) => postJson(`/api/chats/${chat}/files/${id}/remove`, {}).catch(() => {});

function remove(state, item) {
  item.isRemoved = true;
  item.abort?.();
  if (item.file !== undefined) void discard(state.chat, item.file.id);
  forget(item);
  state.items = state.items.filter((one) => one !== item);
  keep(state);
  draw(state);
  byId("text").focus();
  next(state);
}

function forget({ preview }) {
  if (typeof preview === "string") URL.revokeObjectURL(preview);
}

function keep(state) {
  keepIn(
    state.chat,
    state.items.flatMap(({ file }) => (file === undefined ? [] : [file])),
  );
}

const kept = (chat) => memory.get(`files.${chat}`, []);
const keepIn = (chat, files) => memory.set(`files.${chat}`, files.length === 0 ? null : files);

function draw(state) {
  state.strip.hidden = state.items.length === 0;
  state.strip.replaceChildren(...state.items.map((item) => chip(state, item)));
}

function drawShare({ strip }, { key, share }) {
  const bar = strip.querySelector(`[data-key="${key}"] progress`);
  if (bar !== null) bar.value = share;
}

function chip(state, item) {
  const { name, size, preview, share, reason } = item;
  const isUnderWay = item.state === "waiting" || item.state === "uploading";
  const failure = el("span", { class: "file-failure", role: "alert" }, reason ?? "");
  const retry = () => {
    item.state = "waiting";
    draw(state);
    next(state);
  };
  return el(
    "li",
    { class: `file-chip ${item.state}`, "data-key": item.key },
    typeof preview === "string" ? el("img", { src: preview, alt: "", width: 40, height: 40 }) : null,
    el("span", { class: "file-name", title: name }, name),
    el("span", { class: "faint" }, bytes(size)),
    isUnderWay ? el("progress", { max: 1, value: share ?? 0, "aria-label": `Uploading ${name}` }) : null,
    item.state === "failed" ? failure : null,
    item.state === "failed" && !item.isFinal ? el("button", { class: "small", type: "button", onclick: retry }, "Try again") : null,
    el("button", { class: "icon", type: "button", "aria-label": `Remove ${name}`, onclick: () => remove(state, item) }, "✕"),
  );
}

/** Drawn like the arrow beside it. */
function clip() {
  const shape = document.querySelector("#composer .send svg").cloneNode(true);
  const line = "m16 9.5-6 6a3.9 3.9 0 0 1-5.5-5.5l6.5-6.5a2.6 2.6 0 0 1 3.7 3.7l-6.4 6.4a1.3 1.3 0 0 1-1.9-1.9l5.6-5.6";
  shape.firstElementChild.setAttribute("d", line);
  return shape;
}
