// One run, opened: what it was asked, its plan, brief and sections, its transcript as it grows, its trace and all facts;
// Stop, Retry and Send. Beside the chat on a wide window, over it on a narrow one.
// #run=<id> → GET run + transcript → drawn; `run` events → the same again, at most every moment
import { byId, memory, setText, toast } from "./dom.js";
import { drawDetail } from "./run-detail.js";
import { createRunLog } from "./run-log.js";
import { ageText, isUnfinished, numbersText, originText, stateText } from "./run-words.js";
import { getJson, Refused, SignedOut } from "./wire.js";

const EVERY_MS = 600;
/** Stands in for a run that is not on the board, until it is loaded. */
const UNKNOWN = { label: "Sub-agent", state: "unknown", delivery: "none", chat: null, origin: "", tokens: null, costUsd: null };
const log = createRunLog(byId("panel-log"));
const scroll = byId("panel-scroll");

/** `onCommand(chat, command)` resolves with whether it was taken; `onRetry(runId)`, `onClose()`, `onSignedOut()`. */
export function createRunPanel(hooks) {
  /** The run that is open; null when none is. */
  const panel = { now: null, runs: [], hooks };
  listenToControls(panel);
  setInterval(() => panel.now?.run && drawHead(panel.now.run), 1000);
  return {
    isOpen: () => panel.now !== null,
    /** Null closes it. */
    show: (id) => show(panel, id),
    /** The board changed: the head says so at once. */
    showRuns(runs) {
      panel.runs = runs;
      const run = runs.find(({ id }) => id === panel.now?.id);
      if (run === undefined) return;
      panel.now.run = run;
      drawHead(run);
    },
    /** Something about this run changed. */
    changed: (id) => id === panel.now?.id && void refresh(panel, panel.now),
    /** The stream is back: whatever was said meanwhile is unknown. */
    refresh: () => panel.now !== null && void refresh(panel, panel.now),
  };
}

function show(panel, id) {
  if (panel.now?.id === (id ?? undefined)) return;
  if (panel.now !== null) keepWords(panel.now.id);
  const run = panel.runs.find((one) => one.id === id) ?? null;
  panel.now = id === null ? null : { id, run, isBusy: false, isStale: false };
  byId("panel").hidden = id === null;
  document.body.classList.toggle("run-open", id !== null);
  log.clear();
  if (id === null) return;
  byId("panel").classList.add("loading");
  drawProblem("");
  drawHead(run ?? UNKNOWN);
  byId("panel-text").value = memory.get(`text.run.${id}`, "");
  scroll.scrollTop = 0;
  byId("panel-title").focus();
  void refresh(panel, panel.now);
}

// One at a time, and not at once again: many events of a busy run make one request.
async function refresh(panel, view) {
  view.isStale = view.isBusy;
  if (view.isBusy) return;
  view.isBusy = true;
  try {
    do {
      view.isStale = false;
      await load(panel, view);
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    } while (view.isStale && panel.now === view);
  } finally {
    view.isBusy = false;
  }
}

async function load(panel, view) {
  try {
    const [detail, page] = await Promise.all([getJson(`/api/runs/${view.id}`), getTranscript(view.id)]);
    if (panel.now !== view) return;
    const isFollowing = !log.isEmpty() && scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
    view.run = detail.run;
    drawHead(detail.run);
    drawDetail(detail);
    log.showEnd(page);
    drawEarlier();
    byId("panel").classList.remove("loading");
    drawProblem("");
    if (isFollowing) scroll.scrollTop = scroll.scrollHeight;
  } catch (error) {
    if (panel.now !== view) return;
    if (error instanceof SignedOut) return panel.hooks.onSignedOut();
    drawProblem(error instanceof Refused ? error.message : "Herald can't be reached. Trying again…");
    view.isStale = !(error instanceof Refused);
  }
}

/** A removed file must not hide what is on record. */
async function getTranscript(id, query = "") {
  try {
    return await getJson(`/api/runs/${id}/transcript${query}`);
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return { entries: [], before: null };
    throw error;
  }
}

function drawHead(run) {
  const panel = byId("panel");
  panel.dataset.state = run.state;
  panel.dataset.delivery = run.delivery;
  setText(byId("panel-title"), run.label || run.shortId);
  setText(byId("panel-state"), run === UNKNOWN ? "" : stateText(run));
  setText(byId("panel-numbers"), run === UNKNOWN ? "" : [run.shortId, ageText(run), numbersText(run)].filter(Boolean).join(" · "));
  const isOurs = run.chat !== null;
  byId("panel-stop").hidden = !isOurs || !isUnfinished(run);
  byId("panel-retry").hidden = run.delivery !== "blocked";
  byId("panel-send").hidden = !isOurs;
  byId("panel-text").placeholder = isUnfinished(run) ? "Tell it something" : "Give it more to do";
  byId("panel-elsewhere").hidden = isOurs || run === UNKNOWN;
  setText(byId("panel-elsewhere"), `Asked for in ${originText(run)}. It is steered from there.`);
}

function drawProblem(text) {
  byId("panel-problem").hidden = text === "";
  setText(byId("panel-problem"), text);
}

function drawEarlier() {
  byId("panel-earlier").hidden = log.before() === null;
  byId("panel-log-empty").hidden = !log.isEmpty();
}

async function showEarlier(panel) {
  const view = panel.now;
  if (view === null || log.before() === null || view.isLoadingEarlier) return;
  view.isLoadingEarlier = true;
  try {
    const page = await getTranscript(view.id, `?before=${log.before()}`);
    if (panel.now !== view) return;
    const fromEnd = scroll.scrollHeight - scroll.scrollTop;
    log.showEarlier(page);
    drawEarlier();
    scroll.scrollTop = scroll.scrollHeight - fromEnd;
  } catch (error) {
    if (error instanceof SignedOut) panel.hooks.onSignedOut();
    else toast(`Earlier entries can't be loaded: ${error.message}`);
  } finally {
    view.isLoadingEarlier = false;
  }
}

function keepWords(id) {
  const { value } = byId("panel-text");
  memory.set(`text.run.${id}`, value === "" ? null : value);
}

function listenToControls(panel) {
  const { hooks } = panel;
  const stop = ({ id, run }) => void hooks.onCommand(run.chat, `/subagents stop ${id}`);
  byId("panel-stop").addEventListener("click", () => panel.now?.run && stop(panel.now));
  byId("panel-retry").addEventListener("click", () => panel.now !== null && void hooks.onRetry(panel.now.id));
  byId("panel-earlier").addEventListener("click", () => void showEarlier(panel));
  byId("panel-close").addEventListener("click", hooks.onClose);
  byId("panel-send").addEventListener("submit", (event) => {
    event.preventDefault();
    void send(panel);
  });
  document.addEventListener("keydown", (event) => {
    // Prevented: something that lay above it took the key.
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || panel.now === null) return;
    if (document.querySelector("dialog[open]") !== null) return;
    hooks.onClose();
  });
}

async function send(panel) {
  const input = byId("panel-text");
  const text = input.value.trim();
  const view = panel.now;
  if (text === "" || !view?.run) return;
  input.value = "";
  memory.set(`text.run.${view.id}`, null);
  const isTaken = await panel.hooks.onCommand(view.run.chat, `/subagents send ${view.id} ${text}`);
  if (!isTaken && panel.now === view && input.value === "") input.value = text;
}
