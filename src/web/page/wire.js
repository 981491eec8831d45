// The page's only way out: its own origin. JSON calls, and the event stream with a cursor that reconnects by itself. Every
// call carries the key of this browser beside its cookie: the cookie is sent to other ports of this host too, the key is
// not, and Herald wants both.
import { memory } from "./dom.js";

export class SignedOut extends Error {}

/** An answer that says no. `isFinal`: sending the same again won't help. */
export class Refused extends Error {
  constructor(status, text) {
    super(text || `Herald answered ${status}.`);
    this.status = status;
    this.isFinal = status >= 400 && status < 500 && status !== 408 && status !== 429;
  }
}

const KEY = "key";

export const keepKey = (key) => memory.set(KEY, key);

/** Calls back when another tab of this browser signed in. */
export function onSignedInElsewhere(act) {
  window.addEventListener("storage", (event) => event.key === `herald.${KEY}` && event.newValue !== null && act());
}

function ask(path, init = {}) {
  const key = memory.get(KEY, null);
  const headers = key === null ? init.headers : { ...init.headers, "x-herald-key": key };
  return fetch(path, { ...init, headers, credentials: "same-origin" });
}

async function call(path, init) {
  const response = await ask(path, { ...init, signal: AbortSignal.timeout(15_000) });
  const body = await response.json().catch(() => ({}));
  if (response.status === 401 && path !== "/api/login") throw new SignedOut();
  if (!response.ok) throw new Refused(response.status, body.error);
  return body;
}

export const getJson = (path) => call(path, { method: "GET" });
export const postJson = (path, body) =>
  call(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

const MAX_DELAY_MS = 5000;
/** Herald gives a sign of life every 15 s: a stream that is silent for this long is gone, whatever the network says. */
const SILENCE_MS = 40_000;
const STREAMS_WHEN_HIDDEN = 3;

/**
 * Listens to one chat from `cursor` on. `handlers` by event name; messages already seen are dropped.
 * `onState(isConnected)`, `onSignedOut()`. Returns the function that ends it.
 */
export function listen({ chat, cursor, handlers, onState, onSignedOut }) {
  let stream = null;
  let seen = cursor;
  let delayMs = 500;
  let timer = null;
  let isEnded = false;

  const hear = (name, data) => {
    if (name === "message") {
      if (data.seq <= seen) return;
      seen = data.seq;
    }
    handlers[name]?.(data);
  };
  const open = async () => {
    clearTimeout(timer);
    const own = new AbortController();
    stream = own;
    try {
      // Not an EventSource: that can't send a header, nor tell "signed out" from "not there".
      const response = await ask(`/api/events?chat=${chat}&cursor=${seen}`, { signal: own.signal });
      if (response.status === 401) throw new SignedOut();
      if (!response.ok) throw new Refused(response.status, "");
      delayMs = 500;
      onState(true);
      await readEvents(response.body, own, hear);
    } catch (error) {
      if (stream === own && error instanceof SignedOut) return onSignedOut();
    }
    if (stream === own) lose();
  };
  const close = () => {
    clearTimeout(timer);
    stream?.abort();
    stream = null;
  };
  function lose() {
    close();
    onState(false);
    timer = setTimeout(open, delayMs);
    delayMs = Math.min(delayMs * 2, MAX_DELAY_MS);
  }
  const wake = () => {
    if (stream === null && !isEnded) void open();
  };
  const stopSaving = saveStreams(close, wake);
  window.addEventListener("online", wake);
  void open();
  return () => {
    isEnded = true;
    stopSaving();
    window.removeEventListener("online", wake);
    close();
  };
}

/** Calls `hear(name, data)` for each event until the stream ends or stays silent for too long. */
async function readEvents(body, own, hear) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const silence = setTimeout(() => own.abort(), SILENCE_MS);
    const { value, done } = await reader.read().finally(() => clearTimeout(silence));
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/m.exec(block) ?? [];
      if (name !== undefined) hear(name, JSON.parse(data));
    }
  }
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
