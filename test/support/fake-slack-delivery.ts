// How the fake tells the app what happened: envelopes over one of its sockets, or signed posts to its request URL. An event
// that is not acknowledged comes again, under a new envelope, with the same event id; a command or a press never does.
import { createHmac } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type Delivery, nextId, type State, wake } from "./fake-slack-state.ts";
import { acceptWebSocket, type ServerSocket } from "./websocket-server.ts";

const MAX_ATTEMPTS = 1_000;

/** Resolves with whether the app acknowledged it; for an event, not before it did. */
export function deliver(state: State, type: Delivery["type"], payload: Record<string, unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    const delivery: Delivery = { type, payload, attempt: 0, envelope: null, socket: null, timer: null, settled: resolve };
    state.pending.add(delivery);
    attempt(state, delivery);
  });
}

function attempt(state: State, delivery: Delivery): void {
  if (state.closed || !state.pending.has(delivery)) return;
  if (delivery.timer !== null) clearTimeout(delivery.timer);
  delivery.timer = setTimeout(() => missed(state, delivery), state.ackTimeoutMs);
  if (state.requestUrl !== null) return void post(state, delivery, state.requestUrl);
  const open = state.sockets.filter((socket) => socket.isOpen);
  const socket = open[state.nextSocket++ % Math.max(1, open.length)];
  // Nobody listens: an event waits for the next connection.
  if (socket === undefined) return;
  delivery.envelope = nextId(state, "env-");
  delivery.socket = socket;
  const retry = delivery.attempt === 0 ? {} : { retry_attempt: delivery.attempt, retry_reason: "timeout" };
  const { type, payload } = delivery;
  socket.send(JSON.stringify({ envelope_id: delivery.envelope, type, payload, accepts_response_payload: type !== "events_api", ...retry }));
}

function missed(state: State, delivery: Delivery): void {
  delivery.attempt++;
  if (delivery.type !== "events_api" || delivery.attempt > MAX_ATTEMPTS) return settle(state, delivery, false);
  attempt(state, delivery);
}

function settle(state: State, delivery: Delivery, acknowledged: boolean): void {
  if (delivery.timer !== null) clearTimeout(delivery.timer);
  state.pending.delete(delivery);
  delivery.settled(acknowledged);
  wake(state);
}

async function post(state: State, delivery: Delivery, url: string): Promise<void> {
  const form =
    delivery.type === "events_api"
      ? null
      : delivery.type === "interactive"
        ? { payload: JSON.stringify(delivery.payload) }
        : delivery.payload;
  const body = form === null ? JSON.stringify(delivery.payload) : new URLSearchParams(form as Record<string, string>).toString();
  const type = form === null ? "application/json" : "application/x-www-form-urlencoded";
  const retry: Record<string, string> =
    delivery.attempt === 0 ? {} : { "x-slack-retry-num": String(delivery.attempt), "x-slack-retry-reason": "http_error" };
  try {
    const response = await fetch(url, { method: "POST", body, headers: { "content-type": type, ...signatureOf(state, body), ...retry } });
    await response.arrayBuffer();
    if (response.status === 200 && state.pending.has(delivery)) settle(state, delivery, true);
  } catch {
    // Not reachable right now: the timer tries again.
  }
}

/** The headers that prove a body is Slack's; `atSeconds` for requests from another time. */
export function signatureOf({ signingSecret, now }: State, body: string, atSeconds = Math.floor(now() / 1000)): Record<string, string> {
  const signature = createHmac("sha256", signingSecret).update(`v0:${atSeconds}:${body}`).digest("hex");
  return { "x-slack-request-timestamp": String(atSeconds), "x-slack-signature": `v0=${signature}` };
}

export function acceptSocket(state: State, request: IncomingMessage, stream: Duplex): void {
  state.connections++;
  const socket: ServerSocket = acceptWebSocket(request, stream, {
    text: (text) => acknowledge(state, text),
    closed() {
      state.sockets = state.sockets.filter((one) => one !== socket);
      // What was under way on it is unacknowledged: at once to another one.
      for (const delivery of [...state.pending]) if (delivery.socket === socket && delivery.type === "events_api") missed(state, delivery);
      wake(state);
    },
  });
  state.sockets.push(socket);
  socket.send(JSON.stringify({ type: "hello", num_connections: state.sockets.length, connection_info: { app_id: state.appId } }));
  for (const delivery of [...state.pending]) if (delivery.socket === null || !delivery.socket.isOpen) attempt(state, delivery);
  wake(state);
}

function acknowledge(state: State, text: string): void {
  const { envelope_id: envelope } = JSON.parse(text) as { envelope_id?: string };
  if (envelope === undefined) return;
  state.acks.push(envelope);
  for (const delivery of state.pending) if (delivery.envelope === envelope) settle(state, delivery, true);
  wake(state);
}
