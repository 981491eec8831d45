// One run, opened: what it was asked, its plan, brief and sections, its transcript as it grows, its trace and all facts;
// Stop, Retry and Send. Beside the chat on a wide window, over it on a narrow one.
// its address → GET run + transcript → drawn; `run` events → the same again, at most every moment; `run.draft` → what it writes now
import { createBriefs } from "./brief.js";
import { drawSpent } from "./budgets.js";
import { byId, el, memory, setText, toast } from "./dom.js";
import { createQuestionList } from "./question-list.js";
import { drawDetail } from "./run-detail.js";
import { createRunDraft } from "./run-draft.js";
import { createRunLog } from "./run-log.js";
import { createRunParts } from "./run-parts.js";
import { ageText, isUnfinished, numbersText, originText, stateText } from "./run-words.js";
import { getJson, postJson, Refused, SignedOut } from "./wire.js";

const EVERY_MS = 600;
/** Stands in for a run that is not on the board, until it is loaded. */
const UNKNOWN = {
  label: "Sub-agent",
  state: "unknown",
  delivery: "none",
  chat: null,
  origin: "",
  tokens: null,
  costUsd: null,
  limit: null,
  goOn: null,
};
const draft = createRunDraft(byId("panel-draft"));
/** On a page of its own the transcript has a column to itself. */
const scroller = () => (getComputedStyle(byId("panel-live")).overflowY === "auto" ? byId("panel-live") : byId("panel-scroll"));
const isAtEnd = (scroll) => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;

/**
 * `steer` (run-steer.js), `onRetry(runId)`, `onAgain(run)`, `onChooseOther(runId)`, `onOpen(runId)`,
 * `onClose()`, `onSignedOut()`.
 */
export function createRunPanel(hooks) {
  /** The run that is open; null when none is. */
  const panel = { now: null, runs: [], tab: null, isWatchDue: false, isTelling: false, hooks, questions: createQuestions(hooks) };
  panel.log = createRunLog(byId("panel-log"), (position, from) => getJson(`/api/runs/${panel.now.id}/entries/${position}?from=${from}`));
  panel.parts = createRunParts(hooks);
  panel.briefs = createBriefs({ onChanged: () => panel.now !== null && void refresh(panel, panel.now), onSignedOut: hooks.onSignedOut });
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
      const repetitions = runs.flatMap(({ id, rerunOf, state }) =>
        panel.now !== null && rerunOf === panel.now.id ? [`${id} ${state}`] : [],
      );
      // Another one repeats it, or one that does has come further: nothing about this run itself changed.
      if (panel.now !== null && panel.now.repetitions !== repetitions.join()) {
        const isFirst = panel.now.repetitions === undefined;
        panel.now.repetitions = repetitions.join();
        if (!isFirst) void refresh(panel, panel.now);
      }
      if (run === undefined) return;
      panel.now.run = run;
      drawHead(run);
    },
    /** Something about this run changed. */
    changed: (id) => id === panel.now?.id && void refresh(panel, panel.now),
    /** The stream is back under this name: whatever was said meanwhile is unknown, and what was being written, too. */
    hearTab({ id }) {
      panel.tab = id;
      draft.clear();
      void watch(panel);
    },
    hearDraft: (view) => view.id === panel.now?.id && hearDraft(panel, view),
    refresh: () => panel.now !== null && void refresh(panel, panel.now),
  };
}

const createQuestions = ({ onSignedOut }) =>
  createQuestionList(byId("panel-questions"), {
    // The panel's head says it.
    whereOf: () => "",
    onOpen: null,
    onSignedOut,
    onLeft: () => byId("panel-title").focus(),
  });

/** One after the other, or the last said might be heard first. Who is not heard sees no drafts, and everything else all the same. */
async function watch(panel) {
  panel.isWatchDue = true;
  if (panel.isTelling) return;
  panel.isTelling = true;
  while (panel.isWatchDue && panel.tab !== null) {
    panel.isWatchDue = false;
    await postJson("/api/watch", { tab: panel.tab, run: panel.now?.id ?? null }).catch(() => {});
  }
  panel.isTelling = false;
}

function hearDraft(panel, view) {
  const scroll = scroller();
  const isFollowing = isAtEnd(scroll);
  if (draft.show(view)) void refresh(panel, panel.now);
  drawEmpty(panel);
  if (isFollowing) scroll.scrollTop = scroll.scrollHeight;
}

function show(panel, id) {
  if (panel.now?.id === (id ?? undefined)) return;
  if (panel.now !== null) keepWords(panel.now.id);
  const run = panel.runs.find((one) => one.id === id) ?? null;
  panel.now = id === null ? null : { id, run, isBusy: false, isStale: false };
  byId("panel").hidden = id === null;
  document.body.classList.toggle("run-open", id !== null);
  panel.log.clear();
  panel.parts.show(id);
  draft.clear();
  panel.questions.clear();
  void watch(panel);
  if (id === null) return;
  byId("panel-alone").href = `#/run/${id}`;
  byId("panel").classList.add("loading");
  drawProblem("");
  drawHead(run ?? UNKNOWN);
  byId("panel-text").value = memory.get(`text.run.${id}`, "");
  byId("panel-scroll").scrollTop = 0;
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
  const ended = draft.ended();
  try {
    const [detail, page] = await Promise.all([getJson(`/api/runs/${view.id}`), getTranscript(view.id)]);
    if (panel.now !== view) return;
    const scroll = scroller();
    // Where it has a column to itself, it begins at its end.
    const isFollowing = panel.log.isEmpty() ? scroll.id === "panel-live" : isAtEnd(scroll);
    view.run = detail.run;
    drawHead(detail.run);
    drawDetail(detail, panel.hooks.onOpen);
    panel.briefs.show(detail.run, detail.briefing);
    panel.questions.show(detail.questions);
    panel.parts.draw(detail);
    view.isGone = page.isGone === true;
    panel.log.showEnd(page);
    draft.wasRead(ended);
    drawEmpty(panel);
    byId("panel").classList.remove("loading");
    drawProblem("");
    if (isFollowing) scroll.scrollTop = scroll.scrollHeight;
  } catch (error) {
    if (panel.now !== view) return;
    if (error instanceof SignedOut) return panel.hooks.onSignedOut();
    const isGone = error instanceof Refused && error.status === 404;
    drawProblem(isGone ? GONE : error instanceof Refused ? error.message : "Herald can't be reached. Trying again…", isGone);
    view.isStale = !(error instanceof Refused);
  }
}

/** A removed file must not hide what is on record. */
async function getTranscript(id, query = "") {
  try {
    return await getJson(`/api/runs/${id}/transcript${query}`);
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return { entries: [], before: null, isGone: true };
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
  byId("panel-stop").hidden = !isUnfinished(run);
  byId("panel-retry").hidden = run.delivery !== "blocked";
  byId("panel-go-on").hidden = run.goOn === null;
  setText(byId("panel-go-on"), run.goOn?.label ?? "");
  byId("panel-again").hidden = run === UNKNOWN;
  byId("panel-compare").hidden = run === UNKNOWN;
  drawSpent(byId("panel-spent"), run.limit);
  byId("panel-send").hidden = run === UNKNOWN;
  byId("panel-text").placeholder = isUnfinished(run) ? "Tell it something" : "Give it more to do";
  byId("panel-elsewhere").hidden = run.chat !== null || run === UNKNOWN;
  setText(byId("panel-elsewhere"), `Asked for in ${originText(run)}; what comes of it is announced there.`);
}

const GONE = "There is no such run on record here: the link may be of another installation, or its database was begun anew.";

function drawProblem(text, isGone = false) {
  const node = byId("panel-problem");
  node.hidden = text === "";
  byId("panel").classList.toggle("gone", isGone);
  if (node.firstChild?.textContent === text) return;
  node.replaceChildren(text, ...(isGone ? [" ", el("a", { href: "#/runs" }, "All runs")] : []));
}

function drawEmpty({ log, now }) {
  byId("panel-earlier").hidden = log.before() === null;
  byId("panel-log-empty").hidden = !log.isEmpty() || !byId("panel-draft").hidden;
  setText(byId("panel-log-empty"), emptyText(now));
}

function emptyText({ run, isGone }) {
  if (run !== null && isUnfinished(run)) return "Nothing on record yet: it shows here as it works.";
  return isGone
    ? "Its transcript is not there any more. Task, result and figures are kept; “Run again…” makes a new one."
    : "Nothing on record.";
}

async function showEarlier(panel) {
  const { now: view, log } = panel;
  if (view === null || log.before() === null || view.isLoadingEarlier) return;
  view.isLoadingEarlier = true;
  try {
    const page = await getTranscript(view.id, `?before=${log.before()}`);
    if (panel.now !== view) return;
    const scroll = scroller();
    const fromEnd = scroll.scrollHeight - scroll.scrollTop;
    log.showEarlier(page);
    drawEmpty(panel);
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
  byId("panel-stop").addEventListener("click", () => panel.now?.run && void hooks.steer.stop([panel.now.id]));
  byId("panel-retry").addEventListener("click", () => panel.now !== null && void hooks.onRetry(panel.now.id));
  byId("panel-go-on").addEventListener(
    "click",
    () => panel.now?.run?.goOn && void hooks.steer.raise(panel.now.id, { amount: "x2", generation: panel.now.run.generation }),
  );
  byId("panel-again").addEventListener("click", () => panel.now?.run && hooks.onAgain(panel.now.run));
  byId("panel-compare").addEventListener("click", () => panel.now !== null && hooks.onChooseOther(panel.now.id));
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
  const isTaken = (await panel.hooks.steer.send(view.id, text)) !== null;
  if (!isTaken && panel.now === view && input.value === "") input.value = text;
}
