// The page's only way out: its own origin. JSON calls, and the event stream with a cursor that reconnects by itself.

export class SignedOut extends Error {}

/** An answer that says no. `isFinal`: sending the same again won't help. */
export class Refused extends Error {
  constructor(status, text) {
    super(text || `Herald answered ${status}.`);
    this.status = status;
    this.isFinal = status >= 400 && status < 500 && status !== 408 && status !== 429;
  }
}

async function call(path, init) {
  const response = await fetch(path, { ...init, credentials: "same-origin", signal: AbortSignal.timeout(15_000) });
  const body = await response.json().catch(() => ({}));
  if (response.status === 401 && path !== "/api/login") throw new SignedOut();
  if (!response.ok) throw new Refused(response.status, body.error);
  return body;
}

export const getJson = (path) => call(path, { method: "GET" });
export const postJson = (path, body) =>
  call(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

const MAX_DELAY_MS = 5000;
const STREAMS_WHEN_HIDDEN = 3;

/**
 * Listens to one chat from `cursor` on. `handlers` by event name; messages already seen are dropped.
 * `onState(isConnected)`, `onSignedOut()`. Returns the function that ends it.
 */
export function listen({ chat, cursor, handlers, onState, onSignedOut }) {
  let source = null;
  let seen = cursor;
  let delayMs = 500;
  let timer = null;
  let isEnded = false;

  const hear = (name, data) => {
    if (name === "message") {
      if (data.seq <= seen) return;
      seen = data.seq;
    }
    handlers[name](data);
  };
  const open = () => {
    source = new EventSource(`/api/events?chat=${chat}&cursor=${seen}`);
    source.onopen = () => {
      delayMs = 500;
      onState(true);
    };
    source.onerror = lose;
    for (const name of Object.keys(handlers)) source.addEventListener(name, (event) => hear(name, JSON.parse(event.data)));
  };
  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  function lose() {
    close();
    onState(false);
    timer = setTimeout(retry, delayMs);
    delayMs = Math.min(delayMs * 2, MAX_DELAY_MS);
  }
  // EventSource can't tell "signed out" from "not there": a plain call can.
  async function retry() {
    clearTimeout(timer);
    try {
      await getJson("/api/chats");
      if (!isEnded && source === null) open();
    } catch (error) {
      if (isEnded) return;
      if (error instanceof SignedOut) onSignedOut();
      else lose();
    }
  }
  const wake = () => {
    if (source === null) void retry();
  };
  const stopSaving = saveStreams(close, wake);
  window.addEventListener("online", wake);
  open();
  return () => {
    isEnded = true;
    stopSaving();
    window.removeEventListener("online", wake);
    close();
  };
}

// A browser opens six connections to a host at most, for all tabs together. So hidden tabs keep their stream only
// while few do; the others let go and catch up from their cursor when they are looked at again.
function saveStreams(close, wake) {
  let release = () => {};
  const onChange = async () => {
    release();
    if (document.visibilityState === "visible") return wake();
    const done = new Promise((resolve) => {
      release = resolve;
    });
    if (!(await takeSlot(done)) && document.visibilityState === "hidden") close();
  };
  document.addEventListener("visibilitychange", onChange);
  return () => {
    release();
    document.removeEventListener("visibilitychange", onChange);
  };
}

/** True when this tab got one of the few slots, which it then holds until `done`. */
async function takeSlot(done) {
  if (navigator.locks === undefined) return false;
  for (let slot = 0; slot < STREAMS_WHEN_HIDDEN; slot++) {
    const got = await new Promise((answer) => {
      void navigator.locks.request(`herald-stream-${slot}`, { ifAvailable: true }, async (lock) => {
        answer(lock !== null);
        if (lock !== null) await done;
      });
    });
    if (got) return true;
  }
  return false;
}
