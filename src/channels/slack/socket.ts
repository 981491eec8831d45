// Socket Mode: our own supervision around Slack's client, two sockets at a time. Each envelope is recorded, then
// acknowledged; what can't be recorded is not, and Slack sends it again. Bolt's own receiver and App are not in the way: the
// App acknowledges an event before any listener sees it, the receiver ends the process when a reconnect is refused and is
// deaf for 5 s at each refresh. The client beneath (WebSocket, pings, envelopes) is the one Bolt uses.
import { SocketModeClient } from "@slack/socket-mode";
import { createRateLimit, type RateLimit } from "../../core/rate-limit.ts";
import { type ApiFailure, clientOptions, explainFailure, toSlackLogger } from "./api.ts";
import type { Me, PayloadKind } from "./payload.ts";
import { delayFor, type Receiver, takePayload } from "./receive.ts";

export interface SocketOptions {
  readonly appToken: string;
  readonly apiUrl: string;
  readonly timeoutMs: number;
  readonly me: Me;
  /** Slack refreshes connections now and then; with two there is always one to hear. */
  readonly sockets: number;
}

interface Pool {
  readonly receiver: Receiver;
  readonly options: SocketOptions;
  readonly connected: Set<number>;
  /** Why a socket is down. */
  readonly trouble: Map<number, ApiFailure>;
  readonly acks: Set<Promise<void>>;
  /** Events that were refused are told one by one up to here, then only how many there were: Slack repeats hundreds of them. */
  readonly logged: RateLimit;
  unlogged: number;
}

interface Envelope {
  readonly envelope_id: string;
  readonly type: string;
  readonly body: unknown;
  ack(): Promise<void>;
}

const KINDS: Readonly<Record<string, PayloadKind>> = { events_api: "event", slash_commands: "command", interactive: "press" };
/** A connection that held so long is no part of a storm: the next one is made at once. */
const STABLE_MS = 5_000;
/** The network's time, not the gateway's: a connection without a greeting is none. */
const CONNECT_MS = 20_000;
const CLOSE_MS = 1_000;
const LOGGED = { burst: 20, refillMs: 60_000 };

/** Ends when the receiver's signal aborts and all sockets are closed. Never throws. */
export async function runSockets(receiver: Receiver, options: SocketOptions): Promise<void> {
  const pool: Pool = {
    receiver,
    options,
    connected: new Set(),
    trouble: new Map(),
    acks: new Set(),
    logged: createRateLimit({ ...LOGGED, clock: receiver.clock }),
    unlogged: 0,
  };
  await Promise.all(Array.from({ length: options.sockets }, (_, n) => superviseSocket(pool, n)));
  await Promise.all(pool.acks);
}

async function superviseSocket(pool: Pool, n: number): Promise<void> {
  const { clock, signal, log } = pool.receiver;
  for (let failures = 0; !signal.aborted; ) {
    const startedAt = clock.now();
    const failure = await runSocket(pool, n);
    if (signal.aborted) return;
    failures = failure === null && clock.now() - startedAt >= STABLE_MS ? 0 : failures + 1;
    const delayMs = failures === 0 ? 0 : delayFor(failure, failures);
    const reason = failure?.reason ?? "closed by Slack";
    log[failure === null ? "debug" : "warn"]({ socket: n, reason, failures, delayMs }, "a socket to Slack is down");
    await clock.sleep(delayMs, signal);
  }
}

/** One connection from opening to its end. Null: it was up and Slack closed it. */
async function runSocket(pool: Pool, n: number): Promise<ApiFailure | null> {
  const { receiver } = pool;
  const client = createSocketClient(pool);
  const closed = new Promise<void>((resolve) => client.once("disconnected", () => resolve()));
  const ended = new AbortController();
  const stopped = new Promise<void>((resolve) =>
    receiver.signal.addEventListener("abort", () => resolve(), { once: true, signal: ended.signal }),
  );
  try {
    const failure = await connect(client, stopped);
    if (failure !== null) {
      pool.trouble.set(n, failure);
      showHealth(pool);
      return failure;
    }
    pool.trouble.delete(n);
    pool.connected.add(n);
    showHealth(pool);
    await Promise.race([closed, stopped]);
    return null;
  } finally {
    ended.abort();
    if (pool.connected.delete(n)) showHealth(pool);
    await close(client);
  }
}

function createSocketClient(pool: Pool): SocketModeClient {
  const { receiver, options } = pool;
  const { log, signal } = receiver;
  const client = new SocketModeClient({
    appToken: options.appToken,
    autoReconnectEnabled: false,
    clientPingTimeout: 15_000,
    serverPingTimeout: 60_000,
    logger: toSlackLogger(log),
    clientOptions: clientOptions({ apiUrl: options.apiUrl, timeoutMs: options.timeoutMs, log, signal }),
  });
  guardFrames(client, receiver);
  client.on("slack_event", (envelope: Envelope) => take(pool, envelope));
  return client;
}

/** The client reads frames in an async function nobody waits for: one it can't read would end the process. */
function guardFrames(client: SocketModeClient, { log }: Receiver): void {
  const readers = client.listeners("ws_message");
  client.removeAllListeners("ws_message");
  client.on("ws_message", (...frame: unknown[]) => {
    for (const read of readers) {
      Promise.resolve(read.apply(client, frame)).catch((error: unknown) => log.warn({ err: error }, "Slack sent an unreadable frame"));
    }
  });
}

/** Null: connected and greeted. */
async function connect(client: SocketModeClient, stopped: Promise<void>): Promise<ApiFailure | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, CONNECT_MS);
  });
  const notReady: ApiFailure = { kind: "offline", reason: "the connection was closed before it was ready" };
  try {
    const started = client.start().then(() => null);
    return await Promise.race([started, late.then(() => notReady), stopped.then(() => notReady)]);
  } catch (error) {
    // The client rejects with nothing when the socket closes first.
    return error === undefined ? notReady : explainFailure(error, "channels.slack.appToken");
  } finally {
    clearTimeout(timer);
  }
}

/** Says goodbye, and hangs up when Slack doesn't answer. Closing twice is harmless. */
async function close(client: SocketModeClient): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((resolve) => {
    timer = setTimeout(() => resolve("late"), CLOSE_MS);
  });
  const outcome = await Promise.race([client.disconnect(), late]);
  clearTimeout(timer);
  if (outcome === "late") await client.disconnect();
}

/** Never throws: an error here would be the client's unhandled one. */
async function take(pool: Pool, envelope: Envelope): Promise<void> {
  const { receiver, options } = pool;
  // Unacknowledged, it comes again to whoever connects next.
  if (receiver.signal.aborted) return;
  const kind = Object.hasOwn(KINDS, envelope.type) ? KINDS[envelope.type] : undefined;
  const { body: payload, envelope_id } = envelope;
  try {
    // An envelope of another type (`hello`, something new) holds nothing for us; it is acknowledged all the same.
    if (kind !== undefined) await takePayload(receiver, options.me, { kind, payload, fallbackId: `envelope:${envelope_id}` });
  } catch (error) {
    if (!pool.logged.take("refused")) return void pool.unlogged++;
    receiver.log.error({ err: error, unlogged: pool.unlogged }, "an event from Slack can't be recorded; it is not acknowledged");
    pool.unlogged = 0;
    return;
  }
  const ack = envelope
    .ack()
    .catch((error: unknown) => receiver.log.debug({ err: error }, "an acknowledgement got lost; the event will come again"));
  const tracked = ack.finally(() => pool.acks.delete(tracked));
  pool.acks.add(tracked);
}

function showHealth({ receiver, connected, trouble }: Pool): void {
  if (receiver.signal.aborted) return;
  if (connected.size > 0) return receiver.show("on");
  const reasons = [...trouble.values()];
  const auth = reasons.find((failure) => failure.kind === "auth");
  const worst = auth ?? reasons[0];
  receiver.show(auth === undefined ? "retrying" : "failed", worst?.reason ?? "reconnecting");
}
