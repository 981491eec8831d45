// The loop: /sync → inbox rows and the next token in one transaction → the next /sync, which is what confirms them. Killed anywhere, the
// stored token decides: what was not recorded comes again, what was is known by its id.
//
// The very first answer is all that ever happened in every room; of it only the token is kept, and the invitations that wait.
import { AppError, errorText } from "../../core/errors.ts";
import type { ChannelState, InboxSink } from "../../core/message.ts";
import { type Answer, type ApiFailure, explainFailure, MatrixFailure, v3 } from "./api.ts";
import type { Stored } from "./event.ts";
import { type Receiver, rowsOf, TYPES } from "./receive.ts";

export interface SyncOptions extends Receiver {
  readonly inbox: InboxSink;
  readonly signal: AbortSignal;
  readonly syncSeconds: number;
  show(state: ChannelState, detail?: string): void;
  /** Told who the bot is before anything is taken. Throws when the disk refuses; AppError("config") when it is another account's. */
  adopt(userId: string): Promise<void>;
}

type Me = Stored["me"];

const BASE_DELAY_MS = 1_000;
const MAX_DELAY_MS = 30_000;
const AUTH_DELAY_MS = 60_000;
/** An answer that comes back empty at once must not make the loop spin. */
const MIN_EMPTY_MS = 200;
/** A token without news is written this seldom: going on from an older one costs a server a look, and nobody anything. */
const STORE_EVERY_MS = 5 * 60_000;
const GRACE_MS = 15_000;

const none = { types: [] };
const FILTER = JSON.stringify({
  presence: none,
  account_data: none,
  room: {
    ...{ ephemeral: none, account_data: none },
    state: { types: ["m.room.member", "m.room.encryption"], lazy_load_members: true },
    timeline: { types: TYPES, limit: 50 },
  },
});
const FIRST = JSON.stringify({
  presence: none,
  account_data: none,
  room: { ephemeral: none, account_data: none, state: none, timeline: { types: [], limit: 1 } },
});

interface Progress {
  me: Me | null;
  /** The token to go on from; null: it has to be found. */
  since: string | null;
  isStored: boolean;
  storedAt: number;
  /** It works: the next one may be held by the server. */
  isProven: boolean;
}

/** Ends when the signal aborts. Never throws. */
export async function syncRooms(options: SyncOptions): Promise<void> {
  const { signal } = options;
  const backoff = createBackoff(options);
  const progress: Progress = { me: null, since: null, isStored: false, storedAt: Number.NEGATIVE_INFINITY, isProven: false };
  while (!signal.aborted) {
    try {
      await goOn(options, progress);
      if (signal.aborted) return;
      backoff.reset();
      options.show("on");
    } catch (error) {
      progress.isProven = false;
      if (!signal.aborted) await backoff.wait(explainFailure(error));
    }
  }
}

async function goOn(options: SyncOptions, progress: Progress): Promise<void> {
  const { clock, signal, inbox } = options;
  const startedAt = clock.now();
  progress.me ??= await whoAmI(options);
  if (progress.since === null) Object.assign(progress, await begin(options));
  const since = progress.since ?? "";
  const answer = await askFrom(options, progress, since);
  if (answer === null) return;
  const next = tokenOf(answer);
  const rows = await rowsOf(options, progress.me, answer, since);
  if (signal.aborted) return;
  const isDue = !progress.isStored || (next !== since && clock.now() - progress.storedAt > STORE_EVERY_MS);
  if (rows.length > 0 || isDue) {
    await record(() => inbox.put(rows, next));
    Object.assign(progress, { isStored: true, storedAt: clock.now() });
  }
  Object.assign(progress, { since: next, isProven: true });
  if (rows.length === 0 && clock.now() - startedAt < MIN_EMPTY_MS) await clock.sleep(MIN_EMPTY_MS, signal);
}

/** Null: the server doesn't know the token any more, and another one was found. */
async function askFrom(options: SyncOptions, progress: Progress, since: string): Promise<Answer | null> {
  try {
    // Asked without waiting first, so that /status knows at once whether it works.
    return await ask(options, { since, filter: FILTER, timeout: String(progress.isProven ? options.syncSeconds * 1_000 : 0) });
  } catch (error) {
    if (!isUnknownToken(error)) throw error;
    options.log.error({ since }, "the homeserver does not know the place it was read up to any more; what was said meanwhile was missed");
    // Whatever is stored by now would be refused again.
    Object.assign(progress, await begin({ ...options, inbox: { ...options.inbox, cursor: async () => null } }));
    return null;
  }
}

async function whoAmI({ api, adopt }: SyncOptions): Promise<Me> {
  const { user_id: userId } = await api.call("GET", v3("account", "whoami"));
  if (typeof userId !== "string" || !userId.startsWith("@")) throw new MatrixFailure({ kind: "lost", reason: "the answer named no user" });
  const name = await nameOf(api, userId);
  await record(() => adopt(userId));
  return { userId, name };
}

/** The name people see and write; without one they use the id. */
async function nameOf(api: SyncOptions["api"], userId: string): Promise<string> {
  try {
    const { displayname } = await api.call("GET", v3("profile", userId, "displayname"));
    return typeof displayname === "string" ? displayname.slice(0, 200).toWellFormed() : "";
  } catch (error) {
    if (explainFailure(error).kind === "refused") return "";
    throw error;
  }
}

/**
 * The token to go on from, the one of this moment where none is stored. It is kept in memory until it can be: asked for anew because the
 * disk refused it, it would be a later one, and what was said in between be history. Invitations are told of once, so that those from
 * before are looked for.
 */
async function begin(options: SyncOptions): Promise<{ since: string; isStored: boolean }> {
  const stored = await options.inbox.cursor();
  const answer = await ask(options, { filter: FIRST, timeout: "0" });
  await options.invites.look((answer.rooms as { invite?: unknown } | undefined)?.invite);
  return { since: stored?.value ?? tokenOf(answer), isStored: stored !== null };
}

const ask = ({ api, syncSeconds }: SyncOptions, query: Record<string, string>): Promise<Answer> =>
  api.call("GET", v3("sync"), { query: { ...query, set_presence: "online" }, timeoutMs: syncSeconds * 1_000 + GRACE_MS });

function tokenOf({ next_batch: next }: Answer): string {
  if (typeof next === "string" && next !== "") return next;
  throw new MatrixFailure({ kind: "lost", reason: "the answer named no token" });
}

/** A token that this server never gave, or gave too long ago. */
function isUnknownToken(error: unknown): boolean {
  const failure = error instanceof MatrixFailure ? error.failure : null;
  return failure?.kind === "refused" && failure.status === 400 && /^M_(?:UNKNOWN_POS|INVALID_PARAM|UNKNOWN)$/.test(failure.code);
}

/** When the disk refuses, nothing may be confirmed: the same is asked for again. */
async function record(put: () => Promise<void>): Promise<void> {
  try {
    await put();
  } catch (error) {
    if (error instanceof AppError && error.code === "config") throw new MatrixFailure({ kind: "auth", reason: error.message });
    throw new MatrixFailure({ kind: "offline", reason: `can't record updates: ${errorText(error)}` });
  }
}

/** Waits that grow from 1 s to 30 s with some jitter, and what /status says meanwhile. A success starts over. */
function createBackoff({ show, log, clock, signal }: SyncOptions): { wait(failure: ApiFailure): Promise<void>; reset(): void } {
  let failures = 0;
  return {
    reset() {
      failures = 0;
    },
    async wait(failure) {
      failures++;
      const ownMs = Math.min(BASE_DELAY_MS * 2 ** (failures - 1), MAX_DELAY_MS) * (0.5 + Math.random() / 2);
      const delayMs = failure.kind === "auth" ? AUTH_DELAY_MS : failure.kind === "limited" ? Math.max(failure.afterMs, ownMs) : ownMs;
      show(failure.kind === "auth" ? "failed" : "retrying", failure.reason);
      log.warn({ reason: failure.reason, failures, delayMs }, "receiving from Matrix is interrupted");
      await clock.sleep(delayMs, signal);
    },
  };
}
