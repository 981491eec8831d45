// The page's only way out: its own origin. JSON calls, and the event stream with a cursor that reconnects by itself. Every
// call carries the key of this browser beside its cookie: the cookie is sent to other ports of this host too, the key is
// not, and Herald wants both.
import { memory, newId } from "./dom.js";

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

async function call(path, init, timeoutMs = 15_000) {
  const response = await ask(path, { ...init, signal: AbortSignal.timeout(timeoutMs) });
  const body = await response.json().catch(() => ({}));
  if (response.status === 401 && path !== "/api/login") throw new SignedOut();
  if (!response.ok) throw new Refused(response.status, body.error);
  return body;
}

export const getJson = (path) => call(path, { method: "GET" });
export const postJson = (path, body, timeoutMs) =>
  call(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }, timeoutMs);

/** For so long a second press of the same is taken for the first one. */
const SAME_MS = 600_000;
/** What was sent and not answered yet, with its key. */
const unanswered = new Map();

/** With a key that stays the same until an answer came: taken once, however often it is pressed after a time-out. */
export async function postOnce(path, body) {
  const wish = `${path} ${JSON.stringify(body)}`;
  const before = unanswered.get(wish);
  const { key } = before !== undefined && before.at > Date.now() - SAME_MS ? before : { key: newId() };
  unanswered.set(wish, { key, at: Date.now() });
  try {
    const answer = await postJson(path, { key, ...body });
    unanswered.delete(wish);
    return answer;
  } catch (error) {
    if (error.isFinal === true) unanswered.delete(wish);
    throw error;
  }
}

/** A file, under the name the server gives it. */
export async function download(path) {
  const response = await ask(path, { signal: AbortSignal.timeout(120_000) });
  if (response.status === 401) throw new SignedOut();
  if (!response.ok) throw new Refused(response.status, (await response.json().catch(() => ({}))).error);
  const name = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("content-disposition") ?? "")?.[1];
  return { blob: await response.blob(), name: name === undefined ? "chat" : decodeURIComponent(name) };
}

/** Bytes, with how far it came: `onProgress(share)`. Only XMLHttpRequest tells that of what is sent. */
export function uploadFile(path, blob, { onProgress, signal }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    request.responseType = "json";
    request.setRequestHeader("content-type", "application/octet-stream");
    const key = memory.get(KEY, null);
    if (key !== null) request.setRequestHeader("x-herald-key", key);
    request.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 0 : loaded / total);
    request.onload = () =>
      request.status === 200 ? resolve(request.response) : reject(new Refused(request.status, request.response?.error));
    request.onerror = () => reject(new Error("no connection to Herald."));
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.onabort = () => reject(new Error("removed."));
    request.send(blob);
  });
}

export async function getBlob(path) {
  const response = await ask(path);
  if (!response.ok) throw new Refused(response.status, (await response.json().catch(() => ({}))).error);
  return response.blob();
}

const MAX_DELAY_MS = 5000;
/** Herald gives a sign of life every 15 s: a stream that is silent for this long is gone, whatever the network says. */
const SILENCE_MS = 40_000;
const STREAMS_WHEN_HIDDEN = 3;

/** As Herald writes it: the last message, and behind a dot the last change of one. */
const parseCursor = (text) => {
  const [seq, editedAt = "0"] = text.split(".");
  return { seq: Number(seq), editedAt: Number(editedAt) };
};

/**
 * Listens to one chat from `cursor` on. `handlers` by event name; messages and changes already seen are dropped.
 * `onState(isConnected)`, `onSignedOut()`. Returns the function that ends it.
 */
export function listen({ chat, cursor, handlers, onState, onSignedOut }) {
  let stream = null;
  const seen = parseCursor(cursor);
  let delayMs = 500;
  let timer = null;
  let isEnded = false;

  const hear = (name, data) => {
    const counts = name === "message" ? "seq" : name === "edited" ? "editedAt" : null;
    if (counts !== null) {
      if (data[counts] <= seen[counts]) return;
      seen[counts] = data[counts];
    }
    handlers[name]?.(data);
  };
  const open = async () => {
    clearTimeout(timer);
    const own = new AbortController();
    stream = own;
    try {
      // Not an EventSource: that can't send a header, nor tell "signed out" from "not there".
      const response = await ask(`/api/events?chat=${chat}&cursor=${seen.seq}.${seen.editedAt}`, { signal: own.signal });
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
