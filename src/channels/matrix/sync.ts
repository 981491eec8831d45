// The loop: /sync → inbox rows and the next token in one transaction → the next /sync, which is what confirms them. Killed anywhere, the
// stored token decides: what was not recorded comes again, what was is known by its id.
//
// The very first answer is all that ever happened in every room; of it only the token is kept, and the invitations that wait. For an
// account in thousands of rooms it is minutes of a server's work, so nobody waits for it who has a token.
import { AppError, errorText } from "../../core/errors.ts";
import type { ChannelState, InboxSink } from "../../core/message.ts";
import { type Answer, type ApiFailure, explainFailure, MatrixFailure, TOO_LONG, v3 } from "./api.ts";
import type { Stored } from "./event.ts";
import { type Receiver, type Row, rowsOf, TYPES } from "./receive.ts";

export interface SyncOptions extends Receiver {
  readonly inbox: InboxSink;
  readonly signal: AbortSignal;
  readonly syncSeconds: number;
  /** How much longer than the server was asked to hold it an answer may take. */
  readonly graceMs: number;
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
/** fetch itself waits five minutes for the first word of an answer, and no longer. */
const MAX_PATIENCE_MS = 4.5 * 60_000;
/** So many of a room's events at once, and fewer where all rooms together were too much: what is left out is a gap, read by pages. */
const PER_ROOM = [50, 5, 1] as const;
const MAX_LOOKS = 5;
const LOOK_AGAIN_MS = 60_000;

const none = { types: [] };
const filterOf = (perRoom: number): string =>
  JSON.stringify({
    presence: none,
    account_data: none,
    room: {
      ...{ ephemeral: none, account_data: none },
      state: { types: ["m.room.member", "m.room.encryption"], lazy_load_members: true },
      timeline: { types: TYPES, limit: perRoom },
    },
  });
/** Without a token, and of no room anything. */
const EVERYTHING = {
  filter: JSON.stringify({
    presence: none,
    account_data: none,
    room: { ephemeral: none, account_data: none, state: none, timeline: { types: [], limit: 1 } },
  }),
  timeout: "0",
};

interface Progress {
  me: Me | null;
  /** The token to go on from; null: it has to be found. */
  since: string | null;
  isStored: boolean;
  storedAt: number;
  /** It works: the next one may be held by the server. */
  isProven: boolean;
  perRoom: number;
  /** How long an answer may take to come: longer each time that none came. */
  patienceMs: number;
  /** Invitations from before are still to be looked for. */
  owesLook: boolean;
}

/** Ends when the signal aborts. Never throws. */
export async function syncRooms(options: SyncOptions): Promise<void> {
  const { signal } = options;
  const backoff = createBackoff(options);
  const progress: Progress = {
    ...{ me: null, since: null, isStored: false, storedAt: Number.NEGATIVE_INFINITY, isProven: false, owesLook: false },
    ...unhurt(options),
  };
  let looking = Promise.resolve();
  while (!signal.aborted) {
    try {
      await goOn(options, progress);
      if (signal.aborted) break;
      backoff.reset();
      options.show("on");
      if (progress.owesLook) looking = lookForInvites(options);
      progress.owesLook = false;
    } catch (error) {
      const failure = explainFailure(error);
      heed(progress, failure);
      if (!signal.aborted) await backoff.wait(failure);
    }
  }
  await looking;
}

const unhurt = ({ syncSeconds, graceMs }: SyncOptions): Pick<Progress, "perRoom" | "patienceMs"> => ({
  perRoom: PER_ROOM[0],
  patienceMs: syncSeconds * 1_000 + graceMs,
});

/** The same question would get the same answer, or none again, for ever. */
function heed(progress: Progress, { kind, reason }: ApiFailure): void {
  progress.isProven = false;
  if (reason === TOO_LONG) progress.perRoom = PER_ROOM.find((fewer) => fewer < progress.perRoom) ?? progress.perRoom;
  else if (kind === "lost") progress.patienceMs = Math.min(2 * progress.patienceMs, MAX_PATIENCE_MS);
}

async function goOn(options: SyncOptions, progress: Progress): Promise<void> {
  const { clock, signal } = options;
  const startedAt = clock.now();
  progress.me ??= await whoAmI(options);
  const since = progress.since ?? (await begin(options, progress));
  // Before anything is asked from there: killed in between, the next life would begin later, and what was said until then be history.
  if (!progress.isStored) await store(options, progress, [], since);
  const answer = await askFrom(options, progress, since);
  if (answer === null) return;
  const next = tokenOf(answer);
  const rows = await rowsOf(options, progress.me, answer, since);
  if (signal.aborted) return;
  const isDue = next !== since && clock.now() - progress.storedAt > STORE_EVERY_MS;
  if (rows.length > 0 || isDue) await store(options, progress, rows, next);
  Object.assign(progress, { since: next, isProven: true }, unhurt(options));
  if (rows.length === 0 && clock.now() - startedAt < MIN_EMPTY_MS) await clock.sleep(MIN_EMPTY_MS, signal);
}

async function store({ inbox, clock }: SyncOptions, progress: Progress, rows: readonly Row[], token: string): Promise<void> {
  await record(() => inbox.put(rows, token));
  Object.assign(progress, { isStored: true, storedAt: clock.now() });
}

/** Null: the server doesn't know the token any more, and another one was found. */
async function askFrom(options: SyncOptions, progress: Progress, since: string): Promise<Answer | null> {
  try {
    // Asked without waiting first, so that /status knows at once whether it works.
    const timeout = String(progress.isProven ? options.syncSeconds * 1_000 : 0);
    return await ask(options, progress.patienceMs, { since, filter: filterOf(progress.perRoom), timeout });
  } catch (error) {
    if (!isUnknownToken(error)) throw error;
    options.log.error({ since }, "the homeserver does not know the place it was read up to any more; what was said meanwhile was missed");
    // Whatever is stored by now would be refused again.
    await beginAnew(options, progress);
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

/** The token to go on from, the one of this moment where none is stored. */
async function begin(options: SyncOptions, progress: Progress): Promise<string> {
  const stored = await options.inbox.cursor();
  if (stored === null) return beginAnew(options, progress);
  Object.assign(progress, { since: stored.value, isStored: true, owesLook: true });
  return stored.value;
}

/** It is kept in memory until it can be stored: asked for anew because the disk refused it, it would be a later one. */
async function beginAnew(options: SyncOptions, progress: Progress): Promise<string> {
  const answer = await ask(options, progress.patienceMs, EVERYTHING);
  const since = tokenOf(answer);
  Object.assign(progress, { since, isStored: false, owesLook: true });
  await options.invites.look(invitesIn(answer));
  progress.owesLook = false;
  return since;
}

/**
 * Invitations are told of once: those that a life before left open, and those of people who may invite only now, are in the answer about
 * everything alone. Beside all else, and given up after a while: the next start looks again. Never throws.
 */
async function lookForInvites(options: SyncOptions): Promise<void> {
  const { clock, log, signal, invites } = options;
  for (let looks = 1; !signal.aborted; looks++) {
    try {
      return await invites.look(invitesIn(await ask(options, MAX_PATIENCE_MS, EVERYTHING)));
    } catch (error) {
      const failure = explainFailure(error);
      if (signal.aborted) return;
      if (looks === MAX_LOOKS) return log.warn({ reason: failure.reason }, "invitations from before could not be looked for");
      await clock.sleep(failure.kind === "limited" ? Math.max(failure.afterMs, LOOK_AGAIN_MS) : LOOK_AGAIN_MS, signal);
    }
  }
}

const invitesIn = ({ rooms }: Answer): unknown => (rooms as { invite?: unknown } | undefined)?.invite;

const ask = ({ api }: SyncOptions, timeoutMs: number, query: Readonly<Record<string, string>>): Promise<Answer> =>
  api.call("GET", v3("sync"), { query: { ...query, set_presence: "online" }, timeoutMs });

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
