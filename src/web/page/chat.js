// One open chat: its history, its live stream, what this tab is sending. Everything shown comes from the server;
// what is typed here is shown at once and replaced by the server's message with the same id.
import { byId, memory, newId, setText, toast } from "./dom.js";
import {
  appendMessage,
  clearMessages,
  keepingEnd,
  prependMessages,
  removePending,
  scrollToEnd,
  showDraft,
  showPending,
} from "./message-list.js";
import { getJson, listen, postJson, SignedOut } from "./wire.js";
import { duration } from "./words.js";

const PAGE_SIZE = 30;
const DRAFT_GRACE_MS = 2500;
const BANNER_AFTER_MS = 1200;

/**
 * Can be written to at once; `ready` resolves when history and stream are there, and rejects when they can't be had.
 * `hooks`: onSignedOut(), onChats(chats), onRuns(runs), onRun(id), onPairing({waiting, people}), onStatus(status), onNodes(nodes),
 * onAgentMessage(message), onConnected().
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
    bannerTimer: null,
    /** Whose words the draft shows, and whose answer is here already. */
    draftTurn: null,
    answeredTurn: null,
  };
  showWorking(null);
  showDraft(null);
  clearMessages();
  for (const post of memory.get(`pending.${chat}`, [])) void send(state, post);
  return {
    ready: load(state),
    send: (text) => void send(state, { id: newId(), text }),
    stopAnswer: () => stopAnswer(state),
    pressIn: (otherChat, command) => pressIn(state, otherChat, command),
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
  byId("messages").setAttribute("aria-busy", "true");
  showHistory(state, page);
  byId("messages").setAttribute("aria-busy", "false");
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
      appendMessage(message, (command) => press(state, state.chat, command));
      if (state.firstSeq === null) state.firstSeq = message.seq;
      if (message.author === "agent") state.hooks.onAgentMessage(message);
    },
    working(working) {
      if (!working.working || working.startedAt !== state.workingSince) byId("stop").disabled = false;
      state.workingSince = working.startedAt;
      state.isWorking = working.working;
      clearInterval(state.ticker);
      state.ticker = showWorking(working.working ? working : null);
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
    runs: state.hooks.onRuns,
    run: ({ id }) => state.hooks.onRun(id),
    pairing: state.hooks.onPairing,
    chats: state.hooks.onChats,
    status: state.hooks.onStatus,
    nodes: state.hooks.onNodes,
  };
}

function showHistory(state, page) {
  prependMessages(page.messages, (command) => press(state, state.chat, command));
  state.firstSeq = page.messages[0]?.seq ?? state.firstSeq;
  byId("earlier").hidden = !page.hasEarlier;
  // Taken before the history was read: its message stands there already.
  for (const { id } of page.messages) if (id.startsWith("in:")) settlePending(state, id.slice(3));
  byId("empty").hidden = state.firstSeq !== null || state.pending.size > 0;
}

async function showEarlier(state) {
  if (state.isLoading || state.firstSeq === null || byId("earlier").hidden) return;
  state.isLoading = true;
  try {
    const page = await getJson(`/api/chats/${state.chat}/messages?limit=${PAGE_SIZE}&before=${state.firstSeq}`);
    if (!state.isClosed) showHistory(state, page);
  } catch (error) {
    toast(`Earlier messages can't be loaded: ${error.message}`);
  } finally {
    state.isLoading = false;
  }
}

function onConnection(state, isConnected) {
  const banner = byId("banner");
  if (!isConnected) {
    // A blink is not worth a word; the timer runs on while attempts fail.
    state.bannerTimer ??= setTimeout(() => {
      banner.textContent = "Connection lost. Trying again…";
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
async function send(state, { id, text }) {
  state.pending.set(id, { id, text, state: "sending" });
  keepPending(state);
  drawPending(state, id);
  byId("empty").hidden = true;
  const attempt = state.sending.then(() => postJson(`/api/chats/${state.chat}/messages`, { id, text }));
  // In the order they were typed, whatever the network does.
  state.sending = attempt.catch(() => {});
  try {
    const answer = await attempt;
    // Known from before: its message is in the history already.
    if (answer.status === "known") settlePending(state, id);
  } catch (error) {
    if (error instanceof SignedOut) state.hooks.onSignedOut();
    if (!state.pending.has(id)) return;
    const reason = error instanceof TypeError || error.name === "TimeoutError" ? "no connection to Herald." : error.message;
    state.pending.set(id, { id, text, state: "failed", isFinal: error.isFinal === true, reason });
    drawPending(state, id);
  }
}

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
  const posts = [...state.pending.values()].map(({ id, text }) => ({ id, text }));
  memory.set(`pending.${state.chat}`, posts.length === 0 ? null : posts);
}

/** Resolves with whether it was taken. */
async function press(state, chat, command) {
  try {
    await postJson(`/api/chats/${chat}/messages`, { id: newId(), text: command, kind: "button" });
    return true;
  } catch (error) {
    if (error instanceof SignedOut) state.hooks.onSignedOut();
    else toast(`That did not work: ${error.message}`);
    return false;
  }
}

/** Once for each answer: the same press again would end the sub-agents too, and a double click must not. */
async function stopAnswer(state) {
  byId("stop").disabled = true;
  if (!(await press(state, state.chat, "/stop answer"))) byId("stop").disabled = false;
}

/** For a button outside the chat, which may be covered or not the one that answers. */
async function pressIn(state, chat, command) {
  const isTaken = await press(state, chat, command);
  if (isTaken) toast(chat === state.chat ? "Sent." : "Sent. The answer is in that sub-agent's chat.");
  return isTaken;
}

function dropDraft(state) {
  clearTimeout(state.draftTimer);
  state.draftTurn = null;
  showDraft(null);
}

/** `turn:7` is answered by `reply:7`, in one part or several. */
const isAnswerOf = (turnId, { id }) => typeof turnId === "string" && id.startsWith(`${turnId.replace(/^turn:/, "reply:")}#`);

/** Null hides the line. Returns the ticker to clear before the next call. */
function showWorking(working) {
  const node = byId("working");
  keepingEnd(() => {
    node.hidden = working === null;
  });
  if (working === null) return null;
  const draw = () => {
    const passedMs = Date.now() - working.startedAt;
    const what = working.doing === null ? "Working…" : `Working… (${working.doing})`;
    setText(byId("working-text"), passedMs < 10_000 ? what : `${what} ${duration(Math.floor(passedMs / 5000) * 5000)}`);
  };
  draw();
  return setInterval(draw, 1000);
}
