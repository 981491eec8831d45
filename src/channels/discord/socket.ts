// The gateway: our own supervision around the library's shard, one connection at a time. Left to itself the shard connects again every half
// second, for ever, and spends an identify each time, of which Discord gives a thousand a day; it forgets a session as soon as the network
// fails; and it counts an event as heard before anybody has recorded it. Here each connection has a shard of its own that is put to rest
// when it is over, and it is told the number of what is on record, in heartbeats as when it resumes.
import { type SessionInfo, WebSocketShard, WebSocketShardEvents, WebSocketShardStatus } from "@discordjs/ws";
import { errorText } from "../../core/errors.ts";
import { createInTurn } from "../../core/in-turn.ts";
import { type ApiFailure, BAD_TOKEN, explainFailure } from "./api.ts";
import { type Dispatch, takeEvent } from "./events.ts";
import type { Journal } from "./journal.ts";
import type { Receiver } from "./receive.ts";

export interface SocketOptions {
  readonly botToken: string;
}

/** Servers, their messages, direct messages, and what stands in them. */
const INTENTS = (1 << 0) | (1 << 9) | (1 << 12) | (1 << 15);
/** The network's time, not the gateway's. */
const CONNECT_MS = 20_000;
const CLOSE_MS = 1_000;
/** A connection that held so long is no part of a storm: the next one is made at once. */
const STABLE_MS = 5_000;
const BASE_DELAY_MS = 1_000;
const MAX_DELAY_MS = 30_000;
/** Each costs an identify. */
const MAX_IDENTIFY_DELAY_MS = 5 * 60_000;
/** The rest of the day's is left for people who start it. */
const SPARE_IDENTIFIES = 20;
/** Where a session was may be no place any more: then it is asked for at the front door. */
const MAX_RESUMES = 3;
/** "Invalid session": no close, but it ends the connection here as one does. */
const NOT_NOW = 9;
/** Says goodbye without ending the session. */
const KEEP_SESSION = 4_200;
/** The session is over, by Discord's word or by ours. */
const SESSION_OVER: ReadonlySet<number> = new Set([1_000, 4_007, 4_009]);

export const NO_INTENT =
  "the Message Content intent is off: turn it on at https://discord.com/developers/applications under Bot, then start Herald again";

/** Nothing but a change of settings helps, so nobody tries again. */
const FATAL: ReadonlyMap<number, string> = new Map([
  [4_004, BAD_TOKEN],
  [4_010, "Discord refuses the connection (invalid shard)"],
  [4_011, "this bot is in too many servers for one connection"],
  [4_012, "Discord no longer takes this version of its gateway"],
  [4_013, "Discord refuses the intents Herald asks for"],
  [4_014, NO_INTENT],
]);

interface End {
  readonly wasUp: boolean;
  /** Discord's, or the socket's; null: none was made. */
  readonly code: number | null;
  readonly failure: ApiFailure | null;
  readonly reason: string;
}

/** Ends when the receiver's signal aborts, or when Discord refuses us for good. Never throws. */
export async function runGateway(receiver: Receiver, options: SocketOptions): Promise<void> {
  const { clock, signal, log, journal } = receiver;
  for (let failures = 0; !signal.aborted; ) {
    const startedAt = clock.now();
    const end = await connectOnce(receiver, options, failures);
    if (signal.aborted) return;
    const fatal = end.failure?.kind === "auth" ? BAD_TOKEN : FATAL.get(end.code ?? 0);
    if (fatal !== undefined) {
      receiver.show("failed", fatal);
      return log.error({ reason: fatal }, "Discord refuses the bot; it is not tried again until the next start");
    }
    failures = end.wasUp && clock.now() - startedAt >= STABLE_MS ? 0 : failures + 1;
    // Put off again and again it is over as well: what it would have brought is read (catch-up.ts).
    const isOver = SESSION_OVER.has(end.code ?? 0) || (end.code === NOT_NOW && failures > MAX_RESUMES);
    if (isOver) journal.session = null;
    const delayMs = delayFor(end.failure, failures, journal);
    if (failures > 0) receiver.show("retrying", end.reason);
    log[failures === 0 ? "debug" : "warn"]({ reason: end.reason, code: end.code, failures, delayMs }, "the connection to Discord is down");
    await clock.sleep(delayMs, signal);
  }
}

function delayFor(failure: ApiFailure | null, failures: number, { session }: Journal): number {
  if (failure?.kind === "limited" && failure.afterMs > 0) return failure.afterMs;
  if (failures === 0) return 0;
  const longest = session === null ? MAX_IDENTIFY_DELAY_MS : MAX_DELAY_MS;
  return Math.min(BASE_DELAY_MS * 2 ** (failures - 1), longest) * (0.5 + Math.random() / 2);
}

const isAddress = (url: string): boolean => /^wss?:/.test(url) && URL.canParse(url);

const notMade = (failure: ApiFailure): End => ({ wasUp: false, code: null, failure, reason: failure.reason });

async function connectOnce(receiver: Receiver, options: SocketOptions, failures: number): Promise<End> {
  const { api, journal } = receiver;
  const { session } = journal;
  // A session names its own address.
  if (session !== null && isAddress(session.url) && failures <= MAX_RESUMES) return runShard(receiver, options, session.url);
  try {
    const { url, session_start_limit: starts } = await api.gateway.getBot();
    if (!isAddress(url)) return notMade({ kind: "lost", reason: "Discord named no gateway" });
    if (session !== null) journal.session = { ...session, url };
    else if (starts.remaining <= SPARE_IDENTIFIES && starts.remaining < starts.total / 2)
      return notMade({ kind: "limited", afterMs: starts.reset_after, reason: "too many connections were made today" });
    return await runShard(receiver, options, url);
  } catch (error) {
    return notMade(explainFailure(error));
  }
}

/** One connection from opening to its end. */
async function runShard(receiver: Receiver, options: SocketOptions, url: string): Promise<End> {
  const { journal, signal, log } = receiver;
  const state = { isUp: false, isOver: false };
  const { promise: ended, resolve: end } = Promise.withResolvers<{ code: number; reason: string }>();
  const shard = createShard(receiver, options, { url, isOver: () => state.isOver, over: (code, reason) => end({ code, reason }) });
  const inTurn = createInTurn();
  const fail = (error: unknown): void => end({ code: 0, reason: `can't record what was said: ${errorText(error)}` });
  shard.on(WebSocketShardEvents.Dispatch, (event) => {
    if (state.isOver) return;
    const { seen, work } = takeEvent(receiver, event as unknown as Dispatch);
    seen?.catch(() => undefined);
    // What comes behind one that is not on record must not count as heard either: it comes again with it.
    void inTurn(async () => (state.isOver ? undefined : work())).catch((error: unknown) => {
      if (state.isOver) return;
      state.isOver = true;
      fail(error);
    });
  });
  const up = (): void => {
    state.isUp = true;
    receiver.show("on");
  };
  shard.on(WebSocketShardEvents.Ready, up);
  shard.on(WebSocketShardEvents.Resumed, up);
  // Behind all that was told before it: only then is that on record. Before the session is up it says nothing: one that was forgotten would
  // be taken for one that is silent, and what was said in the outage for heard.
  shard.on(WebSocketShardEvents.HeartbeatComplete, () => {
    const heardAt = receiver.clock.now();
    if (state.isUp)
      void inTurn(async () => (state.isOver || journal.missingSince !== null ? undefined : Object.assign(journal, { heardAt })));
  });
  shard.on(WebSocketShardEvents.Closed, (code) => end({ code, reason: `closed by Discord (${code})` }));
  shard.on(WebSocketShardEvents.SocketError, (error) => log.debug({ reason: errorText(error) }, "the socket to Discord failed"));
  // The close that comes with it says the same by its number.
  shard.on(WebSocketShardEvents.Error, (error) => log.debug({ reason: errorText(error) }, "Discord ended the connection"));
  const late = setTimeout(() => (state.isUp ? undefined : end({ code: 0, reason: "the connection was not ready in time" })), CONNECT_MS);
  const stop = (): void => end({ code: 0, reason: "stopped" });
  signal.addEventListener("abort", stop, { once: true });
  shard.connect().catch(() => undefined);
  const { code, reason } = await ended;
  state.isOver = true;
  clearTimeout(late);
  signal.removeEventListener("abort", stop);
  await close(shard);
  // What was being recorded is on record, or not, before anybody asks from where to go on.
  await inTurn(async () => undefined);
  return { wasUp: state.isUp, code, failure: null, reason };
}

interface Link {
  readonly url: string;
  isOver(): boolean;
  /** The shard has given the connection up and would make another one, or Discord does not take the session up. */
  over(code: number, reason: string): void;
}

function createShard({ journal, log }: Receiver, { botToken }: SocketOptions, { url, isOver, over }: Link): WebSocketShard {
  let isConnecting = false;
  const shard: WebSocketShard = new WebSocketShard(
    {
      options: {
        ...{
          token: botToken,
          intents: INTENTS,
          version: "10",
          encoding: "json" as never,
          compression: null,
          useIdentifyCompression: false,
        },
        ...{
          // One limit for all of it, and it is ours (runShard).
          handshakeTimeout: null,
          helloTimeout: null,
          readyTimeout: null,
          initialPresence: null,
          largeThreshold: null,
        },
        identifyProperties: { browser: "herald", device: "herald", os: process.platform },
        gatewayInformation: { url, shards: 1, session_start_limit: { total: 1, remaining: 1, reset_after: 0, max_concurrency: 1 } },
        shardCount: 1,
      },
      async retrieveSessionInfo() {
        // Idle, it is about to connect: once it may. A second time it would come back without any delay, so it is never answered.
        if (shard.status === WebSocketShardStatus.Idle) {
          if (isConnecting || isOver()) {
            over(0, "closed");
            return new Promise<never>(() => undefined);
          }
          isConnecting = true;
        }
        return infoOf(journal);
      },
      async updateSessionInfo(_shard, info) {
        // Numbers of events are ours to count. A session it gives up is only over when Discord says so (SESSION_OVER).
        if (info !== null && info.sessionId !== journal.session?.id) beginSession(journal, info);
      },
      waitForIdentify: async () => undefined,
    },
    0,
  );
  guardFrames(shard, log, over);
  return shard;
}

function infoOf({ session }: Journal): SessionInfo | null {
  if (session === null) return null;
  return { sessionId: session.id, resumeURL: session.url, sequence: session.seq, shardId: 0, shardCount: 1 };
}

/** What came between the last one and this nobody will tell us. */
function beginSession(journal: Journal, { sessionId, resumeURL, sequence }: SessionInfo): void {
  journal.missingSince ??= journal.heardAt;
  journal.threadsSince ??= journal.missingSince;
  journal.session = { id: sessionId, url: resumeURL, seq: sequence };
}

/**
 * The shard reads frames in an async function nobody waits for: one it can't read would end the process. And a session that is put off it
 * asks for again in the same moment, as often as it is put off: that is for runGateway, which waits longer each time.
 */
function guardFrames(shard: WebSocketShard, log: Receiver["log"], over: Link["over"]): void {
  const inner = shard as unknown as { onMessage(data: unknown, isBinary: boolean): Promise<void> };
  const read = inner.onMessage.bind(shard);
  inner.onMessage = async (data, isBinary) => {
    try {
      if (isPutOff(data)) over(NOT_NOW, "Discord does not resume the session now");
      else await read(data, isBinary);
    } catch (error) {
      log.warn({ err: error }, "Discord sent an unreadable frame");
    }
  };
}

/** Such a frame is short; throws when it is unreadable. */
function isPutOff(data: unknown): boolean {
  if (typeof data !== "string" || data.length > 100) return false;
  const frame = JSON.parse(data) as { readonly op?: unknown; readonly d?: unknown } | null;
  return frame?.op === 9 && frame.d === true;
}

/**
 * Says goodbye, and hangs up when Discord doesn't answer. The shard lets go of a socket that is still connecting, and of its errors: one
 * that nobody listens for would end the process.
 */
async function close(shard: WebSocketShard): Promise<void> {
  const { connection } = shard as unknown as { connection: Socket | null };
  connection?.on("error", () => undefined);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, CLOSE_MS);
  });
  await Promise.race([shard.destroy({ code: KEEP_SESSION }).catch(() => undefined), late]);
  clearTimeout(timer);
  connection?.terminate();
}

/** As much as is needed of what the library makes. */
interface Socket {
  on(event: "error", listener: () => void): unknown;
  terminate(): void;
}
