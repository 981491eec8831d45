// One open chat: its history, its live stream, what this tab is sending. Everything shown comes from the server;
// what is typed here is shown at once and replaced by the server's message with the same id.
import { byId, memory, newId, toast } from "./dom.js";
import {
  appendMessage,
  clearMessages,
  keepingEnd,
  prependMessages,
  removePending,
  replaceMessage,
  scrollToEnd,
  showDraft,
  showMessage,
  showPending,
  showRedo,
} from "./message-list.js";
import { press, stopAnswer } from "./pressing.js";
import { getJson, listen, postJson, SignedOut } from "./wire.js";
import { showWorking } from "./working-line.js";

const PAGE_SIZE = 30;
const DRAFT_GRACE_MS = 2500;
const BANNER_AFTER_MS = 1200;

/**
 * Can be written to at once; `ready` resolves when history and stream are there, and rejects when they can't be had.
 * `hooks`: onSignedOut(), onChats(chats), onQuestions({questions, total}), onRuns(runs), onRun(id), onPairing({waiting, people}), onStatus(status), onNodes(nodes), onBudgets(lines), onHeard(name, data) for the other views,
 * onAgentMessage(message), onConnected(), onGone() when the chat was deleted.
 */
export function openChat(chat, hooks) {
  const state = {
    chat,
    hooks,
    firstSeq: null,
    pending: new Map(),
    sending: Promise.resolve(),
    stop: () => {},
    isClosed: false,
    /** The request for earlier messages that is under way. */
    loading: null,
    bannerTimer: null,
    /** Whose words the draft shows, and whose answer is here already. */
    draftTurn: null,
    answeredTurn: null,
    /** Messages that were changed, as they are now: an older answer to "show earlier" may come behind the change. */
    edited: new Map(),
  };
  showWorking(null);
  showDraft(null);
  clearMessages({ onPress: (command) => press(state, command), onResend: (...what) => resend(state, ...what) });
  for (const post of memory.get(`pending.${chat}`, [])) void send(state, post);
  return {
    ready: load(state),
    send: (text, files = []) => void send(state, { id: newId(), text, files }),
    stopAnswer: () => stopAnswer(state),
    showAt: (seq) => showAt(state, seq),
    showEarlier: () => showEarlier(state),
    close() {
      state.isClosed = true;
      clearTimeout(state.bannerTimer);
      clearTimeout(state.draftTimer);
      clearInterval(state.ticker);
      state.stop();
    },
  };
}

async function load(state) {
  const page = await getJson(`/api/chats/${state.chat}/messages?limit=${PAGE_SIZE}`);
  // Somebody clicked on: this history must not be drawn into the next chat.
  if (state.isClosed) return;
  // A screen reader reads what comes from now on, not the whole past.
  byId("log").setAttribute("aria-busy", "true");
  showHistory(state, page);
  byId("log").setAttribute("aria-busy", "false");
  scrollToEnd();
  state.stop = listen({
    chat: state.chat,
    cursor: page.cursor,
    handlers: handlersOf(state),
    onState: (isConnected) => onConnection(state, isConnected),
    onSignedOut: state.hooks.onSignedOut,
  });
}

function handlersOf(state) {
  return {
    message(message) {
      if (message.id.startsWith("in:")) settlePending(state, message.id.slice(3));
      byId("empty").hidden = true;
      // The answer itself takes the draft's place, also when the next one is being written already. A command's answer
      // beside it does not.
      const isAnswer = isAnswerOf(state.draftTurn, message);
      if (isAnswer) state.answeredTurn = state.draftTurn;
      if (isAnswer || (message.author === "agent" && !state.isWorking)) dropDraft(state);
      appendMessage(message);
      if (state.firstSeq === null) state.firstSeq = message.seq;
      if (message.author === "agent") state.hooks.onAgentMessage(message);
    },
    edited(message) {
      state.edited.set(message.seq, message);
      replaceMessage(message);
    },
    working(working) {
      if (!working.working || working.startedAt !== state.workingSince) byId("stop").disabled = false;
      state.workingSince = working.startedAt;
      state.isWorking = working.working;
      showRedo(working.working);
      clearInterval(state.ticker);
      state.ticker = showWorking(working.working ? working : null, () => state.isAsking);
      // The words stay until the message itself is here, so that nothing flickers; of what was stopped none comes.
      if (!working.working) state.draftTimer = setTimeout(dropDraft, DRAFT_GRACE_MS, state);
    },
    draft(draft) {
      // Thinned out on its way: it may come after the answer that was stopped.
      if (draft.turnId === state.answeredTurn) return;
      clearTimeout(state.draftTimer);
      state.draftTurn = draft.turnId;
      showDraft(draft);
    },
    gone() {
      state.hooks.onGone();
    },
    questions(open) {
      state.hooks.onHeard("questions", open);
      state.isAsking = open.questions.some(({ runId, chat }) => runId === null && chat === state.chat);
      state.hooks.onQuestions(open);
    },
    ...ofAll(state.hooks),
  };
}

/** What every tab hears, whichever chat it has open; the other views hear it, too. */
function ofAll({ onTab, onRunDraft, onHeard, onRuns, onRun, onPairing, onChats, onStatus, onNodes, onBudgets }) {
  const corners = {
    tab: onTab,
    "run.draft": onRunDraft,
    runs: onRuns,
    run: ({ id }) => onRun(id),
    pairing: onPairing,
    chats: onChats,
    status: onStatus,
    nodes: onNodes,
    budgets: onBudgets,
  };
  const heard = ([name, show]) => [
    name,
    (data) => {
      show(data);
      onHeard(name, data);
    },
  ];
  return Object.fromEntries(Object.entries(corners).map(heard));
}

function showHistory(state, page) {
  const messages = page.messages.map((message) => newer(message, state.edited.get(message.seq)));
  prependMessages(messages);
  state.firstSeq = page.messages[0]?.seq ?? state.firstSeq;
  byId("earlier").hidden = !page.hasEarlier;
  // Taken before the history was read: its message stands there already.
  for (const { id } of page.messages) if (id.startsWith("in:")) settlePending(state, id.slice(3));
  byId("empty").hidden = state.firstSeq !== null || state.pending.size > 0;
}

const newer = (message, edited) => (edited !== undefined && edited.editedAt > (message.editedAt ?? 0) ? edited : message);

/** One at a time: whoever asks meanwhile waits for the same. */
async function showEarlier(state, limit = PAGE_SIZE) {
  if (state.firstSeq === null || byId("earlier").hidden) return;
  state.loading ??= loadEarlier(state, limit);
  await state.loading;
}

async function loadEarlier(state, limit) {
  try {
    const page = await getJson(`/api/chats/${state.chat}/messages?limit=${limit}&before=${state.firstSeq}`);
    if (!state.isClosed) showHistory(state, page);
  } catch (error) {
    toast(`Earlier messages can't be loaded: ${error.message}`);
  } finally {
    state.loading = null;
  }
}

/** How far back a message is looked for, in requests. */
const MAX_PAGES = 60;

/** A message found by the search, however far back. */
async function showAt(state, seq) {
  const isBehind = () => state.firstSeq > seq && !byId("earlier").hidden && !state.isClosed;
  for (let n = 0; n < MAX_PAGES && isBehind(); n++) {
    const before = state.firstSeq;
    await showEarlier(state, 100);
    // They can't be had, which was said.
    if (state.firstSeq === before) return;
  }
  if (state.isClosed || showMessage(seq)) return;
  toast(
    isBehind()
      ? "This message is further back than can be shown here. The chat's menu exports all of it."
      : "This message is not there any more.",
  );
}

function onConnection(state, isConnected) {
  const banner = byId("banner");
  if (!isConnected) {
    // A blink is not worth a word; the timer runs on while attempts fail.
    state.bannerTimer ??= setTimeout(() => {
      banner.textContent = "Connection lost. Trying again… What you write meanwhile is kept here and sent then.";
      keepingEnd(() => {
        banner.hidden = false;
      });
    }, BANNER_AFTER_MS);
    return;
  }
  clearTimeout(state.bannerTimer);
  state.bannerTimer = null;
  banner.hidden = true;
  state.hooks.onConnected();
  for (const post of state.pending.values()) if (post.state === "failed" && !post.isFinal) void send(state, post);
}

// The id stays the same over every retry and reload: the server takes it once, however often it comes.
async function send(state, { id, text, files = [] }) {
  state.pending.set(id, { id, text, files, state: "sending" });
  keepPending(state);
  drawPending(state, id);
  byId("empty").hidden = true;
  const attempt = state.sending.then(() => postJson(`/api/chats/${state.chat}/messages`, bodyOf(id, text, files)));
  // In the order they were typed, whatever the network does.
  state.sending = attempt.catch(() => {});
  try {
    const answer = await attempt;
    // Known from before: its message is in the history already.
    if (answer.status === "known") settlePending(state, id);
  } catch (error) {
    if (error instanceof SignedOut) state.hooks.onSignedOut();
    if (!state.pending.has(id)) return;
    state.pending.set(id, { id, text, files, state: "failed", isFinal: error.isFinal === true, reason: reasonOf(error) });
    drawPending(state, id);
  }
}

/** Other words in the place of the last ones. Resolves with why not, or null: then the stream brings both. */
async function resend(state, replaces, text, id) {
  try {
    await postJson(`/api/chats/${state.chat}/resend`, { id, text, replaces });
    scrollToEnd();
    return null;
  } catch (error) {
    if (error instanceof SignedOut) state.hooks.onSignedOut();
    return reasonOf(error);
  }
}

const reasonOf = (error) => (error instanceof TypeError || error.name === "TimeoutError" ? "No connection to Herald." : error.message);

const bodyOf = (id, text, files) => (files.length === 0 ? { id, text } : { id, text, files: files.map((file) => file.id) });

function drawPending(state, id) {
  const post = state.pending.get(id);
  if (state.isClosed || post === undefined) return;
  showPending(post, { onRetry: () => void send(state, post), onDrop: () => settlePending(state, id) });
}

function settlePending(state, id) {
  if (!state.pending.delete(id)) return;
  keepPending(state);
  if (!state.isClosed) removePending(id);
}

function keepPending(state) {
  const posts = [...state.pending.values()].map(({ id, text, files }) => ({ id, text, files }));
  memory.set(`pending.${state.chat}`, posts.length === 0 ? null : posts);
}

function dropDraft(state) {
  clearTimeout(state.draftTimer);
  state.draftTurn = null;
  showDraft(null);
}

/** `turn:7` is answered by `reply:7`, in one part or several. */
const isAnswerOf = (turnId, { id }) => typeof turnId === "string" && id.startsWith(`${turnId.replace(/^turn:/, "reply:")}#`);
